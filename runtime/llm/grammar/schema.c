/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/llm/grammar/compile.h"

/* --- where we are ------------------------------------------------------------------------------------------------- */

size_t tni_schema_down(tni_schema *s, const char *key) {
  const size_t mark = s->path.n;
  if (mark) tni_str_add(&s->path, ".", 1);
  tni_str_add(&s->path, key, strlen(key));
  return mark;
}

size_t tni_schema_down_item(tni_schema *s, const char *key, size_t i) {
  char text[32];
  const size_t mark = tni_schema_down(s, key);
  (void)snprintf(text, sizeof text, "[%zu]", i);
  tni_str_add(&s->path, text, strlen(text));
  return mark;
}

void tni_schema_up(tni_schema *s, size_t mark) { s->path.n = mark; }

bool tni_schema_fail(tni_schema *s, tn_status st, const char *key, const char *fmt, ...) {
  if (s->st != TN_OK) return false;
  const size_t mark = key && *key ? tni_schema_down(s, key) : s->path.n;
  va_list ap;
  va_start(ap, fmt);
  s->st = tni_vfail(s->err, st, "schema", fmt, ap);
  va_end(ap);
  const size_t most = 200, skip = s->path.n > most ? s->path.n - most : 0;
  if (s->path.n) tni_error_prefix(s->err, "%.*s", (int)(s->path.n - skip), s->path.v + skip);
  tni_error_prefix(s->err, "schema");
  tni_schema_up(s, mark);
  return false;
}

bool tni_schema_memory(tni_schema *s) {
  if (s->st == TN_OK) s->st = tni_fail_memory(s->err, "schema");
  return false;
}

bool tni_schema_work(tni_schema *s, size_t n) {
  s->work += n;
  return s->work <= TNI_SCHEMA_WORK ||
         tni_schema_fail(s, TN_E_LIMIT, NULL, "its choices, lists and references take too many comparisons");
}

json_t *tni_schema_keep(tni_schema *s, json_t *made) {
  if (made && s->st == TN_OK && json_array_append_new(s->kept, made) == 0) return made;
  tni_schema_memory(s);
  return NULL;
}

/* --- types -------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  unsigned bits;
} type_names[] = {{"null", TNI_TYPE_NULL},       {"boolean", TNI_TYPE_BOOLEAN},
                  {"integer", TNI_TYPE_INTEGER}, {"number", TNI_TYPE_NUMBER | TNI_TYPE_INTEGER},
                  {"string", TNI_TYPE_STRING},   {"array", TNI_TYPE_ARRAY},
                  {"object", TNI_TYPE_OBJECT}};
enum { TYPE_NAMES = sizeof type_names / sizeof *type_names };

static bool add_type(tni_schema *s, const json_t *name, unsigned *types) {
  for (size_t i = 0; json_is_string(name) && i < TYPE_NAMES; i++) {
    if (strcmp(json_string_value(name), type_names[i].name) != 0) continue;
    *types |= type_names[i].bits;
    return true;
  }
  return tni_schema_fail(s, TN_E_INVALID, "type", "not a type of JSON Schema");
}

bool tni_schema_types(tni_schema *s, const json_t *schema, unsigned *types) {
  const json_t *t = json_object_get(schema, "type");
  *types = t ? 0 : TNI_TYPE_ALL;
  if (!t) return true;
  if (!json_is_array(t)) return add_type(s, t, types);
  for (size_t i = 0; i < json_array_size(t); i++)
    if (!add_type(s, json_array_get(t, i), types)) return false;
  return true;
}

unsigned tni_value_type(const json_t *v) {
  switch (json_typeof(v)) {
    case JSON_OBJECT:
      return TNI_TYPE_OBJECT;
    case JSON_ARRAY:
      return TNI_TYPE_ARRAY;
    case JSON_STRING:
      return TNI_TYPE_STRING;
    case JSON_INTEGER:
      return TNI_TYPE_INTEGER;
    case JSON_REAL:
      return TNI_TYPE_NUMBER;
    case JSON_NULL:
      return TNI_TYPE_NULL;
    default:
      return TNI_TYPE_BOOLEAN;
  }
}

/* What each keyword is about; bits 0: it speaks of no type. refused: it is not done here. */
static const struct {
  const char *name;
  unsigned types;
  bool refused;
} keywords[] = {{"properties", TNI_TYPE_OBJECT, false},
                {"required", TNI_TYPE_OBJECT, false},
                {"additionalProperties", TNI_TYPE_OBJECT, false},
                {"unevaluatedProperties", TNI_TYPE_OBJECT, false},
                {"patternProperties", TNI_TYPE_OBJECT, false},
                {"propertyNames", TNI_TYPE_OBJECT, false},
                {"minProperties", TNI_TYPE_OBJECT, false},
                {"maxProperties", TNI_TYPE_OBJECT, false},
                {"dependentRequired", TNI_TYPE_OBJECT, true},
                {"dependentSchemas", TNI_TYPE_OBJECT, true},
                {"dependencies", TNI_TYPE_OBJECT, true},
                {"items", TNI_TYPE_ARRAY, false},
                {"prefixItems", TNI_TYPE_ARRAY, false},
                {"additionalItems", TNI_TYPE_ARRAY, false},
                {"unevaluatedItems", TNI_TYPE_ARRAY, false},
                {"minItems", TNI_TYPE_ARRAY, false},
                {"maxItems", TNI_TYPE_ARRAY, false},
                {"uniqueItems", TNI_TYPE_ARRAY, false},
                {"contains", TNI_TYPE_ARRAY, true},
                {"minContains", TNI_TYPE_ARRAY, true},
                {"maxContains", TNI_TYPE_ARRAY, true},
                {"minLength", TNI_TYPE_STRING, false},
                {"maxLength", TNI_TYPE_STRING, false},
                {"pattern", TNI_TYPE_STRING, false},
                {"format", TNI_TYPE_STRING, false},
                {"minimum", TNI_TYPE_NUMBER | TNI_TYPE_INTEGER, false},
                {"maximum", TNI_TYPE_NUMBER | TNI_TYPE_INTEGER, false},
                {"exclusiveMinimum", TNI_TYPE_NUMBER | TNI_TYPE_INTEGER, false},
                {"exclusiveMaximum", TNI_TYPE_NUMBER | TNI_TYPE_INTEGER, false},
                {"multipleOf", TNI_TYPE_NUMBER | TNI_TYPE_INTEGER, false},
                {"not", 0, true},
                {"if", 0, true},
                {"$dynamicRef", 0, true},
                {"$recursiveRef", 0, true}};
enum { KEYWORDS = sizeof keywords / sizeof *keywords };

/* Types that come out: those that are allowed, and without "type" those that keywords speak of. */
static bool wanted_types(tni_schema *s, const json_t *schema, unsigned *types) {
  unsigned spoken = 0;
  if (!tni_schema_types(s, schema, types)) return false;
  for (size_t i = 0; i < KEYWORDS; i++) {
    if (!json_object_get(schema, keywords[i].name)) continue;
    if (keywords[i].refused && (!keywords[i].types || keywords[i].types & *types))
      return tni_schema_fail(s, TN_E_UNSUPPORTED, keywords[i].name, "it cannot be kept token by token");
    spoken |= keywords[i].types;
  }
  if (!json_object_get(schema, "type") && spoken) *types = spoken;
  return true;
}

bool tni_schema_count(tni_schema *s, const json_t *schema, const char *key, uint32_t *v) {
  const json_t *j = json_object_get(schema, key);
  if (!j) return true;
  const double d = json_is_number(j) ? json_number_value(j) : -1;
  if (!(d >= 0) || d != floor(d)) return tni_schema_fail(s, TN_E_INVALID, key, "expected a whole number from 0");
  if (d > TNI_SCHEMA_ITEMS) {
    if (strncmp(key, "max", 3) == 0) return true; /* more than anybody writes */
    return tni_schema_fail(s, TN_E_LIMIT, key, "more than %d", TNI_SCHEMA_ITEMS);
  }
  *v = (uint32_t)d;
  return true;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static bool literal(tni_schema *s, const json_t *v, uint32_t from, uint32_t to) {
  char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
  if (!text) return tni_schema_memory(s);
  tni_auto_text(s->a, from, text, strlen(text), to);
  free(text);
  return true;
}

static bool number_fits(const json_t *v, const json_t *schema) {
  const double d = json_number_value(v);
  const json_t *lo = json_object_get(schema, "minimum"), *hi = json_object_get(schema, "maximum");
  const json_t *above = json_object_get(schema, "exclusiveMinimum"),
               *below = json_object_get(schema, "exclusiveMaximum");
  return !((json_is_number(lo) && d < json_number_value(lo)) || (json_is_number(hi) && d > json_number_value(hi)) ||
           (json_is_number(above) && d <= json_number_value(above)) ||
           (json_is_number(below) && d >= json_number_value(below)));
}

static size_t count_chars(const char *t) {
  size_t n = 0;
  for (; *t; t++) n += ((unsigned char)*t & 0xc0) != 0x80;
  return n;
}

/* A value of an enum against the keywords beside it. False: it failed; *fits false: the value is left out. */
static bool value_fits(tni_schema *s, const json_t *v, const json_t *schema, bool *fits) {
  static const char *const hard[] = {"pattern",
                                     "format",
                                     "multipleOf",
                                     "uniqueItems",
                                     "properties",
                                     "required",
                                     "additionalProperties",
                                     "unevaluatedProperties",
                                     "items",
                                     "prefixItems",
                                     "additionalItems",
                                     "unevaluatedItems",
                                     "patternProperties",
                                     "propertyNames",
                                     "minItems",
                                     "maxItems",
                                     "minProperties",
                                     "maxProperties"};
  unsigned types, type = tni_value_type(v);
  uint32_t least = 0, most = UINT32_MAX;
  if (!tni_schema_types(s, schema, &types)) return false;
  if (json_is_real(v) && floor(json_real_value(v)) == json_real_value(v)) type |= TNI_TYPE_INTEGER;
  *fits = (types & type) != 0;
  if (!*fits) return true;
  if (s->large && json_is_real(v) && fabs(json_real_value(v)) >= (double)INT64_MAX)
    return tni_schema_fail(s, TN_E_UNSUPPORTED, NULL, "a constant of more than 63 bits");
  for (size_t i = 0; i < KEYWORDS; i++) {
    if (!json_object_get(schema, keywords[i].name) || (keywords[i].types && !(keywords[i].types & type))) continue;
    for (size_t k = 0; k < sizeof hard / sizeof *hard; k++)
      if (keywords[i].refused || strcmp(hard[k], keywords[i].name) == 0)
        return tni_schema_fail(s, TN_E_UNSUPPORTED, keywords[i].name, "beside enum or const");
  }
  if (!tni_schema_count(s, schema, "minLength", &least) || !tni_schema_count(s, schema, "maxLength", &most))
    return false;
  if (json_is_string(v)) {
    const size_t n = count_chars(json_string_value(v));
    *fits = n >= least && n <= most;
  }
  if (json_is_number(v)) *fits = number_fits(v, schema);
  return true;
}

static bool enumerated(tni_schema *s, json_t *schema, uint32_t from, uint32_t to) {
  json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
  if (list && !json_is_array(list)) return tni_schema_fail(s, TN_E_INVALID, "enum", "expected an array");
  for (size_t i = 0; i < (list ? json_array_size(list) : 1); i++) {
    json_t *v = list ? json_array_get(list, i) : one;
    bool fits = false;
    if (list && one && !tni_json_same(v, one)) continue;
    if (!value_fits(s, v, schema, &fits)) return false;
    if (fits && !literal(s, v, from, to)) return false;
  }
  return true;
}

static bool of_types(tni_schema *s, json_t *schema, uint32_t from, uint32_t to) {
  unsigned types;
  if (!wanted_types(s, schema, &types)) return false;
  if (types & TNI_TYPE_NULL) tni_auto_text(s->a, from, "null", 4, to);
  if (types & TNI_TYPE_BOOLEAN) {
    tni_auto_text(s->a, from, "true", 4, to);
    tni_auto_text(s->a, from, "false", 5, to);
  }
  bool ok = true;
  if (types & (TNI_TYPE_NUMBER | TNI_TYPE_INTEGER))
    ok = tni_schema_number(s, schema, !(types & TNI_TYPE_NUMBER), from, to);
  if (ok && types & TNI_TYPE_STRING) ok = tni_schema_string(s, schema, from, to);
  if (ok && types & TNI_TYPE_ARRAY) ok = tni_schema_array(s, schema, from, to);
  if (ok && types & TNI_TYPE_OBJECT) ok = tni_schema_object(s, schema, from, to);
  return ok;
}

/* --- choices ------------------------------------------------------------------------------------------------------ */

static bool check_one_of(tni_schema *s, json_t *list) {
  const size_t n = json_array_size(list);
  if (n > 64) return tni_schema_fail(s, TN_E_LIMIT, "oneOf", "more than 64 schemas");
  for (size_t i = 0; i < n; i++)
    for (size_t k = i + 1; k < n; k++) {
      const bool apart = tni_schema_apart(s, json_array_get(list, i), json_array_get(list, k), 0);
      if (s->st != TN_OK) return false;
      if (!apart)
        return tni_schema_fail(s, TN_E_UNSUPPORTED, "oneOf",
                               "a value may be of both %zu and %zu; anyOf allows it, or a type or a constant that "
                               "differs tells them apart",
                               i, k);
    }
  return true;
}

/* Each schema of the list `key` together with all the rest. */
static bool choose(tni_schema *s, json_t *schema, const char *key, uint32_t from, uint32_t to) {
  json_t *list = json_object_get(schema, key);
  if (!json_is_array(list) || !json_array_size(list))
    return tni_schema_fail(s, TN_E_INVALID, key, "expected an array of schemas");
  if (json_array_size(list) > TNI_SCHEMA_CHOICES)
    return tni_schema_fail(s, TN_E_LIMIT, key, "more than %d schemas", TNI_SCHEMA_CHOICES);
  if (strcmp(key, "oneOf") == 0 && !check_one_of(s, list)) return false;
  json_t *rest = tni_schema_rest(s, schema, key);
  if (!rest) return false;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const size_t mark = tni_schema_down_item(s, key, i);
    json_t *one = json_array_get(list, i);
    uint32_t rule = 0;
    if (json_object_size(rest)) one = tni_schema_keep(s, tni_schema_merge(s, rest, one));
    if (!one || !tni_schema_rule(s, one, &rule)) return false;
    tni_auto_call(s->a, from, rule, to);
    tni_schema_up(s, mark);
  }
  return true;
}

static bool build(tni_schema *s, json_t *schema, uint32_t from, uint32_t to) {
  if (json_is_false(schema)) return true; /* no value */
  if (!json_is_true(schema) && !json_is_object(schema))
    return tni_schema_fail(s, TN_E_INVALID, NULL, "expected a schema: an object, true or false");
  json_t *flat = json_is_true(schema) ? tni_schema_keep(s, json_object()) : tni_schema_flat(s, schema);
  if (!flat) return false;
  if (json_is_false(flat)) return true;
  if (json_object_get(flat, "anyOf")) return choose(s, flat, "anyOf", from, to);
  if (json_object_get(flat, "oneOf")) return choose(s, flat, "oneOf", from, to);
  if (json_object_get(flat, "enum") || json_object_get(flat, "const")) return enumerated(s, flat, from, to);
  return of_types(s, flat, from, to);
}

bool tni_schema_rule(tni_schema *s, json_t *schema, uint32_t *rule) {
  if (s->st != TN_OK) return false;
  char *key = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
  uint64_t known = 0;
  if (!key) return tni_schema_memory(s);
  const bool found = tni_map_get_str(s->rules, key, &known);
  *rule = found ? (uint32_t)known : tni_auto_rule(s->a);
  const bool put = found || tni_map_put_str(s->rules, key, *rule);
  s->key_bytes += strlen(key);
  free(key);
  if (!put) return tni_schema_memory(s);
  if (s->key_bytes > TNI_SCHEMA_KEYS)
    return tni_schema_fail(s, TN_E_LIMIT, NULL, "more than %d MiB of schemas", TNI_SCHEMA_KEYS >> 20);
  if (found) return true;
  if (++s->n_rules > TNI_SCHEMA_RULES)
    return tni_schema_fail(s, TN_E_LIMIT, NULL, "more than %d schemas", TNI_SCHEMA_RULES);
  if (++s->depth > TNI_SCHEMA_DEPTH)
    return tni_schema_fail(s, TN_E_LIMIT, NULL, "more than %d schemas inside of each other", TNI_SCHEMA_DEPTH);
  if (s->a->failed != TN_OK) return true; /* told at the end */
  const tni_rule r = s->a->rules[*rule];
  const bool ok = build(s, schema, r.begin, r.end);
  s->depth--;
  return ok;
}

/* Nothing, a space, or the end of a line and what indents the next. */
static void make_blank(tni_schema *s) {
  s->blank = tni_auto_rule(s->a);
  if (s->a->failed != TN_OK) return;
  const tni_rule r = s->a->rules[s->blank];
  tni_auto_free(s->a, r.begin, r.end);
  tni_auto_bytes(s->a, r.begin, ' ', ' ', r.end);
  uint32_t cur = tni_auto_state(s->a);
  tni_auto_bytes(s->a, r.begin, '\n', '\n', cur);
  for (int i = 0; i < 20; i++) {
    const uint32_t next = tni_auto_state(s->a);
    tni_auto_free(s->a, cur, r.end);
    tni_auto_bytes(s->a, cur, ' ', ' ', next);
    tni_auto_bytes(s->a, cur, '\t', '\t', next);
    cur = next;
  }
  tni_auto_free(s->a, cur, r.end);
}

/* true and false are schemas too. Bounds that no integer holds ("maximum": 18446744073709551615) are reals. */
static json_t *read_text(tni_schema *s, const char *text, size_t n, json_error_t *e) {
  const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
  json_t *root = json_loadb(text, n, flags, e);
  s->large = !root && json_error_code(e) == json_error_numeric_overflow;
  return s->large ? json_loadb(text, n, flags | TNI_JSON_LARGE_AS_REAL, e) : root;
}

tn_status tni_compile_schema(tni_auto *a, const char *text, size_t n, uint32_t *rule, tn_error *err) {
  tni_schema s = {.a = a, .err = err};
  json_error_t e = {.line = -1};
  tni_json_begin();
  s.rules = tni_map_create();
  s.kept = json_array();
  s.root = read_text(&s, n ? text : "", n, &e);
  if (!s.rules || !s.kept || tni_json_short() || (!s.root && tni_json_no_memory(&e)))
    tni_schema_memory(&s);
  else if (!s.root)
    s.st = tni_fail(err, TN_E_INVALID, "schema", "schema: not JSON: line %d: %s", e.line, e.text);
  make_blank(&s);
  if (s.st == TN_OK) tni_schema_anchor_refs(&s);
  if (s.st == TN_OK) (void)tni_schema_rule(&s, s.root, rule);
  if (s.st == TN_OK && tni_json_short()) tni_schema_memory(&s);
  json_decref(s.root);
  json_decref(s.kept);
  tni_map_destroy(s.rules);
  tni_str_finish(&s.path);
  return s.st;
}
