/* SPDX-License-Identifier: Apache-2.0
 *
 * References followed, inside of one document.
 */
#include "runtime/llm/grammar/schema.h"

/* The schema in `at` that has this "$id" or "$anchor". An anchor is one of the schema with the next "$id" above it;
 * values are no schemas. */
static json_t *find_named(tni_schema *s, json_t *at, const char *key, const char *name, unsigned depth) {
  const char *k;
  json_t *v, *found = NULL;
  const size_t n = strlen(name);
  size_t i;
  if (depth > TNI_SCHEMA_DEPTH || !tni_schema_work(s, 1)) return NULL;
  if (json_is_object(at)) {
    const bool anchor = strcmp(key, "$anchor") == 0;
    const char *is = json_string_value(json_object_get(at, key));
    if (depth && anchor && json_is_string(json_object_get(at, "$id"))) return NULL;
    if (anchor && !is) is = json_string_value(json_object_get(at, "$dynamicAnchor"));
    if (is && strncmp(is, name, n) == 0 && strcmp(is + n, is[n] == '#' && !anchor ? "#" : "") == 0) return at;
    json_object_foreach(at, k, v) {
      if (found || strcmp(k, "enum") == 0 || strcmp(k, "const") == 0) continue;
      found = find_named(s, v, key, name, depth + 1);
    }
  } else if (json_is_array(at)) {
    json_array_foreach(at, i, v) if (!found) found = find_named(s, v, key, name, depth + 1);
  }
  return found;
}

json_t *tni_schema_resolve(tni_schema *s, const json_t *ref) {
  const char *text = json_string_value(ref), *part = text;
  json_t *at = s->root;
  if (!text) {
    (void)tni_schema_fail(s, TN_E_INVALID, "$ref", "expected a string");
    return NULL;
  }
  if (*part != '#') {
    const char *hash = strchr(part, '#');
    char id[512];
    const size_t n = hash ? (size_t)(hash - part) : strlen(part);
    (void)snprintf(id, sizeof id, "%.*s", (int)(n < 500 ? n : 500), part);
    at = find_named(s, s->root, "$id", id, 0);
    part = hash ? hash : "#";
  }
  part++;
  if (at && *part && *part != '/') {
    at = find_named(s, at, "$anchor", part, 0);
    part = "";
  }
  at = at ? tni_json_at(at, part) : NULL;
  if (!at) (void)tni_schema_fail(s, TN_E_INVALID, "$ref", "'%.100s' is nowhere in this schema", text);
  return at;
}

/* True: the keys of what `key` holds are names, not keywords. */
static bool holds_names(const char *key) {
  static const char *const names[] = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(key, names[i]) == 0) return true;
  return false;
}

static bool holds_values(const char *key) {
  return strcmp(key, "enum") == 0 || strcmp(key, "const") == 0 || strcmp(key, "default") == 0 ||
         strcmp(key, "examples") == 0;
}

/* id: the "$id" around, NULL: the document's. names: keys of `at` are names. */
static void anchor_refs(json_t *at, const char *id, bool root, bool names) {
  const char *key;
  json_t *v;
  size_t i;
  json_array_foreach(at, i, v) anchor_refs(v, id, false, false);
  if (!json_is_object(at)) return;
  const char *own = names || root ? NULL : json_string_value(json_object_get(at, "$id"));
  if (own && *own != '#') id = own;
  const char *ref = names || !id ? NULL : json_string_value(json_object_get(at, "$ref"));
  if (ref && *ref == '#') {
    tni_str whole = {0};
    tni_str_add(&whole, id, strcspn(id, "#"));
    tni_str_add(&whole, ref, strlen(ref));
    if (whole.failed) tni_json_lacked();
    json_object_set_new(at, "$ref", json_stringn(whole.n ? whole.v : "", whole.n));
    tni_str_finish(&whole);
  }
  json_object_foreach(at, key, v) {
    if (names || !holds_values(key)) anchor_refs(v, id, false, !names && holds_names(key));
  }
}

void tni_schema_anchor_refs(tni_schema *s) { anchor_refs(s->root, NULL, true, false); }
