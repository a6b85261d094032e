/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation statistics: options, the model, and what was found.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/calibrate/calibrate.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/generate.h"

enum { DEFAULT_PIECE = 512 };

typedef struct calib_opts {
  char *text, *out;
  int max_tokens, piece;
} calib_opts;

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

static tn_status run(cli *c, const cli_calibration *k, uint64_t *tokens) {
  bool unsaved = false;
  cli_cancel_chat(k->chat);
  const tn_status st = cli_calibrate(k, tokens, &unsaved, &c->err);
  cli_cancel_chat(NULL);
  return unsaved ? cli_saved(c, st) : st;
}

static int calibrate_model(cli *c, const char *path, const calib_opts *o) {
  cli_calibration k = {.out = o->out, .file = o->text, .max_tokens = o->max_tokens, .note = cli_note};
  char *text = NULL;
  uint64_t tokens = 0;
  tn_status st = cli_read(o->text, &text, &k.n, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  k.text = text;
  int rc = gen_load(c, path, TN_MODEL_CALIBRATE, &k.lm);
  if (!rc) st = tn_chat_create(k.lm, &k.chat, &c->err);
  if (!rc && st == TN_OK) {
    const int64_t context = tn_lm_context(k.lm);
    k.piece = o->piece ? (size_t)o->piece : DEFAULT_PIECE;
    if ((int64_t)k.piece > context) k.piece = (size_t)context;
    st = run(c, &k, &tokens);
  }
  if (!rc) rc = st == TN_OK ? print_values(c, tn_lm_model(k.lm), o->out) : cli_fail(c, st);
  if (!rc) cli_note("%llu tokens, written to '%s'", (unsigned long long)tokens, o->out);
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
