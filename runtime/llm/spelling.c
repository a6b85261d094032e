/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/spelling.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>

#include "runtime/llm/lm.h"

struct tni_spelling {
  pthread_mutex_t lock;
  int holders;
  tni_vocab *vocab; /* NULL: nobody has asked yet */
};

tni_spelling *tni_spelling_create(void) {
  tni_spelling *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->holders = 1;
  pthread_mutex_init(&s->lock, NULL);
  return s;
}

void tni_spelling_release(tni_spelling *s) {
  if (!s || __atomic_sub_fetch(&s->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
  tni_vocab_destroy(s->vocab);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static bool is_eos(const tn_lm *lm, int32_t id) {
  for (size_t i = 0; i < lm->config.n_eos; i++)
    if (lm->config.eos[i] == id) return true;
  return false;
}

/* Special tokens stand for themselves; one that ends the text is no part of it. */
static bool token_bytes(void *user, int32_t id, tni_str *out) {
  const tn_lm *lm = user;
  static const char mark = (char)TNI_VOCAB_MARK;
  const char *text = tni_tokenizer_is_special(lm->tok, id) ? tni_tokenizer_token(lm->tok, id) : NULL;
  if (text && is_eos(lm, id)) return true;
  if (text) tni_str_add(out, &mark, 1);
  const size_t before = out->n;
  if (text)
    tni_str_add(out, text, strlen(text));
  else
    tni_tokenizer_bytes(lm->tok, id, out);
  /* A byte that no text has is not taken for a special token. */
  if (!text && out->n > before && memchr(out->v + before, TNI_VOCAB_MARK, out->n - before)) out->n = before;
  return !out->failed;
}

static tn_status find_vocab(const tn_lm *lm, const tni_vocab **out, tn_error *err) {
  tni_spelling *s = lm->spelling;
  if (!lm->tok) return tni_fail(err, TN_E_UNAVAILABLE, lm->tok_path, "a grammar needs tokenizer.json");
  if (!tni_tokenizer_spells(lm->tok))
    return tni_fail(err, TN_E_UNSUPPORTED, lm->tok_path,
                    "a grammar needs a tokenizer whose tokens are bytes of the text: its decoder is another");
  pthread_mutex_lock(&s->lock);
  if (!s->vocab) s->vocab = tni_vocab_create(tni_tokenizer_vocab_size(lm->tok), token_bytes, (void *)(uintptr_t)lm);
  *out = s->vocab;
  pthread_mutex_unlock(&s->lock);
  return *out ? TN_OK : tni_fail_memory(err, "grammar");
}

tn_status tn_grammar_create(const tn_lm *lm, uint32_t kind, const char *text, size_t n, tn_grammar **out,
                            tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(lm);
  TNI_NOT_NULL(text);
  TNI_NOT_NULL(out);
  tn_grammar *g = calloc(1, sizeof *g);
  if (!g) return tni_fail_memory(err, "grammar");
  tn_status st = find_vocab(lm, &g->vocab, err);
  if (st == TN_OK) st = tni_grammar_create(g->vocab, kind, text, n, &g->g, err);
  if (st != TN_OK) {
    free(g);
    return st;
  }
  g->spelling = lm->spelling;
  __atomic_add_fetch(&g->spelling->holders, 1, __ATOMIC_ACQ_REL);
  *out = g;
  return TN_OK;
}

void tn_grammar_destroy(tn_grammar *g) {
  if (!g) return;
  tni_grammar_destroy(g->g);
  tni_spelling_release(g->spelling);
  free(g);
}
