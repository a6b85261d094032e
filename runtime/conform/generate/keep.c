/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps over caches in place. The judged session and the first plain one take the same steps and must give the same
 * bits. Between two of them the second plain session takes steps of its own; then the first goes back and takes its
 * step once more, or the second begins anew with what the first holds and takes it: the same bits.
 */
#include "runtime/conform/generate/keep.h"

#include <string.h>

#include "runtime/conform/real/real.h"

enum { JUDGED, FIRST, SECOND, SESSIONS, STEP = 16, CAPACITY = 224 };

typedef struct kept {
  tni_cf *cf;
  gen_case *c;
  tn_model *m;
  tn_session *s[SESSIONS];
} kept;

static bool refused(kept *k, const char *how, tn_status st, const tn_error *err) {
  tni_cf_fail(k->cf, "%s: %s: %s (%s)", how, err->where, err->message, tni_status_name(st));
  return false;
}

static bool is_past(const char *name) { return !strncmp(name, "past_key_values", 15); }

static bool take_step(kept *k, int which, const gen_inputs *in, const char *how, gen_outputs *out) {
  const tn_tensor *list[TNI_CN_MAX_IN] = {NULL};
  tn_tensor t[MOST_OUT], *want[MOST_OUT] = {NULL};
  uint32_t n = 0;
  tn_error err;
  tni_error_init(&err);
  memset(t, 0, sizeof t);
  for (uint32_t i = 0; i < tn_model_n_inputs(k->m) && i < TNI_CN_MAX_IN; i++) {
    const char *name = tn_model_input(k->m, i)->name;
    for (uint32_t j = 0; j < in->n && !is_past(name); j++)
      if (!strcmp(in->t[j].name, name)) list[i] = &in->t[j];
  }
  for (uint32_t i = 0; i < tn_model_n_outputs(k->m) && i < MOST_OUT; i++) {
    if (!strncmp(tn_model_output(k->m, i)->name, "present", 7)) continue;
    t[n].h = (tn_hdr){sizeof t[n], 1, 0};
    want[i] = &t[n++];
  }
  const tn_status st = tn_session_step(k->s[which], TN_PHASE_ANY, list, want, 0, &err);
  return st == TN_OK ? tni_gen_outputs(k->cf, t, n, out) : refused(k, how, st, &err);
}

/* A ring may have lost what the position looks back to: that is said, and nothing has changed. */
static bool go_back(kept *k, int64_t to, bool *done) {
  tn_error err;
  tni_error_init(&err);
  const tn_status st = tn_session_truncate(k->s[FIRST], to, &err);
  *done = st == TN_OK;
  return st == TN_OK || st == TN_E_LIMIT || refused(k, "going back", st, &err);
}

static bool share(kept *k, int64_t n, bool *done) {
  tn_error err;
  tni_error_init(&err);
  const tn_status st = tn_session_share(k->s[SECOND], k->s[FIRST], n, &err);
  *done = st == TN_OK;
  return st == TN_OK || st == TN_E_LIMIT || refused(k, "beginning with what another session holds", st, &err);
}

static bool one_step(kept *k, int64_t n, uint32_t number) {
  const int64_t other = 1 + (n + 5 * number) % STEP, before = tn_session_length(k->s[FIRST]);
  gen_inputs in, in2;
  gen_outputs out[5] = {{.n = 0}};
  tn_error err;
  bool done = false, ok = tni_gen_inputs(k->cf, k->c, n, 1, 1000 + 2 * number, &in);
  tni_error_init(&err);
  ok = tni_gen_inputs(k->cf, k->c, other, 1, 1001 + 2 * number, &in2) && ok;
  if (tn_session_length(k->s[SECOND]) + 2 * STEP > CAPACITY && tn_session_truncate(k->s[SECOND], 0, &err) != TN_OK)
    ok = refused(k, "going back to 0", err.code, &err);
  ok = ok && take_step(k, JUDGED, &in, "a judged step", &out[0]);
  ok = ok && take_step(k, FIRST, &in, "a step", &out[1]);
  ok = ok && tni_gen_same(k->cf, &out[0], &out[1], n, "in a step where no task is watched");
  ok = ok && take_step(k, SECOND, &in2, "a step of a second session", &out[2]);
  if (ok && number % 3 != 2 && share(k, before, &done) && done) {
    ok = take_step(k, SECOND, &in, "a step on shared caches", &out[4]);
    ok = ok && tni_gen_same(k->cf, &out[1], &out[4], n, "in a step of a session that began with what this one holds");
  }
  ok = ok && go_back(k, before, &done);
  if (ok && done) {
    ok = take_step(k, FIRST, &in, "the same step again", &out[3]);
    ok = ok && tni_gen_same(k->cf, &out[1], &out[3], n, "in the same step again, once another session had its turn");
  }
  for (int i = 0; i < 5; i++) tni_gen_outputs_free(&out[i]);
  tni_gen_inputs_free(k->cf, &in);
  tni_gen_inputs_free(k->cf, &in2);
  return ok && k->cf->verdict != TNI_CF_FAIL;
}

static bool open_sessions(kept *k, tn_model *judged) {
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .batch = k->c->g->batch[0], .capacity = CAPACITY, .max_step = STEP};
  tn_error err;
  tni_error_init(&err);
  for (int i = 0; i < SESSIONS; i++) {
    tn_status st = tn_session_create(i == JUDGED ? judged : k->m, &k->s[i], &err);
    if (st == TN_OK) st = tn_session_keep(k->s[i], &o, &err);
    if (st == TN_E_UNSUPPORTED && !strstr(err.message, "plugin")) return false;
    if (st != TN_OK) return refused(k, "keeping caches", st, &err);
  }
  return true;
}

void tni_gen_keep(tni_cf *cf, gen_case *c, tn_model *judged, tn_model *plain) {
  kept k = {.cf = cf, .c = c, .m = plain};
  bool ok = tn_model_has_cache(plain) && open_sessions(&k, judged);
  for (uint32_t i = 0, number = 0; ok && i < c->g->n_runs; i++) {
    ok = one_step(&k, 1 + (tni_gen_step_rows(c->g, i) - 1) % STEP, number++);
    ok = ok && one_step(&k, 1, number++);
  }
  if (ok) (void)tni_cf_judge_session(cf, k.s[JUDGED], false, false);
  for (int i = 0; i < SESSIONS; i++) tn_session_destroy(k.s[i]);
}
