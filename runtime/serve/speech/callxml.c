/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/callxml.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/speech/rest.h"

/* What the text is as JSON; NULL: it is none. */
static json_t *any_json(srv_rest v) {
  return tni_json_loadb(v.n ? v.v : "", v.n, JSON_DECODE_ANY, NULL);
}

/* {"type": ...} of a tool's parameter; NULL: there is none. */
static const json_t *parameter(const json_t *tools, const srv_rest *name, const srv_rest *key) {
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

static bool is_type(const json_t *type, const char *name) {
  const char *t = json_string_value(type);
  return t && strcmp(t, name) == 0;
}

srv_callxml_form srv_callxml_form_of(const json_t *parameter) {
  const json_t *type = json_object_get(parameter, "type"), *one;
  bool text = is_type(type, "string"), null = false;
  size_t i;
  json_array_foreach(type, i, one) {
    text = text || is_type(one, "string");
    null = null || is_type(one, "null");
    if (!is_type(one, "string") && !is_type(one, "null")) return SRV_CALLXML_JSON;
  }
  return !text ? SRV_CALLXML_JSON : null ? SRV_CALLXML_TEXT_OR_NULL : SRV_CALLXML_TEXT;
}

static json_t *value(const json_t *tools, const srv_rest *name, const srv_rest *key, srv_rest v) {
  const json_t *p = parameter(tools, name, key);
  const srv_callxml_form form = srv_callxml_form_of(p);
  if (v.n && *v.v == '\n') srv_rest_skip(&v, 1); /* tags stand in lines of their own */
  if (v.n && v.v[v.n - 1] == '\n') v.n--;
  json_t *text = json_stringn(v.v, v.n), *one = NULL;
  bool named = false; /* text that an enum names is that text */
  size_t i;
  const json_t *e;
  json_array_foreach(json_object_get(p, "enum"), i, e) named = named || (text && json_equal(e, text));
  const bool null = form == SRV_CALLXML_TEXT_OR_NULL && v.n == 4 && memcmp(v.v, "null", 4) == 0;
  if (!p || named || (form != SRV_CALLXML_JSON && !null)) return text;
  one = any_json(v);
  if (!one) return text;
  json_decref(text);
  return one;
}

/* One call after its <function=. */
static json_t *read_call(const json_t *tools, srv_rest *r) {
  srv_rest name, key, v;
  json_t *arguments = json_object();
  bool good = arguments && srv_rest_until(r, ">", &name) && name.n;
  while (good) {
    srv_rest_blanks(r);
    if (!r->n || srv_rest_take(r, "</function>")) break;
    good = srv_rest_take(r, "<parameter=") && srv_rest_until(r, ">", &key) && srv_rest_until(r, "</parameter>", &v);
    json_t *one = good ? value(tools, &name, &key, v) : NULL;
    good = one && json_object_setn_new(arguments, key.v, key.n, one) == 0;
  }
  if (good) return json_pack("{s:s%, s:o}", "name", name.v, name.n, "arguments", arguments);
  json_decref(arguments);
  return NULL;
}

json_t *srv_callxml_read(const json_t *tools, const char *text, size_t n) {
  srv_rest r = {text, n};
  json_t *all = json_array();
  bool good = all != NULL;
  srv_rest_blanks(&r);
  (void)srv_rest_take(&r, SRV_CALLXML_OPEN);
  while (good) {
    json_t *one = read_call(tools, &r);
    good = one && json_array_append_new(all, one) == 0;
    srv_rest_blanks(&r);
    if (!good || !r.n) break;
    good = srv_rest_take(&r, SRV_CALLXML_OPEN);
  }
  if (good) return all;
  json_decref(all);
  return NULL;
}
