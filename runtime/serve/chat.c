/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/chat/completions: messages through the model's template.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/ask.h"
#include "runtime/serve/form.h"
#include "runtime/serve/messages.h"
#include "runtime/serve/tools.h"

/* Some templates open the thoughts themselves. */
static bool ends_thinking(const char *text, size_t n) {
  static const char tag[] = "<think>";
  while (n && strchr(" \t\r\n", text[n - 1])) n--;
  return n >= sizeof tag - 1 && memcmp(text + n - (sizeof tag - 1), tag, sizeof tag - 1) == 0;
}

static bool apply_template(srv_ask *a, const json_t *messages, const json_t *variables) {
  tn_long_error err;
  int32_t *ids = NULL;
  char *text = NULL;
  size_t n = 0, n_text = 0;
  tn_long_error_init(&err);
  const json_t *tools = a->tools;
  char *m = json_dumps(messages, JSON_COMPACT), *t = tools ? json_dumps(tools, JSON_COMPACT) : NULL,
       *v = variables ? json_dumps(variables, JSON_COMPACT) : NULL;
  const tn_messages ask = {
      .h = TN_API_HDR(tn_messages), .flags = TN_MESSAGES_PROMPT, .messages = m, .tools = t, .variables = v};
  tn_status st = m && (t || !tools) && (v || !variables) ? TN_OK : tni_fail_memory(&err.error, "messages");
  if (st == TN_OK) st = tn_lm_apply(a->model->lm, &ask, &text, &n_text, &ids, &n, &err.error);
  free(m);
  free(t);
  free(v);
  a->thinks = st == TN_OK && ends_thinking(text, n_text);
  tn_free(text);
  if (st == TN_OK) return srv_ask_prompt(a, ids, n, "messages");
  return srv_refuse_error(&a->call->refusal, st, "messages", &err.error);
}

static bool read_chat(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  json_t *list = NULL, *variables = NULL;
  bool parallel = true;
  if (!srv_ask_read(a) || !srv_list(r, a->body, "", "messages", &list) || !srv_tools_read(a, &a->tools) ||
      !srv_flag(r, a->body, "", "parallel_tool_calls", &parallel) || (!srv_tools_must(a) && !srv_form_read(a)) ||
      !srv_object(r, a->body, "", "chat_template_kwargs", &variables))
    return false;
  if (!tn_lm_has_template(a->model->lm))
    return srv_refuse(r, 400, "unsupported", "model", "'%s' has no chat template: /v1/completions completes text",
                      a->model->is->name);
  if (!json_array_size(list)) return srv_refuse(r, 400, "missing", "messages", "'messages' must be a list of messages");
  a->one_call = !parallel;
  json_t *messages = srv_messages(r, list);
  const bool good = messages && apply_template(a, messages, variables) && srv_tools_form(a);
  json_decref(messages);
  return good;
}

void srv_chat(srv_call *c) {
  json_t *body = srv_body(c);
  srv_ask *a = body ? srv_ask_create(c, body, true) : NULL;
  if (!a) return;
  if (read_chat(a))
    srv_ask_answer(a);
  else
    srv_ask_destroy(a);
}
