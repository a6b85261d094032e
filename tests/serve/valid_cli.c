/* SPDX-License-Identifier: Apache-2.0
 *
 * valid-cli: a line of JSON in, {"schema": ..., "values": [..]}, a line out: [true, ..], which of them srv_valid takes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/serve/speech/valid.h"

int main(void) {
  char *line = NULL;
  size_t cap = 0;
  ssize_t n;
  while ((n = getline(&line, &cap, stdin)) > 0) {
    json_t *j = tni_json_loadb(line, (size_t)n, 0, NULL), *out = json_array(), *one;
    size_t i;
    json_array_foreach(json_object_get(j, "values"), i, one)
        json_array_append_new(out, json_boolean(srv_valid(json_object_get(j, "schema"), one)));
    json_dumpf(out, stdout, 0);
    putchar('\n');
    fflush(stdout);
    json_decref(out);
    json_decref(j);
  }
  free(line);
  return 0;
}
