/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/shape/edit.h"
#include "runtime/shape/rules/rules.h"

/* What DequantizeLinear makes of constant weights may be larger than other results, this much in all: a model that fits
 * runs as if it were stored in floats, a large one keeps its codes and does not grow. */
#define UNPACKED_MAX (UINT64_C(64) << 20)

typedef struct fold {
  tni_graph *g;
  uint64_t max_bytes;
  tni_eval_fn eval;
  void *ctx;
  uint32_t n;   /* nodes that went away */
  bool changed; /* a value became a constant, which may leave its node */
  tn_error *err;
} fold;

static tn_status make_const(fold *f, tni_node *n, uint32_t o, const tni_tensor *t) {
  tn_status st = tni_value_set_tensor(f->g, n->pub.out[o], t, NULL);
  if (st != TN_OK) {
    return tni_fail(f->err, st, n->pub.name, "%s \"%s\": its result is no valid constant", n->type, n->pub.name);
  }
  f->n += tni_detach_output(f->g, n, o);
  f->changed = true;
  return TN_OK;
}

/* Outputs whose elements inference found to be constant. */
static tn_status fold_known(fold *f, tni_node *n) {
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    tni_tensor t;
    if (n->pub.out[o] == TN_NONE) continue;
    const tni_value *v = f->g->values[n->pub.out[o]];
    if (!v->elems || !tni_elems_tensor(f->g, v, &t) || t.bytes > f->max_bytes) continue;
    tn_status st = make_const(f, n, o, &t);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* Bytes of a value whose dims are all constant. */
static bool const_size(const tni_graph *g, const tni_value *v, int64_t *dims, uint64_t *bytes) {
  int64_t count;
  if (v->pub.rank > TN_MAX_RANK) return false;
  for (uint32_t d = 0; d < v->pub.rank; d++) {
    if (v->pub.dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(g->exprs, v->pub.dims[d], &dims[d])) return false;
  }
  return tni_dims_count(dims, v->pub.rank, &count) == TN_OK && tni_dtype_bytes(v->pub.dtype, count, bytes) == TN_OK;
}

static bool unpacks_codes(const tni_node *n) { return n->pub.op == TN_OP_DEQUANTIZE_LINEAR; }

static bool is_foldable(const fold *f, const tni_node *n) {
  int64_t dims[TN_MAX_RANK];
  uint64_t bytes, most = f->max_bytes;
  if (unpacks_codes(n) && f->g->unpacked_bytes < UNPACKED_MAX && most < UNPACKED_MAX - f->g->unpacked_bytes)
    most = UNPACKED_MAX - f->g->unpacked_bytes;
  if (unpacks_codes(n) && f->g->keep_codes) return false;
  if (!f->eval || n->pub.n_in == 0 || (n->op->flags & TNI_OPF_CONTROL)) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tni_value *v = n->pub.in[i] == TN_NONE ? NULL : f->g->values[n->pub.in[i]];
    if (v && (v->pub.kind != TN_VALUE_CONST || v->tensor->quantized || v->tensor->rows)) return false;
    if (v && f->g->max_read && v->tensor->bytes > f->g->max_read) return false;
  }
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    if (n->pub.out[o] == TN_NONE) continue;
    if (!const_size(f->g, f->g->values[n->pub.out[o]], dims, &bytes) || bytes > most) return false;
  }
  return true;
}

/* What the kernel is to fill: the dims that the shape rule found. */
static bool prepare_fold(const fold *f, tn_id id, tni_tensor *t) {
  uint64_t bytes;
  if (id == TN_NONE) return true;
  const tni_value *v = f->g->values[id];
  t->dtype = v->pub.dtype;
  t->rank = v->pub.rank;
  if (!const_size(f->g, v, t->dims, &bytes)) return false;
  t->bytes = bytes;
  return true;
}

static bool agrees_with_known(const fold *f, tn_id id, const tni_tensor *t) {
  tni_tensor want = {.data = NULL};
  return prepare_fold(f, id, &want) && t->rank == want.rank && t->dtype == want.dtype && t->bytes == want.bytes &&
         memcmp(t->dims, want.dims, want.rank * sizeof *want.dims) == 0;
}

static tn_status fold_eval(fold *f, tni_node *n) {
  tn_error local;
  tn_status st = TN_E_NO_MEMORY;
  const tni_tensor **in = calloc(n->pub.n_in, sizeof *in);
  tni_tensor *out = calloc(n->pub.n_out ? n->pub.n_out : 1, sizeof *out);
  uint64_t bytes = 0;
  if (!in || !out) goto out;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    in[i] = n->pub.in[i] == TN_NONE ? NULL : f->g->values[n->pub.in[i]]->tensor;
    bytes += in[i] ? in[i]->bytes : 0;
  }
  st = TN_OK;
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    if (!prepare_fold(f, n->pub.out[o], &out[o])) goto out;
    bytes += out[o].bytes;
  }
  st = tni_budget_take(tni_ex_budget(f->g->exprs), bytes, f->err);
  if (st != TN_OK) goto out;
  tni_error_init(&local);
  st = f->eval(f->ctx, n, in, n->pub.n_in, out, n->pub.n_out, f->g->arena, &local);
  if (st != TN_OK && st != TN_E_NO_MEMORY) {
    st = TN_OK; /* it stays and fails where it runs, if it ever runs */
    goto out;
  }
  for (uint32_t o = 0; st == TN_OK && o < n->pub.n_out; o++) {
    if (n->pub.out[o] == TN_NONE) continue;
    if (!agrees_with_known(f, n->pub.out[o], &out[o])) {
      st = tni_fail(f->err, TN_E_INTERNAL, n->pub.name, "%s \"%s\": kernel and shape rule disagree", n->type,
                    n->pub.name);
    } else {
      if (unpacks_codes(n)) f->g->unpacked_bytes += out[o].bytes;
      st = make_const(f, n, o, &out[o]);
    }
  }
out:
  free(in);
  free(out);
  return st == TN_E_NO_MEMORY ? tni_fail_memory(f->err, n->pub.name) : st;
}

static tn_status fold_node(fold *f, tni_node *n) {
  tni_tensor t;
  if (n->pub.op == TN_OP_CONSTANT) {
    if (n->pub.n_out == 0 || n->pub.out[0] == TN_NONE || !tni_constant_tensor(f->g->arena, n, &t)) return TN_OK;
    return make_const(f, n, 0, &t);
  }
  tn_status st = fold_known(f, n);
  return st == TN_OK && !n->dead && is_foldable(f, n) ? fold_eval(f, n) : st;
}

/* What was lifted before its symbols were defined as numbers. */
static tn_status fold_step_values(fold *f) {
  for (uint32_t i = 0; i < f->g->n_values; i++) {
    const tni_value *v = f->g->values[i];
    tni_tensor t;
    if (v->pub.kind != TN_VALUE_STEP || v->is_output || !v->elems || !tni_elems_tensor(f->g, v, &t)) continue;
    if (tni_value_set_tensor(f->g, i, &t, NULL) != TN_OK) return tni_fail_memory(f->err, v->pub.name);
    f->n++;
    f->changed = true;
  }
  return TN_OK;
}

tn_status tni_fold_constants(tni_graph *g, uint64_t max_bytes, tni_eval_fn eval, void *ctx, uint32_t *n,
                             tn_error *err) {
  fold f = {.g = g, .max_bytes = max_bytes, .eval = eval, .ctx = ctx, .err = err};
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tni_node *node = g->nodes[i];
    if (node->dead || !node->op) continue;
    tn_status st = fold_node(&f, node);
    if (st != TN_OK) return st;
  }
  tn_status st = fold_step_values(&f);
  if (st == TN_OK && f.changed) st = tni_graph_finish(g, err);
  if (st == TN_OK && n) *n = f.n;
  return st;
}
