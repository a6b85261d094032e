/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/callxml.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What is left of the text. */
typedef struct rest {
  const char *v;
  size_t n;
} rest;

static void skip(rest *r, size_t n) {
  r->v += n;
  r->n -= n;
}

static void skip_blanks(rest *r) {
  while (r->n && strchr(" \t\r\n", *r->v)) skip(r, 1);
}

static bool take(rest *r, const char *word) {
  const size_t n = strlen(word);
  if (r->n < n || memcmp(r->v, word, n) != 0) return false;
  skip(r, n);
  return true;
}

/* Up to word, which goes too; false: it does not come. */
static bool take_until(rest *r, const char *word, rest *out) {
  const char *at = r->n ? memmem(r->v, r->n, word, strlen(word)) : NULL;
  if (!at) return false;
  *out = (rest){r->v, (size_t)(at - r->v)};
  skip(r, out->n + strlen(word));
  return true;
}

/* What the text is as JSON; NULL: it is none. */
static json_t *any_json(rest v) {
  char *list = malloc(v.n + 2); /* the parser takes lists and objects */
  if (!list) return NULL;
  list[0] = '[';
  if (v.n) memcpy(list + 1, v.v, v.n);
  list[v.n + 1] = ']';
  json_t *j = tni_json_loadb(list, v.n + 2, 0, NULL), *one = json_array_size(j) == 1 ? json_incref(json_array_get(j, 0)) : NULL;
  json_decref(j);
  free(list);
  return one;
}

/* {"type": ...} of a tool's parameter; NULL: there is none. */
static const json_t *parameter(const json_t *tools, const rest *name, const rest *key) {
  const json_t *tool;
  size_t i;
  json_array_foreach(tools, i, tool) {
    const json_t *f = json_object_get(tool, "function");
    const char *n = json_string_value(json_object_get(f, "name"));
    if (!n || strlen(n) != name->n || memcmp(n, name->v, name->n) != 0) continue;
    return json_object_getn(json_object_get(json_object_get(f, "parameters"), "properties"), key->v, key->n);
  }
  return NULL;
}

static bool is_string(const json_t *type) {
  const char *t = json_string_value(type);
  const json_t *one;
  size_t i;
  if (t) return strcmp(t, "string") == 0;
  json_array_foreach(type, i, one)
    if (!is_string(one) && strcmp(json_string_value(one) ? json_string_value(one) : "", "null") != 0) return false;
  return json_array_size(type) > 0;
}

static json_t *value(const json_t *tools, const rest *name, const rest *key, rest v) {
  const json_t *p = parameter(tools, name, key), *type = json_object_get(p, "type");
  if (v.n && *v.v == '\n') skip(&v, 1); /* tags stand in lines of their own */
  if (v.n && v.v[v.n - 1] == '\n') v.n--;
  json_t *text = json_stringn(v.v, v.n), *one = NULL;
  bool named = false; /* text that an enum names is that text */
  size_t i;
  const json_t *e;
  json_array_foreach(json_object_get(p, "enum"), i, e) named = named || (text && json_equal(e, text));
  if (!p || is_string(type) || named) return text;
  one = any_json(v);
  if (!one) return text;
  json_decref(text);
  return one;
}

/* One call after its <function=. */
static json_t *read_call(const json_t *tools, rest *r) {
  rest name, key, v;
  json_t *arguments = json_object();
  bool good = arguments && take_until(r, ">", &name) && name.n;
  while (good) {
    skip_blanks(r);
    if (!r->n || take(r, "</function>")) break;
    good = take(r, "<parameter=") && take_until(r, ">", &key) && take_until(r, "</parameter>", &v);
    json_t *one = good ? value(tools, &name, &key, v) : NULL;
    good = one && json_object_setn_new(arguments, key.v, key.n, one) == 0;
  }
  if (good) return json_pack("{s:s%, s:o}", "name", name.v, name.n, "arguments", arguments);
  json_decref(arguments);
  return NULL;
}

json_t *srv_callxml_read(const json_t *tools, const char *text, size_t n) {
  rest r = {text, n};
  json_t *all = json_array();
  bool good = all != NULL;
  skip_blanks(&r);
  (void)take(&r, SRV_CALLXML_OPEN);
  while (good) {
    json_t *one = read_call(tools, &r);
    good = one && json_array_append_new(all, one) == 0;
    skip_blanks(&r);
    if (!good || !r.n) break;
    good = take(&r, SRV_CALLXML_OPEN);
  }
  if (good) return all;
  json_decref(all);
  return NULL;
}
