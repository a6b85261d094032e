/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/score/score.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/shell/shell.h"
#include "runtime/cli/texts/texts.h"

/* Logits that are computed at once at most: a window of a large vocabulary runs in parts. */
enum { MOST_LOGITS = 1 << 26, FEWEST_ROWS = 64 };

/* log softmax of row into out (double: sums over large vocabularies). */
static void log_softmax(const float *row, size_t n, double *out) {
  double top = -INFINITY, sum = 0;
  for (size_t i = 0; i < n; i++)
    if (row[i] > top) top = row[i];
  for (size_t i = 0; i < n; i++) sum += exp(row[i] - top);
  double norm = top + log(sum);
  for (size_t i = 0; i < n; i++) out[i] = row[i] - norm;
}

static size_t argmax_of_row(const float *row, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; i++)
    if (row[i] > row[best]) best = i;
  return best;
}

static void compare_logits(cli_scorer *sc, const float *x, const float *y) {
  float most = 0, off = 0;
  for (size_t k = 0; k < sc->vocab; k++) {
    if (x[k] == y[k] && isinf(y[k])) continue; /* a word that a mask forbids, in both */
    const float d = fabsf(x[k] - y[k]);
    if (!(d <= off)) off = d; /* NaN too */
    if (isfinite(y[k]) && fabsf(y[k]) > most) most = fabsf(y[k]);
  }
  const double rel = most > 0 ? (double)off / (double)most : (double)off;
  if (!(rel <= sc->s.off)) sc->s.off = rel;
}

/* One position by both: what the other says of it, and how far they are apart. */
static double compare_rows(cli_scorer *sc, const float *x, const float *y, int32_t next) {
  log_softmax(y, sc->vocab, sc->q);
  for (size_t k = 0; k < sc->vocab; k++)
    if (sc->q[k] > -700) sc->s.kl += exp(sc->q[k]) * (sc->q[k] - sc->p[k]);
  sc->s.agree += argmax_of_row(x, sc->vocab) == argmax_of_row(y, sc->vocab);
  compare_logits(sc, x, y);
  return -sc->q[next];
}

/* How many tokens a vocabulary has is known when one was scored. */
static tn_status find_vocab(cli_scorer *sc, int32_t id) {
  const float *logits;
  size_t rows, vocab;
  tn_status st = tn_chat_score(sc->chat, &id, 1, &logits, &rows, &vocab, sc->err);
  tn_chat_reset(sc->chat);
  if (st != TN_OK) return st;
  sc->p = malloc(vocab * sizeof *sc->p);
  sc->q = malloc(vocab * sizeof *sc->q);
  sc->vocab = vocab;
  sc->most_rows = MOST_LOGITS / vocab > FEWEST_ROWS ? MOST_LOGITS / vocab : FEWEST_ROWS;
  if (!tn_model_has_cache(tn_lm_model(sc->lm))) sc->most_rows = SIZE_MAX; /* parts would run all before again */
  return sc->p && sc->q ? TN_OK : TN_E_NO_MEMORY;
}

/* What the text's sums grow by. */
typedef struct text_sums {
  double nll, other;
  uint64_t predicted;
} text_sums;

/* Positions at .. at + n of a window by both; the tokens after them are scored from `from` on. */
static tn_status score_rows(cli_scorer *sc, const int32_t *ids, size_t at, size_t n, size_t from, text_sums *t) {
  const float *x = NULL, *y = NULL;
  size_t rows = 0, vocab = 0;
  tn_status st = tn_chat_score(sc->chat, ids + at, n, &x, &rows, &vocab, sc->err);
  if (st == TN_OK && (rows != n || vocab != sc->vocab)) st = TN_E_INTERNAL;
  if (st == TN_OK && sc->other) st = tn_chat_score(sc->other, ids + at, n, &y, &rows, &vocab, sc->err);
  if (st == TN_OK && vocab != sc->vocab)
    st = tni_fail(sc->err, TN_E_INVALID, "--original", "%zu tokens, and the model has %zu", vocab, sc->vocab);
  if (st == TN_OK && rows != n) st = TN_E_INTERNAL;
  for (size_t i = 0; st == TN_OK && i < n; i++) {
    const int32_t next = ids[at + i + 1];
    if (at + i + 1 < from) continue;
    log_softmax(x + i * vocab, vocab, sc->p);
    t->nll -= sc->p[next];
    if (y) t->other += compare_rows(sc, x + i * vocab, y + i * vocab, next);
    if (!isfinite(t->nll) || !isfinite(t->other))
      st = tni_fail(sc->err, TN_E_UNSUPPORTED, "logits",
                    "the model gives no probability of token %d, the %zuth: its logit is -inf, or logits are NaN", next,
                    at + i + 2);
    t->predicted++;
  }
  return st;
}

/* Tokens 0 .. n of a window: those from `from` on are scored. The last one is only predicted. */
static tn_status score_window(cli_scorer *sc, const int32_t *ids, size_t n, size_t from, text_sums *t) {
  const size_t rows = n - 1, at_once = sc->decode < rows ? rows - sc->decode : 1;
  tn_status st = TN_OK;
  tn_chat_reset(sc->chat);
  if (sc->other) tn_chat_reset(sc->other);
  for (size_t at = 0, take; st == TN_OK && at < rows; at += take) {
    take = at < at_once ? at_once - at : 1;
    if (take > sc->most_rows) take = sc->most_rows;
    st = score_rows(sc, ids, at, take, from, t);
    if (st == TN_OK && cli_interrupted()) st = TN_E_CANCELLED;
  }
  sc->s.windows++;
  return st;
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* done of all tokens of this text are scored. */
static void show_progress(cli_scorer *sc, size_t index, size_t count, size_t done, size_t all, const text_sums *t) {
  if (!isatty(STDERR_FILENO)) return;
  if (sc->start == 0) sc->start = seconds_now();
  const double share = ((double)index + (double)done / (double)all) / (double)count, spent = seconds_now() - sc->start,
               seen = (double)(sc->s.predicted + t->predicted);
  fprintf(stderr, "\rtext %zu of %zu, token %zu of %zu, perplexity %.3f, %.0f s left%8s", index + 1, count, done, all,
          seen > 0 ? exp((sc->s.nll + t->nll) / seen) : 0, share > 0 ? spent / share * (1 - share) : 0, "");
  if (index + 1 == count && done == all) fprintf(stderr, "\r%*s\r", 100, "");
}

static tn_status score_ids(cli_scorer *sc, const int32_t *ids, size_t n, size_t index, size_t count) {
  text_sums t = {0};
  tn_status st = n > 1 && !sc->vocab ? find_vocab(sc, ids[0]) : TN_OK;
  for (size_t i = 0; st == TN_OK && n > 1 && i < n; i++)
    if (ids[i] < 0 || (size_t)ids[i] >= sc->vocab)
      st = tni_fail(sc->err, TN_E_INVALID, "tokenizer.json", "token %d: the model has %zu", ids[i], sc->vocab);
  for (size_t begin = 0, done = 1; st == TN_OK && done < n; begin += sc->stride) {
    const size_t end = n - begin < sc->window ? n : begin + sc->window;
    st = score_window(sc, ids + begin, end - begin, done - begin, &t);
    done = end;
    show_progress(sc, index, count, done, n, &t);
  }
  if (st != TN_OK || n < 2) return st;
  sc->s.nll += t.nll;
  sc->s.nll_other += t.other;
  sc->s.text_means += t.nll / (double)t.predicted;
  sc->s.text_means_other += t.other / (double)t.predicted;
  sc->s.predicted += t.predicted;
  sc->s.texts++;
  return TN_OK;
}

tn_status cli_score_text(void *user, size_t index, size_t count, const char *text, size_t n) {
  cli_scorer *sc = user;
  int32_t *ids = NULL;
  size_t k = 0, bytes = 0;
  char *back = NULL;
  tn_status st = cli_text_encode(sc->lm, text, n, &ids, &k, sc->err);
  if (sc->max_tokens && k > sc->max_tokens) k = sc->max_tokens;
  if (st == TN_OK) st = score_ids(sc, ids, k, index, count);
  if (st == TN_OK && k > 1) st = tn_lm_decode(sc->lm, ids + 1, k - 1, 1, &back, &bytes, sc->err);
  sc->s.bytes += bytes;
  tn_free(back);
  free(ids);
  return st;
}
