/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/ops/arith/arith.h"
#include "runtime/ops/conv/conv.h"
#include "runtime/ops/gemm/gemm.h"
#include "runtime/ops/nn/nn.h"
#include "runtime/ops/recurrent/recurrent.h"
#include "runtime/shape/dims/dims.h"
#include "runtime/shape/shape.h"

static void inline_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  (void)run;
  (void)grain;
  if (n > 0) body(arg, 0, n, 0);
}

static int32_t never_cancelled(const tn_run *run) {
  (void)run;
  return 0;
}

void tni_run_inline(tn_run *run) {
  *run = (tn_run){.h = TN_HDR(tn_run), .n_workers = 1, .parallel_for = inline_for, .cancelled = never_cancelled};
}

uint64_t tni_ops_scratch(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, const tni_tensor *out,
                         uint32_t n_workers) {
  uint64_t bytes = 0;
  if (!n_in || !in[0]) return 0;
  switch (node->op) {
    case TN_OP_MATMUL:
    case TN_OP_GEMM:
    case TN_OP_CONV:
    case TN_OP_DEFORM_CONV:
      return tni_gemm_scratch(in[0]->dtype, n_workers);
    case TN_OP_MATMUL_INTEGER:
    case TN_OP_MATMUL_INTEGER_TO_FLOAT:
    case TN_OP_QLINEAR_MATMUL:
    case TN_OP_CONV_INTEGER:
    case TN_OP_QLINEAR_CONV:
    case TN_OP_QLINEAR_GEMM:
      return tni_bgemm_scratch(n_workers);
    case TN_OP_RNN:
    case TN_OP_GRU:
    case TN_OP_LSTM:
      return tni_recurrent_scratch(node, in, n_in, n_workers);
    case TN_OP_LINEAR_ATTENTION:
      return tni_linear_attention_scratch(node, in, n_in, n_workers);
    case TN_OP_FUSED_MATMUL:
      return tni_fused_scratch(node, in[0]->dtype, n_workers);
    case TN_OP_ATTENTION:
    case TN_OP_TENON_ATTENTION:
      return tni_attention_scratch(node, in, n_in, n_workers);
    case TN_OP_CONV_TRANSPOSE:
      return n_in > 1 && in[1] ? tni_conv_transpose_scratch(in[0], in[1], n_workers) : 0;
    case TN_OP_NON_MAX_SUPPRESSION:
      return n_in > 1 && in[1] && in[1]->rank == 3 ? tni_nms_work(in[1]->dims[2]) * sizeof(int64_t) : 0;
    case TN_OP_DFT:
    case TN_OP_STFT:
      return tni_dft_scratch(node, out, n_workers);
    case TN_OP_DET:
      return tni_det_scratch(in[0], n_workers);
    case TN_OP_UNIQUE:
      return tni_unique_scratch(in[0]);
    case TN_OP_TOP_K: {
      const int32_t d = tni_kaxis(tni_at_i(node, TNI_A_AXIS, -1), in[0]->rank);
      const uint64_t n = d >= 0 && in[0]->rank ? (uint64_t)in[0]->dims[d] : 0;
      if (__builtin_mul_overflow(n * sizeof(int64_t), (uint64_t)(n_workers ? n_workers : 1), &bytes)) return UINT64_MAX;
      return bytes;
    }
    default:
      return 0;
  }
}

static tn_status allocate_output(tni_arena *arena, tni_tensor *t, const char *name, tn_error *err) {
  t->data = tni_arena_alloc(arena, t->bytes ? (size_t)t->bytes : 1, 64);
  return t->data ? TN_OK : tni_fail_memory(err, name);
}

tn_status tni_ops_eval(void *ctx, const tni_node *node, const tni_tensor *const *in, uint32_t n_in, tni_tensor *out,
                       uint32_t n_out, tni_arena *arena, tn_error *err) {
  const tni_kernel_fn fn = tni_ops_kernel(node->op);
  const char *name = node->pub.name ? node->pub.name : "";
  tn_run local;
  if (!fn)
    return tni_fail(err, TN_E_UNSUPPORTED, name, "no host kernel for %s", node->type ? node->type : "this operator");
  char why[160];
  if (!tni_ops_takes(&node->pub, in, n_in, why, sizeof why)) return tni_fail(err, TN_E_UNSUPPORTED, name, "%s", why);
  for (uint32_t i = 0; i < n_out; i++) out[i] = (tni_tensor){.dtype = TN_DT_UNDEFINED};
  if (!ctx) tni_run_inline(&local);
  tn_run *run = ctx ? ctx : &local;
  tn_status st = tni_infer_concrete(node, in, n_in, out, n_out, run, err);
  if (st) return st;
  tni_tensor **ptrs = TNI_NEW_ARRAY(arena, tni_tensor *, n_out ? n_out : 1);
  if (!ptrs) return tni_fail_memory(err, name);
  for (uint32_t i = 0; i < n_out; i++) {
    if (node->pub.out && i < node->pub.n_out && node->pub.out[i] == TN_NONE) continue;
    st = allocate_output(arena, &out[i], name, err);
    if (st) return st;
    ptrs[i] = &out[i];
  }
  if (tni_ops_is_empty((const tni_tensor *const *)ptrs, n_out)) return TN_OK;
  const uint64_t bytes = tni_ops_scratch(&node->pub, in, n_in, n_out ? ptrs[0] : NULL, run->n_workers);
  size_t room;
  if (!tni_add_size((size_t)bytes, 63, &room)) return tni_fail_memory(err, name);
  void *scratch = bytes ? aligned_alloc(64, room & ~(size_t)63) : NULL; /* not the arena's: that may be the graph's */
  if (bytes && !scratch) return tni_fail_memory(err, name);
  const tni_kargs a = {&node->pub, in, ptrs, n_in, n_out, scratch, run, err, NULL, NULL, false};
  st = tni_kernel_call(fn, &a);
  free(scratch);
  return st;
}
