/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/embeddings: texts to vectors, as numbers or as base64 of little-endian floats, which OpenAI's client asks for.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/inside.h"

/* Others compute after each step, which has texts of about the same length. */
enum { MAX_TEXTS = 2048, STEP_TEXTS = 32, STEP_TOKENS = 2048 };

typedef struct embedding {
  const char **texts;
  size_t *len, *tokens, *order; /* order: the texts by their tokens */
  size_t n, size;
  float *v; /* [n, size] */
} embedding;

static bool begin(srv_call *c, embedding *e) {
  e->texts = calloc(e->n, sizeof *e->texts);
  e->len = calloc(e->n, sizeof *e->len);
  e->tokens = calloc(e->n, sizeof *e->tokens);
  e->order = calloc(e->n, sizeof *e->order);
  if (e->texts && e->len && e->tokens && e->order) return true;
  return srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory");
}

static void finish(embedding *e) {
  free(e->texts);
  free(e->len);
  free(e->tokens);
  free(e->order);
  free(e->v);
}

static json_t *base64(const void *data, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *s = data;
  char *out = malloc((n + 2) / 3 * 4 + 1), *to = out;
  if (!out) return tni_json_made(NULL);
  for (size_t i = 0; i < n; i += 3) {
    const unsigned left = (unsigned)(n - i), a = s[i], b = left > 1 ? s[i + 1] : 0, c = left > 2 ? s[i + 2] : 0;
    *to++ = digits[a >> 2];
    *to++ = digits[(a & 3) << 4 | b >> 4];
    *to++ = left > 1 ? digits[(b & 15) << 2 | c >> 6] : '=';
    *to++ = left > 2 ? digits[c & 63] : '=';
  }
  json_t *j = json_stringn(out, (size_t)(to - out));
  free(out);
  return j;
}

static json_t *numbers(const float *v, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(list, json_real(v[i]));
  return list;
}

/* The texts of "input". False: refused. */
static bool read_texts(srv_call *c, const json_t *input, embedding *e) {
  for (size_t i = 0; i < e->n; i++) {
    const json_t *t = json_is_array(input) ? json_array_get(input, i) : input;
    char path[32];
    snprintf(path, sizeof path, json_is_array(input) ? "input[%zu]" : "input", i);
    if (!json_is_string(t) || !json_string_length(t))
      return srv_refuse(&c->refusal, 400, "invalid_type", path, "'%s' must be a string that is not empty", path);
    e->texts[i] = json_string_value(t);
    e->len[i] = json_string_length(t);
  }
  return true;
}

static bool read_form(srv_call *c, const json_t *body, bool *coded) {
  const char *form = "float";
  if (!srv_text(&c->refusal, body, "", "encoding_format", &form)) return false;
  *coded = strcmp(form, "base64") == 0;
  if (!*coded && strcmp(form, "float") != 0)
    return srv_refuse(&c->refusal, 400, "invalid_value", "encoding_format", "'encoding_format' must be float or base64");
  const json_t *dims = json_object_get(body, "dimensions");
  if (dims && !json_is_null(dims))
    return srv_refuse(&c->refusal, 400, "unsupported", "dimensions", "'dimensions' is not supported: vectors are as the model makes them");
  return true;
}

static int by_tokens(const void *a, const void *b, void *user) {
  const size_t *tokens = user, x = *(const size_t *)a, y = *(const size_t *)b;
  return tokens[x] != tokens[y] ? (tokens[x] < tokens[y] ? -1 : 1) : x < y ? -1 : x > y;
}

/* How many texts the step runs that begins with the text `at` of the order: each is as long as the longest. */
static size_t step_of(const embedding *e, size_t at) {
  size_t n = 1;
  while (n < STEP_TEXTS && at + n < e->n && (n + 1) * e->tokens[e->order[at + n]] <= STEP_TOKENS) n++;
  return n;
}

static bool keep(srv_call *c, embedding *e, size_t at, size_t n, const float *v, size_t size) {
  size_t bytes;
  if (!e->v) {
    e->size = size;
    e->v = tni_mul_size(e->n * sizeof *v, size, &bytes) ? malloc(bytes) : NULL;
  }
  for (size_t i = 0; e->v && i < n; i++) memcpy(e->v + e->order[at + i] * size, v + i * size, size * sizeof *v);
  return e->v || srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory");
}

static bool run_step(srv_call *c, srv_model *m, embedding *e, size_t at, size_t n) {
  const char *texts[STEP_TEXTS];
  size_t len[STEP_TEXTS], size;
  float *v = NULL;
  tn_long_error err;
  tn_long_error_init(&err);
  for (size_t i = 0; i < n; i++) {
    texts[i] = e->texts[e->order[at + i]];
    len[i] = e->len[e->order[at + i]];
  }
  slots_turn_take(c->server->turn); /* an embedder takes one call at a time: it has the turn */
  const tn_status st = tn_embed(m->embedder, texts, len, n, &v, &size, &err.error);
  slots_turn_give(c->server->turn);
  const bool good = st == TN_OK ? keep(c, e, at, n, v, size) : srv_refuse_error(&c->refusal, st, "input", &err.error);
  tn_free(v);
  if (good) atomic_fetch_add(&c->server->metrics.embedded_texts, n);
  return good;
}

/* Whether somebody waits for the next step. */
static bool goes_on(srv_call *c) {
  c->gone = srv_gone(c);
  return !c->gone && !srv_models_end(&c->refusal, c->server);
}

static bool embed(srv_call *c, srv_model *m, const json_t *input, embedding *e) {
  tn_long_error err;
  tn_long_error_init(&err);
  if (!begin(c, e) || !read_texts(c, input, e)) return false;
  const tn_status st = tn_embedder_count(m->embedder, e->texts, e->len, e->n, e->tokens, &err.error);
  if (st != TN_OK) return srv_refuse_error(&c->refusal, st, "input", &err.error);
  for (size_t i = 0; i < e->n; i++) e->order[i] = i;
  qsort_r(e->order, e->n, sizeof *e->order, by_tokens, e->tokens);
  for (size_t at = 0, n; at < e->n; at += n) {
    n = step_of(e, at);
    if (!goes_on(c) || !run_step(c, m, e, at, n)) return false;
  }
  return true;
}

static json_t *vectors_json(const embedding *e, bool coded) {
  json_t *list = json_array();
  for (size_t i = 0; i < e->n; i++) {
    const float *v = e->v + i * e->size;
    json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "object", "embedding", "index", (json_int_t)i, "embedding",
                                          coded ? base64(v, e->size * sizeof *v) : numbers(v, e->size)));
  }
  return list;
}

static void answer(srv_call *c, const json_t *body) {
  srv_model *m = srv_embedder_of(c, body);
  const json_t *input = json_object_get(body, "input");
  embedding e = {.n = json_is_array(input) ? json_array_size(input) : 1};
  json_int_t tokens = 0;
  bool coded = false;
  if (!m || !read_form(c, body, &coded)) return;
  if (!input || !e.n || e.n > MAX_TEXTS) {
    srv_refuse(&c->refusal, 400, input ? "invalid_value" : "missing", "input", "'input' must be a text, or 1 to %d of them",
               MAX_TEXTS);
    return;
  }
  if (embed(c, m, input, &e)) {
    for (size_t i = 0; i < e.n; i++) tokens += (json_int_t)e.tokens[i];
    srv_send_json(c, 200, json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", vectors_json(&e, coded),
                                    "model", m->is->name, "usage", "prompt_tokens", tokens, "total_tokens", tokens));
  }
  finish(&e);
}

void srv_embeddings(srv_call *c) {
  json_t *body = srv_body(c);
  if (body) answer(c, body);
  json_decref(body);
}
