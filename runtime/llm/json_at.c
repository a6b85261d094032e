/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/json_at.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tni_at tni_at_root(const tni_json *v, const char *file) { return (tni_at){v, file, ""}; }

enum { MOST_KEY = 100 }; /* bytes of a key that a path shows */

static void set_path(tni_at *c, const char *long_path) {
  size_t n = strlen(long_path), room = sizeof c->path - 1;
  if (n <= room)
    memcpy(c->path, long_path, n + 1);
  else
    snprintf(c->path, sizeof c->path, "...%s", long_path + (n - room + 3));
}

tni_at tni_at_key(const tni_at *a, const char *key) {
  tni_at c = {tni_json_get(a->v, key), a->file, ""};
  if (tni_json_is(c.v, TNI_JSON_NULL)) c.v = NULL;
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
  tni_at c = {tni_json_item(a->v, i), a->file, ""};
  if (tni_json_is(c.v, TNI_JSON_NULL)) c.v = NULL;
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
  return tni_at_fail(a, TN_E_INVALID, err, "expected %s, got %s", want, names[a->v->kind]);
}

tn_status tni_at_string(const tni_at *a, tni_view *out, tn_error *err) {
  if (!tni_json_is(a->v, TNI_JSON_STRING)) return wrong_type(a, "a string", err);
  *out = (tni_view){a->v->s, a->v->n};
  return TN_OK;
}

bool tni_at_is(const tni_at *a, const char *key, const char *s) {
  const tni_json *v = tni_json_get(a->v, key);
  return tni_json_is(v, TNI_JSON_STRING) && v->n == strlen(s) && memcmp(v->s, s, v->n) == 0;
}

tn_status tni_at_bool(const tni_at *a, bool dflt, bool *out, tn_error *err) {
  const bool yes = tni_json_is(a->v, TNI_JSON_TRUE);
  if (a->v && !yes && !tni_json_is(a->v, TNI_JSON_FALSE)) return wrong_type(a, "a boolean", err);
  *out = a->v ? yes : dflt;
  return TN_OK;
}

tn_status tni_at_int(const tni_at *a, int64_t lo, int64_t hi, int64_t *out, tn_error *err) {
  double real = tni_json_is(a->v, TNI_JSON_REAL) ? a->v->real : 0.5;
  bool whole = real >= -9e15 && real <= 9e15 && real == (double)(int64_t)real;
  if (!tni_json_is(a->v, TNI_JSON_INT) && !whole) return wrong_type(a, "an integer", err);
  int64_t v = whole ? (int64_t)real : a->v->i;
  if (v < lo || v > hi)
    return tni_at_fail(a, TN_E_INVALID, err, "%" PRId64 " is not in %" PRId64 "..%" PRId64, v, lo, hi);
  *out = v;
  return TN_OK;
}

tn_status tni_at_number(const tni_at *a, double *out, tn_error *err) {
  if (a->v && !tni_json_number(a->v)) return wrong_type(a, "a number", err);
  if (a->v) *out = tni_json_real(a->v);
  return TN_OK;
}

tn_status tni_at_array(const tni_at *a, size_t max, size_t *n, tn_error *err) {
  if (!tni_json_is(a->v, TNI_JSON_ARRAY)) return wrong_type(a, "an array", err);
  *n = a->v->n;
  if (*n > max) return tni_at_fail(a, TN_E_LIMIT, err, "%zu items, at most %zu are taken", *n, max);
  return TN_OK;
}

tn_status tni_at_object(const tni_at *a, tn_error *err) {
  return tni_json_is(a->v, TNI_JSON_OBJECT) ? TN_OK : wrong_type(a, "an object", err);
}
