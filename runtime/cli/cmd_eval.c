/* SPDX-License-Identifier: Apache-2.0
 *
 * Perplexity, as the field's scripts compute it: a text begins with BOS (the tokenizer's own, else the model's) and is
 * run in windows of --window tokens that begin --stride tokens apart. In each window only tokens that no window before
 * has scored are scored, so every token after the first counts once (with a stride of a window, all but each
 * window'"'"'s first), with at least window - stride tokens before it. With --decode N the last N positions of each
 * window are computed one by one, as generating does it (and on the devices of that phase).
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cli/generate.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/texts/texts.h"

/* Logits that are computed at once at most: a window of a large vocabulary runs in parts. */
enum { MOST_LOGITS = 1 << 26, FEWEST_ROWS = 64 };

typedef struct eval_opts {
  char *text, *against, *original;
  int max_tokens, decode, window, stride;
} eval_opts;

typedef struct score {
  double nll, nll_other, kl, text_means, text_means_other, off; /* off: largest difference of two logits of one row,
                                                                    relative to the row's largest |logit| */
  uint64_t predicted, agree, bytes, texts, windows;
} score;

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

typedef struct scorer {
  cli *c;
  tn_lm *lm;
  tn_chat *chat, *other; /* other: NULL without --against */
  double *p, *q;
  size_t vocab, decode, most_rows, window, stride, max_tokens;
  double start; /* when the first window began */
  score s;
} scorer;

static void compare_logits(scorer *sc, const float *x, const float *y) {
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
static double compare_rows(scorer *sc, const float *x, const float *y, int32_t next) {
  log_softmax(y, sc->vocab, sc->q);
  for (size_t k = 0; k < sc->vocab; k++)
    if (sc->q[k] > -700) sc->s.kl += exp(sc->q[k]) * (sc->q[k] - sc->p[k]);
  sc->s.agree += argmax_of_row(x, sc->vocab) == argmax_of_row(y, sc->vocab);
  compare_logits(sc, x, y);
  return -sc->q[next];
}

/* How many tokens a vocabulary has is known when one was scored. */
static tn_status find_vocab(scorer *sc, int32_t id) {
  const float *logits;
  size_t rows, vocab;
  tn_status st = tn_chat_score(sc->chat, &id, 1, &logits, &rows, &vocab, &sc->c->err);
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
static tn_status score_rows(scorer *sc, const int32_t *ids, size_t at, size_t n, size_t from, text_sums *t) {
  const float *x = NULL, *y = NULL;
  size_t rows = 0, vocab = 0;
  tn_status st = tn_chat_score(sc->chat, ids + at, n, &x, &rows, &vocab, &sc->c->err);
  if (st == TN_OK && (rows != n || vocab != sc->vocab)) st = TN_E_INTERNAL;
  if (st == TN_OK && sc->other) st = tn_chat_score(sc->other, ids + at, n, &y, &rows, &vocab, &sc->c->err);
  if (st == TN_OK && vocab != sc->vocab)
    st = cli_error(&sc->c->err, TN_E_INVALID, "--original", "%zu tokens, and the model has %zu", vocab, sc->vocab);
  if (st == TN_OK && rows != n) st = TN_E_INTERNAL;
  for (size_t i = 0; st == TN_OK && i < n; i++) {
    const int32_t next = ids[at + i + 1];
    if (at + i + 1 < from) continue;
    log_softmax(x + i * vocab, vocab, sc->p);
    t->nll -= sc->p[next];
    if (y) t->other += compare_rows(sc, x + i * vocab, y + i * vocab, next);
    if (!isfinite(t->nll) || !isfinite(t->other))
      st = cli_error(&sc->c->err, TN_E_UNSUPPORTED, "logits", "the model gives no probability of token %d, the %zuth: "
                     "its logit is -inf, or logits are NaN", next, at + i + 2);
    t->predicted++;
  }
  return st;
}

/* Tokens 0 .. n of a window: those from `from` on are scored. The last one is only predicted. */
static tn_status score_window(scorer *sc, const int32_t *ids, size_t n, size_t from, text_sums *t) {
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
static void show_progress(scorer *sc, size_t index, size_t count, size_t done, size_t all, const text_sums *t) {
  if (!isatty(STDERR_FILENO)) return;
  if (sc->start == 0) sc->start = seconds_now();
  const double share = ((double)index + (double)done / (double)all) / (double)count, spent = seconds_now() - sc->start,
               seen = (double)(sc->s.predicted + t->predicted);
  fprintf(stderr, "\rtext %zu of %zu, token %zu of %zu, perplexity %.3f, %.0f s left%8s", index + 1, count, done, all,
          seen > 0 ? exp((sc->s.nll + t->nll) / seen) : 0, share > 0 ? spent / share * (1 - share) : 0, "");
  if (index + 1 == count && done == all) fprintf(stderr, "\r%*s\r", 100, "");
}

static tn_status score_ids(scorer *sc, const int32_t *ids, size_t n, size_t index, size_t count) {
  text_sums t = {0};
  tn_status st = n > 1 && !sc->vocab ? find_vocab(sc, ids[0]) : TN_OK;
  for (size_t i = 0; st == TN_OK && n > 1 && i < n; i++)
    if (ids[i] < 0 || (size_t)ids[i] >= sc->vocab)
      st = cli_error(&sc->c->err, TN_E_INVALID, "tokenizer.json", "token %d: the model has %zu", ids[i], sc->vocab);
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

static tn_status score_text(void *user, size_t index, size_t count, const char *text, size_t n) {
  scorer *sc = user;
  int32_t *ids = NULL;
  size_t k = 0, bytes = 0;
  char *back = NULL;
  tn_status st = cli_text_encode(sc->lm, text, n, &ids, &k, &sc->c->err);
  if (sc->max_tokens && k > sc->max_tokens) k = sc->max_tokens;
  if (st == TN_OK) st = score_ids(sc, ids, k, index, count);
  if (st == TN_OK && k > 1) st = tn_lm_decode(sc->lm, ids + 1, k - 1, 1, &back, &bytes, &sc->c->err);
  sc->s.bytes += bytes;
  tn_free(back);
  free(ids);
  return st;
}

static int print_score(const cli *c, const scorer *sc, const char *against) {
  const score *s = &sc->s;
  double n = s->predicted ? (double)s->predicted : 1, texts = s->texts ? (double)s->texts : 1;
  json_t *j = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "texts", (json_int_t)s->texts, "tokens",
                        (json_int_t)s->predicted, "windows", (json_int_t)s->windows, "window", (json_int_t)sc->window,
                        "stride", (json_int_t)sc->stride, "bytes", (json_int_t)s->bytes, "mean_nll", s->nll / n,
                        "mean_nll_of_texts", s->text_means / texts, "perplexity", exp(s->nll / n), "bits_per_byte",
                        s->bytes ? s->nll / log(2) / (double)s->bytes : 0);
  if (against) {
    json_object_set_new(j, "against", json_string(against));
    json_object_set_new(j, "other_mean_nll", json_real(s->nll_other / n));
    json_object_set_new(j, "other_mean_nll_of_texts", json_real(s->text_means_other / texts));
    json_object_set_new(j, "kl_divergence", json_real(s->kl / n));
    json_object_set_new(j, "top1_agreement", json_real((double)s->agree / n));
    json_object_set_new(j, "largest_logit_difference", json_real(s->off));
  }
  if (c->format == FMT_JSON) {
    cli_print_json(json_incref(j), JSON_INDENT(1) | JSON_REAL_PRECISION(10));
  } else {
    static const char *const header[] = {"figure", "value"};
    const char *key;
    json_t *v;
    cli_table t;
    cli_table_init(&t, header, 2);
    json_object_foreach(j, key, v) {
      char buf[64];
      if (json_is_integer(v))
        snprintf(buf, sizeof buf, "%lld", (long long)json_integer_value(v));
      else if (json_is_real(v))
        snprintf(buf, sizeof buf, "%.6f", json_real_value(v));
      cli_table_add(&t, key, json_is_string(v) ? json_string_value(v) : buf);
    }
    cli_table_print(&t, c->format);
    cli_table_finish(&t);
  }
  json_decref(j);
  return EXIT_DONE;
}

/* The other side: the format reference in the same profile, or plain f32 on the host profile, there of another model
 * that may be given. */
static int open_other(cli *c, cli *host, const char *path, const eval_opts *o, tn_lm **other) {
  if (strcmp(o->against, "reference") == 0) return gen_load(c, path, TN_MODEL_REFERENCE, other);
  *host = (cli){
      .command = c->command, .profile = (char *)"host", .format = c->format, .threads = c->threads, .cpus = c->cpus};
  int rc = cli_open(host, 0);
  return rc ? rc : gen_load(host, o->original ? o->original : path, 0, other);
}

/* A window is the context, and begins half of one after the one before, where the options say nothing else. */
static int choose_windows(scorer *sc, const eval_opts *o) {
  const int64_t context = tn_lm_context(sc->lm);
  if (o->window > context)
    return cli_usage(sc->c, "--window %d: the context is %lld tokens; -c N asks for more", o->window,
                     (long long)context);
  sc->window = (size_t)(o->window ? o->window : context);
  if (sc->window < 2) return cli_usage(sc->c, "a window of %zu tokens scores nothing: -c N asks for more", sc->window);
  if ((size_t)o->stride > sc->window)
    return cli_usage(sc->c, "--stride %d: at most the window of %zu tokens", o->stride, sc->window);
  sc->stride = (size_t)(o->stride ? o->stride : (int)(sc->window / 2));
  return 0;
}

static int evaluate_model(cli *c, const char *path, const eval_opts *o) {
  scorer sc = {.c = c, .decode = (size_t)o->decode, .max_tokens = (size_t)o->max_tokens};
  cli host = {0};
  tn_lm *other = NULL;
  char *text = NULL;
  size_t n = 0;
  tn_status st = cli_read(o->text, &text, &n, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  int rc = gen_load(c, path, 0, &sc.lm);
  if (!rc && o->against) rc = open_other(c, &host, path, o, &other);
  if (!rc) st = tn_chat_create(sc.lm, &sc.chat, &c->err);
  if (!rc && st == TN_OK && other) st = tn_chat_create(other, &sc.other, &c->err);
  if (!rc && st == TN_OK) rc = choose_windows(&sc, o);
  if (!rc && st == TN_OK) {
    cli_cancel_chat(sc.chat);
    st = cli_texts_each(sc.lm, o->text, text, n, score_text, &sc, &c->err);
    cli_cancel_chat(NULL);
  }
  if (!rc && st == TN_OK && !sc.s.predicted)
    st = cli_error(&c->err, TN_E_INVALID, o->text, "'%s' has no text of two tokens, so that there is nothing to score", o->text);
  if (!rc && st == TN_OK) cli_note_weights(c, tn_lm_model(sc.lm));
  if (!rc) rc = st == TN_OK ? print_score(c, &sc, o->against) : cli_fail(c, st);
  tn_chat_destroy(sc.chat);
  tn_chat_destroy(sc.other);
  tn_lm_destroy(sc.lm);
  tn_lm_destroy(other);
  tn_runtime_destroy(host.rt);
  free(sc.p);
  free(sc.q);
  free(text);
  return rc;
}

int cmd_eval(int argc, const char **argv) {
  cli c = {.command = "eval"};
  eval_opts o = {0};
  const opt_row own[] = {
      {"text", 0, OPT_TEXT, &o.text, "FILE", NULL, "a text, or a .json list or .jsonl lines of texts or chats, scored one by one",
       NULL},
      {"against", 0, OPT_TEXT, &o.against, NULL, "reference|host", "adds KL divergence and top-1 agreement", NULL},
      {"original", 0, OPT_TEXT, &o.original, "MODEL", NULL, "with --against host: what MODEL was quantized from", NULL},
      {"max-tokens", 0, OPT_INT, &o.max_tokens, "N", "0..", "first N tokens of each text; 0: all", NULL},
      {"window", 0, OPT_INT, &o.window, "N", "2..", "tokens that are run at once", "the context"},
      {"stride", 0, OPT_INT, &o.stride, "N", "1..", "tokens from one window's begin to the next's", "half a window"},
      {"decode", 0, OPT_INT, &o.decode, "N", "0..", "compute the last N positions of each window one by one", NULL},
      OPT_ROWS_END};
  int rc =
      cli_parse(&c, argc, argv,
                &(cli_use){.usage = "MODEL --text FILE [options]", .operand = "MODEL", .own = own, .context = true});
  if (!rc && !o.text) rc = cli_usage(&c, "--text FILE is needed");
  if (!rc && o.original && (!o.against || strcmp(o.against, "host") != 0))
    rc = cli_usage(&c, "--original goes with --against host");
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = evaluate_model(&c, c.operand, &o);
  cli_finish(&c);
  return rc;
}
