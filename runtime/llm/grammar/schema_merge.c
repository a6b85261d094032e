/* SPDX-License-Identifier: Apache-2.0
 *
 * Two schemas that both hold of a value made one; schemas of which no value is both.
 */
#include "runtime/llm/grammar/schema.h"

/* --- flat --------------------------------------------------------------------------------------------------------- */

/* What copying a key, and asking whether two schemas are apart, count as work. */
enum { WORK_OF_KEY = 32, WORK_OF_PAIR = 16 };

/* Says nothing of values. */
static bool is_remark(const char *key) {
  static const char *const remarks[] = {"title",      "description", "$defs",     "definitions", "$schema",
                                        "$id",        "$anchor",     "$comment",  "default",     "examples",
                                        "deprecated", "readOnly",    "writeOnly", "$vocabulary", "nullable",
                                        "$dynamicAnchor"};
  for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
    if (strcmp(key, remarks[i]) == 0) return true;
  return false;
}

json_t *tni_schema_rest(tni_schema *s, json_t *schema, const char *without) {
  json_t *rest = tni_schema_keep(s, json_object()), *v;
  const char *key;
  if (!rest || !tni_schema_work(s, WORK_OF_KEY * json_object_size(schema))) return NULL;
  json_object_foreach(schema, key, v) if (strcmp(key, without) != 0 && !is_remark(key)) json_object_set(rest, key, v);
  return rest;
}

static json_t *merge_kept(tni_schema *s, json_t *a, json_t *b) {
  json_t *made = tni_schema_merge(s, a, b);
  return made ? tni_schema_keep(s, made) : NULL;
}

static json_t *flat_all_of(tni_schema *s, json_t *schema) {
  const json_t *list = json_object_get(schema, "allOf");
  if (!json_is_array(list) || !json_array_size(list)) {
    (void)tni_schema_fail(s, TN_E_INVALID, "allOf", "expected an array of schemas");
    return NULL;
  }
  json_t *all = tni_schema_rest(s, schema, "allOf");
  for (size_t i = 0; all && i < json_array_size(list); i++) {
    const size_t mark = tni_schema_down_item(s, "allOf", i);
    all = merge_kept(s, all, json_array_get(list, i));
    tni_schema_up(s, mark);
  }
  return all;
}

static json_t *flat_inside(tni_schema *s, json_t *schema) {
  if (json_is_true(schema)) return tni_schema_keep(s, json_object());
  if (json_is_false(schema)) return schema;
  if (!json_is_object(schema)) {
    (void)tni_schema_fail(s, TN_E_INVALID, NULL, "expected a schema: an object, true or false");
    return NULL;
  }
  if (json_object_get(schema, "$ref")) {
    json_t *rest = tni_schema_rest(s, schema, "$ref");
    json_t *to = rest ? tni_schema_resolve(s, json_object_get(schema, "$ref")) : NULL;
    if (!to) return NULL;
    return json_object_size(rest) ? merge_kept(s, rest, to) : tni_schema_flat(s, to);
  }
  return json_object_get(schema, "allOf") ? flat_all_of(s, schema) : schema;
}

json_t *tni_schema_flat(tni_schema *s, json_t *schema) {
  if (s->st != TN_OK) return NULL;
  if (++s->depth > TNI_SCHEMA_DEPTH) {
    (void)tni_schema_fail(s, TN_E_INVALID, NULL, "it refers to itself without an end");
    return NULL;
  }
  json_t *flat = flat_inside(s, schema);
  s->depth--;
  return flat;
}

/* --- two as one --------------------------------------------------------------------------------------------------- */

static json_t *both_of(json_t *a, json_t *b) {
  if (json_equal(a, b)) return json_incref(a);
  if (json_is_false(a) || json_is_false(b)) return json_false();
  return json_pack("{s:[O,O]}", "allOf", a, b);
}

static bool is_in(const char *key, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(key, list[i]) == 0) return true;
  return false;
}

static json_t *both_types(tni_schema *s, const json_t *a, const json_t *b) {
  static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  unsigned x, y;
  if (!tni_schema_types(s, a, &x) || !tni_schema_types(s, b, &y)) return NULL;
  json_t *list = json_array();
  for (unsigned i = 0; i < 7; i++) {
    if (!(x & y & 1u << i) || (i == 2 && x & y & TNI_TYPE_NUMBER)) continue;
    json_array_append_new(list, json_string(names[i]));
  }
  return list;
}

static json_t *both_values(tni_schema *s, const json_t *a, const json_t *b) {
  if (!tni_schema_work(s, json_array_size(a) * json_array_size(b))) return NULL;
  json_t *list = json_array();
  for (size_t i = 0; i < json_array_size(a); i++)
    for (size_t k = 0; k < json_array_size(b); k++)
      if (tni_json_same(json_array_get(a, i), json_array_get(b, k))) {
        json_array_append(list, json_array_get(a, i));
        break;
      }
  return list;
}

/* Lists of patterns and formats: what only merging makes. */
static json_t *both_lists(json_t *a, json_t *b) {
  json_t *list = json_is_array(a) ? json_copy(a) : json_pack("[O]", a);
  if (json_is_array(b))
    json_array_extend(list, b);
  else
    json_array_append(list, b);
  return list;
}

static json_t *every_pair(tni_schema *s, const char *key, const json_t *a, const json_t *b) {
  if (json_array_size(a) * json_array_size(b) > TNI_SCHEMA_CHOICES) {
    (void)tni_schema_fail(s, TN_E_LIMIT, key, "more than %d choices", TNI_SCHEMA_CHOICES);
    return NULL;
  }
  json_t *list = json_array();
  for (size_t i = 0; i < json_array_size(a); i++)
    for (size_t k = 0; k < json_array_size(b); k++)
      json_array_append_new(list, both_of(json_array_get(a, i), json_array_get(b, k)));
  return list;
}

static json_t *both_keys(tni_schema *s, const char *key, json_t *a, json_t *b) {
  static const char *const larger[] = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"};
  static const char *const smaller[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"};
  static const char *const schemas[] = {"additionalItems", "propertyNames", "unevaluatedItems",
                                        "unevaluatedProperties"};
  if (json_equal(a, b)) return json_incref(a);
  if (is_in(key, larger, 5)) return json_incref(json_number_value(a) >= json_number_value(b) ? a : b);
  if (is_in(key, smaller, 5)) return json_incref(json_number_value(a) <= json_number_value(b) ? a : b);
  if (is_in(key, schemas, 4) && !json_is_array(a) && !json_is_array(b)) return both_of(a, b);
  if (strcmp(key, "pattern") == 0 || strcmp(key, "format") == 0) return both_lists(a, b);
  if (strcmp(key, "enum") == 0) return both_values(s, a, b);
  if (strcmp(key, "uniqueItems") == 0) return json_incref(json_is_true(a) ? a : b);
  if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) return every_pair(s, key, a, b);
  if (is_remark(key)) return json_incref(a);
  (void)tni_schema_fail(s, TN_E_UNSUPPORTED, key, "two that both hold of one value");
  return NULL;
}

/* What b says of a property that only a names. */
static json_t *with_rest(json_t *of_a, const json_t *b) {
  json_t *rest = json_object_get(b, "additionalProperties");
  return rest ? both_of(of_a, rest) : json_incref(of_a);
}

static bool merge_properties(tni_schema *s, json_t *out, json_t *a, json_t *b) {
  json_t *pa = json_object_get(a, "properties"), *pb = json_object_get(b, "properties"), *v;
  json_t *ra = json_object_get(a, "additionalProperties"), *rb = json_object_get(b, "additionalProperties");
  const char *key;
  if ((json_object_get(a, "patternProperties") && (pb || rb)) ||
      (json_object_get(b, "patternProperties") && (pa || ra)))
    return tni_schema_fail(s, TN_E_UNSUPPORTED, "patternProperties", "beside properties of another schema");
  if (!tni_schema_work(s, WORK_OF_KEY * (json_object_size(pa) + json_object_size(pb)))) return false;
  if (pa || pb) {
    json_t *all = json_object();
    json_object_foreach(pa, key, v) {
      json_t *other = json_object_get(pb, key);
      json_object_set_new(all, key, other ? both_of(v, other) : with_rest(v, b));
    }
    json_object_foreach(pb, key, v) {
      if (!json_object_get(pa, key)) json_object_set_new(all, key, with_rest(v, a));
    }
    json_object_set_new(out, "properties", all);
  }
  if (ra || rb)
    json_object_set_new(out, "additionalProperties", ra && rb ? both_of(ra, rb) : json_incref(ra ? ra : rb));
  return true;
}

/* Item i of a schema; NULL: anything. */
static json_t *item_at(json_t *prefix, json_t *rest, size_t i) {
  return i < json_array_size(prefix) ? json_array_get(prefix, i) : rest;
}

/* `items` of one schema holds of items that the other names, so they are merged one by one. */
static bool merge_items(tni_schema *s, json_t *out, json_t *a, json_t *b) {
  json_t *pa = json_object_get(a, "prefixItems"), *pb = json_object_get(b, "prefixItems");
  json_t *ra = json_object_get(a, "items"), *rb = json_object_get(b, "items");
  const size_t na = json_array_size(pa), nb = json_array_size(pb), n = na > nb ? na : nb;
  if (json_is_array(ra) || json_is_array(rb)) { /* before 2020-12 */
    if ((ra || pa) && (rb || pb) && (pa || pb || !json_equal(ra, rb)))
      return tni_schema_fail(s, TN_E_UNSUPPORTED, "items", "two that both hold of one value");
  } else if (n) {
    json_t *prefix = json_array();
    for (size_t i = 0; i < n; i++) {
      json_t *x = item_at(pa, ra, i), *y = item_at(pb, rb, i);
      json_array_append_new(prefix, x && y ? both_of(x, y) : x ? json_incref(x) : y ? json_incref(y) : json_true());
    }
    json_object_set_new(out, "prefixItems", prefix);
  } else if (pa || pb) {
    json_object_set(out, "prefixItems", pa ? pa : pb);
  }
  if (ra || rb)
    json_object_set_new(out, "items", ra && rb ? both_of(ra, rb) : json_incref(ra ? ra : rb));
  return true;
}

static bool merge_required(tni_schema *s, json_t *out, json_t *a, json_t *b) {
  json_t *ra = json_object_get(a, "required"), *rb = json_object_get(b, "required");
  if (!ra || !rb) {
    if (ra || rb) json_object_set(out, "required", ra ? ra : rb);
    return true;
  }
  if (!tni_schema_work(s, json_array_size(ra) * json_array_size(rb))) return false;
  json_t *all = json_copy(ra);
  for (size_t i = 0; i < json_array_size(rb); i++) {
    bool there = false;
    for (size_t k = 0; k < json_array_size(ra); k++)
      there = there || json_equal(json_array_get(ra, k), json_array_get(rb, i));
    if (!there) json_array_append(all, json_array_get(rb, i));
  }
  json_object_set_new(out, "required", all);
  return true;
}

/* `unevaluated` of a schema that is a part of another sees only what the part itself names: there it says what `rest`
 * would, unless that is there. NULL: it failed. */
static json_t *close_part(tni_schema *s, json_t *b, const char *unevaluated, const char *rest) {
  json_t *v = json_object_get(b, unevaluated);
  if (!v) return b;
  if (json_object_get(b, "anyOf") || json_object_get(b, "oneOf") || json_is_array(json_object_get(b, "items"))) {
    (void)tni_schema_fail(s, TN_E_UNSUPPORTED, unevaluated, "in a part of a schema, beside choices");
    return NULL;
  }
  json_t *closed = tni_schema_keep(s, json_copy(b));
  if (!closed) return NULL;
  if (!json_object_get(b, rest)) json_object_set(closed, rest, v);
  json_object_del(closed, unevaluated);
  return closed;
}

/* b is a part of a, or of what a was made of. */
json_t *tni_schema_merge(tni_schema *s, json_t *a, json_t *b) {
  static const char *const apart[] = {"properties", "additionalProperties", "required", "prefixItems", "items"};
  json_t *v;
  const char *key;
  a = tni_schema_flat(s, a);
  b = a ? tni_schema_flat(s, b) : NULL;
  b = b ? close_part(s, b, "unevaluatedProperties", "additionalProperties") : NULL;
  b = b ? close_part(s, b, "unevaluatedItems", "items") : NULL;
  if (!b) return NULL;
  if (json_is_false(a) || json_is_false(b)) return json_false();
  if (!tni_schema_work(s, WORK_OF_KEY * (json_object_size(a) + json_object_size(b)))) return NULL;
  json_t *out = json_object();
  json_object_foreach(a, key, v) if (!is_in(key, apart, 5)) json_object_set(out, key, v);
  json_object_foreach(b, key, v) {
    json_t *mine = json_object_get(a, key);
    if (is_in(key, apart, 5)) continue;
    json_t *both = !mine ? json_incref(v) : strcmp(key, "type") == 0 ? both_types(s, a, b) : both_keys(s, key, mine, v);
    if (!both || s->st != TN_OK) {
      json_decref(both);
      json_decref(out);
      return NULL;
    }
    json_object_set_new(out, key, both);
  }
  if (!merge_required(s, out, a, b) || !merge_properties(s, out, a, b) || !merge_items(s, out, a, b)) {
    json_decref(out);
    return NULL;
  }
  return out;
}

/* --- none of both ------------------------------------------------------------------------------------------------- */

static bool is_required(const json_t *schema, const char *key) {
  const json_t *list = json_object_get(schema, "required");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    if (name && strcmp(name, key) == 0) return true;
  }
  return false;
}

/* a demands a property that b forbids, or of which they want different things. */
static bool objects_apart(tni_schema *s, json_t *a, json_t *b, unsigned depth) {
  json_t *pb = json_object_get(b, "properties"), *pa = json_object_get(a, "properties");
  const bool closed =
      json_is_false(json_object_get(b, "additionalProperties")) && !json_object_get(b, "patternProperties");
  const json_t *list = json_object_get(a, "required");
  const size_t others = json_array_size(json_object_get(b, "required"));
  if (!tni_schema_work(s, json_array_size(list) * (others + 1))) return false;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *key = json_string_value(json_array_get(list, i));
    if (!key) continue;
    json_t *x = json_object_get(pa, key), *y = json_object_get(pb, key);
    if (closed && !y) return true;
    if (x && y && is_required(b, key) && tni_schema_apart(s, x, y, depth + 1)) return true;
  }
  return false;
}

static json_t *listed(const json_t *schema) {
  json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
  return one ? json_pack("[O]", one) : json_is_array(list) ? json_incref(list) : NULL;
}

static unsigned types_of_list(const json_t *list) {
  unsigned types = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *v = json_array_get(list, i);
    types |= tni_value_type(v);
    if (json_is_real(v) && floor(json_real_value(v)) == json_real_value(v)) types |= TNI_TYPE_INTEGER;
    if (json_is_integer(v)) types |= TNI_TYPE_NUMBER;
  }
  return types;
}

static bool numbers_apart(const json_t *a, const json_t *b) {
  const json_t *hi = json_object_get(a, "maximum"), *lo = json_object_get(b, "minimum");
  return json_is_number(hi) && json_is_number(lo) && json_number_value(hi) < json_number_value(lo);
}

static bool any_apart(tni_schema *s, const json_t *list, json_t *b, unsigned depth) {
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!tni_schema_apart(s, json_array_get(list, i), b, depth + 1)) return false;
  return json_array_size(list) > 0;
}

bool tni_schema_apart(tni_schema *s, json_t *a, json_t *b, unsigned depth) {
  unsigned x, y;
  if (depth > 4 || !tni_schema_work(s, WORK_OF_PAIR)) return false;
  a = tni_schema_flat(s, a);
  b = a ? tni_schema_flat(s, b) : NULL;
  if (!b) return false;
  if (json_is_false(a) || json_is_false(b)) return true;
  static const char *const choices[] = {"anyOf", "oneOf"};
  for (int i = 0; i < 2; i++) {
    if (any_apart(s, json_object_get(a, choices[i]), b, depth)) return true;
    if (any_apart(s, json_object_get(b, choices[i]), a, depth)) return true;
  }
  if (!tni_schema_types(s, a, &x) || !tni_schema_types(s, b, &y)) return false;
  json_t *la = listed(a), *lb = listed(b);
  if (la) x &= types_of_list(la);
  if (lb) y &= types_of_list(lb);
  json_t *common = la && lb ? both_values(s, la, lb) : NULL;
  bool apart = !(x & y) || (common && !json_array_size(common));
  json_decref(la);
  json_decref(lb);
  json_decref(common);
  if (!apart && (x & y) == TNI_TYPE_OBJECT) apart = objects_apart(s, a, b, depth) || objects_apart(s, b, a, depth);
  if (!apart && !(x & y & ~(unsigned)(TNI_TYPE_NUMBER | TNI_TYPE_INTEGER)))
    apart = numbers_apart(a, b) || numbers_apart(b, a);
  return apart;
}
