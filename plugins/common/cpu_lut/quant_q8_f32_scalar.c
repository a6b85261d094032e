/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/cpu_lut/kernels.h"

enum { MAX_GROUP = 128 };

/* The bounds map NaN to -127, so that no conversion is undefined; 1.5 * 2^23 rounds half to even. */
static int8_t code_of(float v) {
  const float magic = 12582912.0f;
  v = v > -127.0f ? v : -127.0f;
  v = v < 127.0f ? v : 127.0f;
  return (int8_t)(int32_t)((v + magic) - magic);
}

static float quantize_group(const float *x, size_t group, int8_t *q) {
  float absmax = 0;
  for (size_t i = 0; i < group; i++) absmax = fabsf(x[i]) > absmax ? fabsf(x[i]) : absmax;
  float s = absmax / 127.0f;
  if (s < FLT_MIN) { /* declared: denormal scales count as zero */
    memset(q, 0, group);
    return 0;
  }
  float inv = 127.0f / absmax;
  for (size_t i = 0; i < group; i++) q[i] = code_of(x[i] * inv);
  return s;
}

static int32_t zero_word(const int8_t *q, size_t sub) {
  int32_t even = 0, odd = 0;
  for (size_t i = 0; i < sub; i += 4) {
    even += q[i] + q[i + 1];
    odd += q[i + 2] + q[i + 3];
  }
  return (int32_t)((uint32_t)(-8 * even & 0xffff) | (uint32_t)(-8 * odd & 0xffff) << 16);
}

static inline void quantize(size_t group, size_t sub, const float *x, size_t K, size_t K_padded, const tni_clt_act *a,
                            size_t m) {
  int8_t *q = a->q + m * a->q_stride;
  float *scale = a->scale + m * a->s_stride;
  int32_t *zero = a->zero + m * a->z_stride;
  for (size_t k = 0, g = 0; k < K_padded; k += group, g++) {
    float tail[MAX_GROUP] = {0};
    const float *from = x + k;
    if (k + group > K) {
      if (k < K) memcpy(tail, from, (K - k) * sizeof *x);
      from = tail;
    }
    scale[g] = quantize_group(from, group, q + k);
  }
  for (size_t k = 0; k < K_padded; k += sub) zero[k / sub] = zero_word(q + k, sub);
}

void tni_clt_quant_q8g32_f32_1x32_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  quantize(32, 32, x, K, K_padded, a, m);
}

void tni_clt_quant_q8g128_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  quantize(128, 64, x, K, K_padded, a, m);
}
