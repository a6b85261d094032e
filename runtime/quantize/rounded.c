/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix rounded to a format, for what is measured and not kept.
 */
#include <stdlib.h>

#include "runtime/quantize/sense.h"

tn_status tni_qz_rounded(tni_qz *z, const tni_qz_product *p, uint32_t format, const float *w, int64_t N,
                         const float *squares, float **q) {
  const tni_quant_grid *g = &z->formats[format].grid;
  const int64_t block = tni_qz_block(&z->formats[format], p->K), blocks = (p->K + block - 1) / block;
  const size_t n = (size_t)(N * p->K), m = (size_t)(N * blocks);
  tni_quant_codes c = {.codes = malloc(n),
                       .scales = malloc(m * sizeof(float)),
                       .zeros = g->levels ? NULL : malloc(m * sizeof(float)),
                       .steps = g->steps ? malloc(m) : NULL,
                       .parents = g->steps ? malloc((size_t)N * sizeof(float)) : NULL,
                       .q = malloc(n * sizeof(float))};
  const bool room = c.codes && c.scales && (g->levels || c.zeros) && (!g->steps || (c.steps && c.parents)) && c.q;
  const tni_quant_task task = {.N = N, .K = p->K, .w = w, .squares = squares, .grid = g, .damp = .1f};
  const tn_status st = room ? tni_quant_solve(&task, &c, &z->run.run, z->err) : tni_fail_memory(z->err, p->name);
  if (room && st) tni_error_prefix(z->err, "product '%s'", p->name);
  free(c.codes);
  free(c.scales);
  free(c.zeros);
  free(c.steps);
  free(c.parents);
  *q = c.q;
  return st;
}
