/* SPDX-License-Identifier: Apache-2.0
 *
 * A text that is longer than a piece is cut into pieces, each with BOS in front and a context of its own.
 */
#include "runtime/cli/calibrate/calibrate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/calibrate/partial.h"
#include "runtime/cli/shell/shell.h"
#include "runtime/cli/texts/texts.h"

typedef struct calibrator {
  const cli_calibration *o;
  cli_partial partial;
  bool looks;      /* the texts are only looked at */
  bool said;       /* where it goes on */
  bool unsaved;    /* a file could not be written */
  uint64_t tokens; /* of this pass */
  tn_error *err;
} calibrator;

/* Of what writes a file. */
static tn_status note_saved(calibrator *k, tn_status st) {
  k->unsaved = k->unsaved || st == TN_E_IO;
  return st;
}

static void show_progress(calibrator *k, size_t index, size_t count) {
  const cli_partial *p = &k->partial;
  if (p->resumed && !k->said) k->o->note("goes on at text %zu of %zu, pass %u of 2", index + 1, count, p->pass);
  k->said = true;
  if (!isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\rpass %u of 2: text %zu of %zu, %llu tokens ", p->pass, index + 1, count,
          (unsigned long long)k->tokens);
}

static tn_status run_piece(calibrator *k, const int32_t *ids, size_t n, size_t index, size_t count) {
  const float *logits;
  size_t rows, vocab;
  if (k->looks) cli_partial_ids(&k->partial, ids, n);
  k->tokens += n;
  if (k->looks || cli_partial_skips(&k->partial)) return TN_OK;
  show_progress(k, index, count);
  tn_chat_reset(k->o->chat);
  const tn_status st = tn_chat_score(k->o->chat, ids, n, &logits, &rows, &vocab, k->err);
  return st == TN_OK ? note_saved(k, cli_partial_piece(&k->partial, k->err)) : st;
}

/* BOS, if the text begins with it, begins every piece. */
static tn_status run_ids(calibrator *k, int32_t *ids, size_t n, size_t index, size_t count) {
  const size_t piece = k->o->piece;
  const bool bos = n && ids[0] == tn_lm_bos(k->o->lm);
  const int32_t first = n ? ids[0] : 0;
  tn_status st = TN_OK;
  for (size_t at = 0; st == TN_OK && at < n;) {
    const size_t left = n - at, m = left < piece ? left : piece;
    if (bos) ids[at] = first; /* the token in its place ran in the piece before */
    st = run_piece(k, ids + at, m, index, count);
    if (st == TN_OK && cli_interrupted()) st = tni_fail(k->err, TN_E_CANCELLED, NULL, "cancelled");
    at += m;
    if (bos && at < n && piece > 1) at--;
  }
  return st;
}

static tn_status run_text(void *user, size_t index, size_t count, const char *text, size_t n) {
  calibrator *k = user;
  int32_t *ids = NULL;
  size_t n_ids = 0;
  tn_status st = cli_text_encode(k->o->lm, text, n, &ids, &n_ids, k->err);
  if (k->o->max_tokens && n_ids > (size_t)k->o->max_tokens) n_ids = (size_t)k->o->max_tokens;
  if (st == TN_OK) st = run_ids(k, ids, n_ids, index, count);
  free(ids);
  return st;
}

static tn_status run_texts(calibrator *k) {
  k->tokens = 0;
  return cli_texts_each(k->o->lm, k->o->file, k->o->text, k->o->n, run_text, k, k->err);
}

static tn_status open_partial(calibrator *k) {
  char how[64];
  snprintf(how, sizeof how, "max-tokens %d, piece %zu", k->o->max_tokens, k->o->piece);
  k->looks = true;
  tn_status st = run_texts(k);
  k->looks = false;
  if (st == TN_OK && k->tokens < 2) /* BOS alone */
    st = tni_fail(k->err, TN_E_INVALID, k->o->file, "'%s' has no text, so that there is nothing to record", k->o->file);
  if (st == TN_OK) st = cli_partial_open(&k->partial, k->o->out, how, k->err);
  if (st == TN_OK && k->partial.useless) k->o->note("%s: begins anew", tn_error_text(k->err));
  return st;
}

static tn_status run_passes(calibrator *k) {
  cli_partial *p = &k->partial;
  tn_status st = open_partial(k);
  while (st == TN_OK && p->pass <= 2) {
    st = run_texts(k);
    if (st == TN_OK) st = note_saved(k, cli_partial_pass(p, k->err));
  }
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 60, "");
  if (st == TN_OK && !k->said) k->o->note("all texts ran before");
  p->what.tokens = k->tokens;
  if (st == TN_OK) st = note_saved(k, tn_model_calibration_save(p->m, &p->what, k->o->out, k->err));
  if (st == TN_OK && !cli_partial_drop(p)) k->o->note("cannot remove '%s': %s", p->path, strerror(errno));
  return st;
}

tn_status cli_calibrate(const cli_calibration *o, uint64_t *tokens, bool *unsaved, tn_error *err) {
  const char *slash = strrchr(o->file, '/');
  const tn_calibration_text what = {
      .h = {sizeof what, 1, 0}, .name = slash ? slash + 1 : o->file, .bytes = o->text, .n_bytes = o->n};
  calibrator k = {.o = o, .err = err};
  cli_partial_init(&k.partial, tn_lm_model(o->lm), &what);
  const tn_status st = run_passes(&k);
  cli_partial_finish(&k.partial);
  *tokens = k.tokens;
  *unsaved = k.unsaved;
  return st;
}
