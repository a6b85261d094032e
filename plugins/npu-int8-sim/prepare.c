/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of the device: prepared once for a program, whatever is bound, and kept in the host's cache, since preparing
 * takes seconds where there are billions of weights.
 */
#include <string.h>

#include "plugins/common/cpu/kernels/kernels.h"
#include "plugins/npu-int8-sim/program.h"

/* From the cache by what it is made for: shapes, costs, weights. What is there and does not fit, or has changed, is
 * refused by the device, and made and kept anew. */
static int get_graph(const tni_npu_device *d, const npusim_gemm *g, uint32_t n, const npusim_middle *mid,
                     npusim_graph **out) {
  const tn_host *h = d->host;
  npusim_saved now;
  const void *saved = NULL;
  uint64_t bytes = 0;
  int rc = npusim_describe(d->sim, g, n, mid, &now);
  if (rc != NPUSIM_OK) return rc;
  if (h->cache_get && h->cache_get(h->ctx, &now, sizeof now, &saved, &bytes) == TN_OK) {
    rc = npusim_load(d->sim, g, n, mid, &now, saved, bytes, out);
    if (rc != NPUSIM_STALE) return rc;
    h->log(h->ctx, TN_LOG_WARN, TNI_NPU_NAME ": a prepared graph in the cache does not fit and is made anew");
  }
  rc = npusim_prepare(d->sim, g, n, mid, out);
  if (rc == NPUSIM_OK && h->cache_put) (void)!h->cache_put(h->ctx, &now, sizeof now, &now, sizeof now);
  return rc;
}

/* --- between the products of a feed-forward part -------------------------------------------------------------------
 */

/* Sums to floats, the chain, floats to codes: what merge and quantize do on the CPU, with the same rounding. */
typedef struct middle {
  tni_cm_strip strip;
  tni_cm_part part[TN_FUSED_MAX_PARTS]; /* of strip.parts[i] */
  double scale[TN_FUSED_MAX_PARTS];
  int64_t pitch[TN_FUSED_MAX_PARTS];
  int64_t N;
  float code_scale;
  uint32_t reserved;
} middle;

static void middle_tile(const middle *p, const int32_t *const *sums, int8_t *codes, int64_t m, int64_t rows,
                        int64_t c) {
  enum { FLOATS = TNI_NPU_TILE_ROWS * TNI_NPU_TILE_COLUMNS };
  float tiles[TNI_NPU_MIDDLE_TILES * FLOATS] __attribute__((aligned(64)));
  const int64_t columns = p->N - c < TNI_NPU_TILE_COLUMNS ? p->N - c : TNI_NPU_TILE_COLUMNS;
  const int64_t pitch = (p->N + TNI_NPU_TILE - 1) / TNI_NPU_TILE * TNI_NPU_TILE;
  for (uint32_t i = 0; i < p->strip.n_parts; i++)
    tni_npu_dequantize(sums[p->part[i].weight] + m * p->pitch[i] + p->part[i].first + c, p->pitch[i], rows, columns,
                       p->scale[i], tiles + i * FLOATS);
  tni_cm_strip_run(&p->strip, tni_clt_chain_f32_1x1_scalar(), tiles, FLOATS, (size_t)(rows * TNI_NPU_TILE_COLUMNS));
  const float *y = tiles + p->strip.stores[0].tile * FLOATS;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < columns; n++)
      codes[(m + r) * pitch + c + n] =
          (int8_t)tni_npu_round(y[r * TNI_NPU_TILE_COLUMNS + n], p->code_scale, -128.0f, 127.0f);
}

static void run_middle(const void *params, const int32_t *const *sums, int8_t *codes, int64_t rows) {
  const middle *p = params;
  for (int64_t m = 0; m < rows; m += TNI_NPU_TILE_ROWS)
    for (int64_t c = 0; c < p->N; c += TNI_NPU_TILE_COLUMNS)
      middle_tile(p, sums, codes, m, rows - m < TNI_NPU_TILE_ROWS ? rows - m : TNI_NPU_TILE_ROWS, c);
}

static void fill_middle(const tni_npu_block *b, middle *p) {
  const tni_npu_block *g = b->gate;
  memset(p, 0, sizeof *p);
  p->strip = b->between;
  p->N = b->l.K;
  p->code_scale = b->l.scale;
  for (uint32_t i = 0; i < b->between.n_parts; i++) {
    const tni_cm_part *part = &g->l.f.parts[b->between.parts[i]];
    p->part[i] = *part;
    p->scale[i] = (double)g->l.scale * (double)g->w_scale[part->weight];
    p->pitch[i] = (g->l.N[part->weight] + TNI_NPU_TILE - 1) / TNI_NPU_TILE * TNI_NPU_TILE;
  }
}

/* --- graphs ------------------------------------------------------------------------------------------------------ */

uint32_t tni_npu_shapes(const tni_npu_block *b, int64_t rows, npusim_shape shape[NPUSIM_MAX_GEMMS]) {
  const tni_npu_block *const both[2] = {b->gate, b};
  uint32_t n = 0;
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t i = 0; both[k] && i < both[k]->l.n_weights; i++)
      shape[n++] = (npusim_shape){rows, both[k]->l.N[i], both[k]->l.K};
  return n;
}

tn_status tni_npu_prepare(const tn_program *p, const tni_npu_task *t, tn_error *err) {
  tni_npu_block *b = t->b;
  const tni_npu_block *const both[2] = {b->gate, b};
  npusim_shape shape[NPUSIM_MAX_GEMMS];
  npusim_gemm g[NPUSIM_MAX_GEMMS];
  middle params;
  if (b->graph) return TN_OK;
  const uint32_t n = tni_npu_shapes(b, p->device->set.chunk, shape);
  for (uint32_t k = 0, at = 0; k < 2; k++)
    for (uint32_t i = 0; both[k] && i < both[k]->l.n_weights; i++, at++) {
      if (!both[k]->w_handle[i]) return tni_cm_fail(err, TN_E_INVALID, t->pub.name, "its weights are not set");
      g[at] = (npusim_gemm){.shape = shape[at], .weights = both[k]->w_handle[i], .weights_at = both[k]->w_at[i]};
    }
  npusim_middle mid = {.name = "chain, requantize; 1", .fn = run_middle, .params = &params, .n_params = sizeof params};
  if (b->gate) {
    fill_middle(b, &params);
    mid.first = b->gate->l.n_weights;
  }
  const int rc = get_graph(p->device, g, n, b->gate ? &mid : NULL, &b->graph);
  return rc == NPUSIM_OK ? TN_OK : tni_npu_fail(err, rc, t->pub.name, "the graph cannot be prepared");
}
