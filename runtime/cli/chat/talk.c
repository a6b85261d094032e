/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/chat/talk.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/cli/chat/hear.h"
#include "runtime/cli/shell/shell.h"

tn_status talk_error(const talk *t, tn_status st, const char *where, const char *fmt, ...) {
  va_list ap;
  tni_error_begin(t->with->err);
  va_start(ap, fmt);
  (void)tni_vfail(t->with->err, st, where, fmt, ap);
  va_end(ap);
  return st;
}

tn_status talk_start(talk *t, const cli_chat *with) {
  *t = (talk){.with = with, .lm = with->lm, .p = with->params, .messages = json_array()};
  if (with->system) talk_system(t, with->system);
  tn_status st = hear_marks(t->lm, with->err);
  if (st == TN_OK) st = tn_chat_create(t->lm, &t->chat, with->err);
  return st == TN_OK ? tn_chat_draft(t->chat, with->draft, with->draft_tokens, with->err) : st;
}

void talk_finish(talk *t) {
  tn_chat_destroy(t->chat);
  json_decref(t->messages);
}

static void add_message(talk *t, const char *role, json_t *content) {
  json_array_append_new(t->messages, json_pack("{s:s, s:o}", "role", role, "content", content));
}

static bool is_role(const json_t *message, const char *role) {
  const char *r = json_string_value(json_object_get(message, "role"));
  return r && strcmp(r, role) == 0;
}

/* The last message. NULL: there is none. */
static json_t *last_message(const talk *t) {
  const size_t n = json_array_size(t->messages);
  return n ? json_array_get(t->messages, n - 1) : NULL;
}

static void drop_last(talk *t) { json_array_remove(t->messages, json_array_size(t->messages) - 1); }

void talk_system(talk *t, const char *text) {
  if (is_role(json_array_get(t->messages, 0), "system")) json_array_remove(t->messages, 0);
  if (text) json_array_insert_new(t->messages, 0, json_pack("{s:s, s:s}", "role", "system", "content", text));
}

/* --- an answer --- */

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  (void)id;
  hear(user, text, n, false);
  return !cli_streams_flush();
}

/* A text that ends inside a letter is kept up to it. */
static json_t *text_json(const char *text, size_t n) {
  json_t *j = NULL;
  for (size_t cut = 0; !j && cut < 4 && cut <= n; cut++) j = json_stringn(text, n - cut);
  return j ? j : json_string("");
}

/* Runs ids through the model, printing. Whatever came is in h, also after Ctrl-C. */
static tn_status generate(talk *t, const int32_t *ids, size_t n, hearing *h) {
  t->last = (tn_gen_result){.h = {sizeof t->last, 1, 0}};
  tn_status st = tn_chat_rewind(t->chat, ids, n, &t->kept, t->with->err);
  cli_cancel_chat(t->chat);
  if (st == TN_OK)
    st = tn_generate_ids(t->chat, ids + t->kept, n - t->kept, &t->p, on_token, h, &t->last, t->with->err);
  cli_cancel_chat(NULL);
  hear(h, "", 0, true);
  return st;
}

static void add_answer(talk *t, const hearing *h) {
  const hear_text *said = hear_said(h);
  add_message(t, "assistant", text_json(said->v, said->n));
  if (!h->plain && h->thoughts.n) json_object_set_new(last_message(t), "thinking", text_json(h->thoughts.v, h->thoughts.n));
}

static tn_status answer_to(talk *t, hearing *h) {
  char *messages = json_dumps(t->messages, JSON_COMPACT);
  size_t n = 0;
  int32_t *ids = NULL;
  const tn_messages m = {.h = TN_API_HDR(tn_messages), .flags = TN_MESSAGES_PROMPT, .messages = messages};
  if (!messages) return talk_error(t, TN_E_NO_MEMORY, "chat", "out of memory");
  tn_status st = tn_lm_apply(t->lm, &m, NULL, NULL, &ids, &n, t->with->err);
  if (st == TN_OK) st = generate(t, ids, n, h);
  if (hear_said(h)->n) putchar('\n');
  (void)cli_streams_flush();
  if (st == TN_OK || (st == TN_E_CANCELLED && h->all.n)) add_answer(t, h);
  if (st == TN_OK) {
    t->answers++;
    t->new_tokens += t->last.new_tokens;
    t->decode_ns += t->last.decode_ns;
  }
  free(messages);
  tn_free(ids);
  return st;
}

static tn_status answer(talk *t) {
  hearing h;
  const tn_status st = hear_begin(&h, t->with) ? answer_to(t, &h) : talk_error(t, TN_E_NO_MEMORY, "chat", "out of memory");
  hear_finish(&h);
  return st;
}

/* A line that got no answer is not part of the conversation: many templates refuse two of the user in a row. */
tn_status talk_say(talk *t, const char *text) {
  json_t *content = json_string(text);
  if (!content) return talk_error(t, TN_E_INVALID, "chat", "what was typed is not valid UTF-8");
  add_message(t, "user", content);
  const tn_status st = answer(t);
  if (!is_role(last_message(t), "assistant")) drop_last(t);
  return st;
}

tn_status talk_retry(talk *t) {
  json_t *old = NULL;
  if (is_role(last_message(t), "assistant")) {
    old = json_incref(last_message(t));
    drop_last(t);
  }
  if (!is_role(last_message(t), "user")) {
    if (old) json_array_append_new(t->messages, old);
    return talk_error(t, TN_E_INVALID, "chat", "nothing was said yet");
  }
  t->p.seed++;
  const tn_status st = answer(t);
  if (old && !is_role(last_message(t), "assistant")) json_array_append(t->messages, old);
  json_decref(old);
  return st;
}

bool talk_undo(talk *t) {
  bool some = false;
  while (is_role(last_message(t), "assistant")) drop_last(t);
  if ((some = is_role(last_message(t), "user"))) drop_last(t);
  return some;
}

/* --- files --- */

/* 0, or an errno. */
static int write_line(const char *path, const char *text) {
  cli_replaced r;
  const int why = cli_replace_begin(&r, path);
  if (why) return why;
  fprintf(r.f, "%s\n", text);
  return cli_replace_end(&r, 0);
}

tn_status talk_save(talk *t, const char *path) {
  json_t *all = json_pack("{s:O}", "messages", t->messages);
  char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
  const int why = text ? write_line(path, text) : ENOMEM;
  free(text);
  json_decref(all);
  if (!why) return TN_OK;
  return talk_error(t, tni_errno_status(why, TN_E_IO), path, "'%s' cannot be written: %s", path, strerror(why));
}

static char *state_path(const char *path) {
  const size_t n = strlen(path) + sizeof ".state";
  char *all = malloc(n);
  if (all) snprintf(all, n, "%s.state", path);
  return all;
}

tn_status talk_keep(talk *t, const char *path) {
  tn_status st = talk_save(t, path);
  char *state = st == TN_OK ? state_path(path) : NULL;
  if (st == TN_OK) st = state ? tn_chat_save(t->chat, state, t->with->err) : talk_error(t, TN_E_NO_MEMORY, path, "out of memory");
  free(state);
  return st;
}

static void load_state(talk *t, const char *path) {
  tn_error why;
  tn_error_init(&why);
  char *state = state_path(path);
  const tn_status st = state ? tn_chat_load(t->chat, state, &why) : TN_E_NO_MEMORY;
  if (st != TN_OK && st != TN_E_UNAVAILABLE) t->with->note("all is computed again: %s", why.message);
  free(state);
}

tn_status talk_load(talk *t, const char *path) {
  tni_file f;
  tn_status st = tni_file_read(path, &f, t->with->err);
  if (st != TN_OK) return st;
  json_t *all = json_loadb(f.bytes ? (const char *)f.data : "", f.bytes, 0, NULL),
         *messages = json_object_get(all, "messages");
  bool good = json_is_array(messages);
  for (size_t i = 0; good && i < json_array_size(messages); i++)
    good = json_is_string(json_object_get(json_array_get(messages, i), "role"));
  if (good) {
    json_decref(t->messages);
    t->messages = json_incref(messages);
    load_state(t, path);
  } else {
    st = talk_error(t, TN_E_INVALID, path, "'%s' is not {\"messages\": [{\"role\": ...}, ...]}", path);
  }
  json_decref(all);
  tni_file_unmap(&f);
  return st;
}

static double rate(uint64_t n, int64_t ns) { return ns > 0 ? (double)n * 1e9 / (double)ns : 0; }

void talk_stats(const talk *t, bool all) {
  const tn_gen_result *r = &t->last;
  t->with->note("%u tokens, %.1f tokens/s; prompt %u, %zu kept; context %zu of %lld", r->new_tokens,
                rate(r->new_tokens ? r->new_tokens - 1 : 0, r->decode_ns), r->prompt_tokens, t->kept,
                tn_chat_length(t->chat), (long long)tn_lm_context(t->lm));
  if (all)
    t->with->note("%llu answers, %llu tokens, %.1f tokens/s", (unsigned long long)t->answers,
                  (unsigned long long)t->new_tokens, rate(t->new_tokens - t->answers, t->decode_ns));
}
