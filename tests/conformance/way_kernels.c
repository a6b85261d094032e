/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/pool.h"
#include "runtime/onnx/import.h"
#include "runtime/ops/kernel/args.h"
#include "tests/conformance/case.h"

typedef struct kernels {
  tni_pool *pool;
  tni_pool_run run;
} kernels;

/* One run of a graph: values by id. */
typedef struct work {
  test_case *c;
  tn_run *run;
  const tni_graph *g;
  tni_tensor *values;
  bool *known;
} work;

static verdict run_node(work *w, const tni_node *n) {
  const tni_tensor *in[CASE_MAX_IO] = {NULL};
  const tn_value *vals[CASE_MAX_IO] = {NULL};
  tn_value pub[CASE_MAX_IO];
  tni_tensor out[CASE_MAX_IO];
  char why[160];
  if (!n->op) return case_give_up(w->c, REFUSED, "not in the op table: %s", n->type);
  if (n->pub.n_in > CASE_MAX_IO || n->pub.n_out > CASE_MAX_IO) return case_give_up(w->c, FAILED, "too many operands");
  if (!tni_ops_kernel(n->op)) return case_give_up(w->c, REFUSED, "no kernel: %s", n->type);
  for (uint32_t k = 0; k < n->pub.n_in; k++) {
    const tn_id v = n->pub.in[k];
    if (v == TN_NONE) continue;
    if (!w->known[v]) return case_give_up(w->c, FAILED, "%s: input %u was never computed", n->type, k);
    in[k] = &w->values[v];
    pub[k] = w->g->values[v]->pub;
    pub[k].dtype = w->values[v].dtype;
    vals[k] = &pub[k];
  }
  if (!tni_ops_accepts(&n->pub, vals, n->pub.n_in, why, sizeof why)) return case_give_up(w->c, REFUSED, "%s", why);
  const tn_status st = tni_ops_eval(w->run, n, in, n->pub.n_in, out, n->pub.n_out, w->c->arena, &w->c->err);
  if (st) return case_status(w->c, st, n->type);
  for (uint32_t k = 0; k < n->pub.n_out; k++) {
    if (n->pub.out[k] == TN_NONE) continue;
    w->values[n->pub.out[k]] = out[k];
    w->known[n->pub.out[k]] = true;
  }
  return PASSED;
}

static verdict bind_inputs(work *w, const case_set *s) {
  const char *names[CASE_MAX_IO];
  if (w->g->n_inputs > CASE_MAX_IO) return case_give_up(w->c, FAILED, "too many inputs");
  for (uint32_t k = 0; k < w->g->n_inputs; k++) names[k] = w->g->values[w->g->inputs[k]]->pub.name;
  for (uint32_t k = 0; k < s->n_in; k++) {
    const uint32_t at = case_input_index(s, k, names, w->g->n_inputs);
    if (at == UINT32_MAX) return case_give_up(w->c, FAILED, "input %u has no place", k);
    if (s->in[k].kind != VALUE_TENSOR) return case_give_up(w->c, REFUSED, "an input that is not a tensor");
    const tn_id id = w->g->inputs[at];
    w->values[id] = s->in[k].tensor;
    if (s->in[k].tensor.dtype == TN_DT_U16 && w->g->values[id]->pub.dtype == TN_DT_BF16)
      w->values[id].dtype = TN_DT_BF16;
    w->known[id] = true;
  }
  return PASSED;
}

static verdict run_set(work *w, const case_set *s) {
  memset(w->known, 0, w->g->n_values);
  for (uint32_t i = 0; i < w->g->n_values; i++)
    if (w->g->values[i]->tensor) {
      w->values[i] = *w->g->values[i]->tensor;
      w->known[i] = true;
    }
  verdict v = bind_inputs(w, s);
  for (uint32_t i = 0; !v && i < w->g->n_nodes; i++) v = run_node(w, w->g->nodes[i]);
  for (uint32_t i = 0; !v && i < s->n_out; i++) {
    if (i >= w->g->n_outputs || !w->known[w->g->outputs[i]])
      return case_give_up(w->c, FAILED, "output %u was never computed", i);
    const case_value got = {.kind = VALUE_TENSOR, .tensor = w->values[w->g->outputs[i]]};
    v = case_compare(w->c, &got, &s->out[i], i);
  }
  return v;
}

static verdict run_sets(work *w) {
  case_set *s = malloc(sizeof *s);
  verdict v = s ? PASSED : case_give_up(w->c, FAILED, "no memory");
  uint32_t i = 0;
  for (bool there = true; !v; i++) {
    v = case_load_set(w->c, i, s, &there);
    if (!there) break;
    if (!v) v = run_set(w, s);
  }
  free(s);
  return !v && i == 0 ? case_give_up(w->c, FAILED, "no data set") : v;
}

static verdict kernels_run(void *state, test_case *c) {
  kernels *k = state;
  tni_model *m = NULL;
  char path[CASE_PATH + 32];
  snprintf(path, sizeof path, "%s/model.onnx", c->dir);
  tn_status st = tni_import_file(path, NULL, NULL, &m, &c->err);
  if (st) return case_status(c, st, "import");
  work w = {.c = c, .run = &k->run.run, .g = m->graph};
  w.values = TNI_NEW_ARRAY(c->arena, tni_tensor, w.g->n_values + 1);
  w.known = TNI_NEW_ARRAY(c->arena, bool, w.g->n_values + 1);
  const verdict v = w.values && w.known ? run_sets(&w) : case_give_up(c, FAILED, "no memory");
  tni_model_destroy(m);
  return v;
}

static void *kernels_open(void) {
  kernels *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->pool = tni_pool_create(2);
  tni_pool_run_init(&k->run, k->pool, NULL);
  return k;
}

static void kernels_close(void *state) {
  kernels *k = state;
  tni_pool_destroy(k->pool);
  free(k);
}

const way way_kernels = {"kernels", kernels_open, kernels_run, kernels_close};
