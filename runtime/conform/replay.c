/* SPDX-License-Identifier: Apache-2.0
 *
 * One group of a model on the inputs that were saved with it, beside the format reference.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "runtime/conform/families.h"
#include "runtime/conform/model.h"

enum { MAX_IO = 64 };

/* What the plugin's tasks gave beside the reference: nobody else's are in the report. */
static void judge(tni_cf *cf, tn_session *s) {
  char *text = NULL;
  tn_error err;
  size_t i;
  json_t *t;
  tni_error_init(&err);
  if (tn_session_capture_report(s, &text, &err) != TN_OK) {
    tni_cf_fail(cf, "%s", err.message);
    return;
  }
  json_t *j = json_loads(text, 0, NULL), *tasks = json_object_get(j, "tasks");
  tn_free(text);
  if (!json_array_size(tasks)) tni_cf_fail(cf, "the plugin takes nothing of this case");
  json_array_foreach(tasks, i, t) {
    const double ratio = json_real_value(json_object_get(t, "worst_ratio"));
    const char *name = json_string_value(json_object_get(t, "task"));
    if (!(ratio <= 1))
      tni_cf_fail(cf, "'%s' is %.4g times its bound off: at most %.4g where the largest is %.4g", name, ratio,
                  json_real_value(json_object_get(t, "max_diff")),
                  json_real_value(json_object_get(t, "max_reference")));
    else
      tni_cf_note(cf, "'%s': %.3g of its bound", name, ratio);
  }
  json_decref(j);
}

static tn_status load_inputs(const char *folder, tn_tensor **in, uint32_t n, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%u.pb", folder, i);
    st = tn_tensor_load(path, &in[i], err);
  }
  return st;
}

static void run(tni_cf *cf, tn_runtime *rt) {
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
  if (st == TN_OK)
    st = tn_session_run(s, TN_PHASE_ANY, (const tn_tensor *const *)in, tn_model_n_inputs(m), out, tn_model_n_outputs(m),
                        &err);
  if (st == TN_OK)
    judge(cf, s);
  else
    tni_cf_fail(cf, "%s: %s", err.where, err.message);
  for (uint32_t i = 0; i < MAX_IO; i++) tn_free(in[i]);
  tn_session_destroy(s);
  tn_model_destroy(m);
}

static void replay(tni_cf *cf, const void *arg) {
  (void)arg;
  tni_cf_with_runtime(cf, run);
}

void tni_cf_replay_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  if (!l->subject->replay || !strcmp(l->subject->path, "host")) return;
  add(ctx, &(tni_cf_case){"replay/case", TNI_CF_LEVEL_ALL, 0, replay, NULL, 100000});
}
