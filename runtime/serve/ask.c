/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "runtime/base/base.h"
#include "runtime/serve/form.h"

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
  for (uint32_t i = 0; a->speech && i < a->x.n; i++) srv_speech_finish(&a->speech[i].s);
  free(a->speech);
  srv_exchange_finish(&a->x);
  srv_form_give(a);
  free(a->bias);
  for (uint32_t i = 0; i < a->n_prompts; i++) tn_free(a->prompt[i].v);
  json_decref(a->body);
  free(a);
}

/* --- what it asks ------------------------------------------------------------------------------------------------- */

static bool read_sampler(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  const json_t *b = a->body;
  tn_gen_params *p = &a->params;
  double temp = p->temperature, top_p = p->top_p, min_p = p->min_p, repeat = p->repeat_penalty;
  int64_t top_k = p->top_k, seed = 0;
  const bool seeded = json_is_integer(json_object_get(b, "seed"));
  const bool good = srv_real(r, b, "", "temperature", 0, 100, &temp) && srv_real(r, b, "", "top_p", 0, 1, &top_p) &&
                    srv_real(r, b, "", "min_p", 0, 1, &min_p) && srv_count(r, b, "", "top_k", 0, INT32_MAX, &top_k) &&
                    srv_real(r, b, "", "repeat_penalty", 1e-3, 1e3, &repeat) &&
                    srv_count(r, b, "", "seed", INT64_MIN, INT64_MAX, &seed);
  if (!good) return false;
  p->temperature = (float)temp;
  p->top_p = top_p > 0 ? (float)top_p : 1e-6f; /* 0: the most likely token */
  p->min_p = (float)min_p;
  p->top_k = (uint32_t)top_k;
  p->repeat_penalty = (float)repeat;
  p->seed = seeded ? (uint64_t)seed : random64();
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
  tn_lm_gen_defaults(a->model->lm, &a->params);
  a->params.n_stop = 0;
  a->params.stop = NULL;
  a->params.lookup = a->call->server->o->lookup;
  if (!read_sampler(a) || !read_stop(a) || !read_stream(a) || !srv_more_read(a)) return false;
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
  const int64_t context = tn_lm_context(a->model->lm);
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
