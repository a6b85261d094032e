/* SPDX-License-Identifier: Apache-2.0
 *
 * One group of a model on the inputs that were saved with it, beside the format reference.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "runtime/conform/life/life.h"
#include "runtime/conform/real/real.h"

enum { MAX_IO = 64 };

static tn_status load_inputs(const char *folder, tn_tensor **in, uint32_t n, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%u.pb", folder, i);
    st = tn_tensor_load(path, &in[i], err);
  }
  return st;
}

static void replay_run(tni_cf *cf, tn_runtime *rt, void *arg) {
  (void)arg;
  tn_error err;
  tn_model *m = NULL;
  tn_session *s = NULL;
  tn_tensor *in[MAX_IO] = {NULL}, out[MAX_IO];
  const tn_model_opts o = {.h = {sizeof o, 1, 0}, .flags = TN_MODEL_CAPTURE};
  tni_error_init(&err);
  memset(out, 0, sizeof out);
  tn_status st = tn_model_load(rt, cf->subject->replay, &o, &m, &err);
  if (st == TN_OK && (tn_model_n_inputs(m) > MAX_IO || tn_model_n_outputs(m) > MAX_IO))
    st = tni_fail(&err, TN_E_LIMIT, cf->subject->replay, "more than %d inputs or outputs", MAX_IO);
  if (st == TN_OK) st = tn_session_create(m, &s, &err);
  if (st == TN_OK) st = load_inputs(cf->subject->replay, in, tn_model_n_inputs(m), &err);
  for (uint32_t i = 0; i < MAX_IO; i++) out[i].h = (tn_hdr){sizeof *out, 1, 0};
  if (st == TN_OK)
    st = tn_session_run(s, TN_PHASE_ANY, (const tn_tensor *const *)in, tn_model_n_inputs(m), out, tn_model_n_outputs(m),
                        &err);
  if (st != TN_OK)
    tni_cf_fail(cf, "%s: %s", err.where, err.message);
  else if (!tni_cf_judge_session(cf, s, true, false))
    tni_cf_fail(cf, "the plugin takes nothing of this case");
  for (uint32_t i = 0; i < MAX_IO; i++) tn_free(in[i]);
  tn_session_destroy(s);
  tn_model_destroy(m);
}

static void check_replay(tni_cf *cf, const void *arg) {
  (void)arg;
  tni_cf_with_runtime(cf, 2, 0, NULL, replay_run, NULL);
}

void tni_cf_replay_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  if (!l->subject->replay || !strcmp(l->subject->path, "host")) return;
  add(ctx, &(tni_cf_case){"replay/case", TNI_CF_LEVEL_ALL, 0, check_replay, NULL, 100000});
}
