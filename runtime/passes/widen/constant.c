/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/widen/constant.h"

#include <float.h>

#include "runtime/base/base.h"
#include "runtime/passes/build/build.h"

/* Smaller ones are widened: they cost nothing, and passes read them. */
enum { SMALL_BYTES = 64 << 10 };

/* --- who reads it ------------------------------------------------------------------------------------------------- */

static bool is_turn(const tni_node *n) {
  int64_t perm[2];
  return n->op && n->pub.op == TN_OP_TRANSPOSE && tni_match_perm(n, 2, perm) && perm[0] == 1;
}

static bool is_product(const tni_node *n) { return n->op && (n->pub.op == TN_OP_MATMUL || n->pub.op == TN_OP_GEMM); }

/* n reads v as the matrix of a product, and as nothing else. */
static bool multiplies(const tni_node *n, tn_id v) {
  if (!is_product(n) || n->n_captures || tni_match_in(n, 1) != v) return false;
  return n->pub.in[0] != v && tni_match_in(n, 2) != v;
}

static bool gathers(const tni_node *n, tn_id v) {
  return n->op && n->pub.op == TN_OP_GATHER && !n->n_captures && n->pub.in[0] == v &&
         tni_attr_i(&n->pub, "axis", 0) == 0;
}

/* A transpose that products alone read, as [K, N]. */
static bool turns(const tni_graph *g, const tni_node *n) {
  if (!is_turn(n) || g->values[n->pub.out[0]]->is_output) return false;
  const tni_value *y = g->values[n->pub.out[0]];
  for (uint32_t u = 0; u < y->pub.n_uses; u++) {
    const tni_node *r = g->nodes[y->pub.uses[u]];
    if (r->dead) continue;
    if (!multiplies(r, n->pub.out[0]) || (r->pub.op == TN_OP_GEMM && tni_attr_i(&r->pub, "transB", 0))) return false;
  }
  return true;
}

bool tni_widen_stays(const tni_graph *g, tn_id v) {
  const tni_value *x = g->values[v];
  const tni_tensor *t = x->tensor;
  if (!t || t->quantized || !t->data || t->rows || x->is_output) return false;
  if (g->max_read && t->bytes > g->max_read) return true;
  if (t->rank != 2 || t->bytes <= SMALL_BYTES) return false;
  for (uint32_t u = 0; u < x->pub.n_uses; u++) {
    const tni_node *n = g->nodes[x->pub.uses[u]];
    if (!n->dead && !multiplies(n, v) && !gathers(n, v) && !turns(g, n)) return false;
  }
  return true;
}

/* --- making it ---------------------------------------------------------------------------------------------------- */

/* Of f32, and its bytes. */
static tn_status wide_tensor(const tni_tensor *from, tni_tensor *to) {
  int64_t count;
  *to = *from;
  to->dtype = TN_DT_F32;
  to->data = NULL;
  const tn_status st = tni_dims_count(from->dims, from->rank, &count);
  return st == TN_OK ? tni_dtype_bytes(TN_DT_F32, count, &to->bytes) : st;
}

void tni_widen_lowest(uint32_t dtype, float *x, int64_t n) {
  for (int64_t i = 0; dtype == TN_DT_F16 && i < n; i++)
    if (x[i] == -65504.f) x[i] = -FLT_MAX;
}

static tn_status set_floats(tni_graph *g, const tni_tensor *from, tni_tensor *t, tn_id to) {
  const int64_t n = (int64_t)(t->bytes / sizeof(float));
  if (t->bytes > SIZE_MAX / 2) return TN_E_LIMIT;
  t->data = tni_arena_alloc(g->arena, t->bytes ? (size_t)t->bytes : 1, 64);
  if (!t->data) return TN_E_NO_MEMORY;
  tni_tensor_to_f32(from, 0, n, t->data);
  tni_widen_lowest(from->dtype, t->data, n);
  return tni_value_set_tensor(g, to, t, NULL);
}

static tn_status set_stored(tni_graph *g, const tni_value *from, tni_tensor *t, bool turned, tn_id to) {
  const tni_tensor *f = from->tensor;
  const int64_t rows = f->rank == 2 ? f->dims[0] : 1, columns = (int64_t)(f->bytes / 2) / (rows ? rows : 1);
  const tni_quantized q = tni_stored_halves(f->dtype, f->data, rows, columns, turned);
  const tni_origin origin = from->origin;
  t->quantized = tni_arena_memdup(g->arena, &q, sizeof q, _Alignof(tni_quantized));
  if (turned) {
    t->dims[0] = f->dims[1];
    t->dims[1] = f->dims[0];
  }
  return t->quantized ? tni_value_set_tensor(g, to, t, origin.file ? &origin : NULL) : TN_E_NO_MEMORY;
}

/* Transposes of the matrix are the matrix, read the other way. */
static tn_status turn_readers(tni_graph *g, tn_id v, const tni_tensor *wide) {
  const tni_value *x = g->values[v];
  tn_status st = TN_OK;
  for (uint32_t u = 0; st == TN_OK && u < x->pub.n_uses; u++) {
    tni_node *n = g->nodes[x->pub.uses[u]];
    tni_tensor t = *wide;
    if (n->dead || !turns(g, n)) continue;
    n->dead = true;
    st = set_stored(g, x, &t, true, n->pub.out[0]);
  }
  return st;
}

tn_status tni_widen_constant(tni_graph *g, tn_id v, tn_id to, bool stays, tn_error *err) {
  const tni_value *x = g->values[v];
  const tni_tensor *from = x->tensor;
  tni_tensor t;
  tn_status st = wide_tensor(from, &t);
  if (st == TN_OK && from->quantized && !from->data) {
    const tni_origin origin = x->origin;
    st = tni_value_set_tensor(g, to, &t, origin.file ? &origin : NULL);
  } else if (st == TN_OK && stays) {
    st = turn_readers(g, v, &t);
    if (st == TN_OK) st = set_stored(g, x, &t, false, to);
  } else if (st == TN_OK) {
    t.quantized = NULL;
    st = set_floats(g, from, &t, to);
  }
  return st == TN_OK ? st : tni_fail(err, st, x->pub.name, "'%s' cannot be widened to float32", x->pub.name);
}
