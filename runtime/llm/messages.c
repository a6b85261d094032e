/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages to text and ids (tenon/lm.h), and conversations that go back to what they have in common with them.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>

#include "runtime/llm/jinja/jinja.h"
#include "runtime/llm/lm.h"
#include "runtime/llm/text/text.h"

int tn_lm_has_template(const tn_lm *lm) { return lm && lm->templates.n > 0; }

/* text becomes the variable `name`; NULL: none of it. */
static tn_status take_json(json_t *vars, const char *name, const char *text, bool list, tn_error *err) {
  json_t *j = NULL;
  if (!text) return TN_OK;
  const tn_status st = tni_json_parse(text, strlen(text), name, &j, err);
  if (st != TN_OK) return st;
  if (list ? !json_is_array(j) : !json_is_object(j)) {
    json_decref(j);
    return tni_fail(err, TN_E_INVALID, name, "%s: not a JSON %s", name, list ? "list" : "object");
  }
  if (list)
    json_object_set_new(vars, name, j);
  else if (json_object_update(vars, j) != 0)
    tni_json_lacked();
  if (!list) json_decref(j);
  return TN_OK;
}

static tn_status check_messages(const json_t *list, tn_error *err) {
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!json_is_string(json_object_get(json_array_get(list, i), "role")))
      return tni_fail(err, TN_E_INVALID, "messages", "messages[%zu]: not an object with a \"role\"", i);
  return TN_OK;
}

/* The variables that transformers gives: tools and documents are there, none where nobody gives them. */
static tn_status variables(const tn_messages *m, json_t **out, tn_error *err) {
  tni_json_begin();
  json_t *vars =
      json_pack("{s:n, s:n, s:b}", "tools", "documents", "add_generation_prompt", (m->flags & TN_MESSAGES_PROMPT) != 0);
  tn_status st = vars ? TN_OK : tni_fail_memory(err, "messages");
  if (st == TN_OK) st = take_json(vars, "variables", m->variables, false, err);
  if (st == TN_OK) st = take_json(vars, "tools", m->tools, true, err);
  if (st == TN_OK) st = take_json(vars, "messages", m->messages, true, err);
  if (st == TN_OK) st = check_messages(json_object_get(vars, "messages"), err);
  if (st == TN_OK && tni_json_short()) st = tni_fail_memory(err, "messages");
  if (st != TN_OK) {
    json_decref(vars);
    return st;
  }
  *out = vars;
  return TN_OK;
}

static tn_status render(const tn_lm *lm, const tn_messages *m, tni_jinja_text *out, tn_error *err) {
  const tni_templates *all = &lm->templates;
  const tni_template *t = tni_templates_get(all, m->name, m->tools != NULL);
  if (!all->n)
    return tni_fail(err, TN_E_UNAVAILABLE, lm->folder.dir,
                    "'%s' has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)",
                    lm->folder.dir);
  if (!t)
    return tni_fail(err, TN_E_UNAVAILABLE, all->file, "%s has no chat template '%s'", all->file,
                    m->name ? m->name : "default");
  tni_jinja *jinja = NULL;
  json_t *vars = NULL;
  const tni_jinja_opts o = {.now = m->now};
  tn_status st = variables(m, &vars, err);
  if (st == TN_OK) st = tni_jinja_parse(t->text, t->n, all->file, &jinja, err);
  if (st == TN_OK) st = tni_jinja_render(jinja, vars, all->special, &o, out, err);
  tni_jinja_destroy(jinja);
  json_decref(vars);
  return st;
}

tn_status tn_lm_apply(const tn_lm *lm, const tn_messages *m, char **text, size_t *n_text, int32_t **ids, size_t *n_ids,
                      tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  TNI_NOT_NULL(m);
  tn_messages mine;
  tni_jinja_text t = {0};
  tni_ids made = {0};
  tn_status st = tni_take(&mine, sizeof mine, m, "tn_messages", err);
  if (st == TN_OK) st = tni_known_bits(mine.flags, TN_MESSAGES_PROMPT, "tn_messages.flags", err);
  if (st == TN_OK) st = tni_known_bits(mine.reserved, 0, "tn_messages.reserved", err);
  if (st == TN_OK && !mine.messages) st = tni_fail(err, TN_E_INVALID, "messages", "NULL");
  if (st == TN_OK && ((text && !n_text) || (ids && !n_ids))) st = tni_fail(err, TN_E_INVALID, "tn_lm_apply", "NULL");
  if (st == TN_OK) st = render(lm, &mine, &t, err);
  if (st == TN_OK && ids && !lm->tok) st = tni_fail(err, TN_E_UNAVAILABLE, lm->tok_path, "there is no tokenizer.json");
  if (st == TN_OK && ids) st = tni_tokenizer_encode_marked(lm->tok, t.v, t.mine, t.n, &made, err);
  if (st == TN_OK && ids) {
    *ids = made.v;
    *n_ids = made.n;
  }
  if (st == TN_OK && text) {
    *text = t.v;
    *n_text = t.n;
    t.v = NULL;
  }
  tni_jinja_text_finish(&t);
  return st;
}

size_t tn_chat_length(const tn_chat *c) { return c ? c->n : 0; }

tn_status tn_chat_rewind(tn_chat *c, const int32_t *ids, size_t n, size_t *kept, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  TNI_NOT_NULL(kept);
  if (n && !ids) return tni_fail(err, TN_E_INVALID, "ids", "NULL");
  size_t same = 0;
  while (same < c->n && same + 1 < n && c->history[same] == ids[same]) same++;
  const bool back = same < c->fed;
  if (c->source || (back && (!c->kept || tn_session_truncate(c->session, (int64_t)same, NULL) != TN_OK))) same = 0;
  if (same == 0) {
    tn_chat_reset(c);
  } else {
    c->n = same;
    if (back) c->fed = same;
  }
  *kept = same;
  return TN_OK;
}
