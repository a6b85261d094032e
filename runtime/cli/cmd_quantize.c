/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of few bits, from one of floats and a text.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenon/quantize.h>

#include "runtime/cli/cli.h"
#include "runtime/cli/generate.h"
#include "runtime/cli/mixed/mixed.h"
#include "runtime/cli/texts/texts.h"

typedef struct quantize_opts {
  char *out, *text, *width, *weights, *fold, *to, *embeddings;
  uint32_t folds, form; /* TN_QUANTIZE_* */
  double max_mb, mean; /* mean: bits with a point; 0: none */
  int bits, block, zeros, round, piece;
  long long max_tokens, memory;
  char **texts;
  uint32_t n_texts, cap;
} quantize_opts;

/* Bytes of activations that memory holds: solving a product wants the rest of what is free. */
static uint64_t memory_of(const quantize_opts *q) {
  const cli_free f = cli_free_memory("");
  const uint64_t left = f.all < f.own ? f.all : f.own, least = 256000000;
  if (q->memory) return (uint64_t)q->memory * 1000000;
  return left != UINT64_MAX && left / 4 > least ? left / 4 : least;
}

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

static bool is_mixed(const quantize_opts *q) { return q->mean > 0 || q->max_mb > 0; }

static json_t *plain_json(const quantize_opts *q, const json_t *notes) {
  json_t *j = q->weights ? json_pack("{s:s, s:s}", "folder", q->out, "weights", q->weights)
                         : json_pack("{s:s, s:i, s:i}", "folder", q->out, "bits", q->bits, "block", q->block);
  json_t *fold = json_object_get(notes, "fold");
  if (q->embeddings) json_object_set_new(j, "embeddings", json_string(q->embeddings));
  if (fold) json_object_set(j, "fold", fold);
  return j;
}

static void show(const quantize_opts *q, const json_t *notes) {
  if (is_mixed(q))
    cli_mixed_show(notes, stdout);
  else if (q->weights)
    printf("%s: %s\n", q->out, q->weights);
  else
    printf("%s: %d bits in blocks of %d\n", q->out, q->bits, q->block);
  if (!is_mixed(q) && q->embeddings) printf("embeddings: %s\n", q->embeddings);
  cli_mixed_show_fold(notes, stdout);
}

/* What was made, and what quantize.json says, where there is one. */
static int show_made(cli *c, const quantize_opts *q) {
  char *path = NULL, *text = NULL;
  size_t n = 0;
  json_t *notes = NULL;
  if (is_mixed(q) || q->folds) {
    const tn_status st =
        asprintf(&path, "%s/quantize.json", q->out) < 0 ? TN_E_NO_MEMORY : cli_read(path, &text, &n, &c->err);
    notes = st == TN_OK ? json_loadb(text, n, 0, NULL) : NULL;
    free(path);
    free(text);
    if (st != TN_OK) return cli_fail(c, st);
    json_object_set_new(notes, "folder", json_string(q->out));
  }
  if (c->format == FMT_JSON)
    cli_print_json(is_mixed(q) ? json_incref(notes) : plain_json(q, notes), JSON_INDENT(1));
  else
    show(q, notes);
  json_decref(notes);
  return EXIT_DONE;
}

/* Conversations take the model's template, so the model is loaded for them. */
static int read_texts(cli *c, quantize_opts *q) {
  char *text = NULL;
  size_t n = 0;
  tn_lm *lm = NULL;
  tn_status st = cli_read(q->text, &text, &n, &c->err);
  const bool chats = st == TN_OK && cli_texts_chats(q->text, text, n);
  int rc = chats && !c->rt ? cli_open(c, TN_RT_SCAN) : 0;
  if (!rc && chats) rc = gen_load(c, c->operand, 0, &lm);
  if (!rc && st == TN_OK) st = cli_texts_each(lm, q->text, text, n, add_text, q, &c->err);
  tn_lm_destroy(lm);
  free(text);
  return rc || st == TN_OK ? rc : cli_fail(c, st);
}

static int quantize_model(cli *c, quantize_opts *q) {
  const tn_quantize_opts o = {.h = {sizeof o, 1, 0},
                              .model = c->operand,
                              .model_file = c->model_file,
                              .folder = q->out,
                              .bits = (uint32_t)q->bits,
                              .block = (uint32_t)q->block,
                              .mean_bits = q->mean,
                              .max_bytes = (uint64_t)(q->max_mb * 1e6),
                              .flags = q->folds | q->form | (q->zeros ? TN_QUANTIZE_ZEROS : 0) | (q->round ? TN_QUANTIZE_ROUND : 0),
                              .threads = (uint32_t)c->threads,
                              .texts = (const char *const *)q->texts,
                              .n_texts = q->n_texts,
                              .piece = (uint32_t)q->piece,
                              .max_tokens = (uint64_t)q->max_tokens,
                              .memory = memory_of(q),
                              .progress = show_progress,
                              .weights = q->weights,
                              .embeddings = q->embeddings,
                              .runtime = c->rt};
  const tn_status st = cli_saved(c, tn_quantize(&o, &c->err));
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 78, "");
  if (st != TN_OK) return cli_fail(c, st);
  return show_made(c, q);
}

/* --bits: a whole number is of every code; one with a point is the mean. */
static bool take_bits(quantize_opts *q) {
  if (!q->width) return true;
  char *end;
  const double v = strtod(q->width, &end);
  if (end == q->width || *end || !(v > 0 && v < 64)) return false;
  if (strchr(q->width, '.'))
    q->mean = v;
  else
    q->bits = (int)v;
  return strchr(q->width, '.') || v == 2 || v == 3 || v == 4 || v == 8;
}

/* --fold: names with commas. */
static bool take_folds(quantize_opts *q) {
  static const struct {
    const char *name;
    uint32_t flag;
  } known[] = {{"scales", TN_QUANTIZE_SCALES}, {"rotate-vo", TN_QUANTIZE_ROTATE_VO}, {"none", 0}};
  char *save = NULL, *names = q->fold ? strdup(q->fold) : NULL;
  bool ok = names || !q->fold;
  for (char *n = names ? strtok_r(names, ",", &save) : NULL; ok && n; n = strtok_r(NULL, ",", &save)) {
    ok = false;
    for (size_t i = 0; !ok && i < sizeof known / sizeof *known; i++) {
      ok = strcmp(n, known[i].name) == 0;
      if (ok) q->folds |= known[i].flag;
    }
  }
  free(names);
  return ok;
}

/* --to: what else is to run the folder. */
static bool take_form(quantize_opts *q) {
  if (!q->to || strcmp(q->to, "tenon") == 0) return true;
  q->form = strcmp(q->to, "onnx") == 0 ? TN_QUANTIZE_ONNX : strcmp(q->to, "qdq") == 0 ? TN_QUANTIZE_QDQ : 0;
  return q->form != 0;
}

static int check_options(cli *c, quantize_opts *q) {
  if (!q->out || !*q->out) return cli_usage(c, "-o DIR is needed");
  if (!q->text == !q->round) return cli_usage(c, "--text FILE is needed, or --round without it");
  if (!take_bits(q))
    return cli_usage(c, "--bits %s: 2, 3, 4 or 8, or a mean with a point, as 3.5", q->width);
  if (!take_folds(q)) return cli_usage(c, "--fold %s: scales, rotate-vo, both with a comma, or none", q->fold);
  if (!take_form(q)) return cli_usage(c, "--to %s: tenon, onnx or qdq", q->to);
  if (q->round && (q->folds & TN_QUANTIZE_SCALES))
    return cli_usage(c, "--fold scales is for --text FILE, which --round does not read");
  if (q->block & (q->block - 1)) return cli_usage(c, "--block %d: 16, 32, 64 or 128", q->block);
  if (!is_mixed(q) && q->weights && (q->zeros || q->width || q->block))
    return cli_usage(c, "--weights says bits, block and zeros too");
  if (!is_mixed(q)) return 0;
  if (q->max_mb > 0 && q->width) return cli_usage(c, "--bits and --max-mb: one of them");
  if (q->round || q->zeros || q->block) return cli_usage(c, "a budget takes no --round, --zeros and --block");
  return 0;
}

int cmd_quantize(int argc, const char **argv) {
  cli c = {.command = "quantize"};
  quantize_opts q = {.bits = 4, .piece = 512};
  const opt_row own[] = {
      {"output", 'o', OPT_TEXT, &q.out, "DIR", NULL, "the folder to make", NULL},
      {"text", 0, OPT_TEXT, &q.text, "FILE", NULL, "for calibration: a text, or a .json list or .jsonl lines of texts or chats", NULL},
      {"bits", 0, OPT_TEXT, &q.width, "B", NULL, "of a weight: 2, 3, 4 or 8; with a point (3.5) the mean of all in the file", "4"},
      {"max-mb", 0, OPT_REAL, &q.max_mb, "M", ">0", "of the model's files: widths by what products lose", ""},
      {"block", 0, OPT_INT, &q.block, "N", "16..128", "weights that share a scale: 16, 32, 64 or 128", "32"},
      {"weights", 0, OPT_TEXT, &q.weights, "F", NULL, "a weight format by its name, in place of bits and block", NULL},
      {"embeddings", 0, OPT_TEXT, &q.embeddings, "F", NULL, "the table: 8, 4:32 (bits, block), head (its codes) or none", "none"},
      {"fold", 0, OPT_TEXT, &q.fold, "LIST", NULL, "before: scales, rotate-vo (docs/quantize.md)", "none"},
      {"to", 0, OPT_TEXT, &q.to, "FORM", NULL, "who is to run it: tenon; onnx: MatMulNBits; qdq: DequantizeLinear", "tenon"},
      {"zeros", 0, OPT_FLAG, &q.zeros, NULL, NULL, "a zero point for each block", NULL},
      {"round", 0, OPT_FLAG, &q.round, NULL, NULL, "round to nearest, without calibration", NULL},
      {"max-tokens", 0, OPT_LONG, &q.max_tokens, "N", "0..", "first N tokens of all texts", "all"},
      {"piece", 0, OPT_INT, &q.piece, "N", "1..", "tokens that run at once", NULL},
      {"memory", 0, OPT_LONG, &q.memory, "MB", "1..1000000", "of activations; more lie in DIR.partial", "a quarter of what is free"},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL -o DIR --text FILE [options]", .operand = "MODEL", .own = own});
  if (!rc) rc = check_options(&c, &q);
  if (!rc && !q.block && !is_mixed(&q)) q.block = 32;
  if (!rc && (q.weights || is_mixed(&q))) rc = cli_open(&c, TN_RT_SCAN);
  if (!rc && q.text) rc = read_texts(&c, &q);
  if (!rc) rc = quantize_model(&c, &q);
  for (uint32_t i = 0; i < q.n_texts; i++) free(q.texts[i]);
  free(q.texts);
  cli_finish(&c);
  return rc;
}
