/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/schema.h"

typedef struct array {
  tni_schema *s;
  json_t *prefix, *rest; /* schemas of the first items, and of all others; rest NULL: any */
  const char *of_prefix, *of_rest;
  uint32_t least, most, rule; /* rule: of the rest */
  bool has_rest;
} array;

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
  if (json_is_true(json_object_get(schema, "uniqueItems")) && x->most > 1) {
    if (x->least > 1) return tni_schema_fail(s, TN_E_UNSUPPORTED, "uniqueItems", "it cannot be kept token by token");
    x->most = 1; /* one item is always unlike the others */
  }
  return true;
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

bool tni_schema_array(tni_schema *s, json_t *schema, uint32_t from, uint32_t to) {
  array x = {.s = s};
  tni_auto *a = s->a;
  if (!read_array(&x, schema)) return false;
  const uint32_t close = tni_auto_state(a), last = tni_auto_state(a);
  uint32_t at = tni_auto_state(a);
  tni_auto_text(a, from, "[", 1, at);
  const size_t named = json_array_size(x.prefix);
  const bool open = x.most == UINT32_MAX;
  /* Without an end, all that counts one by one, one more for the first comma, and then a loop. */
  const size_t steps = !open ? x.most : (named > x.least ? named : x.least) + 1;
  for (size_t i = 0; i < steps && a->failed == TN_OK; i++) {
    const uint32_t next = tni_auto_state(a);
    if (i >= x.least) tni_auto_free(a, at, close);
    if (!add_item(&x, i, at, next)) return false;
    at = next;
  }
  if (steps >= x.least) tni_auto_free(a, at, close);
  if (open && a->failed == TN_OK && !add_item(&x, steps, at, at)) return false;
  tni_auto_call(a, close, s->blank, last);
  tni_auto_text(a, last, "]", 1, to);
  return true;
}
