/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/messages.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/base.h"

/* Parts of text, one after the other. NULL: refused. */
static json_t *joined_parts(srv_refusal *r, const json_t *parts, const char *prefix) {
  char *all = NULL, path[96];
  size_t n = 0;
  FILE *out = open_memstream(&all, &n);
  if (!out) return srv_refuse(r, 503, "no_memory", NULL, "out of memory"), NULL;
  bool good = true;
  for (size_t i = 0; good && i < json_array_size(parts); i++) {
    const json_t *part = json_array_get(parts, i);
    const char *type = NULL, *text = NULL;
    snprintf(path, sizeof path, "%scontent[%zu].", prefix, i);
    if (!json_is_object(part)) {
      path[strlen(path) - 1] = 0;
      good = srv_refuse(r, 400, "invalid_type", path, "'%s' must be an object", path);
    }
    good = good && srv_text(r, part, path, "type", &type) && srv_text(r, part, path, "text", &text);
    if (good && (!type || strcmp(type, "text") != 0)) {
      strcat(path, "type");
      good = srv_refuse(r, 400, "unsupported", path, "'%s' is '%.40s': this model takes parts of type 'text' only", path,
                        type ? type : "");
    }
    if (good && text) fputs(text, out);
  }
  good = fclose(out) == 0 && good;
  json_t *j = good ? json_stringn(all, n) : NULL;
  free(all);
  return j;
}

static json_t *content_of(srv_refusal *r, const json_t *m, const char *prefix) {
  json_t *content = json_object_get(m, "content");
  char path[64];
  if (json_is_string(content)) return json_incref(content);
  if (json_is_array(content)) return joined_parts(r, content, prefix);
  const bool calls = json_array_size(json_object_get(m, "tool_calls")) > 0;
  if ((!content || json_is_null(content)) && calls) return json_string("");
  snprintf(path, sizeof path, "%scontent", prefix);
  srv_refuse(r, 400, content ? "invalid_type" : "missing", path, "'%s' must be a string or a list of parts", path);
  return NULL;
}

/* Templates write arguments as JSON: as a text they would be quoted twice. */
static bool open_arguments(srv_refusal *r, json_t *m, const char *prefix) {
  json_t *calls = NULL, *call;
  size_t i;
  char path[96];
  if (!srv_list(r, m, prefix, "tool_calls", &calls)) return false;
  json_array_foreach(calls, i, call) {
    json_t *function = NULL;
    const char *text = NULL, *name = NULL;
    snprintf(path, sizeof path, "%stool_calls[%zu].", prefix, i);
    if (!srv_object(r, call, path, "function", &function)) return false;
    strcat(path, "function.");
    if (!srv_text(r, function, path, "name", &name)) return false;
    if (!name) {
      strcat(path, "name");
      return srv_refuse(r, 400, "missing", path, "'%s' is missing", path);
    }
    json_t *arguments = json_object_get(function, "arguments");
    if (!json_is_string(arguments)) continue;
    text = json_string_value(arguments);
    json_t *open = json_loads(*text ? text : "{}", 0, NULL);
    if (json_is_object(open))
      json_object_set_new(function, "arguments", open);
    else
      json_decref(open);
  }
  return true;
}

/* Templates of harmony call them otherwise, and refuse them beside calls and text. */
static void name_thoughts(json_t *m) {
  json_t *thoughts = json_object_get(m, "reasoning_content");
  const bool said = json_string_length(json_object_get(m, "content")) > 0, calls = json_array_size(json_object_get(m, "tool_calls")) > 0;
  if (json_is_string(thoughts) && !json_object_get(m, "thinking") && !(said && calls)) json_object_set(m, "thinking", thoughts);
}

static json_t *one_message(srv_refusal *r, const json_t *m, size_t i) {
  static const char roles[] = " system developer user assistant tool function ";
  char prefix[48], word[32];
  const char *role = NULL;
  snprintf(prefix, sizeof prefix, "messages[%zu]", i);
  if (!json_is_object(m)) return srv_refuse(r, 400, "invalid_type", prefix, "'%s' must be an object", prefix), NULL;
  strcat(prefix, ".");
  if (!srv_text(r, m, prefix, "role", &role)) return NULL;
  snprintf(word, sizeof word, " %.20s ", role ? role : "");
  if (!role || !*role || !strstr(roles, word)) {
    strcat(prefix, "role");
    srv_refuse(r, 400, role ? "invalid_value" : "missing", prefix,
               "'%s' must be system, developer, user, assistant or tool", prefix);
    return NULL;
  }
  json_t *content = content_of(r, m, prefix), *copy = content ? json_deep_copy(m) : NULL;
  if (content && !copy) srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  if (copy) json_object_set(copy, "content", content);
  json_decref(content);
  if (copy) name_thoughts(copy);
  if (copy && strcmp(role, "developer") == 0) json_object_set_new(copy, "role", json_string("system"));
  if (copy && !open_arguments(r, copy, prefix)) {
    json_decref(copy);
    copy = NULL;
  }
  return copy;
}

json_t *srv_messages(srv_refusal *r, const json_t *list) {
  json_t *out = json_array();
  for (size_t i = 0; i < json_array_size(list); i++) {
    json_t *m = one_message(r, json_array_get(list, i), i);
    if (!m) {
      json_decref(out);
      return NULL;
    }
    json_array_append_new(out, m);
  }
  return out;
}
