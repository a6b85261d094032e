/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "tests/conformance/case.h"

typedef struct runner {
  tn_runtime *rt;
} runner;

static tn_tensor api_tensor(const tni_tensor *t, const char *name) {
  tn_tensor a = {
      .h = {sizeof a, 1, 0}, .name = name, .dtype = t->dtype, .rank = t->rank, .data = t->data, .bytes = t->bytes};
  memcpy(a.dims, t->dims, sizeof a.dims);
  return a;
}

/* A sequence or optional over n elements on the case's arena. */
static bool api_list(test_case *c, uint32_t dtype, const tn_tensor *items, uint32_t n, tn_tensor *out) {
  const tn_tensor **p = TNI_NEW_ARRAY(c->arena, const tn_tensor *, n + 1);
  for (uint32_t i = 0; p && i < n; i++) p[i] = &items[i];
  *out =
      (tn_tensor){.h = {sizeof *out, 1, 0}, .dtype = dtype, .rank = 1, .dims = {n}, .data = p, .bytes = n * sizeof *p};
  return p != NULL;
}

/* as: dtype of the model's input. */
static bool api_value(test_case *c, const case_value *v, uint32_t as, tn_tensor *out) {
  tn_tensor *items = TNI_NEW_ARRAY(c->arena, tn_tensor, v->n_items + 2), *inner = items + v->n_items;
  if (!items) return false;
  for (uint32_t i = 0; i < v->n_items; i++) items[i] = api_tensor(&v->items[i], NULL);
  if (v->kind == VALUE_TENSOR) *inner = api_tensor(&v->tensor, NULL);
  if (v->kind == VALUE_SEQUENCE && !api_list(c, TN_DT_SEQUENCE, items, v->n_items, inner)) return false;
  if (as == TN_DT_OPTIONAL) return api_list(c, TN_DT_OPTIONAL, inner, v->kind != VALUE_NONE, out);
  *out = *inner;
  return v->kind != VALUE_NONE;
}

static tni_tensor own_tensor(const tn_tensor *a) {
  tni_tensor t = {.dtype = a->dtype, .rank = a->rank, .data = (void *)(uintptr_t)a->data, .bytes = a->bytes};
  memcpy(t.dims, a->dims, sizeof t.dims);
  return t;
}

static case_value own_value(test_case *c, const tn_tensor *a) {
  case_value v = {.kind = VALUE_TENSOR};
  const tn_tensor *const *items = a->data;
  if (a->dtype == TN_DT_OPTIONAL) {
    if (a->dims[0]) return own_value(c, items[0]);
    v.kind = VALUE_NONE;
  } else if (a->dtype == TN_DT_SEQUENCE) {
    v.kind = VALUE_SEQUENCE;
    v.items = TNI_NEW_ARRAY(c->arena, tni_tensor, (size_t)a->dims[0] + 1);
    for (; v.items && v.n_items < (uint64_t)a->dims[0]; v.n_items++) v.items[v.n_items] = own_tensor(items[v.n_items]);
  } else {
    v.tensor = own_tensor(a);
  }
  return v;
}

/* Places the set's inputs at the model's: by[i] NULL where the set has none. */
static verdict place_inputs(test_case *c, const tn_model *m, const case_set *s, tn_tensor *by, uint32_t *n) {
  const char *names[CASE_MAX_IO];
  const uint32_t n_in = tn_model_n_inputs(m);
  if (n_in > CASE_MAX_IO) return case_give_up(c, FAILED, "too many inputs");
  for (uint32_t k = 0; k < n_in; k++) names[k] = tn_model_input(m, k)->name;
  for (uint32_t k = 0; k < s->n_in; k++) {
    const uint32_t at = case_input_index(s, k, names, n_in);
    if (at == UINT32_MAX) return case_give_up(c, FAILED, "input %u has no place", k);
    if (!api_value(c, &s->in[k], tn_model_input(m, at)->dtype, &by[k]))
      return case_give_up(c, FAILED, "input %u cannot be nothing", k);
    by[k].name = names[at];
    if (by[k].dtype == TN_DT_U16 && tn_model_input(m, at)->dtype == TN_DT_BF16) by[k].dtype = TN_DT_BF16;
  }
  *n = s->n_in;
  return PASSED;
}

static verdict run_set(test_case *c, tn_model *m, tn_session *ses, const case_set *s) {
  tn_tensor in[CASE_MAX_IO], out[CASE_MAX_IO];
  const tn_tensor *ins[CASE_MAX_IO];
  uint32_t n_in = 0;
  const uint32_t n_out = tn_model_n_outputs(m);
  if (n_out > CASE_MAX_IO || s->n_out > n_out) return case_give_up(c, FAILED, "the model has %u outputs", n_out);
  verdict v = place_inputs(c, m, s, in, &n_in);
  if (v) return v;
  for (uint32_t k = 0; k < n_in; k++) ins[k] = &in[k];
  memset(out, 0, sizeof out);
  for (uint32_t o = 0; o < n_out; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  const tn_status st = tn_session_run(ses, TN_PHASE_ANY, ins, n_in, out, n_out, &c->err);
  if (st) return case_status(c, st, "run");
  for (uint32_t i = 0; i < s->n_out && !v; i++) {
    const case_value got = own_value(c, &out[i]);
    v = case_compare(c, &got, &s->out[i], i);
  }
  return v;
}

static verdict run_sets(test_case *c, tn_model *m, tn_session *ses) {
  case_set *s = malloc(sizeof *s);
  verdict v = s ? PASSED : case_give_up(c, FAILED, "no memory");
  uint32_t i = 0;
  for (bool there = true; !v; i++) {
    v = case_load_set(c, i, s, &there);
    if (!there) break;
    if (!v) v = run_set(c, m, ses, s);
  }
  free(s);
  return !v && i == 0 ? case_give_up(c, FAILED, "no data set") : v;
}

static verdict runner_run(void *state, test_case *c) {
  runner *r = state;
  tn_model *m = NULL;
  tn_session *s = NULL;
  char path[CASE_PATH + 32];
  const tn_model_opts o = {.h = {sizeof o, 1, 0}};
  snprintf(path, sizeof path, "%s/model.onnx", c->dir);
  tn_status st = tn_model_load(r->rt, path, &o, &m, &c->err);
  if (st) return case_status(c, st, "load");
  st = tn_session_create(m, &s, &c->err);
  const verdict v = st ? case_status(c, st, "session") : run_sets(c, m, s);
  tn_session_destroy(s);
  tn_model_destroy(m);
  return v;
}

static void *runner_open(void) {
  runner *r = calloc(1, sizeof *r);
  char profiles[CASE_PATH];
  const char *dirs[] = {profiles}, *source = getenv("TENON_TEST_SOURCE");
  tn_error err;
  tn_error_init(&err);
  snprintf(profiles, sizeof profiles, "%s/configs", source ? source : ".");
  const tn_runtime_opts o = {
      .h = {sizeof o, 1, 0}, .profile = "host", .profile_dirs = dirs, .n_profile_dirs = 1, .threads = 2};
  if (r && tn_runtime_create(&o, &r->rt, &err) == TN_OK) return r;
  fprintf(stderr, "runtime: %s\n", err.message);
  free(r);
  return NULL;
}

static void runner_close(void *state) {
  runner *r = state;
  tn_runtime_destroy(r->rt);
  free(r);
}

const way way_run = {"run", runner_open, runner_run, runner_close};
