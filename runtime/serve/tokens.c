/* SPDX-License-Identifier: Apache-2.0
 *
 * /tokenize and /detokenize: text to ids and back.
 */
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/serve/inside.h"

/* The body, and the language model that it names. False: refused, and nothing to free. */
static bool begin(srv_call *c, json_t **body, srv_model **m) {
  *body = srv_body(c);
  *m = *body ? srv_lm_of(c, *body) : NULL;
  if (!*m) json_decref(*body);
  return *m != NULL;
}

void srv_tokenize(srv_call *c) {
  json_t *body;
  srv_model *m;
  const char *text = NULL;
  bool special = false;
  tn_long_error err;
  int32_t *ids = NULL;
  size_t n = 0;
  if (!begin(c, &body, &m)) return;
  tn_long_error_init(&err);
  bool good = srv_text(&c->refusal, body, "", "content", &text) && srv_flag(&c->refusal, body, "", "add_special", &special);
  if (good && !text) good = srv_refuse(&c->refusal, 400, "missing", "content", "'content' is missing: the text");
  const tn_status st = good ? tn_lm_encode(m->lm, text, strlen(text), special, &ids, &n, &err.error) : TN_OK;
  if (st != TN_OK) good = srv_refuse_error(&c->refusal, st, "content", &err.error);
  json_t *list = good ? json_array() : NULL;
  for (size_t i = 0; i < n && list; i++) json_array_append_new(list, json_integer(ids[i]));
  if (good) srv_send_json(c, 200, json_pack("{s:o, s:I}", "tokens", list, "count", (json_int_t)n));
  tn_free(ids);
  json_decref(body);
}

static bool read_ids(srv_call *c, const json_t *list, int32_t *ids) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *j = json_array_get(list, i);
    const json_int_t v = json_integer_value(j);
    if (!json_is_integer(j) || v < 0 || v > INT32_MAX)
      return srv_refuse(&c->refusal, 400, "invalid_value", "tokens", "'tokens': element %zu is no token id", i);
    ids[i] = (int32_t)v;
  }
  return true;
}

void srv_detokenize(srv_call *c) {
  json_t *body, *list = NULL;
  srv_model *m;
  tn_long_error err;
  char *text = NULL;
  size_t n = 0;
  if (!begin(c, &body, &m)) return;
  tn_long_error_init(&err);
  bool good = srv_list(&c->refusal, body, "", "tokens", &list);
  if (good && !list) good = srv_refuse(&c->refusal, 400, "missing", "tokens", "'tokens' is missing: a list of ids");
  int32_t *ids = malloc(json_array_size(list) * sizeof *ids + 1);
  good = good && (ids || srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory")) && read_ids(c, list, ids);
  const tn_status st = good ? tn_lm_decode(m->lm, ids, json_array_size(list), 0, &text, &n, &err.error) : TN_OK;
  if (st != TN_OK) good = srv_refuse_error(&c->refusal, st, "tokens", &err.error);
  json_t *said = good ? json_stringn(text, n) : NULL;
  if (good && !said) good = srv_refuse(&c->refusal, 400, "invalid_value", "tokens", "these tokens are no text of whole letters");
  if (good) srv_send_json(c, 200, json_pack("{s:o}", "content", said));
  tn_free(text);
  free(ids);
  json_decref(body);
}
