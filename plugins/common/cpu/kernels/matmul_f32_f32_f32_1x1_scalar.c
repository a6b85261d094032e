/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/kernel.h"

/* A raw constant may lie at any address of a mapped file. */
static float load_float(const float *base, size_t i) {
  float v;
  memcpy(&v, (const char *)base + i * sizeof v, sizeof v);
  return v;
}

void tni_clt_matmul_f32_f32_f32_1x1_scalar(const tni_clt_matmul *p) {
  for (size_t m = 0; m < p->M; m++) {
    for (size_t n = 0; n < p->N; n++) {
      float c = 0;
      for (size_t k = 0; k < p->K; k++) c = fmaf(load_float(p->a, m * p->lda + k), load_float(p->b, k * p->ldb + n), c);
      p->c[m * p->ldc + n] = c;
    }
  }
}
