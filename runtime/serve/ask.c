/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "runtime/base/base.h"

static uint64_t random64(void) {
  uint64_t v = 0;
  if (getrandom(&v, sizeof v, 0) != sizeof v) v = (uint64_t)tni_now_ns();
  return v;
}

srv_ask *srv_ask_create(srv_call *c, json_t *body, bool chat) {
  srv_ask *a = calloc(1, sizeof *a);
  if (!a) {
    json_decref(body);
    srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory");
    return NULL;
  }
  *a = (srv_ask){.call = c, .body = body, .chat = chat, .n = 1, .created = (int64_t)time(NULL)};
  snprintf(a->id, sizeof a->id, "%s-%016llx%08x", chat ? "chatcmpl" : "cmpl", (unsigned long long)random64(),
           (unsigned)random64());
  return a;
}

void srv_ask_destroy(srv_ask *a) {
  if (!a) return;
  srv_exchange_finish(&a->x);
  for (uint32_t i = 0; i < a->n_prompts; i++) tn_free(a->prompt[i].v);
  json_decref(a->body);
  free(a);
}

/* --- what it asks ------------------------------------------------------------------------------------------------- */

static bool read_sampler(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  const json_t *b = a->body;
  tn_gen_params *p = &a->params;
  double temp = p->temperature, top_p = p->top_p, min_p = p->min_p, repeat = p->repeat_penalty, none = 0;
  int64_t top_k = p->top_k, seed = 0;
  a->seeded = json_is_integer(json_object_get(b, "seed"));
  const bool good = srv_real(r, b, "", "temperature", 0, 100, &temp) && srv_real(r, b, "", "top_p", 0, 1, &top_p) &&
                    srv_real(r, b, "", "min_p", 0, 1, &min_p) && srv_count(r, b, "", "top_k", 0, INT32_MAX, &top_k) &&
                    srv_real(r, b, "", "repeat_penalty", 1e-3, 1e3, &repeat) &&
                    srv_count(r, b, "", "seed", INT64_MIN, INT64_MAX, &seed) &&
                    srv_real(r, b, "", "frequency_penalty", -2, 2, &none) &&
                    srv_real(r, b, "", "presence_penalty", -2, 2, &none);
  if (!good) return false;
  p->temperature = (float)temp;
  p->top_p = top_p > 0 ? (float)top_p : 1e-6f; /* 0: the most likely token */
  p->min_p = (float)min_p;
  p->top_k = (uint32_t)top_k;
  p->repeat_penalty = (float)repeat;
  p->seed = a->seeded ? (uint64_t)seed : random64();
  return true;
}

static bool read_stop(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  const json_t *j = json_object_get(a->body, "stop");
  const size_t n = json_is_array(j) ? json_array_size(j) : 1;
  char path[32];
  if (!j || json_is_null(j)) return true;
  if (n > SRV_MAX_STOP) return srv_refuse(r, 400, "invalid_value", "stop", "'stop' may have %d texts", SRV_MAX_STOP);
  for (size_t i = 0; i < n; i++) {
    const json_t *s = json_is_array(j) ? json_array_get(j, i) : j;
    snprintf(path, sizeof path, json_is_array(j) ? "stop[%zu]" : "stop", i);
    if (!json_is_string(s) || !json_string_length(s))
      return srv_refuse(r, 400, "invalid_type", path, "'%s' must be a string that is not empty", path);
    a->stop[a->params.n_stop++] = json_string_value(s);
  }
  a->params.stop = a->stop;
  return true;
}

/* What this server cannot do is said, not passed over: an answer would not be what was asked for. */
static bool refuse_unknown(srv_ask *a) {
  static const char *const zero[] = {"frequency_penalty", "presence_penalty"};
  srv_refusal *r = &a->call->refusal;
  for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
    if (json_number_value(json_object_get(a->body, zero[i])) != 0)
      return srv_refuse(r, 400, "unsupported", zero[i], "'%s' is not supported yet; 'repeat_penalty' is", zero[i]);
  const json_t *bias = json_object_get(a->body, "logit_bias"), *log = json_object_get(a->body, "logprobs");
  if (json_object_size(bias)) return srv_refuse(r, 400, "unsupported", "logit_bias", "'logit_bias' is not supported yet");
  if (log && !json_is_null(log) && !json_is_false(log))
    return srv_refuse(r, 400, "unsupported", "logprobs", "'logprobs' are not supported yet");
  return true;
}

static bool read_stream(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  json_t *o = NULL;
  if (!srv_flag(r, a->body, "", "stream", &a->stream) || !srv_object(r, a->body, "", "stream_options", &o) ||
      !srv_flag(r, o, "stream_options.", "include_usage", &a->usage))
    return false;
  if (o && !a->stream)
    return srv_refuse(r, 400, "invalid_value", "stream_options", "'stream_options' is for requests with \"stream\": true");
  return true;
}

bool srv_ask_read(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  int64_t n = 1, most = -1, newer = -1;
  a->model = srv_lm_of(a->call, a->body);
  if (!a->model) return false;
  tn_gen_params_init(&a->params);
  tn_lm_gen_defaults(a->model->is->lm, &a->params);
  a->params.n_stop = 0;
  a->params.stop = NULL;
  if (!read_sampler(a) || !read_stop(a) || !read_stream(a) || !refuse_unknown(a)) return false;
  if (!srv_count(r, a->body, "", "n", 1, SRV_MAX_N, &n) || !srv_count(r, a->body, "", "max_tokens", 1, INT32_MAX, &most) ||
      !srv_count(r, a->body, "", "max_completion_tokens", 1, INT32_MAX, &newer))
    return false;
  a->n = (uint32_t)n;
  if (newer >= 0) most = newer;
  const int64_t limit = a->call->server->o->max_tokens;
  a->max_tokens = most < 0 ? limit : limit && most > limit ? limit : most;
  return true;
}

bool srv_ask_prompt(srv_ask *a, int32_t *ids, size_t n, const char *param) {
  const int64_t context = tn_lm_context(a->model->is->lm);
  srv_refusal *r = &a->call->refusal;
  if (n >= (size_t)context) {
    tn_free(ids);
    return srv_refuse(r, 400, "context_length_exceeded", param, "the prompt has %zu tokens and the context %lld", n,
                      (long long)context);
  }
  if (!n) {
    tn_free(ids);
    return srv_refuse(r, 400, "invalid_value", param, "the prompt is empty");
  }
  a->prompt[a->n_prompts++] = (srv_ids){ids, n};
  return true;
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static bool start(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  if (!srv_exchange_init(&a->x, a->model->slots, a->n * a->n_prompts))
    return srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  for (uint32_t i = 0; i < a->x.n; i++) {
    slots_job *job = &a->x.choice[i].job;
    job->ids = a->prompt[i / a->n].v;
    job->n = a->prompt[i / a->n].n;
    job->params = a->params;
    job->params.seed += i % a->n;
    job->params.max_tokens = (uint32_t)a->max_tokens;
  }
  if (!srv_exchange_start(&a->x))
    return srv_refuse(r, 429, "queue_full", NULL, "%u requests wait already (--queue)", a->call->server->o->waiting);
  return true;
}

static const char *finish_reason(const srv_choice *c) {
  const uint32_t why = c->job.result.reason;
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

static json_t *usage_json(const srv_ask *a) {
  size_t prompt = 0, kept = 0, made = 0;
  for (uint32_t i = 0; i < a->n_prompts; i++) prompt += a->prompt[i].n;
  for (uint32_t i = 0; i < a->x.n; i++) {
    made += a->x.choice[i].job.result.new_tokens;
    if (i % a->n == 0) kept += a->x.choice[i].job.kept;
  }
  return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)prompt, "completion_tokens", (json_int_t)made,
                   "total_tokens", (json_int_t)(prompt + made), "prompt_tokens_details", "cached_tokens", (json_int_t)kept);
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

static json_t *whole_choice(const srv_ask *a, uint32_t i) {
  const srv_choice *c = &a->x.choice[i];
  json_t *text = text_json(c->text, c->n);
  json_t *said = a->chat ? json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal") : text;
  return json_pack("{s:i, s:o, s:n, s:s}", "index", (int)i, a->chat ? "message" : "text", said, "logprobs",
                   "finish_reason", finish_reason(c));
}

/* False: some choice failed, and the refusal says why. */
static bool check_ends(srv_ask *a) {
  for (uint32_t i = 0; i < a->x.n; i++) {
    const srv_choice *c = &a->x.choice[i];
    if (c->ended && c->st != TN_OK) return srv_refuse_error(&a->call->refusal, c->st, NULL, &c->err.error);
  }
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
  char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
  if (text) fprintf(out, "data: %s\n\n", text);
  free(text);
  json_decref(j);
}

static void put_piece(srv_ask *a, FILE *out, uint32_t i, json_t *delta, const char *finish) {
  json_t *choice = json_pack("{s:i, s:o, s:n, s:o}", "index", (int)i, a->chat ? "delta" : "text", delta, "logprobs",
                             "finish_reason", finish ? json_string(finish) : json_null());
  json_t *j = frame(a, "chat.completion.chunk", "text_completion", json_pack("[o]", choice));
  if (a->usage) json_object_set_new(j, "usage", json_null());
  put_event(out, j);
}

static void put_new(srv_ask *a, FILE *out, uint32_t i) {
  char *text;
  size_t n;
  bool ended;
  if (!srv_exchange_take(&a->x, i, &text, &n, &ended)) return;
  if (text) {
    json_t *said = text_json(text, n);
    put_piece(a, out, i, a->chat ? json_pack("{s:o}", "content", said) : said, NULL);
  }
  free(text);
  if (ended && a->x.choice[i].st == TN_OK)
    put_piece(a, out, i, a->chat ? json_object() : json_string(""), finish_reason(&a->x.choice[i]));
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
