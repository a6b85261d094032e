/* SPDX-License-Identifier: Apache-2.0
 *
 * --bench --only nmse: what tables cost in accuracy (T-MAC's comparison): y = W x of 4096 x 4096 Gaussian numbers, W in
 * lut4, its error against the unquantized product. The same weights with floats, with 8-bit activations as dot products
 * have them, with our tables (the kernels of this machine, sums and averages of four), and with T-MAC's own: entries
 * rounded to signed bytes, one scale for 64 k; then with fast aggregation of those, a tree of rounding averages of 16
 * entries whose expected excess is taken off again.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/lut.h"
#include "tests/kernels/bench.h"

enum { N = 4096, K = 4096, STRIP = 64, SLICE = 64, PLANES = 4, QUADS = SLICE / 4 };

enum { FLOATS, BYTES32, BYTES128, TABLES, FAST, ROUNDED, AVERAGED, WAYS };
static const char *const names[WAYS] = {"float activations",
                                        "8-bit activations, groups of 32",
                                        "8-bit activations, groups of 128",
                                        "tables (lut4)",
                                        "the same, fast_aggregation",
                                        "tables of rounded entries, 64 k a scale",
                                        "the same, fast aggregation"};

/* One row of weights times x in double. */
static double product(const float *w, const float *x) {
  double y = 0;
  for (int k = 0; k < K; k++) y += (double)w[k] * (double)x[k];
  return y;
}

/* x as int8 codes times their group's scale. */
static void eight_bits(const float *x, int group, float *out) {
  for (int g = 0; g < K; g += group) {
    float max = 0;
    for (int k = 0; k < group; k++) max = fmaxf(max, fabsf(x[g + k]));
    for (int k = 0; k < group; k++) out[g + k] = nearbyintf(x[g + k] * (127.0f / max)) * (max / 127.0f);
  }
}

/* Entries of all 16 signed sums of a quad as signed bytes: scale of a slice, its largest sum of magnitudes / 127. */
typedef struct byte_tables {
  int8_t entry[K / 4][16];
  double scale[K / SLICE];
} byte_tables;

static void build(const float *x, byte_tables *t) {
  for (int s = 0; s < K / SLICE; s++) {
    double max = 0;
    for (int q = 0; q < QUADS; q++) {
      double sum = 0;
      for (int j = 0; j < 4; j++) sum += fabs((double)x[s * SLICE + q * 4 + j]);
      max = fmax(max, sum);
    }
    t->scale[s] = max / 127;
    for (int q = 0; q < QUADS; q++)
      for (int i = 0; i < 16; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) sum += (i >> j & 1 ? 1 : -1) * (double)x[s * SLICE + q * 4 + j];
        t->entry[s * QUADS + q][i] = (int8_t)nearbyint(sum / t->scale[s]);
      }
  }
}

/* The sum of 16 entries, and what a tree of averages makes of it: each rounds up in half of the cases, so each of the
 * four levels adds a quarter of a step to what the top says. */
static void aggregate(const int *e, int *exact, double *fast) {
  int v[QUADS];
  *exact = 0;
  for (int i = 0; i < QUADS; i++) {
    *exact += e[i];
    v[i] = e[i] + 128;
  }
  for (int n = QUADS; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++) v[i] = (v[2 * i] + v[2 * i + 1] + 1) >> 1;
  *fast = QUADS * (v[0] - 128 - 4 * 0.25);
}

/* Row `row` of a block by T-MAC's tables. */
static void look_up(const uint8_t *block, uint32_t row, const byte_tables *t, double *exact, double *fast) {
  const tni_lut_kind *kind = tni_lut_kind_of(&tni_lut_formats[0][3]);
  *exact = *fast = 0;
  for (int s = 0; s < K / SLICE; s++) {
    const uint8_t *group = block + s * SLICE / TNI_LUT_GROUP * (TNI_LUT_SCALE_BYTES + PLANES * TNI_LUT_PLANE_BYTES);
    uint16_t half;
    memcpy(&half, group + row * 2, sizeof half);
    const double scale = (double)tni_cm_f16_to_f32(half) * t->scale[s];
    for (uint32_t p = 0; p < PLANES; p++) {
      int e[QUADS], sum;
      double about;
      for (uint32_t q = 0; q < QUADS; q++) {
        const uint32_t quad = (uint32_t)s * QUADS + q;
        const tni_lut_place at = tni_lut_place_of(kind, row, quad % TNI_LUT_QUADS, p);
        e[q] = t->entry[quad][group[TNI_LUT_SCALE_BYTES + at.byte] >> at.shift & 15];
      }
      aggregate(e, &sum, &about);
      *exact += scale * (double)(1 << p) * sum;
      *fast += scale * (double)(1 << p) * about;
    }
  }
}

/* Squares of what 64 rows are off by. */
static void add_strip(const float *w, const float *const *x, const subject *s, const act_buf *a,
                      const tni_clt_gemv_fn gemv[2], const byte_tables *t, double *off, double *of) {
  tn_blob b;
  uint8_t *packed = subject_pack(s, w, &b);
  float *back = unpack_all(&b), acc[2][STRIP];
  const int64_t bytes = s->geo.row_block_bytes;
  for (int n = 0; n < STRIP; n += 16)
    for (int i = 0; i < 2; i++) gemv[i](packed + n / 16 * bytes, (size_t)s->geo.superblocks, &a->a, acc[i] + n);
  for (int n = 0; n < STRIP; n++) {
    double y[WAYS];
    const double exact = product(w + n * K, x[FLOATS]);
    for (int i = FLOATS; i <= BYTES128; i++) y[i] = product(back + n * K, x[i]);
    y[TABLES] = (double)acc[0][n];
    y[FAST] = (double)acc[1][n];
    look_up(packed + n / 16 * bytes, (uint32_t)n % 16, t, &y[ROUNDED], &y[AVERAGED]);
    for (int i = 0; i < WAYS; i++) off[i] += (y[i] - exact) * (y[i] - exact);
    *of += exact * exact;
  }
  free(back);
  free(packed);
}

void run_nmse_bench(void) {
  static float x[3][K], w[STRIP * K];
  static byte_tables t;
  const float *const ways[] = {x[FLOATS], x[BYTES32], x[BYTES128]};
  const uint32_t cpu = tni_cm_cpu_features();
  const tni_clt_kernel *gemv = tni_clt_select(&KERNELS, TNI_CLT_GEMV, TNI_CLT_LUT4, 128, cpu, 1),
                       *fast = tni_clt_select(&KERNELS, TNI_CLT_GEMV, TNI_CLT_LUT4, 128, cpu | TNI_CLT_AVERAGES, 1);
  const tni_clt_gemv_fn kernels[2] = {(tni_clt_gemv_fn)gemv->fn, (tni_clt_gemv_fn)fast->fn};
  const tni_clt_kernel *tables = tni_clt_select(&KERNELS, TNI_CLT_QUANT, TNI_CLT_LUT4, 128, cpu, 1);
  double off[WAYS] = {0}, of = 0;
  subject s;
  rng rx = rng_of(1), rw = rng_of(2);
  subject_init(&s, gemv, STRIP, K);
  fill(x[FLOATS], K, V_NORMAL, 1, &rx);
  eight_bits(x[FLOATS], 32, x[BYTES32]);
  eight_bits(x[FLOATS], 128, x[BYTES128]);
  build(x[FLOATS], &t);
  act_buf a = act_make(tables, x[FLOATS], 1, &s.geo);
  for (int n = 0; n < N; n += STRIP) {
    fill(w, STRIP * K, V_NORMAL, 1, &rw);
    add_strip(w, ways, &s, &a, kernels, &t, off, &of);
  }
  for (int i = 0; i < WAYS; i++)
    printf("%-42s NMSE %.3e, %+6.2f %% of 8-bit activations' in groups of 32\n", names[i], off[i] / of,
           100 * (off[i] / off[BYTES32] - 1));
  act_free(&a);
}
