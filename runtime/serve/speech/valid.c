/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/valid.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { DEPTH = 128, STEPS = 1 << 18, MATCH_LIMIT = 1 << 20 };

typedef struct valid_look {
  const json_t *document, *root; /* root: the schema with the next "$id" around, or the document */
  unsigned depth;
  long steps;
} valid_look;

static bool fits(valid_look *v, const json_t *schema, const json_t *x);

/* --- values ------------------------------------------------------------------------------------------------------- */

static bool is_whole(const json_t *x) {
  return json_is_integer(x) ||
         (json_is_real(x) && isfinite(json_real_value(x)) && floor(json_real_value(x)) == json_real_value(x));
}

static bool is_type(const char *t, const json_t *x) {
  if (strcmp(t, "object") == 0) return json_is_object(x);
  if (strcmp(t, "array") == 0) return json_is_array(x);
  if (strcmp(t, "string") == 0) return json_is_string(x);
  if (strcmp(t, "number") == 0) return json_is_number(x);
  if (strcmp(t, "integer") == 0) return is_whole(x);
  if (strcmp(t, "boolean") == 0) return json_is_boolean(x);
  if (strcmp(t, "null") == 0) return json_is_null(x);
  return false;
}

static bool fits_type(const json_t *type, const json_t *x) {
  const json_t *one;
  size_t i;
  if (json_is_string(type)) return is_type(json_string_value(type), x);
  if (!json_is_array(type)) return true;
  json_array_foreach(type, i, one) if (json_is_string(one) && is_type(json_string_value(one), x)) return true;
  return false;
}

/* ECMA-262's syntax as far as PCRE2 has it; a pattern that it does not take says nothing. */
static bool matches(const char *pattern, const char *s, size_t n) {
  int e;
  PCRE2_SIZE at;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY, &e, &at, NULL);
  if (!code) return e > 0;
  pcre2_match_data *data = pcre2_match_data_create(1, NULL);
  pcre2_match_context *context = pcre2_match_context_create(NULL);
  if (context) pcre2_set_match_limit(context, MATCH_LIMIT);
  const int rc = data && context ? pcre2_match(code, (PCRE2_SPTR)s, n, 0, 0, data, context) : -1;
  pcre2_match_context_free(context);
  pcre2_match_data_free(data);
  pcre2_code_free(code);
  return rc >= 0;
}

static bool fits_number(const json_t *s, const json_t *x) {
  const json_t *low = json_object_get(s, "minimum"), *high = json_object_get(s, "maximum"),
               *above = json_object_get(s, "exclusiveMinimum"), *below = json_object_get(s, "exclusiveMaximum"),
               *step = json_object_get(s, "multipleOf");
  const double v = json_number_value(x), by = json_number_value(step);
  if (json_is_number(low) && (json_is_true(above) ? v <= json_number_value(low) : v < json_number_value(low)))
    return false;
  if (json_is_number(high) && (json_is_true(below) ? v >= json_number_value(high) : v > json_number_value(high)))
    return false;
  if (json_is_number(above) && v <= json_number_value(above)) return false;
  if (json_is_number(below) && v >= json_number_value(below)) return false;
  if (!json_is_number(step) || by <= 0) return true;
  if (json_is_integer(step) && json_is_integer(x)) return json_integer_value(x) % json_integer_value(step) == 0;
  const double times = v / by;
  return isfinite(times) && fabs(times - round(times)) <= 1e-9 * fmax(1, fabs(times));
}

/* Whether n is between two keywords' counts. */
static bool fits_count(const json_t *s, const char *least, const char *most, size_t n) {
  const json_t *low = json_object_get(s, least), *high = json_object_get(s, most);
  return !(json_is_number(low) && (double)n < json_number_value(low)) &&
         !(json_is_number(high) && (double)n > json_number_value(high));
}

static bool fits_string(const json_t *s, const json_t *x) {
  const char *text = json_string_value(x), *pattern = json_string_value(json_object_get(s, "pattern"));
  const size_t n = json_string_length(x);
  size_t letters = 0;
  for (size_t i = 0; i < n; i++) letters += ((unsigned char)text[i] & 0xc0) != 0x80;
  return fits_count(s, "minLength", "maxLength", letters) && (!pattern || matches(pattern, text, n));
}

/* --- lists and objects -------------------------------------------------------------------------------------------- */

static bool fits_contains(valid_look *v, const json_t *s, const json_t *x) {
  const json_t *one, *what = json_object_get(s, "contains"), *low = json_object_get(s, "minContains"),
                     *high = json_object_get(s, "maxContains");
  size_t i, n = 0;
  if (!what) return true;
  json_array_foreach(x, i, one) n += fits(v, what, one);
  return (double)n >= (json_is_number(low) ? json_number_value(low) : 1) &&
         !(json_is_number(high) && (double)n > json_number_value(high));
}

static bool fits_array(valid_look *v, const json_t *s, const json_t *x) {
  const json_t *items = json_object_get(s, "items"), *first = json_object_get(s, "prefixItems"), *rest = items;
  const size_t n = json_array_size(x);
  if (json_is_array(items)) { /* before 2020-12 */
    first = items;
    rest = json_object_get(s, "additionalItems");
  }
  if (!fits_count(s, "minItems", "maxItems", n) || !fits_contains(v, s, x)) return false;
  for (size_t i = 0; i < n; i++) {
    const json_t *own = i < json_array_size(first) ? json_array_get(first, i) : rest, *one = json_array_get(x, i);
    if (own && !fits(v, own, one)) return false;
    for (size_t k = 0; k < i && json_is_true(json_object_get(s, "uniqueItems")); k++)
      if (--v->steps < 0 || tni_json_same(json_array_get(x, k), one)) return false;
  }
  return true;
}

/* Each property is of those that name it, or of what is left for others. */
static bool fits_property(valid_look *v, const json_t *s, const char *key, const json_t *x) {
  const json_t *own = json_object_get(json_object_get(s, "properties"), key),
               *others = json_object_get(s, "additionalProperties"), *names = json_object_get(s, "propertyNames");
  bool named = own != NULL;
  const char *pattern;
  json_t *one;
  if (own && !fits(v, own, x)) return false;
  json_object_foreach(json_object_get(s, "patternProperties"), pattern, one) {
    if (--v->steps < 0) return false;
    if (!matches(pattern, key, strlen(key))) continue;
    named = true;
    if (!fits(v, one, x)) return false;
  }
  if (!named && others && !fits(v, others, x)) return false;
  if (!names) return true;
  json_t *name = json_string(key);
  const bool good = name && fits(v, names, name);
  json_decref(name);
  return good;
}

static bool has_all(const json_t *names, const json_t *x) {
  const json_t *one;
  size_t i;
  json_array_foreach(names, i,
                     one) if (json_is_string(one) && !json_object_get(x, json_string_value(one))) return false;
  return true;
}

static bool fits_object(valid_look *v, const json_t *s, const json_t *x) {
  static const char *const dependents[] = {"dependentRequired", "dependentSchemas", "dependencies"};
  const char *key;
  json_t *one;
  if (!fits_count(s, "minProperties", "maxProperties", json_object_size(x)) ||
      !has_all(json_object_get(s, "required"), x))
    return false;
  json_object_foreach((json_t *)(uintptr_t)x, key, one) if (!fits_property(v, s, key, one)) return false;
  for (size_t i = 0; i < sizeof dependents / sizeof *dependents; i++)
    json_object_foreach(
        json_object_get(s, dependents[i]), key,
        one) if (json_object_get(x, key) && !(json_is_array(one) ? has_all(one, x) : fits(v, one, x))) return false;
  return true;
}

/* --- schemas ------------------------------------------------------------------------------------------------------ */

/* It has an "$id", and is what its own "#..." is meant from. */
static const char *is_id(const json_t *s) {
  const char *id = json_string_value(json_object_get(s, "$id"));
  return id && *id != '#' ? id : NULL;
}

/* The schema in `at` whose "$id" is the n letters at `id`; NULL: there is none. */
static const json_t *find_id(valid_look *v, const json_t *at, const char *id, size_t n) {
  const char *own = is_id(at), *key;
  const json_t *one, *found;
  size_t i;
  if (--v->steps < 0) return NULL;
  if (own && strcspn(own, "#") == n && memcmp(own, id, n) == 0) return at;
  json_array_foreach(at, i, one) if ((found = find_id(v, one, id, n))) return found;
  json_object_foreach((json_t *)(uintptr_t)at, key, one) if ((found = find_id(v, one, id, n))) return found;
  return NULL;
}

/* What "$ref" leads to, which is looked at with the "$id" that it is in. */
static bool fits_ref(valid_look *v, const json_t *s, const json_t *x) {
  const char *ref = json_string_value(json_object_get(s, "$ref"));
  const json_t *around = v->root;
  if (!ref) return true;
  const size_t n = strcspn(ref, "#");
  const json_t *base = n ? find_id(v, v->document, ref, n) : around, *to = base;
  if (base && ref[n]) to = tni_json_at(base, ref + n + 1);
  if (!to) return v->steps >= 0;
  v->root = base;
  const bool good = fits(v, to, x);
  v->root = around;
  return good;
}

static bool fits_choices(valid_look *v, const json_t *s, const json_t *x) {
  const json_t *any = json_object_get(s, "anyOf"), *one_of = json_object_get(s, "oneOf"),
               *all = json_object_get(s, "allOf"), *none = json_object_get(s, "not"), *when = json_object_get(s, "if"),
               *one;
  size_t i, n = 0;
  json_array_foreach(all, i, one) if (!fits(v, one, x)) return false;
  json_array_foreach(any, i, one) if ((n += fits(v, one, x))) break;
  if (json_array_size(any) && !n) return false;
  n = 0;
  json_array_foreach(one_of, i, one) n += fits(v, one, x);
  if (json_array_size(one_of) && n != 1) return false;
  if (none && fits(v, none, x)) return false;
  if (!when) return v->steps >= 0; /* what was cut short is no answer to "not" */
  const json_t *then = json_object_get(s, fits(v, when, x) ? "then" : "else");
  return v->steps >= 0 && (!then || fits(v, then, x));
}

static bool fits_own(valid_look *v, const json_t *s, const json_t *x) {
  const json_t *type = json_object_get(s, "type"), *equal = json_object_get(s, "const"),
               *list = json_object_get(s, "enum"), *one;
  size_t i, n = 0;
  if (type && !fits_type(type, x)) return false;
  if (equal && !tni_json_same(equal, x)) return false;
  json_array_foreach(list, i, one) n += tni_json_same(one, x);
  if (json_is_array(list) && !n) return false;
  if (json_is_number(x) && !fits_number(s, x)) return false;
  if (json_is_string(x) && !fits_string(s, x)) return false;
  if (json_is_array(x) && !fits_array(v, s, x)) return false;
  return !json_is_object(x) || fits_object(v, s, x);
}

static bool fits(valid_look *v, const json_t *schema, const json_t *x) {
  if (!json_is_object(schema)) return !json_is_false(schema);
  if (v->depth >= DEPTH || --v->steps < 0) {
    v->steps = -1;
    return false;
  }
  v->depth++;
  const json_t *around = v->root;
  if (is_id(schema)) v->root = schema;
  const bool good = fits_ref(v, schema, x) && fits_own(v, schema, x) && fits_choices(v, schema, x);
  v->root = around;
  v->depth--;
  return good && v->steps >= 0;
}

bool srv_valid(const json_t *schema, const json_t *value) {
  valid_look v = {.document = schema, .root = schema, .steps = STEPS};
  return fits(&v, schema, value);
}
