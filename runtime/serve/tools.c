/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that must come is refused where its schema is beyond grammars. One that may come is then any object, which is
 * looked at when it is there (speech.c).
 */
#include "runtime/serve/tools.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/form.h"

void srv_tools_look(srv_model *m) {
  char *all = NULL;
  size_t n = 0;
  const char *messages;
  FILE *out = tn_lm_has_template(m->lm) ? open_memstream(&all, &n) : NULL;
  for (unsigned i = 0; out && (messages = srv_shape_messages(i)); i++) {
    const tn_messages ask = {
        .h = TN_API_HDR(tn_messages), .flags = TN_MESSAGES_PROMPT, .messages = messages, .tools = srv_shape_tools};
    char *text = NULL;
    size_t n_text = 0;
    if (tn_lm_apply(m->lm, &ask, &text, &n_text, NULL, NULL, NULL) == TN_OK && text) fwrite(text, 1, n_text, out);
    tn_free(text);
  }
  const bool good = out && fclose(out) == 0;
  m->shape = good ? srv_shape_of(all, n) : SRV_SHAPE_JSON;
  m->may_think = good && all && n && (memmem(all, n, "<think>", 7) || memmem(all, n, "[THINK]", 7));
  free(all);
}

/* --- what a request asks ------------------------------------------------------------------------------------------ */

bool srv_tools_read(srv_ask *a, json_t **tools) {
  srv_refusal *r = &a->call->refusal;
  const json_t *choice = json_object_get(a->body, "tool_choice"), *tool;
  size_t i;
  *tools = NULL;
  if (!srv_list(r, a->body, "", "tools", tools)) return false;
  json_array_foreach(*tools, i, tool) {
    char path[64];
    const char *type = NULL, *name = NULL;
    json_t *function = NULL;
    snprintf(path, sizeof path, "tools[%zu].", i);
    if (!srv_text(r, tool, path, "type", &type) || !srv_object(r, tool, path, "function", &function)) return false;
    strcat(path, "function.");
    if (!srv_text(r, function, path, "name", &name)) return false;
    strcat(path, "name");
    if (!name) return srv_refuse(r, 400, "missing", path, "'%s' is missing", path);
  }
  if (!json_array_size(*tools)) *tools = NULL;
  if (!choice || json_is_null(choice)) return true;
  const char *word = json_string_value(choice);
  if (word && strcmp(word, "none") == 0) *tools = NULL;
  if (word && (strcmp(word, "none") == 0 || strcmp(word, "auto") == 0)) return true;
  if (srv_tools_must(a) && *tools) return true;
  if (srv_tools_must(a))
    return srv_refuse(r, 400, "invalid_value", "tool_choice",
                      "'tool_choice' asks for a call, and there are no 'tools'");
  return srv_refuse(r, 400, "invalid_value", "tool_choice", "'tool_choice' must be none, auto, required or an object");
}

bool srv_tools_must(const srv_ask *a) {
  const json_t *choice = json_object_get(a->body, "tool_choice");
  const char *word = json_string_value(choice);
  return json_is_object(choice) || (word && strcmp(word, "required") == 0);
}

/* *only NULL: any of the tools. */
static bool read_name(srv_ask *a, const char **only) {
  srv_refusal *r = &a->call->refusal;
  const json_t *choice = json_object_get(a->body, "tool_choice");
  json_t *function = NULL;
  *only = NULL;
  if (!json_is_object(choice)) return true;
  if (!srv_object(r, choice, "tool_choice.", "function", &function) ||
      !srv_text(r, function, "tool_choice.function.", "name", only))
    return false;
  return *only || srv_refuse(r, 400, "missing", "tool_choice.function.name", "'tool_choice.function.name' is missing");
}

/* --- its grammar -------------------------------------------------------------------------------------------------- */

/* What is beyond grammars, and where; TN_OK: nothing. */
static tn_status check_schema(const srv_ask *a, size_t i, tn_error *err) {
  const json_t *parameters = json_object_get(json_object_get(json_array_get(a->tools, i), "function"), "parameters");
  char *text = json_is_object(parameters) ? json_dumps(parameters, JSON_COMPACT) : NULL;
  tn_grammar *g = NULL;
  const tn_status st =
      text ? tn_grammar_create(a->model->lm, TN_GRAMMAR_JSON_SCHEMA, text, strlen(text), &g, err) : TN_OK;
  tn_grammar_destroy(g);
  free(text);
  return st;
}

/* False, and nothing said where `quiet`: it cannot be. */
static bool take_form(srv_ask *a, const srv_shape_wish *w, bool quiet) {
  srv_refusal *r = &a->call->refusal, aside = {0};
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  bool good = out && srv_shape_write(out, w);
  const bool named = good;
  good = out && fclose(out) == 0 && good;
  if (good)
    good = srv_form_take(a, TN_GRAMMAR_GBNF, text, n, quiet ? &aside : r, "tool_choice");
  else if (!quiet && out && !named)
    srv_refuse(r, 400, "invalid_value", "tool_choice", "'tool_choice' names no tool of 'tools'");
  else if (!quiet)
    srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  free(text);
  return good;
}

/* Schemas that no grammar has are refused with their path (must), or left to a look at the call. */
static bool check_schemas(srv_ask *a, const srv_shape_wish *w, bool *any) {
  for (size_t i = 0; i < json_array_size(a->tools); i++) {
    const char *name =
        json_string_value(json_object_get(json_object_get(json_array_get(a->tools, i), "function"), "name"));
    char path[64];
    tn_long_error err;
    tn_long_error_init(&err);
    if (w->only && strcmp(w->only, name) != 0) continue;
    const tn_status st = check_schema(a, i, &err.error);
    any[i] = st != TN_OK;
    snprintf(path, sizeof path, "tools[%zu].function.parameters", i);
    if (any[i] && w->must) return srv_refuse_error(&a->call->refusal, st, path, &err.error);
  }
  return true;
}

bool srv_tools_form(srv_ask *a) {
  srv_shape_wish w = {.shape = a->model->shape,
                      .tools = a->tools,
                      .must = srv_tools_must(a),
                      .one = a->one_call,
                      .thinks = a->thinks,
                      .may_think = a->model->may_think};
  if (!a->tools || (a->form && !w.must)) return true;
  if (!read_name(a, &w.only)) return false;
  if (take_form(a, &w, true)) return true;
  bool *any = calloc(json_array_size(a->tools), sizeof *any);
  if (!any) return srv_refuse(&a->call->refusal, 503, "no_memory", NULL, "out of memory");
  bool good = check_schemas(a, &w, any);
  w.any = any;
  if (good) good = take_form(a, &w, !w.must) || !w.must;
  free(any);
  return good;
}
