/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/gemm/quantized.h"

#include "runtime/shape/dims/dims.h"

enum { PART = (int)TNI_KC > (int)TNI_GEMM_COLS ? (int)TNI_KC : (int)TNI_GEMM_COLS };

static void pack_quantized(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, float *dst) {
  const tni_ops_quantized *h = ctx;
  float part[PART];
  (void)batch;
  for (int64_t p = 0; p < nb; p += TNI_NR, dst += kc * TNI_NR) {
    const int64_t w = nb - p < TNI_NR ? nb - p : TNI_NR, n = h->first + n0 + p;
    if (w < TNI_NR) memset(dst, 0, (size_t)(kc * TNI_NR) * sizeof *dst);
    for (int64_t i = 0; h->by_row && i < w; i++) {
      tni_quantized_row(h->q, n + i, k0, k0 + kc, part);
      for (int64_t k = 0; k < kc; k++) dst[k * TNI_NR + i] = part[k];
    }
    for (int64_t k = 0; !h->by_row && k < kc; k++) tni_quantized_row(h->q, k0 + k, n, n + w, dst + k * TNI_NR);
  }
}

/* Halves are read as they lie, and widened where they are packed. */
static void read_halves(tni_gemm *g, const tni_quantized *q, bool kn, int64_t first) {
  const bool by_row = q->transposed == kn;
  g->b_row = by_row ? 1 : q->K;
  g->b_col = by_row ? q->K : 1;
  g->b = q->codes + first * g->b_col * 2;
  g->b_dtype = q->scale_dtype;
}

void tni_ops_quantized_pack(tni_gemm *g, const tni_tensor *w, bool kn, int64_t first, tni_ops_quantized *room) {
  if (!w->quantized || w->data) return;
  if (tni_is_stored_halves(w->quantized)) {
    read_halves(g, w->quantized, kn, first);
    return;
  }
  *room = (tni_ops_quantized){w->quantized, w->quantized->transposed == kn, first};
  g->pack = pack_quantized;
  g->pack_ctx = room;
}

bool tni_ops_takes_quantized(const tn_node *n, uint32_t i, const tni_tensor *t) {
  tni_fused f;
  switch (n->op) {
    case TN_OP_MATMUL:
    case TN_OP_GEMM:
      return i == 1 && n->in[0] != n->in[1];
    case TN_OP_FUSED_MATMUL:
      return tni_fused_read(n, &f) == NULL && i >= 1 && i <= f.n_weights;
    case TN_OP_GATHER:
      return i == 0 && !t->quantized->transposed && tni_at_i(n, TNI_A_AXIS, 0) == 0;
    default:
      return false;
  }
}
