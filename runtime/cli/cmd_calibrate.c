/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation statistics. The host runs the text twice: the first pass finds maxima and percentiles, the second counts
 * what lies above. A text that is longer than a piece is cut into pieces, each with BOS in front and a context of its
 * own.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cli/generate.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/texts/texts.h"

enum { DEFAULT_PIECE = 512 };

typedef struct calib_opts {
  char *text, *out;
  int max_tokens, piece;
} calib_opts;

typedef struct calibrator {
  cli *c;
  const calib_opts *o;
  tn_lm *lm;
  tn_chat *chat;
  size_t piece; /* tokens that run at once, BOS included */
  int pass;
  uint64_t tokens; /* of this pass */
} calibrator;

static void show_progress(const calibrator *k, size_t index, size_t count) {
  if (!isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\rpass %d of 2: text %zu of %zu, %llu tokens ", k->pass, index + 1, count,
          (unsigned long long)k->tokens);
}

static tn_status run_piece(calibrator *k, const int32_t *ids, size_t n) {
  const float *logits;
  size_t rows, vocab;
  tn_chat_reset(k->chat);
  k->tokens += n;
  return tn_chat_score(k->chat, ids, n, &logits, &rows, &vocab, &k->c->err);
}

/* BOS, if the text begins with it, begins every piece. */
static tn_status run_ids(calibrator *k, int32_t *ids, size_t n, size_t index, size_t count) {
  const bool bos = n && ids[0] == tn_lm_bos(k->lm);
  const int32_t first = n ? ids[0] : 0;
  tn_status st = TN_OK;
  for (size_t at = 0; st == TN_OK && at < n;) {
    const size_t left = n - at, m = left < k->piece ? left : k->piece;
    if (bos) ids[at] = first; /* the token in its place ran in the piece before */
    show_progress(k, index, count);
    st = run_piece(k, ids + at, m);
    if (st == TN_OK && cli_interrupted()) st = TN_E_CANCELLED;
    at += m;
    if (bos && at < n && k->piece > 1) at--;
  }
  return st;
}

static tn_status run_text(void *user, size_t index, size_t count, const char *text, size_t n) {
  calibrator *k = user;
  int32_t *ids = NULL;
  size_t n_ids = 0;
  tn_status st = cli_text_encode(k->lm, text, n, &ids, &n_ids, &k->c->err);
  if (k->o->max_tokens && n_ids > (size_t)k->o->max_tokens) n_ids = (size_t)k->o->max_tokens;
  if (st == TN_OK) st = run_ids(k, ids, n_ids, index, count);
  free(ids);
  return st;
}

static int print_values(cli *c, tn_model *m, const char *out) {
  static const char *const header[] = {"activation", "channels",         "rows",    "max",
                                       "99.9 %",     "outlier channels", "outliers"};
  json_t *j = cli_report(c, m, TN_REPORT_CALIBRATION), *v;
  if (!j) return cli_fail(c, c->err.code ? c->err.code : TN_E_INTERNAL);
  json_object_set_new(j, "file", json_string(out));
  if (c->format == FMT_JSON) {
    cli_print_json(j, JSON_INDENT(1));
    return EXIT_DONE;
  }
  cli_table t;
  size_t i;
  cli_table_init(&t, header, 7);
  json_array_foreach(json_object_get(j, "values"), i, v) {
    char cells[6][32];
    static const char *const whole[] = {"channels", "rows", NULL, NULL, "outlier_channels", "outliers"};
    for (int k = 0; k < 6; k++)
      if (whole[k])
        snprintf(cells[k], sizeof *cells, "%lld", (long long)json_integer_value(json_object_get(v, whole[k])));
    snprintf(cells[2], sizeof *cells, "%.6g", json_real_value(json_object_get(v, "absmax")));
    snprintf(cells[3], sizeof *cells, "%.6g", json_real_value(json_object_get(v, "p999")));
    cli_table_add(&t, json_string_value(json_object_get(v, "name")), cells[0], cells[1], cells[2], cells[3], cells[4],
                  cells[5]);
  }
  cli_table_print(&t, c->format);
  cli_table_finish(&t);
  json_decref(j);
  return EXIT_DONE;
}

static tn_status run_passes(calibrator *k, const char *text, size_t n) {
  tn_model *m = tn_lm_model(k->lm);
  tn_status st = TN_OK;
  for (k->pass = 1; st == TN_OK && k->pass <= 2; k->pass++) {
    k->tokens = 0;
    if (k->pass == 2) st = tn_model_calibration_next(m, &k->c->err);
    if (st == TN_OK) st = cli_texts_each(k->lm, k->o->text, text, n, run_text, k, &k->c->err);
  }
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 60, "");
  const char *slash = strrchr(k->o->text, '/');
  const tn_calibration_text what = {.h = {sizeof what, 1, 0},
                                    .name = slash ? slash + 1 : k->o->text,
                                    .bytes = text,
                                    .n_bytes = n,
                                    .tokens = k->tokens};
  return st == TN_OK ? cli_saved(k->c, tn_model_calibration_save(m, &what, k->o->out, &k->c->err)) : st;
}

static int calibrate_model(cli *c, const char *path, const calib_opts *o) {
  calibrator k = {.c = c, .o = o};
  char *text = NULL;
  size_t n = 0;
  tn_status st = cli_read(o->text, &text, &n, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  int rc = gen_load(c, path, TN_MODEL_CALIBRATE, &k.lm);
  if (!rc) st = tn_chat_create(k.lm, &k.chat, &c->err);
  if (!rc && st == TN_OK) {
    const int64_t context = tn_lm_context(k.lm);
    k.piece = o->piece ? (size_t)o->piece : DEFAULT_PIECE;
    if ((int64_t)k.piece > context) k.piece = (size_t)context;
    cli_cancel_chat(k.chat);
    st = run_passes(&k, text, n);
    cli_cancel_chat(NULL);
  }
  if (!rc) rc = st == TN_OK ? print_values(c, tn_lm_model(k.lm), o->out) : cli_fail(c, st);
  if (!rc) cli_note("%llu tokens, written to '%s'", (unsigned long long)k.tokens, o->out);
  tn_chat_destroy(k.chat);
  tn_lm_destroy(k.lm);
  free(text);
  return rc;
}

int cmd_calibrate(int argc, const char **argv) {
  cli c = {.command = "calibrate"};
  calib_opts o = {0};
  const opt_row own[] = {
      {"text", 0, OPT_TEXT, &o.text, "FILE", NULL, "a text, or a .json list or .jsonl lines of texts or chats", NULL},
      {"output", 'o', OPT_TEXT, &o.out, "FILE", NULL, "the calibration file to write (.yaml)", NULL},
      {"max-tokens", 0, OPT_INT, &o.max_tokens, "N", "0..", "first N tokens of each text", "all"},
      {"piece", 0, OPT_INT, &o.piece, "N", "0..", "tokens that run at once", "512, at most the context"},
      OPT_ROWS_END};
  int rc = cli_parse(
      &c, argc, argv,
      &(cli_use){.usage = "MODEL --text FILE -o FILE [options]", .operand = "MODEL", .own = own, .context = true});
  if (!rc && !o.text) rc = cli_usage(&c, "--text FILE is needed");
  if (!rc && !o.out) rc = cli_usage(&c, "-o FILE is needed");
  if (!rc && c.profile && strcmp(c.profile, "host") != 0)
    rc = cli_usage(&c, "calibration runs in f32 on the host: --profile '%s' has no part in it", c.profile);
  if (!rc && !c.profile) c.profile = (char *)"host";
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = calibrate_model(&c, c.operand, &o);
  cli_finish(&c);
  return rc;
}
