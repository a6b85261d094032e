/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/profile/suggest.h"
#include "runtime/profile/yamltree.h"

const tni_yaml *tni_yaml_get(const tni_yaml *map, const char *key) {
  if (!map || map->kind != TNI_YAML_MAP) return NULL;
  for (const tni_yaml *c = map->child; c; c = c->next)
    if (strcmp(c->key->text, key) == 0) return c;
  return NULL;
}

tn_status tni_yaml_keys(const tni_yaml_doc *doc, const tni_yaml *map, const char *const *known, const char *what,
                        tn_error *err) {
  size_t n = 0;
  while (known[n]) n++;
  for (const tni_yaml *c = map->child; c; c = c->next) {
    const char *key = c->key->text;
    size_t i = 0;
    while (i < n && strcmp(known[i], key) != 0) i++;
    if (i < n) continue;
    const char *near = tni_nearest(key, known, n);
    return tni_yaml_fail(doc, c->key, err, "unknown key '%.64s' in %s%s%s%s", key, what, near ? ": did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
  }
  return TN_OK;
}

tn_status tni_yaml_want(const tni_yaml_doc *doc, const tni_yaml *y, tni_yaml_kind kind, const char *name,
                        tn_error *err) {
  static const char *const names[] = {"a single value", "a list", "a mapping"};
  if (y->kind == kind) return TN_OK;
  return tni_yaml_fail(doc, y, err, "'%s' must be %s, not %s", name, names[kind], names[y->kind]);
}

tn_status tni_yaml_str(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, const char **out, tn_error *err) {
  tn_status st = tni_yaml_want(doc, y, TNI_YAML_SCALAR, name, err);
  if (st != TN_OK) return st;
  if (!*y->text || (y->plain && (strcmp(y->text, "~") == 0 || strcmp(y->text, "null") == 0)))
    return tni_yaml_fail(doc, y, err, "'%s' is empty", name);
  *out = y->text;
  return TN_OK;
}

bool tni_text_bool(const char *text, bool *out) {
  bool yes = strcmp(text, "true") == 0;
  if (!yes && strcmp(text, "false") != 0) return false;
  *out = yes;
  return true;
}

bool tni_text_int(const char *text, int64_t *out) {
  const char *digits = text + (*text == '-' || *text == '+');
  int base = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10;
  const char *allowed = base == 16 ? "0123456789abcdefABCDEF" : "0123456789";
  const char *body = digits + (base == 16 ? 2 : 0);
  if (!*body || body[strspn(body, allowed)]) return false;
  errno = 0;
  long long v = strtoll(text, NULL, base);
  if (errno) return false;
  *out = v;
  return true;
}

bool tni_text_float(const char *text, double *out) {
  if (!*text || text[strspn(text, "+-0123456789.eE")]) return false;
  locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* the process's locale may write 0.5 as 0,5 */
  if (!c) return false;
  char *end;
  double v = strtod_l(text, &end, c);
  freelocale(c);
  if (*end || !isfinite(v)) return false;
  *out = v;
  return true;
}

tn_status tni_yaml_bool(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, bool *out, tn_error *err) {
  tn_status st = tni_yaml_want(doc, y, TNI_YAML_SCALAR, name, err);
  if (st != TN_OK) return st;
  if (!y->plain || !tni_text_bool(y->text, out))
    return tni_yaml_fail(doc, y, err, "'%s' must be true or false, not '%.64s'", name, y->text);
  return TN_OK;
}

tn_status tni_yaml_int(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, int64_t lo, int64_t hi,
                       int64_t *out, tn_error *err) {
  tn_status st = tni_yaml_want(doc, y, TNI_YAML_SCALAR, name, err);
  if (st != TN_OK) return st;
  int64_t v;
  if (!y->plain || !tni_text_int(y->text, &v))
    return tni_yaml_fail(doc, y, err, "'%s' must be a whole number, not '%.64s'", name, y->text);
  if (v < lo || v > hi)
    return tni_yaml_fail(doc, y, err, "'%s' is %" PRId64 ", out of range [%" PRId64 ", %" PRId64 "]", name, v, lo, hi);
  *out = v;
  return TN_OK;
}

tn_status tni_yaml_float(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, double lo, double hi,
                         double *out, tn_error *err) {
  tn_status st = tni_yaml_want(doc, y, TNI_YAML_SCALAR, name, err);
  if (st != TN_OK) return st;
  double v;
  if (!y->plain || !tni_text_float(y->text, &v))
    return tni_yaml_fail(doc, y, err, "'%s' must be a number, not '%.64s'", name, y->text);
  if (v < lo || v > hi) return tni_yaml_fail(doc, y, err, "'%s' is %g, out of range [%g, %g]", name, v, lo, hi);
  *out = v;
  return TN_OK;
}

static bool text_size(const char *text, uint64_t *out) {
  static const char units[] = "KMGT";
  size_t digits = strspn(text, "0123456789");
  const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
  if (!digits || digits > 18 || (text[digits] && (!unit || text[digits + 1]))) return false;
  uint64_t v = strtoull(text, NULL, 10), scale = unit ? 1ull << (10 * (unit - units + 1)) : 1;
  return !__builtin_mul_overflow(v, scale, out) && *out <= INT64_MAX;
}

tn_status tni_yaml_size(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, uint64_t *out, tn_error *err) {
  tn_status st = tni_yaml_want(doc, y, TNI_YAML_SCALAR, name, err);
  if (st != TN_OK) return st;
  if (!y->plain || !text_size(y->text, out))
    return tni_yaml_fail(doc, y, err, "'%s' must be a size such as 512M or 8G, not '%.64s'", name, y->text);
  return TN_OK;
}

tn_status tni_yaml_strs(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, const char *const **out,
                        uint32_t *n, tn_error *err) {
  tn_status st = tni_yaml_want(doc, y, TNI_YAML_SEQ, name, err);
  if (st != TN_OK) return st;
  const char **list = TNI_NEW_ARRAY(doc->arena, const char *, y->n + 1);
  if (!list) return tni_fail_memory(err, doc->file);
  uint32_t i = 0;
  for (const tni_yaml *c = y->child; c; c = c->next) {
    st = tni_yaml_str(doc, c, name, &list[i++], err);
    if (st != TN_OK) return st;
  }
  *out = list;
  *n = y->n;
  return TN_OK;
}
