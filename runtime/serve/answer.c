/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer, whole or as events.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/ask.h"
#include "runtime/serve/form.h"

/* What can never run is not asked for again. */
static bool fits(srv_ask *a) {
  const serve_opts *o = a->call->server->o;
  const uint64_t texts = (uint64_t)a->n * a->n_prompts, most = (uint64_t)o->slots + o->waiting;
  if (texts <= most) return true;
  return srv_refuse(&a->call->refusal, 400, "limit_exceeded", "n",
                    "%u prompts with 'n' %u are %llu texts: this server takes %llu at once (--slots %u, --queue %u)",
                    a->n_prompts, a->n, (unsigned long long)texts, (unsigned long long)most, o->slots, o->waiting);
}

static bool start(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  if (!fits(a)) return false;
  if (!srv_exchange_init(&a->x, a->model->slots, a->n * a->n_prompts))
    return srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  if (a->chat && !(a->speech = calloc(a->x.n, sizeof *a->speech)))
    return srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  for (uint32_t i = 0; i < a->x.n; i++) {
    if (a->chat) srv_speech_init(&a->speech[i].s, a->tools, a->one_call, a->thinks);
    slots_job *job = &a->x.choice[i].job;
    job->ids = a->prompt[i / a->n].v;
    job->n = a->prompt[i / a->n].n;
    job->params = a->params;
    job->params.seed += i % a->n;
    job->params.max_tokens = (uint32_t)a->max_tokens;
    if (!srv_more_start(a, &a->x.choice[i])) return srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  }
  if (!srv_exchange_start(&a->x))
    return srv_refuse(r, 429, "queue_full", NULL, "there is no room for %u more: %u texts may wait (--queue)", a->x.n,
                      a->call->server->o->waiting);
  return true;
}

static const char *finish_reason(const srv_ask *a, uint32_t i) {
  const uint32_t why = a->x.choice[i].job.result.reason;
  if (a->chat && a->speech[i].s.calls) return "tool_calls";
  return why == TN_STOP_LENGTH || why == TN_STOP_CONTEXT ? "length" : "stop";
}

/* Once, when all has ended. */
static void count(srv_ask *a) {
  srv_metrics *m = &a->call->server->metrics;
  if (a->counted) return;
  a->counted = true;
  for (uint32_t i = 0; i < a->x.n; i++) {
    const slots_job *job = &a->x.choice[i].job;
    atomic_fetch_add(&m->prompt_tokens, job->n - job->kept);
    atomic_fetch_add(&m->kept_tokens, job->kept);
    atomic_fetch_add(&m->new_tokens, job->result.new_tokens);
  }
  if (a->x.first_ns) srv_time_add(&m->first_token, a->x.first_ns - a->call->began_ns);
  srv_time_add(&m->whole, tni_now_ns() - a->call->began_ns);
}

/* What OpenAI's API calls predictions: guesses that came, and those that did not. */
static void put_guesses(const srv_ask *a, json_t *usage) {
  const serve_opts *o = a->call->server->o;
  json_int_t tried = 0, came = 0;
  if (!o->lookup && !o->draft) return;
  for (uint32_t i = 0; i < a->x.n; i++) {
    tried += (json_int_t)a->x.choice[i].job.guesses.tried;
    came += (json_int_t)a->x.choice[i].job.guesses.came;
  }
  json_object_set_new(usage, "completion_tokens_details", json_pack("{s:I, s:I}", "accepted_prediction_tokens", came,
                                                                    "rejected_prediction_tokens", tried - came));
}

static json_t *usage_json(const srv_ask *a) {
  size_t prompt = 0, kept = 0, made = 0;
  for (uint32_t i = 0; i < a->n_prompts; i++) prompt += a->prompt[i].n;
  for (uint32_t i = 0; i < a->x.n; i++) {
    made += a->x.choice[i].job.result.new_tokens;
    if (i % a->n == 0) kept += a->x.choice[i].job.kept;
  }
  json_t *j = json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)prompt, "completion_tokens", (json_int_t)made,
                   "total_tokens", (json_int_t)(prompt + made), "prompt_tokens_details", "cached_tokens", (json_int_t)kept);
  put_guesses(a, j);
  return j;
}

/* Of this server alone: what the first choice took. */
static json_t *timings_json(const srv_ask *a) {
  const slots_job *job = &a->x.choice[0].job;
  const double pre = (double)job->result.prefill_ns / 1e6, dec = (double)job->result.decode_ns / 1e6;
  const uint32_t steps = job->result.new_tokens ? job->result.new_tokens - 1 : 0;
  return json_pack("{s:I, s:f, s:I, s:f, s:f}", "prompt_tokens", (json_int_t)(job->n - job->kept), "prompt_ms", pre,
                   "tokens", (json_int_t)job->result.new_tokens, "decode_ms", dec, "tokens_per_s",
                   dec > 0 ? steps / dec * 1e3 : 0);
}

static json_t *frame(const srv_ask *a, const char *chat, const char *text, json_t *choices) {
  return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", a->id, "object", a->chat ? chat : text, "created",
                   (json_int_t)a->created, "model", a->model->is->name, "system_fingerprint", tn_version(), "choices",
                   choices);
}

/* Text of the model: whole letters, but for what a limit cut. */
static json_t *text_json(const char *text, size_t n) {
  json_t *j = NULL;
  for (size_t cut = 0; !j && cut < 4 && cut <= n; cut++) j = json_stringn(text ? text : "", n - cut);
  return j ? j : json_string("");
}

static json_t *message_json(srv_speech *s) {
  json_t *j = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                        s->content.n || !s->calls ? text_json(s->content.v, s->content.n) : json_null(), "refusal");
  if (s->thoughts.n) json_object_set_new(j, "reasoning_content", text_json(s->thoughts.v, s->thoughts.n));
  if (s->calls) json_object_set(j, "tool_calls", s->calls);
  return j;
}

static json_t *whole_choice(srv_ask *a, uint32_t i) {
  const srv_choice *c = &a->x.choice[i];
  if (a->chat) srv_speech_push(&a->speech[i].s, c->text, c->n, true);
  json_t *log = srv_exchange_log(&a->x, i, a->model->lm, a->chat);
  return json_pack("{s:i, s:o, s:o, s:s}", "index", (int)i, a->chat ? "message" : "text",
                   a->chat ? message_json(&a->speech[i].s) : text_json(c->text, c->n), "logprobs", log ? log : json_null(),
                   "finish_reason", finish_reason(a, i));
}

/* False: some choice failed, and the refusal says why. */
static bool check_ends(srv_ask *a) {
  for (uint32_t i = 0; i < a->x.n; i++) {
    const srv_choice *c = &a->x.choice[i];
    if (c->ended && c->st != TN_OK) return srv_refuse_error(&a->call->refusal, c->st, NULL, &c->err.error);
  }
  for (uint32_t i = 0; a->speech && i < a->x.n; i++) a->x.no_memory = a->x.no_memory || a->speech[i].s.no_memory;
  if (a->x.no_memory) return srv_refuse(&a->call->refusal, 503, "no_memory", NULL, "out of memory");
  return true;
}

enum { LOOK_MS = 100, SILENT_LOOKS = 100 };

static void answer_whole(srv_ask *a) {
  char *text;
  size_t n;
  bool ended;
  while (!a->call->gone && !srv_exchange_ended(&a->x)) {
    const bool news = srv_exchange_wait(&a->x, LOOK_MS);
    for (uint32_t i = 0; news && i < a->x.n; i++) {
      (void)srv_exchange_take(&a->x, i, &text, &n, &ended);
      free(text);
    }
    a->call->gone = srv_gone(a->call);
  }
  if (a->call->gone) srv_exchange_cancel(&a->x);
  if (!a->call->gone && check_ends(a)) {
    json_t *choices = json_array();
    for (uint32_t i = 0; i < a->x.n; i++) json_array_append_new(choices, whole_choice(a, i));
    json_t *j = frame(a, "chat.completion", "text_completion", choices);
    json_object_set_new(j, "usage", usage_json(a));
    json_object_set_new(j, "timings", timings_json(a));
    count(a);
    srv_send_json(a->call, 200, j);
  }
  srv_ask_destroy(a);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void put_event(FILE *out, json_t *j) {
  char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  if (text) fprintf(out, "data: %s\n\n", text);
  free(text);
  json_decref(j);
}

static void put_piece(srv_ask *a, FILE *out, uint32_t i, json_t *delta, const char *finish) {
  json_t *log = srv_exchange_log(&a->x, i, a->model->lm, a->chat);
  json_t *choice = json_pack("{s:i, s:o, s:o, s:o}", "index", (int)i, a->chat ? "delta" : "text", delta, "logprobs",
                             log ? log : json_null(), "finish_reason", finish ? json_string(finish) : json_null());
  json_t *j = frame(a, "chat.completion.chunk", "text_completion", json_pack("[o]", choice));
  if (a->usage) json_object_set_new(j, "usage", json_null());
  put_event(out, j);
}

/* The calls that are new, with their places among all. */
static json_t *new_calls(srv_said *said) {
  json_t *list = json_array();
  for (; said->calls < json_array_size(said->s.calls); said->calls++) {
    json_t *call = json_copy(json_array_get(said->s.calls, said->calls));
    json_object_set_new(call, "index", json_integer((json_int_t)said->calls));
    json_array_append_new(list, call);
  }
  return list;
}

static void put_speech(srv_ask *a, FILE *out, uint32_t i) {
  srv_said *said = &a->speech[i];
  srv_speech *s = &said->s;
  if (s->thoughts.n) put_piece(a, out, i, json_pack("{s:o}", "reasoning_content", text_json(s->thoughts.v, s->thoughts.n)), NULL);
  if (s->content.n) put_piece(a, out, i, json_pack("{s:o}", "content", text_json(s->content.v, s->content.n)), NULL);
  if (said->calls < json_array_size(s->calls)) put_piece(a, out, i, json_pack("{s:o}", "tool_calls", new_calls(said)), NULL);
  s->thoughts.n = s->content.n = 0;
}

static void put_new(srv_ask *a, FILE *out, uint32_t i) {
  char *text;
  size_t n;
  bool ended;
  if (!srv_exchange_take(&a->x, i, &text, &n, &ended)) return;
  if (a->chat) {
    srv_speech_push(&a->speech[i].s, text ? text : "", n, ended);
    put_speech(a, out, i);
  } else if (text) {
    put_piece(a, out, i, text_json(text, n), NULL);
  }
  free(text);
  if (ended && a->x.choice[i].st == TN_OK)
    put_piece(a, out, i, a->chat ? json_object() : json_string(""), finish_reason(a, i));
}

static void put_end(srv_ask *a, FILE *out) {
  if (!check_ends(a)) {
    put_event(out, srv_refusal_json(&a->call->refusal));
  } else if (a->usage) {
    json_t *j = frame(a, "chat.completion.chunk", "text_completion", json_array());
    json_object_set_new(j, "usage", usage_json(a));
    json_object_set_new(j, "timings", timings_json(a));
    put_event(out, j);
  }
  fputs("data: [DONE]\n\n", out);
  count(a);
}

static bool more_events(void *user, FILE *out) {
  srv_ask *a = user;
  if (!a->roles) {
    a->roles = 1;
    for (uint32_t i = 0; a->chat && i < a->x.n; i++)
      put_piece(a, out, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
    if (a->chat) return true;
  }
  int silent = 0;
  while (!srv_exchange_wait(&a->x, LOOK_MS) && !srv_gone(a->call) && ++silent < SILENT_LOOKS) {
  }
  if (silent >= SILENT_LOOKS) fputs(": still there\n\n", out); /* a comment: keeps proxies from giving up */
  if (srv_gone(a->call)) return false;
  for (uint32_t i = 0; i < a->x.n; i++) put_new(a, out, i);
  if (!srv_exchange_ended(&a->x)) return true;
  put_end(a, out);
  return false;
}

static void finish_events(void *user) { srv_ask_destroy(user); }

void srv_ask_answer(srv_ask *a) {
  if (!start(a)) {
    srv_ask_destroy(a);
  } else if (a->stream) {
    srv_send_stream(a->call, more_events, finish_events, a);
  } else {
    answer_whole(a);
  }
}
