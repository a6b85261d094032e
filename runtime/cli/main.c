/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/auxv.h>

#include "runtime/base/json.h"
#include "runtime/cli/cli.h"

/* From what the kernel gave the process: left alone, jansson opens /dev/urandom. */
static void seed_json(void) {
  const void *random = (const void *)getauxval(AT_RANDOM);
  size_t seed = 0;
  if (random) memcpy(&seed, random, sizeof seed);
  json_object_seed(seed | 1);
}

int main(int argc, char **argv) {
  cli_streams_open();
  seed_json();
  int rc = cli_dispatch(argc, (const char **)argv);
  /* What was printed may lack something. */
  if ((rc == EXIT_DONE || rc == EXIT_CHECK) && tni_json_short()) {
    fputs("tenon: out of memory\n", stderr);
    rc = EXIT_DEVICE;
  }
  return cli_end_soon(cli_streams_close(rc == CLI_HELPED ? EXIT_DONE : rc));
}
