/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/calibrate/partial.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/shell/shell.h"

/* The file is written after this long at the soonest, and after this many times what writing it took before. */
static const int64_t KEEP_NS = INT64_C(2000000000), KEEP_TIMES = 100;

void cli_partial_init(cli_partial *p, tn_model *m, const tn_calibration_text *what) {
  *p = (cli_partial){.m = m, .what = *what, .pass = 1, .ids = UINT64_C(0xcbf29ce484222325)};
}

void cli_partial_finish(cli_partial *p) {
  free(p->path);
  free(p->options);
  *p = (cli_partial){0};
}

/* FNV-1a, in words. */
static void add_to_hash(uint64_t *h, uint64_t v) { *h = (*h ^ v) * UINT64_C(0x100000001b3); }

void cli_partial_ids(cli_partial *p, const int32_t *ids, size_t n) {
  add_to_hash(&p->ids, n);
  for (size_t i = 0; i < n; i++) add_to_hash(&p->ids, (uint32_t)ids[i]);
}

tn_status cli_partial_open(cli_partial *p, const char *out, const char *how, tn_error *err) {
  if (asprintf(&p->path, "%s.partial", out) < 0) p->path = NULL;
  if (asprintf(&p->options, "tenon %s, %s, ids %016llx", tn_version(), how, (unsigned long long)p->ids) < 0)
    p->options = NULL;
  if (!p->path || !p->options) return tni_fail_memory(err, out);
  p->what.options = p->options;
  const tn_status st = tn_model_calibration_resume(p->m, &p->what, p->path, &p->pass, &p->before, err);
  p->resumed = st == TN_OK;
  p->useless = st == TN_E_CORRUPT || st == TN_E_INVALID;
  p->kept_ns = tni_now_ns();
  if (st == TN_E_UNAVAILABLE) tni_error_begin(err);
  return p->useless || st == TN_E_UNAVAILABLE ? TN_OK : st;
}

static tn_status keep_now(cli_partial *p, tn_error *err) {
  const int64_t start = tni_now_ns();
  const tn_status st = tn_model_calibration_keep(p->m, &p->what, p->path, err);
  p->kept_ns = tni_now_ns();
  p->took_ns = p->kept_ns - start;
  return st;
}

bool cli_partial_skips(cli_partial *p) {
  if (p->what.done >= p->before) return false;
  p->what.done++;
  return true;
}

tn_status cli_partial_piece(cli_partial *p, tn_error *err) {
  const int64_t wait = KEEP_TIMES * p->took_ns > KEEP_NS ? KEEP_TIMES * p->took_ns : KEEP_NS;
  p->what.done++;
  return tni_now_ns() - p->kept_ns > wait || cli_interrupted() ? keep_now(p, err) : TN_OK;
}

tn_status cli_partial_pass(cli_partial *p, tn_error *err) {
  const bool more = p->what.done > p->before;
  tn_status st = p->pass == 1 ? tn_model_calibration_next(p->m, err) : TN_OK;
  if (p->pass == 1) p->what.done = 0;
  if (st == TN_OK && (more || p->pass == 1)) st = keep_now(p, err);
  p->pass++;
  p->what.done = p->before = 0;
  return st;
}

bool cli_partial_drop(const cli_partial *p) { return unlink(p->path) == 0; }
