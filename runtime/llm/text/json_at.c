/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/text/json_at.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/base.h"

/* Both parsers below pass here so that the same files are accepted everywhere. */
tn_status tni_json_parse(const char *text, size_t n, const char *file, json_t **out, tn_error *err) {
  json_error_t je;
  /* tokenizer_config.json writes "no limit" as an integer of 31 digits */
  const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | TNI_JSON_LARGE_AS_REAL;
  json_t *v = json_loadb(text ? text : "", n, flags, &je);
  if (!v) {
    if (tni_json_no_memory(&je)) return tni_fail_memory(err, file);
    return tni_fail(err, TN_E_INVALID, file, "not valid JSON: line %d column %d: %s", je.line, je.column, je.text);
  }
  *out = v;
  return TN_OK;
}

tn_status tni_json_load(const char *path, json_t **out, tn_error *err) {
  tni_file f;
  tn_status st = tni_file_read(path, &f, err);
  if (st != TN_OK) return st;
  st = tni_json_parse(f.data, f.bytes, path, out, err);
  tni_file_unmap(&f);
  return st;
}

tni_at tni_at_root(json_t *v, const char *file) { return (tni_at){v, file, ""}; }

enum { MOST_KEY = 100 }; /* bytes of a key that a path shows */

static void set_path(tni_at *c, const char *long_path) {
  size_t n = strlen(long_path), room = sizeof c->path - 1;
  if (n <= room)
    memcpy(c->path, long_path, n + 1);
  else
    snprintf(c->path, sizeof c->path, "...%s", long_path + (n - room + 3));
}

tni_at tni_at_key(const tni_at *a, const char *key) {
  tni_at c = {json_object_get(a->v, key), a->file, ""};
  if (json_is_null(c.v)) c.v = NULL;
  char p[sizeof a->path + 1 + MOST_KEY]; /* by hand: a tokenizer asks for some keys of each of its tokens */
  size_t n = strlen(a->path), more = strnlen(key, MOST_KEY);
  memcpy(p, a->path, n);
  if (n) p[n++] = '.';
  memcpy(p + n, key, more);
  p[n + more] = 0;
  set_path(&c, p);
  return c;
}

tni_at tni_at_item(const tni_at *a, size_t i) {
  tni_at c = {json_array_get(a->v, i), a->file, ""};
  if (json_is_null(c.v)) c.v = NULL;
  char p[256];
  snprintf(p, sizeof p, "%s[%zu]", a->path, i);
  set_path(&c, p);
  return c;
}

tn_status tni_at_fail(const tni_at *a, tn_status st, tn_error *err, const char *fmt, ...) {
  if (!err || err->code != TN_OK) return st;
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(err, st, a->file, fmt, ap);
  va_end(ap);
  if (*a->path) tni_error_prefix(err, "%s", a->path);
  return st;
}

static tn_status wrong_type(const tni_at *a, const char *want, tn_error *err) {
  static const char *const names[] = {"an object",     "an array", "a string", "an integer",
                                      "a real number", "true",     "false",    "null"};
  if (!a->v) return tni_at_fail(a, TN_E_INVALID, err, "missing, expected %s", want);
  return tni_at_fail(a, TN_E_INVALID, err, "expected %s, got %s", want, names[json_typeof(a->v)]);
}

tn_status tni_at_string(const tni_at *a, tni_view *out, tn_error *err) {
  if (!json_is_string(a->v)) return wrong_type(a, "a string", err);
  *out = (tni_view){json_string_value(a->v), json_string_length(a->v)};
  return TN_OK;
}

bool tni_at_is(const tni_at *a, const char *key, const char *s) {
  json_t *v = json_object_get(a->v, key);
  return json_is_string(v) && json_string_length(v) == strlen(s) && memcmp(json_string_value(v), s, strlen(s)) == 0;
}

tn_status tni_at_bool(const tni_at *a, bool dflt, bool *out, tn_error *err) {
  if (a->v && !json_is_boolean(a->v)) return wrong_type(a, "a boolean", err);
  *out = a->v ? json_is_true(a->v) : dflt;
  return TN_OK;
}

tn_status tni_at_int(const tni_at *a, int64_t lo, int64_t hi, int64_t *out, tn_error *err) {
  double real = json_is_real(a->v) ? json_real_value(a->v) : 0.5;
  bool whole = real >= -9e15 && real <= 9e15 && real == (double)(int64_t)real;
  if (!json_is_integer(a->v) && !whole) return wrong_type(a, "an integer", err);
  int64_t v = whole ? (int64_t)real : json_integer_value(a->v);
  if (v < lo || v > hi)
    return tni_at_fail(a, TN_E_INVALID, err, "%" PRId64 " is not in %" PRId64 "..%" PRId64, v, lo, hi);
  *out = v;
  return TN_OK;
}

tn_status tni_at_number(const tni_at *a, double *out, tn_error *err) {
  if (a->v && !json_is_number(a->v)) return wrong_type(a, "a number", err);
  if (a->v) *out = json_number_value(a->v);
  return TN_OK;
}

tn_status tni_at_array(const tni_at *a, size_t max, size_t *n, tn_error *err) {
  if (!json_is_array(a->v)) return wrong_type(a, "an array", err);
  *n = json_array_size(a->v);
  if (*n > max) return tni_at_fail(a, TN_E_LIMIT, err, "%zu items, at most %zu are taken", *n, max);
  return TN_OK;
}

tn_status tni_at_object(const tni_at *a, tn_error *err) {
  return json_is_object(a->v) ? TN_OK : wrong_type(a, "an object", err);
}
