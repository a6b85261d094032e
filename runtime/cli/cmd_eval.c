/* SPDX-License-Identifier: Apache-2.0
 *
 * Perplexity. Each text is scored alone: BOS (the tokenizer's own, else the model's), then its first tokens up to the
 * context or --max-tokens; every token after the first is predicted once. With --decode N the last N positions of each
 * text are computed one by one, as generating does it (and on the devices of that phase).
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cli/generate.h"
#include "runtime/cli/texts.h"

typedef struct eval_opts {
  char *text, *against;
  int max_tokens, decode;
} eval_opts;

typedef struct score {
  double nll, nll_other, kl, text_means, text_means_other, off; /* off: largest difference of two logits of one row,
                                                                    relative to the row's largest |logit| */
  uint64_t predicted, agree, bytes, texts;
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
  size_t vocab, decode;
  int64_t limit;
  float *rows[2]; /* logits of one text by lm and other */
  score s;
} scorer;

static void compare_logits(scorer *sc, const float *x, const float *y) {
  float most = 0, off = 0;
  for (size_t k = 0; k < sc->vocab; k++) {
    const float d = fabsf(x[k] - y[k]);
    if (!(d <= off)) off = d; /* NaN too */
    if (fabsf(y[k]) > most) most = fabsf(y[k]);
  }
  const double rel = most > 0 ? (double)off / (double)most : (double)off;
  if (!(rel <= sc->s.off)) sc->s.off = rel;
}

static double compare_rows(scorer *sc, const int32_t *ids, size_t rows) {
  double text = 0;
  for (size_t i = 0; i < rows; i++) {
    const float *x = sc->rows[0] + i * sc->vocab, *y = sc->rows[1] + i * sc->vocab;
    log_softmax(x, sc->vocab, sc->p);
    log_softmax(y, sc->vocab, sc->q);
    for (size_t k = 0; k < sc->vocab; k++)
      if (sc->q[k] > -700) sc->s.kl += exp(sc->q[k]) * (sc->q[k] - sc->p[k]);
    sc->s.agree += argmax_of_row(x, sc->vocab) == argmax_of_row(y, sc->vocab);
    text -= sc->q[ids[i + 1]];
    compare_logits(sc, x, y);
  }
  return text;
}

static tn_status make_room(scorer *sc, int side, size_t rows, size_t vocab) {
  if (sc->vocab && vocab != sc->vocab) return TN_E_INVALID;
  if (!sc->vocab) {
    sc->p = malloc(vocab * sizeof *sc->p);
    sc->q = malloc(vocab * sizeof *sc->q);
    sc->vocab = vocab;
    if (!sc->p || !sc->q) return TN_E_NO_MEMORY;
  }
  if (vocab && rows > SIZE_MAX / sizeof(float) / vocab) return TN_E_LIMIT;
  float *p = realloc(sc->rows[side], rows * vocab * sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  sc->rows[side] = p;
  return TN_OK;
}

/* Logits of all n positions into rows[side]: first what is computed at once, then one by one. */
static tn_status logits_of(scorer *sc, int side, tn_chat *chat, const int32_t *ids, size_t n) {
  const size_t first = sc->decode < n ? n - sc->decode : 1;
  tn_chat_reset(chat);
  for (size_t at = 0; at < n;) {
    const float *got = NULL;
    size_t rows = 0, vocab = 0;
    const size_t want = at ? 1 : first;
    tn_status st = tn_chat_score(chat, ids + at, want, &got, &rows, &vocab, &sc->c->err);
    if (st == TN_OK && rows != want) st = TN_E_INTERNAL;
    if (st == TN_OK && !at) st = make_room(sc, side, n, vocab);
    if (st != TN_OK) return st;
    memcpy(sc->rows[side] + at * sc->vocab, got, rows * sc->vocab * sizeof *got);
    at += rows;
  }
  return TN_OK;
}

static tn_status score_ids(scorer *sc, const int32_t *ids, size_t n) {
  double text = 0, other = 0;
  if (n < 2) return TN_OK;
  const size_t rows = n - 1;
  tn_status st = logits_of(sc, 0, sc->chat, ids, rows);
  for (size_t i = 0; st == TN_OK && i < rows; i++) {
    if (ids[i + 1] < 0 || (size_t)ids[i + 1] >= sc->vocab) return TN_E_INVALID;
    log_softmax(sc->rows[0] + i * sc->vocab, sc->vocab, sc->p);
    text -= sc->p[ids[i + 1]];
  }
  if (st == TN_OK && sc->other) {
    st = logits_of(sc, 1, sc->other, ids, rows);
    if (st == TN_OK) other = compare_rows(sc, ids, rows);
  }
  if (st != TN_OK) return st;
  sc->s.nll += text;
  sc->s.nll_other += other;
  sc->s.text_means += text / (double)rows;
  sc->s.text_means_other += other / (double)rows;
  sc->s.predicted += rows;
  sc->s.texts++;
  return TN_OK;
}

static tn_status score_text(void *user, size_t index, size_t count, const char *text, size_t n) {
  scorer *sc = user;
  int32_t *ids = NULL;
  size_t k = 0, bytes = 0;
  char *back = NULL;
  if (count > 1 && isatty(STDERR_FILENO)) fprintf(stderr, "\rtext %zu of %zu ", index + 1, count);
  tn_status st = cli_text_encode(sc->lm, text, n, &ids, &k, &sc->c->err);
  if ((int64_t)k > sc->limit) k = (size_t)sc->limit;
  if (st == TN_OK) st = score_ids(sc, ids, k);
  if (st == TN_OK && k > 1) st = tn_lm_decode(sc->lm, ids + 1, k - 1, 1, &back, &bytes, &sc->c->err);
  if (index + 1 == count && isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 40, "");
  sc->s.bytes += bytes;
  tn_free(back);
  free(ids);
  return st;
}

static int print_score(const cli *c, const score *s, const char *against) {
  double n = s->predicted ? (double)s->predicted : 1, texts = s->texts ? (double)s->texts : 1;
  json_t *j = json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "texts", (json_int_t)s->texts, "tokens",
                        (json_int_t)s->predicted, "bytes", (json_int_t)s->bytes, "mean_nll", s->nll / n,
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
    json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    putchar('\n');
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

/* The other side: the format reference in the same profile, or plain f32 on the host profile. */
static int open_other(cli *c, cli *host, const char *path, const char *against, tn_lm **other) {
  if (strcmp(against, "reference") == 0) return gen_load(c, path, TN_MODEL_REFERENCE, other);
  if (strcmp(against, "host") != 0) return cli_usage(c, "--against takes reference or host");
  *host = (cli){
      .command = c->command, .profile = (char *)"host", .format = c->format, .threads = c->threads, .cpus = c->cpus};
  int rc = cli_open(host, 0);
  return rc ? rc : gen_load(host, path, 0, other);
}

static int evaluate_model(cli *c, const char *path, const eval_opts *o) {
  scorer sc = {.c = c, .decode = (size_t)o->decode};
  cli host = {0};
  tn_lm *other = NULL;
  char *text = NULL;
  size_t n = 0;
  tn_error_init(&c->err);
  tn_status st = cli_read(o->text, &text, &n, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  int rc = gen_load(c, path, 0, &sc.lm);
  if (!rc && o->against) rc = open_other(c, &host, path, o->against, &other);
  if (!rc) st = tn_chat_create(sc.lm, &sc.chat, &c->err);
  if (!rc && st == TN_OK && other) st = tn_chat_create(other, &sc.other, &c->err);
  if (!rc && st == TN_OK) {
    sc.limit = tn_lm_context(sc.lm);
    if (o->max_tokens && o->max_tokens < sc.limit) sc.limit = o->max_tokens;
    cli_cancel_chat(sc.chat);
    st = cli_texts_each(o->text, text, n, score_text, &sc, &c->err);
    cli_cancel_chat(NULL);
  }
  if (!rc && st == TN_OK) cli_note_weights(c, tn_lm_model(sc.lm));
  if (!rc) rc = st == TN_OK ? print_score(c, &sc.s, o->against) : cli_fail(c, st);
  tn_chat_destroy(sc.chat);
  tn_chat_destroy(sc.other);
  tn_lm_destroy(sc.lm);
  tn_lm_destroy(other);
  tn_runtime_destroy(host.rt);
  free(sc.rows[0]);
  free(sc.rows[1]);
  free(sc.p);
  free(sc.q);
  free(text);
  return rc;
}

int cmd_eval(int argc, const char **argv) {
  cli c = {.command = "eval"};
  eval_opts o = {0};
  const opt_row own[] = {
      {"text", 0, OPT_TEXT, &o.text, "FILE", NULL, "a text, or a .json list of strings that are scored one by one",
       NULL},
      {"against", 0, OPT_TEXT, &o.against, NULL, "reference|host", "adds KL divergence and top-1 agreement", NULL},
      {"max-tokens", 0, OPT_INT, &o.max_tokens, "N", "0..", "first N tokens of each text", "the context"},
      {"decode", 0, OPT_INT, &o.decode, "N", "0..", "compute the last N positions of each text one by one", NULL},
      OPT_ROWS_END};
  int rc =
      cli_parse(&c, argc, argv,
                &(cli_use){.usage = "MODEL --text FILE [options]", .operand = "MODEL", .own = own, .context = true});
  if (!rc && !o.text) rc = cli_usage(&c, "--text FILE is needed");
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = evaluate_model(&c, c.operand, &o);
  cli_finish(&c);
  return rc;
}
