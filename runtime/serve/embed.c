/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/embeddings: texts to vectors, as numbers or as base64 of little-endian floats, which OpenAI's client asks for.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/inside.h"

enum { MAX_TEXTS = 2048 };

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
static bool read_texts(srv_call *c, const json_t *input, const char **texts, size_t *len, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const json_t *t = json_is_array(input) ? json_array_get(input, i) : input;
    char path[32];
    snprintf(path, sizeof path, json_is_array(input) ? "input[%zu]" : "input", i);
    if (!json_is_string(t) || !json_string_length(t))
      return srv_refuse(&c->refusal, 400, "invalid_type", path, "'%s' must be a string that is not empty", path);
    texts[i] = json_string_value(t);
    len[i] = json_string_length(t);
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

static bool embed(srv_call *c, srv_model *m, const json_t *input, size_t n, float **v, size_t *size) {
  const char **texts = calloc(n, sizeof *texts);
  size_t *len = calloc(n, sizeof *len);
  tn_long_error err;
  tn_long_error_init(&err);
  bool good = (texts && len) || srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory");
  good = good && read_texts(c, input, texts, len, n);
  if (good) {
    pthread_mutex_lock(&m->embedding);
    slots_turn_take(c->server->turn);
    const tn_status st = tn_embed(m->embedder, texts, len, n, v, size, &err.error);
    slots_turn_give(c->server->turn);
    pthread_mutex_unlock(&m->embedding);
    if (st != TN_OK) good = srv_refuse_error(&c->refusal, st, "input", &err.error);
  }
  free(texts);
  free(len);
  return good;
}

static void answer(srv_call *c, const json_t *body) {
  srv_model *m = srv_embedder_of(c, body);
  const json_t *input = json_object_get(body, "input");
  const size_t n = json_is_array(input) ? json_array_size(input) : 1;
  float *v = NULL;
  size_t size = 0;
  bool coded = false;
  if (!m || !read_form(c, body, &coded)) return;
  if (!input || !n || n > MAX_TEXTS) {
    srv_refuse(&c->refusal, 400, input ? "invalid_value" : "missing", "input", "'input' must be a text, or 1 to %d of them",
               MAX_TEXTS);
    return;
  }
  if (!embed(c, m, input, n, &v, &size)) return;
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++)
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:o}", "object", "embedding", "index", (json_int_t)i, "embedding",
                        coded ? base64(v + i * size, size * sizeof *v) : numbers(v + i * size, size)));
  tn_free(v);
  atomic_fetch_add(&c->server->metrics.embedded_texts, n);
  srv_send_json(c, 200, json_pack("{s:s, s:o, s:s, s:{s:i, s:i}}", "object", "list", "data", list, "model", m->is->name,
                                  "usage", "prompt_tokens", 0, "total_tokens", 0));
}

void srv_embeddings(srv_call *c) {
  json_t *body = srv_body(c);
  if (body) answer(c, body);
  json_decref(body);
}
