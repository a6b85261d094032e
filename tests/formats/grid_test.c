/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that a model brings quantized, through w4g and the formats of dot.h and grid.h: where the grids fit,
 * unpack(pack(w)) is w bit for bit; where they do not, within the format's bound. No float of the weight is asked for
 * where its codes are enough.
 */
#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/formats/dot.h"
#include "plugins/common/formats/grid.h"
#include "plugins/common/formats/quant4.h"
#include "plugins/common/formats/w4g.h"
#include "runtime/graph/quantized.h"

enum { N = 37, MAX_K = 300, MAX_BYTES = N * (MAX_K + 128) /* whole blocks */ };

static uint64_t seed = 7;
static uint32_t next(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}

static void *take(tn_host_ctx *ctx, size_t bytes, size_t align, uint32_t tag) {
  (void)ctx;
  (void)tag;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void give(tn_host_ctx *ctx, void *p) {
  (void)ctx;
  free(p);
}
static const tn_host host = {.h = TN_HDR(tn_host), .alloc = take, .free = give};

typedef struct matrix {
  tn_weight w;
  tn_quant view;
  tni_quantized q;
  int asked; /* rows of floats */
} matrix;

static tn_status rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  matrix *m = w->ctx;
  m->asked += (int)(n1 - n0);
  for (int64_t n = n0; n < n1; n++) tni_quantized_row(&m->q, n, 0, w->K, dst + (n - n0) * w->K);
  return TN_OK;
}

/* codes below `top`; scales of f32 that binary16 has (exact) or has not. */
static void fill(matrix *m, int64_t K, uint32_t bits, int64_t block, uint32_t zeros, uint32_t top, bool exact,
                 uint8_t *codes, float *scales, uint8_t *zero_codes) {
  static float zero_values[MAX_BYTES];
  m->q = (tni_quantized){.bits = bits, .N = N, .K = K, .block = block, .scale_dtype = TN_DT_F32, .zero_kind = zeros};
  m->q.blocks = (K + block - 1) / block;
  m->q.row_bytes = m->q.blocks * (block * bits / 8);
  m->q.zero_row_bytes = (m->q.blocks * bits + 7) / 8;
  memset(codes, 0, MAX_BYTES);
  for (int64_t n = 0; n < N; n++)
    for (int64_t k = 0; k < K; k++)
      codes[n * m->q.row_bytes + k * bits / 8] |= (uint8_t)(next() % top << k % (8 / bits) * bits);
  for (int64_t i = 0; i < N * m->q.blocks; i++)
    scales[i] = (float)(next() % 1000 + 1) * (exact ? 0x1p-12f : 0x1.00001p-12f) * (next() & 1 ? 1 : -1);
  for (int64_t i = 0; i < N * m->q.zero_row_bytes; i++) zero_codes[i] = (uint8_t)next();
  m->q.codes = codes;
  m->q.scales = (const uint8_t *)scales;
  for (int64_t i = 0; i < N * m->q.blocks; i++) zero_values[i] = (float)(next() % 4096) * 0x1p-8f;
  m->q.zeros = zeros == TNI_ZERO_CODES ? zero_codes : zeros == TNI_ZERO_VALUES ? (const uint8_t *)zero_values : NULL;
  tni_quantized_look(&m->q);
  tni_quantized_view(&m->q, &m->view);
  m->w = (tn_weight){
      .h = TN_HDR(tn_weight), .ctx = m, .N = N, .K = K, .dtype = TN_DT_F32, .quant = &m->view, .rows = rows};
  m->asked = 0;
}

/* params: as many as f takes. */
static void pack_and_read(const matrix *m, const tn_format *f, const int64_t *params, float *back) {
  tn_pack_size size;
  tn_pack *p = NULL;
  const bool grid = strncmp(f->name, "grid", 4) == 0;
  const uint32_t n_params = grid ? TNI_GRID_PARAMS : f->group ? 0 : 1;
  CU_ASSERT_EQUAL_FATAL(f->size(f, N, m->w.K, params, n_params, &size), TN_OK);
  void *blob = aligned_alloc(64, size.bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(blob);
  CU_ASSERT_EQUAL_FATAL(f->begin(&host, f, &m->w, params, n_params, &p, NULL), TN_OK);
  CU_ASSERT_EQUAL(f->rows(p, 0, 16, blob), TN_OK);
  CU_ASSERT_EQUAL(f->rows(p, 16, N, blob), TN_OK);
  CU_ASSERT_EQUAL(f->end(p, blob), TN_OK);
  const tn_blob b = {.h = TN_HDR(tn_blob),
                     .format = f,
                     .N = N,
                     .K = m->w.K,
                     .bytes = size.bytes,
                     .ptr = blob,
                     .params = params,
                     .n_params = n_params};
  CU_ASSERT_EQUAL(f->unpack(&b, (const int64_t[]){0, N, 0, m->w.K}, back), TN_OK);
  free(blob);
}

/* Largest |back - w| over the largest |w| of the group, and how many differ at all. */
static float compare(const matrix *m, int64_t group, const float *back, int *off) {
  float worst = 0, w[MAX_K];
  *off = 0;
  for (int64_t n = 0; n < N; n++) {
    tni_quantized_row(&m->q, n, 0, m->w.K, w);
    for (int64_t k0 = 0; k0 < m->w.K; k0 += group) {
      const int64_t end = k0 + group < m->w.K ? k0 + group : m->w.K;
      float most = 0;
      for (int64_t k = k0; k < end; k++) most = fmaxf(most, fabsf(w[k]));
      for (int64_t k = k0; k < end; k++) {
        const float d = fabsf(back[n * m->w.K + k] - w[k]);
        *off += d != 0;
        if (d != 0) worst = fmaxf(worst, d / most);
      }
    }
  }
  return worst;
}

typedef struct form {
  int64_t K;
  uint32_t bits, zeros, top;
  int64_t block, group;
  bool exact_scales;
  float bound; /* 0: bit for bit */
  bool floats; /* the codes are of no use: rows() is asked */
  const tn_format *f;
} form;

#define ROUNDED 0x1p-11f /* of a scale */
#define W4G &tni_w4g_format
#define W8G &tni_dot_formats[TNI_DOT_W8G]
#define W2G &tni_dot_formats[TNI_DOT_W2G]
#define W3G &tni_dot_formats[TNI_DOT_W3G]
#define W2G_ERR 0.8011f
#define W3G_ERR 0.5011f
static const form forms[] = {
    {256, 4, TNI_ZERO_MIDDLE, 16, 32, 32, true, 0, false, W4G},
    {300, 4, TNI_ZERO_MIDDLE, 16, 32, 32, true, 0, false, W4G}, /* the last group is short */
    {256, 4, TNI_ZERO_MIDDLE, 16, 128, 32, true, 0, false, W4G},
    {256, 4, TNI_ZERO_MIDDLE, 16, 128, 128, true, 0, false, W4G},
    {256, 4, TNI_ZERO_MIDDLE, 16, 64, 32, false, ROUNDED, false, W4G},
    {256, 4, TNI_ZERO_CODES, 8, 32, 32, true, TNI_QUANT4_ERR, false, W4G},
    {256, 2, TNI_ZERO_CODES, 4, 32, 32, true, 0, false, W4G},
    {256, 2, TNI_ZERO_MIDDLE, 4, 128, 32, true, 0, false, W4G},
    {256, 4, TNI_ZERO_NONE, 8, 32, 32, true, 0, false, W4G},
    {256, 4, TNI_ZERO_MIDDLE, 16, 32, 128, true, TNI_QUANT4_ERR, true, W4G},
    {256, 4, TNI_ZERO_MIDDLE, 16, 16, 32, true, TNI_QUANT4_ERR, true, W4G},
    {256, 8, TNI_ZERO_MIDDLE, 255, 32, 32, true, TNI_QUANT4_ERR, true, W4G},
    {256, 8, TNI_ZERO_MIDDLE, 256, 128, 128, true, 0, false, W8G},
    {256, 2, TNI_ZERO_MIDDLE, 4, 128, 128, true, 0, false, W2G},
    {300, 2, TNI_ZERO_MIDDLE, 4, 256, 128, true, 0, false, W2G},
    {256, 2, TNI_ZERO_MIDDLE, 4, 128, 128, false, ROUNDED, false, W2G},
    {256, 2, TNI_ZERO_CODES, 4, 128, 128, true, W2G_ERR, false, W2G},
    {256, 2, TNI_ZERO_MIDDLE, 4, 32, 128, true, W2G_ERR, true, W2G},
    {300, 2, TNI_ZERO_CODES, 4, 128, 128, true, 0, false, W3G},
    {256, 4, TNI_ZERO_MIDDLE, 16, 128, 128, true, W3G_ERR, false, W3G},
};

static void test_forms(void) {
  static uint8_t codes[MAX_BYTES], zeros[MAX_BYTES];
  static float scales[MAX_BYTES], back[N * MAX_K];
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const form *f = &forms[i];
    matrix m;
    int off;
    fill(&m, f->K, f->bits, f->block, f->zeros, f->top, f->exact_scales, codes, scales, zeros);
    pack_and_read(&m, f->f, &f->group, back);
    const float worst = compare(&m, f->group, back, &off);
    if (f->bound == 0 ? off : !(worst <= f->bound)) printf("\n  form %zu: %d differ, worst %g", i, off, (double)worst);
    CU_ASSERT(f->bound == 0 ? off == 0 : worst <= f->bound);
    CU_ASSERT_EQUAL(m.asked != 0, f->floats);
  }
}

/* Element by element and in one go. */
static void test_reads(void) {
  static uint8_t codes[MAX_BYTES], zeros[MAX_BYTES], all[MAX_K];
  static float scales[MAX_BYTES];
  matrix m;
  float row[MAX_K], part[MAX_K], by[MAX_K], zero[MAX_K];
  for (uint32_t bits = 2; bits <= 8; bits *= 2) {
    fill(&m, 300, bits, 32, TNI_ZERO_CODES, 1u << bits, true, codes, scales, zeros);
    for (int64_t n = 0; n < N; n++) {
      tni_quantized_row(&m.q, n, 0, 300, row);
      tni_quantized_grid(&m.q, n, all, by, zero);
      for (int64_t k = 0; k < 300; k++) {
        tni_quantized_row(&m.q, n, k, k + 1, part);
        CU_ASSERT_EQUAL(row[k], part[0]);
        CU_ASSERT_EQUAL(row[k], ((float)all[k] - zero[k / 32]) * by[k / 32]);
      }
      m.q.transposed = true;
      tni_quantized_read(&m.q, 17 * N + n, 1, part);
      m.q.transposed = false;
      tni_quantized_read(&m.q, n * 300 + 17, 200, part + 1);
      CU_ASSERT_EQUAL(part[0], row[17]);
      CU_ASSERT_EQUAL(part[1], row[17]);
      CU_ASSERT_EQUAL(part[200], row[216]);
    }
  }
}

/* Every grid that a model can bring, in the format that its kind asks for: bit for bit, and no float is asked for. A
 * block that no group divides is a row. */
static void test_kept(void) {
  static uint8_t codes[MAX_BYTES], zeros[MAX_BYTES];
  static float scales[MAX_BYTES], back[N * MAX_K];
  static const int64_t blocks[][2] = {{16, 16}, {32, 32}, {64, 64}, {128, 128}, {256, 128}, {64, 16}, {300, 128}};
  static const int64_t zero_bits[] = {0, 8, 32, 8}; /* by TNI_ZERO_* */
  for (uint32_t bits = 2; bits <= 8; bits *= 2)
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
      for (uint32_t kind = TNI_ZERO_MIDDLE; kind <= TNI_ZERO_NONE; kind++)
        for (int exact = 0; exact < 2; exact++) {
          const int64_t params[] = {blocks[b][1], exact ? 16 : 32, zero_bits[kind]};
          matrix m;
          int off;
          fill(&m, 300, bits, blocks[b][0], kind, 1u << bits, exact != 0, codes, scales, zeros);
          pack_and_read(&m,
                        &tni_grid_formats[bits == 2   ? TNI_GRID_2
                                          : bits == 4 ? TNI_GRID_4
                                                      : TNI_GRID_8],
                        params, back);
          compare(&m, params[0], back, &off);
          if (off || m.asked)
            printf("\n  %u bits, blocks of %d, zeros %u: %d differ", bits, (int)blocks[b][0], kind, off);
          CU_ASSERT_EQUAL(off, 0);
          CU_ASSERT_EQUAL(m.asked, 0);
          CU_ASSERT_EQUAL(m.view.scale_dtype, exact ? TN_DT_F16 : TN_DT_F32);
        }
}

/* What the host says of zero points. */
static void test_zero_kinds(void) {
  static uint8_t codes[MAX_BYTES], zeros[MAX_BYTES];
  static float scales[MAX_BYTES];
  static const uint32_t want[] = {TN_ZERO_HALF, TN_ZERO_CODES, TN_ZERO_VALUES, TN_ZERO_CODES};
  matrix m;
  for (uint32_t kind = TNI_ZERO_MIDDLE; kind <= TNI_ZERO_NONE; kind++) {
    fill(&m, 256, 4, 32, kind, 16, true, codes, scales, zeros);
    CU_ASSERT_EQUAL(m.view.zero_kind, want[kind]);
  }
  fill(&m, 256, 4, 32, TNI_ZERO_VALUES, 16, true, codes, scales, zeros);
  float *values = (float *)(uintptr_t)m.q.zeros;
  for (int64_t i = 0; i < N * m.q.blocks; i++) values[i] = (float)(i % 16);
  tni_quantized_look(&m.q);
  CU_ASSERT_EQUAL(m.q.zeros_are, TN_ZERO_CODES);
  values[3] = 16; /* no code of four bits */
  tni_quantized_look(&m.q);
  CU_ASSERT_EQUAL(m.q.zeros_are, TN_ZERO_VALUES);
  values[3] = 257;
  tni_quantized_look(&m.q);
  CU_ASSERT_EQUAL(m.q.zeros_are, TN_ZERO_UNKNOWN);
}

int main(void) {
  CU_initialize_registry();
  CU_pSuite s = CU_add_suite("grid", NULL, NULL);
  CU_add_test(s, "forms", test_forms);
  CU_add_test(s, "kept", test_kept);
  CU_add_test(s, "zero kinds", test_zero_kinds);
  CU_add_test(s, "reads", test_reads);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failed != 0;
}
