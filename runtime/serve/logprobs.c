/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/logprobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

srv_log *srv_log_create(uint32_t top) {
  srv_log *l = calloc(1, sizeof *l);
  if (l) l->top = top < SRV_TOP ? top : SRV_TOP;
  return l;
}

void srv_log_destroy(srv_log *l) {
  if (!l) return;
  free(l->row);
  free(l->v);
  free(l);
}

void srv_log_row(srv_log *l, const float *row, size_t vocab) {
  if (vocab != l->vocab) {
    free(l->row);
    l->row = malloc(vocab * sizeof *row);
    l->vocab = l->row ? vocab : 0;
    l->no_memory = l->no_memory || !l->row;
  }
  if (l->row) memcpy(l->row, row, vocab * sizeof *row);
}

static double log_sum(const float *row, size_t n) {
  double most = -INFINITY, sum = 0;
  for (size_t i = 0; i < n; i++) most = row[i] > most ? row[i] : most;
  for (size_t i = 0; i < n; i++) sum += exp(row[i] - most);
  return most + log(sum);
}

/* Of equals, the lower id first. */
static void find_top(const srv_log *l, srv_log_token *t) {
  for (size_t id = 0; l->top && id < l->vocab; id++) {
    uint32_t at = t->n_top;
    if (at == l->top && !(l->row[id] > t->top[at - 1].logprob)) continue;
    if (at < l->top) t->n_top++;
    if (at == l->top) at--;
    for (; at && l->row[id] > t->top[at - 1].logprob; at--) t->top[at] = t->top[at - 1];
    t->top[at] = (srv_likely){(int32_t)id, l->row[id]};
  }
}

void srv_log_add(srv_log *l, int32_t id) {
  if (l->n == l->cap) {
    const size_t cap = l->cap ? l->cap * 2 : 32;
    srv_log_token *grown = realloc(l->v, cap * sizeof *grown);
    l->no_memory = l->no_memory || !grown;
    if (!grown) return;
    l->v = grown;
    l->cap = cap;
  }
  srv_log_token *t = &l->v[l->n++];
  const double all = l->vocab ? log_sum(l->row, l->vocab) : 0;
  *t = (srv_log_token){.token = {id, id >= 0 && (size_t)id < l->vocab ? (float)(l->row[id] - all) : 0}};
  find_top(l, t);
  for (uint32_t i = 0; i < t->n_top; i++) t->top[i].logprob = (float)(t->top[i].logprob - all);
}

srv_log_token *srv_log_take(srv_log *l, size_t *n) {
  *n = l->n - l->taken;
  srv_log_token *v = *n ? malloc(*n * sizeof *v) : NULL;
  l->no_memory = l->no_memory || (*n && !v);
  if (v) memcpy(v, l->v + l->taken, *n * sizeof *v);
  l->taken = l->n;
  return v;
}

static size_t count_letters(const json_t *text) {
  const char *s = json_string_value(text);
  size_t letters = 0;
  for (size_t i = 0; i < json_string_length(text); i++) letters += ((unsigned char)s[i] & 0xc0) != 0x80;
  return letters;
}

/* A token that is part of a letter is U+FFFD. */
static json_t *token_text(const tn_lm *lm, int32_t id, json_t **bytes) {
  char *text = NULL;
  size_t n = 0;
  if (tn_lm_decode(lm, &id, 1, 0, &text, &n, NULL) != TN_OK) n = 0;
  if (bytes) *bytes = json_array();
  for (size_t i = 0; bytes && i < n; i++) json_array_append_new(*bytes, json_integer((unsigned char)text[i]));
  json_t *j = n ? json_stringn(text, n) : json_string("");
  tn_free(text);
  return j ? j : json_string("\xef\xbf\xbd");
}

/* -9999 stands for "never", as JSON has no infinity. */
static double shown(float logprob) { return logprob > -9999 ? logprob : -9999; }

static json_t *likely_json(const tn_lm *lm, srv_likely x) {
  json_t *bytes, *token = token_text(lm, x.id, &bytes);
  return json_pack("{s:o, s:f, s:o}", "token", token, "logprob", shown(x.logprob), "bytes", bytes);
}

static json_t *chat_json(const srv_log_token *v, size_t n, const tn_lm *lm) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) {
    if (tn_lm_is_eos(lm, v[i].token.id)) continue;
    json_t *one = likely_json(lm, v[i].token), *top = json_array();
    for (uint32_t k = 0; k < v[i].n_top; k++) json_array_append_new(top, likely_json(lm, v[i].top[k]));
    json_object_set_new(one, "top_logprobs", top);
    json_array_append_new(list, one);
  }
  return json_pack("{s:o, s:n}", "content", list, "refusal");
}

static json_t *text_json(const srv_log_token *v, size_t n, const tn_lm *lm, size_t *offset) {
  json_t *tokens = json_array(), *probs = json_array(), *tops = json_array(), *offsets = json_array();
  for (size_t i = 0; i < n; i++) {
    json_t *text = token_text(lm, v[i].token.id, NULL), *top = json_object();
    const size_t letters = count_letters(text);
    json_array_append_new(tokens, text);
    for (uint32_t k = 0; k < v[i].n_top; k++) {
      json_t *other = token_text(lm, v[i].top[k].id, NULL);
      json_object_set_new(top, json_string_value(other), json_real(shown(v[i].top[k].logprob)));
      json_decref(other);
    }
    json_array_append_new(probs, json_real(shown(v[i].token.logprob)));
    json_array_append_new(tops, top);
    json_array_append_new(offsets, json_integer((json_int_t)*offset));
    *offset += letters;
  }
  return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", probs, "top_logprobs", tops, "text_offset", offsets);
}

json_t *srv_log_json(srv_log *l, const srv_log_token *v, size_t n, const tn_lm *lm, bool chat) {
  return chat ? chat_json(v, n, lm) : text_json(v, n, lm, &l->letters);
}
