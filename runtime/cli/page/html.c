/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/page/html.h"

#include <math.h>

const char *page_string(const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

double page_number(const json_t *o, const char *path) {
  char key[64];
  while (o && *path) {
    const size_t n = strcspn(path, ".");
    snprintf(key, sizeof key, "%.*s", (int)n, path);
    o = json_object_get(o, key);
    path += n + (path[n] == '.');
  }
  return json_is_number(o) ? json_number_value(o) : (double)NAN;
}

static const json_t *test_of(const json_t *row, const char *test) {
  size_t i;
  json_t *t;
  json_array_foreach(json_object_get(json_object_get(row, "bench"), "rows"), i, t) {
    if (strncmp(page_string(t, "test"), test, strlen(test)) == 0) return t;
  }
  return NULL;
}

double page_rate(const json_t *row, const char *test) { return page_number(test_of(row, test), "tokens_per_s.median"); }

double page_bits(const json_t *row) {
  const double bits = page_number(row, "pack.total.bits_per_weight");
  return bits > 0 ? bits : (double)NAN;
}

/* One name, and "+" where others come after it. */
void page_format(const json_t *row, char *out, size_t room) {
  const json_t *list = json_object_get(json_object_get(json_object_get(row, "check"), "weights"), "weights");
  const json_t *first = json_array_get(list, 0), *params = json_object_get(first, "params");
  const char *name = page_string(first, "format");
  size_t at = (size_t)snprintf(out, room, "%s", *name ? name : "as stored");
  for (size_t i = 0; i < json_array_size(params) && at < room; i++)
    at += (size_t)snprintf(out + at, room - at, "%s%lld", i ? "," : ":",
                           (long long)json_integer_value(json_array_get(params, i)));
  if (json_array_size(list) > 1 && at < room) snprintf(out + at, room - at, " +");
}
