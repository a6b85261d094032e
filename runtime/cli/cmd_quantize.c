/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of few bits, from one of floats and a text.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenon/quantize.h>

#include "runtime/cli/texts.h"

typedef struct quantize_opts {
  char *out, *text, *weights;
  int bits, block, zeros, round, piece;
  long long max_tokens;
  char **texts;
  uint32_t n_texts, cap;
} quantize_opts;

static tn_status add_text(void *user, size_t index, size_t count, const char *text, size_t n) {
  quantize_opts *q = user;
  (void)index;
  if (q->n_texts == q->cap) {
    const uint32_t cap = q->cap ? 2 * q->cap : (uint32_t)(count < 64 ? 64 : count);
    char **grown = realloc(q->texts, cap * sizeof *grown);
    if (!grown) return TN_E_NO_MEMORY;
    q->texts = grown;
    q->cap = cap;
  }
  if (!(q->texts[q->n_texts] = strndup(text, n))) return TN_E_NO_MEMORY;
  q->n_texts++;
  return TN_OK;
}

static tn_status show_progress(void *user, const char *product, uint32_t done, uint32_t count) {
  (void)user;
  if (cli_interrupted()) return TN_E_CANCELLED;
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r%u of %u: %s", 78, "", done, count, product);
  return TN_OK;
}

static int quantize_model(cli *c, quantize_opts *q) {
  char *text = NULL;
  size_t n = 0;
  tn_status st = q->text ? cli_read(q->text, &text, &n, &c->err) : TN_OK;
  if (st == TN_OK && q->text) st = cli_texts_each(q->text, text, n, add_text, q, &c->err);
  free(text);
  const tn_quantize_opts o = {.h = {sizeof o, 1, 0},
                              .model = c->operand,
                              .model_file = c->model_file,
                              .folder = q->out,
                              .bits = (uint32_t)q->bits,
                              .block = (uint32_t)q->block,
                              .flags = (q->zeros ? TN_QUANTIZE_ZEROS : 0) | (q->round ? TN_QUANTIZE_ROUND : 0),
                              .threads = (uint32_t)c->threads,
                              .texts = (const char *const *)q->texts,
                              .n_texts = q->n_texts,
                              .piece = (uint32_t)q->piece,
                              .max_tokens = (uint64_t)q->max_tokens,
                              .progress = show_progress,
                              .weights = q->weights,
                              .runtime = c->rt};
  if (st == TN_OK) st = cli_saved(c, tn_quantize(&o, &c->err));
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 78, "");
  for (uint32_t i = 0; i < q->n_texts; i++) free(q->texts[i]);
  free(q->texts);
  if (st != TN_OK) return cli_fail(c, st);
  if (c->format == FMT_JSON)
    cli_print_json(q->weights ? json_pack("{s:s, s:s}", "folder", q->out, "weights", q->weights)
                              : json_pack("{s:s, s:i, s:i}", "folder", q->out, "bits", q->bits, "block", q->block),
                   JSON_INDENT(1));
  else if (q->weights)
    printf("%s: %s\n", q->out, q->weights);
  else
    printf("%s: %d bits in blocks of %d\n", q->out, q->bits, q->block);
  return EXIT_DONE;
}

int cmd_quantize(int argc, const char **argv) {
  cli c = {.command = "quantize"};
  quantize_opts q = {.piece = 512};
  const opt_row own[] = {
      {"output", 'o', OPT_TEXT, &q.out, "DIR", NULL, "the folder to make", NULL},
      {"text", 0, OPT_TEXT, &q.text, "FILE", NULL, "for calibration: a text, or a .json list of strings", NULL},
      {"bits", 0, OPT_INT, &q.bits, "B", "2..8", "of a weight: 2, 3, 4 or 8", "4"},
      {"block", 0, OPT_INT, &q.block, "N", "16..128", "weights that share a scale: 16, 32, 64 or 128", "32"},
      {"weights", 0, OPT_TEXT, &q.weights, "F", NULL, "a weight format by its name, in place of bits and block", NULL},
      {"zeros", 0, OPT_FLAG, &q.zeros, NULL, NULL, "a zero point for each block", NULL},
      {"round", 0, OPT_FLAG, &q.round, NULL, NULL, "round to nearest, without calibration", NULL},
      {"max-tokens", 0, OPT_LONG, &q.max_tokens, "N", "0..", "first N tokens of all texts", "all"},
      {"piece", 0, OPT_INT, &q.piece, "N", "1..", "tokens that run at once", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL -o DIR --text FILE [options]", .operand = "MODEL", .own = own});
  if (!rc && (!q.out || !*q.out)) rc = cli_usage(&c, "-o DIR is needed");
  if (!rc && !q.text == !q.round) rc = cli_usage(&c, "--text FILE is needed, or --round without it");
  if (!q.weights && !q.bits) q.bits = 4;
  if (!q.weights && !q.block) q.block = 32;
  if (!rc && !q.weights && q.bits != 2 && q.bits != 3 && q.bits != 4 && q.bits != 8)
    rc = cli_usage(&c, "--bits %d: 2, 3, 4 or 8", q.bits);
  if (!rc && (q.block & (q.block - 1))) rc = cli_usage(&c, "--block %d: 16, 32, 64 or 128", q.block);
  if (!rc && q.weights && (q.zeros || q.bits || q.block))
    rc = cli_usage(&c, "--weights says bits, block and zeros too");
  if (!rc && q.weights) rc = cli_open(&c, TN_RT_SCAN);
  if (!rc) rc = quantize_model(&c, &q);
  cli_finish(&c);
  return rc;
}
