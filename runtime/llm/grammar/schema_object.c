/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects: the properties in the order of the schema, then others where the schema wants some.
 */
#include <stdlib.h>

#include "runtime/llm/grammar/schema.h"

enum { PROPERTIES = 4096 };

typedef struct property {
  char *name; /* as JSON has it, with its quotes */
  uint32_t rule;
  bool required;
} property;

typedef struct object {
  tni_schema *s;
  property *v;
  size_t n;
  uint32_t least, most; /* properties */
  uint32_t key, value;  /* rules of others */
  bool others;
} object;

static bool is_required(const json_t *list, const char *key) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    if (name && strcmp(name, key) == 0) return true;
  }
  return false;
}

static bool add_property(object *o, const char *key, json_t *schema, bool required) {
  tni_schema *s = o->s;
  property p = {.required = required};
  if (json_is_false(schema) && !required) return true; /* it must not be there */
  if (!tni_schema_rule(s, schema, &p.rule)) return false;
  json_t *name = json_string(key);
  p.name = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
  json_decref(name);
  if (!p.name) return tni_schema_memory(s);
  o->v[o->n++] = p;
  return true;
}

static bool read_properties(object *o, json_t *schema) {
  tni_schema *s = o->s;
  json_t *all = json_object_get(schema, "properties"), *required = json_object_get(schema, "required"), *v;
  json_t *rest = json_object_get(schema, "additionalProperties");
  const char *key;
  if (all && !json_is_object(all)) return tni_schema_fail(s, TN_E_INVALID, "properties", "expected an object");
  if (required && !json_is_array(required)) return tni_schema_fail(s, TN_E_INVALID, "required", "expected an array");
  const size_t most = json_object_size(all) + json_array_size(required);
  if (most > PROPERTIES) return tni_schema_fail(s, TN_E_LIMIT, "properties", "more than %d", PROPERTIES);
  o->v = calloc(most + 1, sizeof *o->v);
  if (!o->v) return tni_schema_memory(s);
  json_object_foreach(all, key, v) {
    const size_t mark = tni_schema_down(s, "properties"), deeper = tni_schema_down(s, key);
    (void)deeper;
    if (!add_property(o, key, v, is_required(required, key))) return false;
    tni_schema_up(s, mark);
  }
  for (size_t i = 0; i < json_array_size(required); i++) {
    key = json_string_value(json_array_get(required, i));
    if (!key) return tni_schema_fail(s, TN_E_INVALID, "required", "expected names");
    if (json_object_get(all, key)) continue;
    bool again = false; /* named twice */
    for (size_t k = 0; k < i && !again; k++)
      again = json_equal(json_array_get(required, k), json_array_get(required, i));
    if (!again && !add_property(o, key, rest ? rest : json_true(), true)) return false;
  }
  return true;
}

/* --- keys of others ----------------------------------------------------------------------------------------------- */

/* All strings without escapes but the names of properties: a trie of these, left at the first other character. */
static void other_names(tni_nfa *x, json_t *names) {
  const char *key;
  json_t *v;
  typedef struct node {
    uint32_t cp, child, next, state;
    bool ends;
  } node;
  size_t n = 1, most = 1;
  json_object_foreach(names, key, v) most += strlen(key);
  node *t = calloc(most, sizeof *t);
  if (!t) x->failed = TN_E_NO_MEMORY;
  if (!t) return;
  json_object_foreach(names, key, v) {
    size_t at = 0, len = 1;
    for (const char *c = key; *c; c += len) {
      const uint32_t cp = tni_utf8_get(c, strlen(c), &len);
      size_t k = t[at].child;
      while (k && t[k].cp != cp) k = t[k].next;
      if (!k) {
        k = n++;
        t[k] = (node){.cp = cp, .next = t[at].child, .state = tni_nfa_state(x)};
        t[at].child = (uint32_t)k;
      }
      at = k;
    }
    t[at].ends = true;
  }
  const uint32_t rest = tni_nfa_state(x);
  tni_chars raw = {0};
  tni_chars_add(&raw, 0x20, 0x21);
  tni_chars_add(&raw, 0x23, 0x5b);
  tni_chars_add(&raw, 0x5d, TNI_CHAR_LAST);
  for (size_t i = 0; i < n; i++) {
    tni_chars out = {0}, left = {0};
    for (size_t k = t[i].child; k; k = t[k].next) {
      tni_chars one = {0};
      tni_chars_add(&one, t[k].cp, t[k].cp);
      tni_chars_add(&out, t[k].cp, t[k].cp);
      if (t[k].cp >= 0x20 && t[k].cp != '"' && t[k].cp != '\\')
        tni_nfa_edge_add(x, t[i].state, tni_nfa_set(x, &one), t[k].state);
      tni_chars_finish(&one);
    }
    tni_chars_sort(&out);
    tni_chars_not(&out);
    tni_chars_both(&left, &out, &raw);
    tni_nfa_edge_add(x, t[i].state, tni_nfa_set(x, &left), rest);
    if (!t[i].ends) tni_nfa_edge_add(x, t[i].state, TNI_NFA_FREE, 1);
    tni_chars_finish(&out);
    tni_chars_finish(&left);
  }
  tni_nfa_edge_add(x, rest, tni_nfa_set(x, &raw), rest);
  tni_nfa_edge_add(x, rest, TNI_NFA_FREE, 1);
  tni_chars_finish(&raw);
  free(t);
}

/* What propertyNames says, if it is there. */
static bool names_form(tni_schema *s, json_t *names, tni_string_parts *p) {
  if (!names) return true;
  const size_t mark = tni_schema_down(s, "propertyNames");
  names = tni_schema_flat(s, names);
  if (!names) return false;
  if (json_is_object(names) && (json_object_get(names, "enum") || json_object_get(names, "const") ||
                                json_object_get(names, "anyOf") || json_object_get(names, "oneOf")))
    return tni_schema_fail(s, TN_E_UNSUPPORTED, NULL, "only pattern, format and lengths");
  const bool ok = tni_schema_string_form(s, names, p);
  if (ok) tni_schema_up(s, mark);
  return ok;
}

/* The names that are written in their place, as keys: of properties, and those that are only required. */
static json_t *named(tni_schema *s, json_t *schema) {
  json_t *all = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
  json_t *names = tni_schema_keep(s, all ? json_copy(all) : json_object());
  for (size_t i = 0; names && i < json_array_size(required); i++)
    json_object_set_new(names, json_string_value(json_array_get(required, i)), json_true());
  return names;
}

/* The rule of a key: what propertyNames and `pattern` (NULL: none) say of a name that is no property. */
static bool make_key(object *o, json_t *schema, const char *pattern) {
  tni_schema *s = o->s;
  tni_string_parts p = {.form = {.most = UINT32_MAX}};
  tni_regex_error e = {NULL, 0, TN_OK};
  json_t *names = named(s, schema);
  bool ok = names && names_form(s, json_object_get(schema, "propertyNames"), &p);
  if (ok && p.form.n + 2 > TNI_NFA_TOGETHER)
    ok = tni_schema_fail(s, TN_E_LIMIT, "propertyNames", "too many patterns");
  if (ok) {
    tni_nfa *x = &p.nfas[p.form.n];
    tni_nfa_init(x);
    p.form.all[p.form.n++] = x;
    other_names(x, names);
  }
  if (ok && pattern) {
    tni_nfa *x = &p.nfas[p.form.n];
    tni_nfa_init(x);
    p.form.all[p.form.n++] = x;
    ok = tni_nfa_regex(x, pattern, strlen(pattern), false, &e);
    if (!ok)
      (void)tni_schema_fail(s, e.status, "patternProperties", "'%.60s': column %zu: %s", pattern, e.column, e.why);
  }
  o->key = tni_auto_rule(s->a);
  if (ok && s->a->failed == TN_OK) {
    const tni_rule r = s->a->rules[o->key];
    const uint32_t begin = tni_auto_state(s->a), end = tni_auto_state(s->a);
    tni_auto_text(s->a, r.begin, "\"", 1, begin);
    tni_nfa_emit(s->a, begin, &p.form, true, end);
    tni_auto_text(s->a, end, "\"", 1, r.end);
  }
  tni_string_parts_finish(&p);
  return ok;
}

/* Others come where the schema says what they are, or where it names no property. */
static bool read_others(object *o, json_t *schema) {
  tni_schema *s = o->s;
  json_t *patterns = json_object_get(schema, "patternProperties"),
         *value = json_object_get(schema, "additionalProperties");
  const char *pattern = NULL;
  if (!value) value = json_object_get(schema, "unevaluatedProperties");
  if (patterns) {
    if (!json_is_object(patterns) || json_object_size(patterns) != 1 || o->n)
      return tni_schema_fail(s, TN_E_UNSUPPORTED, "patternProperties", "only one pattern, without properties");
    void *only = json_object_iter(patterns);
    pattern = json_object_iter_key(only);
    value = json_object_iter_value(only);
  }
  json_t *names = json_object_get(schema, "propertyNames");
  if (names && !json_is_true(names) && o->n)
    return tni_schema_fail(s, TN_E_UNSUPPORTED, "propertyNames", "beside properties");
  if (!value && json_object_size(json_object_get(schema, "properties"))) return true;
  if (json_is_false(value) || json_is_false(names)) return true;
  o->others = true;
  const size_t mark = tni_schema_down(s, patterns ? "patternProperties" : "additionalProperties");
  if (!tni_schema_rule(s, value ? value : json_true(), &o->value)) return false;
  tni_schema_up(s, mark);
  return make_key(o, schema, pattern);
}

/* --- edges -------------------------------------------------------------------------------------------------------- */

/* After a key: `: value`. */
static void add_value(object *o, uint32_t from, uint32_t rule, uint32_t to) {
  tni_auto *a = o->s->a;
  const uint32_t colon = tni_auto_state(a), blank = tni_auto_state(a);
  tni_auto_text(a, from, ":", 1, colon);
  tni_auto_call(a, colon, o->s->blank, blank);
  tni_auto_call(a, blank, rule, to);
}

/* From the place after `count` properties to where the next key begins: past a comma where there was one. */
static uint32_t before_key(object *o, uint32_t from, uint32_t count) {
  tni_auto *a = o->s->a;
  const uint32_t key = tni_auto_state(a), comma = count ? tni_auto_state(a) : from;
  if (count) tni_auto_text(a, from, ",", 1, comma);
  tni_auto_call(a, comma, o->s->blank, key);
  return key;
}

/* Others after `count` named ones; only one of them counts for minProperties, as their names may be the same. */
static void add_others(object *o, uint32_t from, uint32_t count, uint32_t close) {
  tni_auto *a = o->s->a;
  if (count >= o->least) tni_auto_free(a, from, close);
  if (!o->others || count >= o->most || count + 1 < o->least) return;
  const bool open = o->most == UINT32_MAX;
  uint32_t at = from;
  for (uint32_t k = 0; a->failed == TN_OK && (open ? k < 1 : k < o->most - count); k++) {
    const uint32_t key = before_key(o, at, count + k), colon = tni_auto_state(a), after = tni_auto_state(a);
    tni_auto_call(a, key, o->key, colon);
    add_value(o, colon, o->value, after);
    tni_auto_free(a, after, close);
    at = after;
  }
  if (!open) return;
  const uint32_t key = before_key(o, at, 1), colon = tni_auto_state(a);
  tni_auto_call(a, key, o->key, colon);
  add_value(o, colon, o->value, at);
}

/* at[c]: before property i with c properties written, or 1 + where none of this count is. */
static bool add_all(object *o, uint32_t from, uint32_t close) {
  tni_auto *a = o->s->a;
  const bool counts = o->least > 0 || o->most != UINT32_MAX;
  const size_t n = counts ? o->n + 1 : 2;
  if (n * (o->n + 1) > TNI_AUTO_STATES) return tni_schema_fail(o->s, TN_E_LIMIT, "properties", "too many to count");
  uint32_t *at = malloc(n * sizeof *at), *next = malloc(n * sizeof *next);
  if (!at || !next) {
    free(at);
    free(next);
    return tni_schema_memory(o->s);
  }
  for (size_t c = 0; c < n; c++) at[c] = c ? tni_auto_state(a) : from;
  for (size_t i = 0; i < o->n && a->failed == TN_OK; i++) {
    const property *p = &o->v[i];
    for (size_t c = 0; c < n; c++) next[c] = tni_auto_state(a);
    for (size_t c = 0; c < n; c++) {
      if (!p->required) tni_auto_free(a, at[c], next[c]);
      if (c >= o->most || (counts && c + 1 >= n)) continue;
      const uint32_t key = before_key(o, at[c], (uint32_t)c), colon = tni_auto_state(a);
      tni_auto_text(a, key, p->name, strlen(p->name), colon);
      add_value(o, colon, p->rule, next[c + 1 < n ? c + 1 : c]);
    }
    uint32_t *t = at;
    at = next;
    next = t;
  }
  for (size_t c = 0; c < n && a->failed == TN_OK; c++) add_others(o, at[c], (uint32_t)c, close);
  free(at);
  free(next);
  return true;
}

bool tni_schema_object(tni_schema *s, json_t *schema, uint32_t from, uint32_t to) {
  object o = {.s = s, .most = UINT32_MAX};
  bool ok = tni_schema_count(s, schema, "minProperties", &o.least) &&
            tni_schema_count(s, schema, "maxProperties", &o.most) && read_properties(&o, schema) &&
            read_others(&o, schema);
  if (ok && o.least > o.n + o.others)
    ok = tni_schema_fail(s, TN_E_UNSUPPORTED, "minProperties", "more than the properties that are named, and one");
  if (ok) {
    const uint32_t open = tni_auto_state(s->a), close = tni_auto_state(s->a), last = tni_auto_state(s->a);
    tni_auto_text(s->a, from, "{", 1, open);
    ok = add_all(&o, open, close);
    tni_auto_call(s->a, close, s->blank, last);
    tni_auto_text(s->a, last, "}", 1, to);
  }
  for (size_t i = 0; o.v && i < o.n; i++) free(o.v[i].name);
  free(o.v);
  return ok;
}
