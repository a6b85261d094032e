/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "runtime/llm/grammar/schema.h"

typedef struct array {
  tni_schema *s;
  json_t *prefix, *rest; /* schemas of the first items, and of all others; rest NULL: any */
  const char *of_prefix, *of_rest;
  json_t *values; /* those that an item can have, where no two items may be the same; NULL: any */
  uint32_t least, most, rule; /* rule: of the rest */
  bool has_rest;
} array;

/* Without two that are the same. */
static json_t *distinct(tni_schema *s, json_t *all) {
  json_t *list = tni_schema_keep(s, json_array());
  const size_t n = json_array_size(all);
  if (!list || !tni_schema_work(s, n * n)) return NULL;
  for (size_t i = 0; i < n; i++) {
    bool again = false;
    for (size_t k = 0; k < json_array_size(list) && !again; k++)
      again = tni_json_same(json_array_get(list, k), json_array_get(all, i));
    if (!again) json_array_append_new(list, json_incref(json_array_get(all, i)));
  }
  return list;
}

/* Items that are all unlike each other: kept where their values are listed, each of them in its turn or not at all. */
static bool read_unique(array *x) {
  tni_schema *s = x->s;
  const size_t named = json_array_size(x->prefix), most = json_is_false(x->rest) && named < x->most ? named : x->most;
  if (most < 2) return true; /* one item is always unlike the others */
  json_t *items = x->rest ? tni_schema_flat(s, x->rest) : NULL;
  if (s->st != TN_OK) return false;
  json_t *one = json_object_get(items, "const"), *list = json_object_get(items, "enum");
  if (one) list = tni_schema_keep(s, json_pack("[O]", one));
  if (!json_is_array(list) || named)
    return tni_schema_fail(s, TN_E_UNSUPPORTED, "uniqueItems",
                           "only of items with an enum, or with a maxItems of 1; others cannot be kept token by token");
  if (json_array_size(list) > TNI_SCHEMA_CHOICES)
    return tni_schema_fail(s, TN_E_LIMIT, "uniqueItems", "more than %d values", TNI_SCHEMA_CHOICES);
  x->values = distinct(s, list);
  return x->values != NULL;
}

static bool read_array(array *x, json_t *schema) {
  tni_schema *s = x->s;
  json_t *items = json_object_get(schema, "items");
  x->prefix = json_object_get(schema, "prefixItems");
  x->rest = items;
  x->of_prefix = "prefixItems";
  x->of_rest = "items";
  if (json_is_array(items)) { /* before 2020-12 */
    x->prefix = items;
    x->rest = json_object_get(schema, "additionalItems");
    x->of_prefix = "items";
    x->of_rest = "additionalItems";
  }
  if (!x->rest) x->rest = json_object_get(schema, "unevaluatedItems");
  if (x->prefix && !json_is_array(x->prefix))
    return tni_schema_fail(s, TN_E_INVALID, x->of_prefix, "expected an array of schemas");
  x->most = UINT32_MAX;
  if (!tni_schema_count(s, schema, "minItems", &x->least) || !tni_schema_count(s, schema, "maxItems", &x->most))
    return false;
  return !json_is_true(json_object_get(schema, "uniqueItems")) || read_unique(x);
}

/* Item i between two places. */
static bool add_item(array *x, size_t i, uint32_t from, uint32_t to) {
  tni_schema *s = x->s;
  uint32_t rule = 0;
  if (i < json_array_size(x->prefix)) {
    const size_t mark = tni_schema_down_item(s, x->of_prefix, i);
    if (!tni_schema_rule(s, json_array_get(x->prefix, i), &rule)) return false;
    tni_schema_up(s, mark);
  } else {
    if (!x->has_rest) {
      const size_t mark = tni_schema_down(s, x->of_rest);
      if (!tni_schema_rule(s, x->rest ? x->rest : json_true(), &x->rule)) return false;
      tni_schema_up(s, mark);
      x->has_rest = true;
    }
    rule = x->rule;
  }
  tni_auto *a = s->a;
  const uint32_t blank = tni_auto_state(a);
  if (i) {
    const uint32_t comma = tni_auto_state(a);
    tni_auto_text(a, from, ",", 1, comma);
    from = comma;
  }
  tni_auto_call(a, from, s->blank, blank);
  tni_auto_call(a, blank, rule, to);
  return true;
}

/* Value i, or not: from at[c], where c of those before it are written and one more is to come, to next[c], or over a
 * comma to next[c + 1]. */
static bool add_value(array *x, size_t i, const uint32_t *at, const uint32_t *next, size_t rows, uint32_t close) {
  tni_schema *s = x->s;
  uint32_t rule = 0;
  json_t *one = tni_schema_keep(s, json_pack("{s:[O,{s:O}]}", "allOf", x->rest, "const", json_array_get(x->values, i)));
  if (!one || !tni_schema_rule(s, one, &rule)) return false;
  for (size_t c = 0; c < rows; c++) {
    const size_t more = c + 1 < rows ? c + 1 : c;
    tni_auto_free(s->a, at[c], next[c]);
    if (c > i || c >= x->most) continue;
    const uint32_t written = tni_auto_state(s->a), comma = tni_auto_state(s->a);
    tni_auto_call(s->a, at[c], rule, written);
    if (more >= x->least) tni_auto_free(s->a, written, close);
    tni_auto_text(s->a, written, ",", 1, comma);
    tni_auto_call(s->a, comma, s->blank, next[more]);
  }
  return true;
}

static bool add_unique(array *x, uint32_t from, uint32_t close) {
  tni_auto *a = x->s->a;
  const size_t n = json_array_size(x->values);
  const size_t rows = x->least < 2 && x->most >= n ? 2 : (n < x->most ? n : x->most) + 1; /* 2: none, or some */
  uint32_t *at = malloc(rows * sizeof *at), *next = malloc(rows * sizeof *next);
  bool ok = (at && next) || tni_schema_memory(x->s);
  for (size_t c = 0; ok && c < rows; c++) at[c] = tni_auto_state(a);
  if (ok && !x->least) tni_auto_free(a, from, close);
  if (ok) tni_auto_call(a, from, x->s->blank, at[0]);
  for (size_t i = 0; ok && i < n && a->failed == TN_OK; i++) {
    for (size_t c = 0; c < rows; c++) next[c] = tni_auto_state(a);
    ok = add_value(x, i, at, next, rows, close);
    uint32_t *t = at;
    at = next;
    next = t;
  }
  free(at);
  free(next);
  return ok;
}

static bool add_items(array *x, uint32_t from, uint32_t close) {
  tni_auto *a = x->s->a;
  uint32_t at = from;
  const size_t named = json_array_size(x->prefix);
  const bool open = x->most == UINT32_MAX;
  /* Without an end, all that counts one by one, one more for the first comma, and then a loop. */
  const size_t steps = !open ? x->most : (named > x->least ? named : x->least) + 1;
  for (size_t i = 0; i < steps && a->failed == TN_OK; i++) {
    const uint32_t next = tni_auto_state(a);
    if (i >= x->least) tni_auto_free(a, at, close);
    if (!add_item(x, i, at, next)) return false;
    at = next;
  }
  if (steps >= x->least) tni_auto_free(a, at, close);
  return !open || a->failed != TN_OK || add_item(x, steps, at, at);
}

bool tni_schema_array(tni_schema *s, json_t *schema, uint32_t from, uint32_t to) {
  array x = {.s = s};
  tni_auto *a = s->a;
  if (!read_array(&x, schema)) return false;
  const uint32_t close = tni_auto_state(a), last = tni_auto_state(a), begin = tni_auto_state(a);
  tni_auto_text(a, from, "[", 1, begin);
  if (!(x.values ? add_unique(&x, begin, close) : add_items(&x, begin, close))) return false;
  tni_auto_call(a, close, s->blank, last);
  tni_auto_text(a, last, "]", 1, to);
  return true;
}
