/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars are made once for equal texts: what a grammar finds out of its vocabulary serves all who use it.
 */
#include "runtime/serve/form.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

enum { KEPT = 16 };

struct srv_form {
  uint32_t kind;
  char *text;
  size_t n;
  tn_grammar *grammar;
  uint32_t users;
  uint64_t used;
};

struct srv_forms {
  srv_form *kept[KEPT];
  uint64_t uses;
};

static void destroy(srv_form *f) {
  if (!f) return;
  tn_grammar_destroy(f->grammar);
  free(f->text);
  free(f);
}

static srv_form *create(srv_ask *a, uint32_t kind, const char *text, size_t n, srv_refusal *r, const char *param) {
  tn_long_error err;
  srv_form *f = calloc(1, sizeof *f);
  tn_long_error_init(&err);
  tn_status st = f && (f->text = malloc(n + 1)) ? TN_OK : tni_fail_memory(&err.error, "grammar");
  if (st == TN_OK) {
    memcpy(f->text, text, n);
    f->kind = kind;
    f->n = n;
    st = tn_grammar_create(a->model->lm, kind, text, n, &f->grammar, &err.error);
  }
  if (st == TN_OK) return f;
  destroy(f);
  srv_refuse_error(r, st, param, &err.error);
  return NULL;
}

/* Under the model's lock. */
static srv_form *kept(srv_forms *all, uint32_t kind, const char *text, size_t n) {
  for (int i = 0; i < KEPT; i++) {
    srv_form *f = all->kept[i];
    if (!f || f->kind != kind || f->n != n || memcmp(f->text, text, n) != 0) continue;
    f->users++;
    f->used = ++all->uses;
    return f;
  }
  return NULL;
}

/* In place of the one that nobody uses for longest; where all are in use it is not kept, and ends with its user. */
static void keep(srv_forms *all, srv_form *f) {
  int at = -1;
  for (int i = 0; i < KEPT; i++) {
    const srv_form *x = all->kept[i];
    if (x && (x->users || (at >= 0 && (!all->kept[at] || x->used >= all->kept[at]->used)))) continue;
    at = i;
  }
  f->users = 1;
  f->used = ++all->uses;
  if (at < 0) return;
  destroy(all->kept[at]);
  all->kept[at] = f;
}

bool srv_form_take(srv_ask *a, uint32_t kind, const char *text, size_t n, srv_refusal *r, const char *param) {
  srv_model *m = a->model;
  pthread_mutex_lock(&m->forming);
  if (!m->forms) m->forms = calloc(1, sizeof *m->forms);
  a->form = m->forms ? kept(m->forms, kind, text, n) : NULL;
  pthread_mutex_unlock(&m->forming);
  if (!m->forms) return srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  if (!a->form) {
    a->form = create(a, kind, text, n, r, param);
    if (!a->form) return false;
    pthread_mutex_lock(&m->forming);
    keep(m->forms, a->form);
    pthread_mutex_unlock(&m->forming);
  }
  a->params.grammar = a->form->grammar;
  return true;
}

void srv_form_give(srv_ask *a) {
  if (!a->form) return;
  srv_model *m = a->model;
  bool is_kept = false;
  pthread_mutex_lock(&m->forming);
  a->form->users--;
  for (int i = 0; i < KEPT; i++) is_kept = is_kept || m->forms->kept[i] == a->form;
  pthread_mutex_unlock(&m->forming);
  if (!is_kept) destroy(a->form);
  a->form = NULL;
}

void srv_forms_finish(srv_model *m) {
  for (int i = 0; m->forms && i < KEPT; i++) destroy(m->forms->kept[i]);
  free(m->forms);
  m->forms = NULL;
}

static bool by_schema(srv_ask *a, const json_t *schema, const char *param) {
  char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
  if (!text) return srv_refuse(&a->call->refusal, 503, "no_memory", NULL, "out of memory");
  const bool good = srv_form_take(a, TN_GRAMMAR_JSON_SCHEMA, text, strlen(text), &a->call->refusal, param);
  free(text);
  return good;
}

static bool by_gbnf(srv_ask *a, const char *text) {
  return srv_form_take(a, TN_GRAMMAR_GBNF, text, strlen(text), &a->call->refusal, "grammar");
}

/* --- what asks for a form ----------------------------------------------------------------------------------------- */

static bool read_format(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  json_t *format = NULL, *named = NULL;
  const char *type = "text";
  if (!srv_object(r, a->body, "", "response_format", &format) ||
      !srv_text(r, format, "response_format.", "type", &type) ||
      !srv_object(r, format, "response_format.", "json_schema", &named))
    return false;
  if (strcmp(type, "text") == 0) return true;
  if (strcmp(type, "json_object") == 0) {
    json_t *any = json_pack("{s:s}", "type", "object");
    const bool good = by_schema(a, any, "response_format");
    json_decref(any);
    return good;
  }
  if (strcmp(type, "json_schema") != 0)
    return srv_refuse(r, 400, "invalid_value", "response_format.type",
                      "'response_format.type' is '%.40s': it must be text, json_object or json_schema", type);
  const json_t *schema = json_object_get(named, "schema");
  if (!json_is_object(schema) && !json_is_boolean(schema))
    return srv_refuse(r, 400, schema ? "invalid_type" : "missing", "response_format.json_schema.schema",
                      "'response_format.json_schema.schema' must be a schema");
  return by_schema(a, schema, "response_format");
}

bool srv_form_read(srv_ask *a) {
  const char *rules = NULL;
  if (!srv_text(&a->call->refusal, a->body, "", "grammar", &rules)) return false;
  if (a->chat && !read_format(a)) return false;
  return a->form || !rules || by_gbnf(a, rules);
}

/* --- the sampler's rarer wishes ----------------------------------------------------------------------------------- */

/* How many of the likeliest tokens an answer lists; -1: it lists none. */
static bool read_logprobs(srv_ask *a, int64_t *top) {
  srv_refusal *r = &a->call->refusal;
  bool wanted = false;
  int64_t n = 0;
  *top = -1;
  if (!a->chat) return srv_count(r, a->body, "", "logprobs", 0, SRV_TOP, top);
  if (!srv_flag(r, a->body, "", "logprobs", &wanted) || !srv_count(r, a->body, "", "top_logprobs", 0, SRV_TOP, &n))
    return false;
  if (wanted) *top = n;
  return wanted || !n || srv_refuse(r, 400, "invalid_value", "top_logprobs", "'top_logprobs' needs \"logprobs\": true");
}

static bool read_bias(srv_ask *a, const json_t *bias) {
  srv_refusal *r = &a->call->refusal;
  const size_t n = json_object_size(bias);
  const char *key;
  json_t *value;
  if (!n) return true;
  a->bias = calloc(n, sizeof *a->bias);
  if (!a->bias) return srv_refuse(r, 503, "no_memory", NULL, "out of memory");
  json_object_foreach((json_t *)(uintptr_t)bias, key, value) {
    char *end;
    const long id = strtol(key, &end, 10);
    double v = 0;
    if (end == key || *end || id < 0 || id > INT32_MAX)
      return srv_refuse(r, 400, "invalid_value", "logit_bias", "'logit_bias': '%.40s' is no token id", key);
    if (!srv_real(r, bias, "logit_bias.", key, -100, 100, &v)) return false;
    a->bias[a->params.n_bias++] = (tn_logit_bias){(int32_t)id, v <= -100 ? -INFINITY : (float)v};
  }
  a->params.bias = a->bias;
  return true;
}

bool srv_more_read(srv_ask *a) {
  srv_refusal *r = &a->call->refusal;
  double often = 0, once = 0, typical = 0;
  int64_t least = 0;
  json_t *bias = NULL;
  if (!srv_real(r, a->body, "", "frequency_penalty", -2, 2, &often) ||
      !srv_real(r, a->body, "", "presence_penalty", -2, 2, &once) ||
      !srv_real(r, a->body, "", "typical_p", 0, 1, &typical) ||
      !srv_count(r, a->body, "", "min_tokens", 0, INT32_MAX, &least) ||
      !srv_object(r, a->body, "", "logit_bias", &bias) || !read_bias(a, bias) || !read_logprobs(a, &a->top))
    return false;
  a->params.frequency_penalty = (float)often;
  a->params.presence_penalty = (float)once;
  a->params.typical_p = (float)typical;
  a->params.min_tokens = (uint32_t)least;
  return true;
}

static int see_row(void *user, tn_logits *at) {
  srv_log_row(((srv_choice *)user)->log, at->v, at->vocab);
  return 0;
}

bool srv_more_start(srv_ask *a, srv_choice *c) {
  if (a->top < 0) return true;
  c->log = srv_log_create((uint32_t)a->top);
  c->job.params.hook = see_row;
  c->job.params.hook_user = c;
  return c->log != NULL;
}
