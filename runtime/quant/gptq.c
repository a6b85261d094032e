/* SPDX-License-Identifier: Apache-2.0
 *
 * GPTQ: columns in their order, each one's error spread over those that follow.
 */
#include "runtime/quant/loops.h"

enum { CODES = TNI_QUANT_CODES, VEC = TNI_QUANT_VEC };

/* m weights of one code, k the first in the matrix: the code whose errors, each spread over those after it, weigh
 * least. */
static uint32_t choose_level(const tni_quant_rows *s, const float *w, int64_t k, uint32_t m, float scale) {
  const tni_quant_grid *g = s->task->grid;
  const uint32_t n_codes = g->grid.n_codes;
  const int64_t row = s->u_row;
  float cost[CODES], e[VEC][CODES];
  memset(cost, 0, n_codes * sizeof *cost);
  for (uint32_t j = 0; j < m; j++) {
    const float *u = tni_quant_u(s, k) + k - s->b0 + j, *l = g->levels + j * n_codes, inverse = 1 / u[j * row];
    for (uint32_t c = 0; c < n_codes; c++) e[j][c] = w[j] - scale * l[c];
    for (uint32_t i = 0; i < j; i++)
      for (uint32_t c = 0; c < n_codes; c++) e[j][c] -= e[i][c] * u[i * row];
    for (uint32_t c = 0; c < n_codes; c++) {
      e[j][c] *= inverse;
      cost[c] += e[j][c] * e[j][c];
    }
  }
  return first_least(cost, n_codes);
}

/* Whether earlier blocks owe the block something: what is rounded has a diagonal U. */
static bool takes_debt(const tni_quant_rows *s) { return s->b0 && s->task->h; }

/* w [b1 - b0]: the block's weights with what earlier blocks owe. */
static void quantize_row(const tni_quant_rows *s, int64_t r, float *w) {
  const tni_quant_grid *g = s->task->grid;
  const int64_t K = s->task->K, n = s->b1 - s->b0, per_row = (K + g->vec - 1) / g->vec;
  float *e = s->e + (r - s->r0) * K + s->b0, *q = s->out->q + r * K + s->b0;
  tni_quant_fit fit = {0};
  for (int64_t k = 0; k < n; k += g->vec) {
    const int64_t at = s->b0 + k;
    const uint32_t m = n - k < g->vec ? (uint32_t)(n - k) : g->vec;
    if (s->refit && at % s->group == 0) {
      fit = tni_quant_fit_group(g, tni_quant_parent_of(s, r), w + k, s->pivots + at, n - k < s->group ? n - k : s->group,
                                NULL);
      tni_quant_fit_put(s, r, at, &fit);
    } else if (k == 0 || at % s->group == 0) {
      fit = tni_quant_fit_at(s, r, at);
    }
    const uint32_t code = g->levels ? choose_level(s, w + k, at, m, fit.scale) : tni_quant_nearest(g, w[k], &fit);
    s->out->codes[r * per_row + at / g->vec] = (uint8_t)code;
    for (uint32_t j = 0; j < m; j++) {
      const float *u = tni_quant_u(s, at + j);
      q[k + j] = tni_quant_level(g, code, j, fit.zero) * fit.scale;
      const float x = e[k + j] = (w[k + j] - q[k + j]) / u[k + j];
      for (int64_t i = k + j + 1; i < n; i++) w[i] -= x * u[i];
    }
  }
}

static void block_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tni_quant_rows *s = arg;
  const int64_t n = s->b1 - s->b0;
  float w[TNI_QUANT_BLOCK_MOST];
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const float *from = s->w + i * s->task->K + s->b0;
    for (int64_t k = 0; k < n; k++) w[k] = takes_debt(s) ? from[k] - s->y[i * n + k] : from[k];
    quantize_row(s, s->r0 + i, w);
  }
}

tn_status tni_quant_gptq(tni_quant_rows *s) {
  const int64_t K = s->task->K, rows = s->r1 - s->r0;
  for (s->b0 = 0; s->b0 < K; s->b0 = s->b1) {
    s->b1 = s->b0 + s->block < K ? s->b0 + s->block : K;
    if (takes_debt(s)) {
      const tn_status st = tni_quant_multiply(
          &(tni_quant_product){rows, s->b1 - s->b0, s->b0, s->e, s->u + s->b0, K, 1, K, 1, s->y}, s->scratch, s->run);
      if (st) return st;
    }
    s->run->parallel_for(s->run, rows, 4, block_rows, s);
    if (s->run->cancelled(s->run)) return TN_E_CANCELLED;
  }
  return TN_OK;
}
