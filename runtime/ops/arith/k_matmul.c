/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMul (NumPy's rules for ranks and batches) and Gemm on the engine of gemm.h.
 */
#include "runtime/ops/gemm/gemm.h"
#include "runtime/ops/kernel/kernel.h"

/* Batch dims of the output with each operand's stride in matrices; false where they do not broadcast. */
static bool batch_strides(tni_gemm *g, const tni_tensor *x, const tni_tensor *w, uint32_t xb, uint32_t wb) {
  const uint32_t rank = xb > wb ? xb : wb;
  int64_t xs = g->M * g->K, ws = g->K * g->N;
  g->batch_rank = rank;
  g->batches = 1;
  for (uint32_t i = 0; i < rank; i++) {
    const uint32_t d = rank - 1 - i;
    const int64_t nx = i < xb ? x->dims[xb - 1 - i] : 1, nw = i < wb ? w->dims[wb - 1 - i] : 1;
    if (nx != nw && nx != 1 && nw != 1) return false;
    g->batch_dims[d] = nx == 1 ? nw : nx;
    g->a_batch[d] = nx == 1 ? 0 : xs;
    g->b_batch[d] = nw == 1 ? 0 : ws;
    g->batches *= g->batch_dims[d];
    xs *= nx;
    ws *= nw;
  }
  return true;
}

tn_status tni_k_matmul(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *w = a->in[1];
  tni_gemm g = {.dtype = x->dtype,
                .a = x->data,
                .b = w->data,
                .y = a->out[0]->data,
                .a_col = 1,
                .b_col = 1,
                .alpha = 1,
                .beta = 1,
                .skips_zeros = a->skips_zeros};
  if (!tni_gemm_accepts(x->dtype) || w->dtype != x->dtype) return tni_kdtype(a, w->dtype);
  if (!x->rank || !w->rank) return tni_kfail(a, TN_E_INVALID, "MatMul: a scalar operand");
  const uint32_t xb = x->rank > 2 ? x->rank - 2 : 0, wb = w->rank > 2 ? w->rank - 2 : 0;
  g.K = x->dims[x->rank - 1];
  g.M = x->rank > 1 ? x->dims[x->rank - 2] : 1;
  g.N = w->rank > 1 ? w->dims[w->rank - 1] : 1;
  const int64_t k = w->rank > 1 ? w->dims[w->rank - 2] : w->dims[0];
  if (k != g.K) return tni_kfail(a, TN_E_INVALID, "MatMul: inner dims %lld and %lld", (long long)g.K, (long long)k);
  if (!batch_strides(&g, x, w, xb, wb)) return tni_kfail(a, TN_E_INVALID, "MatMul: batch dims do not broadcast");
  if (g.batches * g.M * g.N != tni_knumel(a->out[0]))
    return tni_kfail(a, TN_E_INVALID, "MatMul: the output does not fit");
  if (!wb) { /* one matrix for all batches: their rows are one long M */
    g.M *= g.batches;
    g.batches = 1;
    g.batch_rank = 0;
  }
  g.a_row = g.K;
  g.b_row = g.N;
  tni_ops_quantized room;
  tni_ops_quantized_pack(&g, w, true, 0, &room);
  tni_gemm_run(&g, a->scratch, a->run);
  return TN_OK;
}

tn_status tni_k_gemm(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *w = a->in[1], *c = a->n_in > 2 ? a->in[2] : NULL;
  const bool ta = tni_at_i(a->node, TNI_A_TRANSA, 0) != 0, tb = tni_at_i(a->node, TNI_A_TRANSB, 0) != 0;
  tni_gemm g = {.dtype = x->dtype, .a = x->data, .b = w->data, .y = a->out[0]->data, .batches = 1};
  if (!tni_gemm_accepts(x->dtype) || w->dtype != x->dtype) return tni_kdtype(a, w->dtype);
  if (x->rank != 2 || w->rank != 2)
    return tni_kfail(a, TN_E_INVALID, "Gemm: operands of ranks %u and %u", x->rank, w->rank);
  g.alpha = (float)tni_at_f(a->node, TNI_A_ALPHA, 1);
  g.beta = (float)tni_at_f(a->node, TNI_A_BETA, 1);
  g.M = x->dims[ta];
  g.K = x->dims[!ta];
  g.N = w->dims[!tb];
  if (w->dims[tb] != g.K)
    return tni_kfail(a, TN_E_INVALID, "Gemm: inner dims %lld and %lld", (long long)g.K, (long long)w->dims[tb]);
  g.a_row = ta ? 1 : x->dims[1];
  g.a_col = ta ? x->dims[1] : 1;
  g.skips_zeros = a->skips_zeros && !ta;
  g.b_row = tb ? 1 : w->dims[1];
  g.b_col = tb ? w->dims[1] : 1;
  tni_ops_quantized room;
  tni_ops_quantized_pack(&g, w, !tb, 0, &room);
  if (c && tni_knumel(a->out[0])) {
    tni_bcast b;
    const int64_t cols = c->rank ? c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? c->dims[0] : 1;
    if (c->dtype != x->dtype) return tni_kdtype(a, c->dtype);
    if (!tni_bcast_init(&b, a->out[0], &c, 1)) return tni_kfail(a, TN_E_INVALID, "Gemm: C does not broadcast");
    g.c = c->data;
    g.c_col = cols == 1 ? 0 : 1;
    g.c_row = rows == 1 ? 0 : cols;
  }
  tni_gemm_run(&g, a->scratch, a->run);
  return TN_OK;
}
