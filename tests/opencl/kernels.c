/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel of the OpenCL plugins on the device that is here, against C (tni_cl_reference): sizes around tiles, odd
 * ones and long K, pitches, guard bytes behind the output. Bounds come from the types and the length of sums.
 * Arguments: library, seed, part of a kernel's name. A device that lacks what a kernel needs is not asked; each run
 * says how many kernels it launched, and at least MIN_KERNELS must have been.
 */
#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/opencl/clkern.h"
#include "plugins/common/opencl/clrun.h"
#include "plugins/common/formats/e0m.h"
#include "plugins/common/formats/f16.h"
#include "tests/opencl/rig.h"
#include "tests/opencl/tables.h"

enum { GUARD = 64, MAX_SHAPES = 32, MIN_KERNELS = 10 };

static rig R;
static uint64_t seed = 1;
static const char *library = "libOpenCL.so.1";
static const char *only;  /* kernels with this in their name */
static uint32_t launched; /* kernels that ran at least once */

static int close_device(void) {
  rig_close(&R);
  return 0;
}

/* --- values ----------------------------------------------------------------------------------------------------- */

static uint32_t next(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 33);
}

static size_t size_of(uint32_t type) {
  return type == TN_DT_I64 ? 8 : type == TN_DT_F16 ? 2 : type == TN_DT_BOOL ? 1 : 4;
}

static double element(uint32_t type, const void *p, size_t i) {
  if (type == TN_DT_F16) return tni_cm_f16_to_f32(((const uint16_t *)p)[i]);
  return type == TN_DT_F32 ? ((const float *)p)[i] : type == TN_DT_I64 ? (double)((const int64_t *)p)[i] : 0;
}

/* One operand of a case: elements, and what they are. */
enum { SMALL = 0, IDS = 1, FLAGS = 2, LENGTHS = 3, OUT = 4, MASK = 5 };
typedef struct operand {
  uint32_t type, what;
  size_t n;
  int64_t lo, hi; /* IDS and LENGTHS */
  unsigned char *data;
} operand;

static void fill(operand *o) {
  for (size_t i = 0; i < o->n; i++) {
    float f = (float)((int32_t)(next() % 4001) - 2000) / 1000.0f;
    if (o->what == MASK) f = next() % 4 ? f : -3e38f;
    if (o->type == TN_DT_F16) ((uint16_t *)o->data)[i] = tni_cm_f32_to_f16(f);
    if (o->type == TN_DT_F32) ((float *)o->data)[i] = f;
    if (o->type == TN_DT_I64) ((int64_t *)o->data)[i] = o->lo + (int64_t)(next() % (uint64_t)(o->hi - o->lo + 1));
    if (o->type == TN_DT_BOOL) o->data[i] = next() % 4 != 0;
  }
}

typedef struct testcase {
  tni_cl_shape s;
  operand op[8];
  uint32_t out;
  size_t s_at;
} testcase;

static void weights(testcase *t) {
  int64_t Pn = t->s.ints[TNI_CLI_PN], Kp = (t->s.ints[TNI_CLI_K] + 127) / 128 * 128;
  size_t n_w = (size_t)(tni_e0m_rows(t->s.bits, Kp) * Pn), n_s = (size_t)(Kp / 128 * Pn);
  t->s_at = 2 * n_w;
  t->op[1].n = n_w + 2 * n_s;
  uint16_t *w = aligned_alloc(128, (2 * t->op[1].n + 127) / 128 * 128), *s = w + n_w;
  for (size_t i = 0; i < n_w; i++) w[i] = (uint16_t)next();
  for (size_t i = 0; i < n_s; i++) {
    s[2 * i] = tni_cm_f32_to_f16((float)(next() % 1000 + 1) / 1000.0f);
    s[2 * i + 1] = tni_cm_f32_to_f16(1.0f + (float)(next() % 1000) / 1000.0f);
  }
  t->op[1].data = (unsigned char *)w;
}

/* --- cases ------------------------------------------------------------------------------------------------------ */

static void put(testcase *t, uint32_t i, uint32_t type, uint32_t what, size_t n) {
  t->op[i] = (operand){.type = type, .what = what, .n = type ? n : 0};
  t->s.types[i] = type;
  if (i >= t->s.n_operands) t->s.n_operands = i + 1;
  if (what == OUT) t->out = i;
}

static void ints(testcase *t, uint32_t n, const int32_t *v) {
  memcpy(t->s.ints, v, n * sizeof *v);
  t->s.n_ints = n;
}

static uint32_t float_type(int half) { return half ? TN_DT_F16 : TN_DT_F32; }

static bool product_case(testcase *t, uint32_t kind, uint32_t i) {
  static const int32_t gemv[][3] = {{1, 1, 1},     {1, 3, 5},     {1, 4, 4},     {1, 127, 127},
                                    {1, 128, 128}, {1, 129, 129}, {1, 31, 260},  {1, 33, 1001},
                                    {3, 66, 300},  {4, 64, 144},  {1, 260, 4100}};
  static const int32_t gemm[][3] = {{5, 1, 1},    {5, 3, 7},     {8, 4, 16},    {63, 15, 130}, {64, 16, 128},
                                    {65, 17, 31}, {7, 130, 257}, {16, 64, 640}, {9, 12, 2052}};
  static const uint32_t others[] = {2, 3, 8};
  const uint32_t count = kind == TNI_CLK_GEMV ? sizeof gemv / sizeof *gemv : sizeof gemm / sizeof *gemm;
  if (i >= 5 * count) return false;
  t->s.bits = i < 2 * count ? 4 : others[i / count - 2];
  if (i >= 2 * count) i = i % count * 2 + 1; /* each shape once */
  const int32_t *n = kind == TNI_CLK_GEMV ? gemv[i / 2] : gemm[i / 2];
  int32_t M = n[0], N = n[1], K = n[2], Pn = (N + 127) / 128 * 128, xp = K + (i & 1 ? 3 : 0), yp = N + (i & 1 ? 1 : 0);
  ints(t, 6, (int32_t[]){M, N, K, Pn, xp, yp});
  put(t, 0, TN_DT_F16, SMALL, (size_t)M * (size_t)xp);
  put(t, 1, TN_DT_U16, SMALL, 0);
  put(t, 2, TN_DT_F16, SMALL, 0);
  put(t, 3, float_type(i & 1), OUT, (size_t)M * (size_t)yp);
  return true;
}

static bool norm_case(testcase *t, uint32_t i) {
  static const int32_t d[] = {1, 3, 4, 63, 64, 255, 256, 257, 1030};
  if (i >= 18) return false;
  int32_t rows = 1 + (int32_t)i % 3, D = d[i / 2], layer = i & 1, xp = D + layer, yp = D + 2;
  ints(t, 5, (int32_t[]){rows, D, xp, yp, layer});
  t->s.n_floats = 1;
  t->s.floats[0] = 1e-5f;
  put(t, 0, float_type(layer), SMALL, (size_t)rows * (size_t)xp);
  put(t, 1, i % 4 != 2 ? TN_DT_F32 : 0, SMALL, (size_t)D);
  put(t, 2, layer ? TN_DT_F32 : 0, SMALL, (size_t)D);
  put(t, 3, float_type(!layer), OUT, (size_t)rows * (size_t)yp);
  return true;
}

static bool gather_case(testcase *t, uint32_t i) {
  static const int32_t d[] = {1, 4, 5, 64, 67};
  if (i >= 10) return false;
  int32_t rows = 1 + (int32_t)i, D = d[i / 2], V = 9, yp = D + (int32_t)(i & 1);
  ints(t, 4, (int32_t[]){rows, D, V, yp});
  put(t, 0, float_type(i & 1), SMALL, (size_t)(V * D));
  put(t, 1, TN_DT_I64, IDS, (size_t)rows);
  t->op[1].lo = -11; /* from the end, and beyond both ends */
  t->op[1].hi = 10;
  put(t, 2, float_type(!(i & 1)), OUT, (size_t)rows * (size_t)yp);
  return true;
}

static bool rotary_case(testcase *t, uint32_t i) {
  static const int32_t d[][2] = {{2, 1}, {8, 4}, {12, 3}, {64, 32}, {65, 32}, {128, 16}};
  if (i >= 12) return false;
  int32_t B = 1 + (int32_t)(i & 1), S = 3, H = 2, D = d[i / 2][0], rot = d[i / 2][1], rows = 7, with = !(i & 1);
  ints(t, 15,
       (int32_t[]){B, S, H, D, rot, i % 3 == 1, S * H * D, H * D, D, S * (H * D + 5), H * D + 5, D, with ? 0 : S * rot,
                   rot, rows});
  put(t, 0, float_type(i & 1), SMALL, (size_t)(B * S * H * D));
  put(t, 1, TN_DT_F32, SMALL, (size_t)((with ? rows : B * S) * rot));
  put(t, 2, TN_DT_F32, SMALL, (size_t)((with ? rows : B * S) * rot));
  put(t, 3, with ? TN_DT_I64 : 0, IDS, (size_t)(B * S));
  t->op[3].hi = rows + 1; /* the last ones are clamped */
  put(t, 4, float_type(i & 1), OUT, (size_t)(B * S * (H * D + 5)));
  return true;
}

static bool append_case(testcase *t, uint32_t i) {
  static const int32_t d[] = {1, 4, 8, 30, 64};
  if (i >= 10) return false;
  int32_t B = 2, S = 3, H = 1 + (int32_t)(i & 1), D = d[i / 2], rows = 8;
  ints(t, 11, (int32_t[]){B, S, H, D, S * H * D, H * D, D, H * rows * D, D, rows * D, rows});
  put(t, 0, float_type(i & 1), SMALL, (size_t)(B * S * H * D));
  put(t, 1, TN_DT_I64, LENGTHS, (size_t)B);
  t->op[1].hi = rows; /* some rows do not fit any more */
  put(t, 2, float_type(i & 1), OUT, (size_t)(B * H * rows * D));
  return true;
}

static bool attention_case(testcase *t, uint32_t i) {
  static const int32_t d[][2] = {{4, 4}, {8, 8}, {20, 12}, {64, 64}, {128, 64}, {256, 256}, {12, 24}};
  static const int32_t lens[] = {1, 7, 63, 65, 130};
  if (i >= 35) return false;
  int32_t D = d[i % 7][0], DV = d[i % 7][1], T = lens[i % 5], S = 1 + (int32_t)i % 4, B = 1 + (int32_t)(i & 1), H = 4,
          KVH = i % 3 ? 2 : 4;
  int32_t causal = i % 3 != 2, left = i % 6 == 5 ? 3 : -1, mask_len = T - (T > 3 && i % 2);
  uint32_t mask = i % 4 == 1   ? TN_DT_BOOL
                  : i % 4 == 2 ? TN_DT_F32
                               : 0,
           kv = float_type(i & 1), valid = i % 2 ? TN_DT_I64 : 0;
  ints(t, 27, (int32_t[]){B,           S,      H,     KVH,          D,    DV,     T,        S * H * D, H * D, D,
                          KVH * T * D, D,      T * D, KVH * T * DV, DV,   T * DV, mask_len, 0,         0,     mask_len,
                          S * H * DV,  H * DV, DV,    causal,       left, -1,     T - S});
  t->s.n_floats = 2;
  t->s.floats[0] = 1.0f / sqrtf((float)D);
  t->s.floats[1] = i % 9 == 4 ? 5.0f : 0.0f;
  put(t, 0, kv, SMALL, (size_t)(B * S * H * D));
  put(t, 1, kv, SMALL, (size_t)(B * KVH * T * D));
  put(t, 2, kv, SMALL, (size_t)(B * KVH * T * DV));
  put(t, 3, mask, MASK, (size_t)(B * mask_len));
  put(t, 4, valid, LENGTHS, (size_t)B);
  t->op[4].hi = T;
  put(t, 5, float_type(!(i & 1)), OUT, (size_t)(B * S * H * DV));
  return true;
}

static bool matmul_case(testcase *t, uint32_t i) {
  static const int32_t n[][3] = {{1, 1, 1}, {3, 5, 7}, {8, 8, 16}, {9, 17, 33}, {2, 30, 257}};
  if (i >= 10) return false;
  int32_t M = n[i / 2][0], N = n[i / 2][1], K = n[i / 2][2], n0 = 2, n1 = 3, yp = N + (int32_t)(i & 1);
  ints(t, 14,
       (int32_t[]){M, N, K, n0, n1, K, 1, n1 * M * K, M * K, i & 1 ? 1 : N, i & 1 ? K : 1, n1 * K * N, K * N, yp});
  put(t, 0, float_type(i & 1), SMALL, (size_t)(n0 * n1 * M * K));
  put(t, 1, float_type(i & 1), SMALL, (size_t)(n0 * n1 * K * N));
  put(t, 2, TN_DT_F32, OUT, (size_t)(n0 * n1 * M * yp));
  return true;
}

static bool make_case(testcase *t, uint32_t kind, uint32_t i) {
  memset(t, 0, sizeof *t);
  t->s.kind = kind;
  switch (kind) {
    case TNI_CLK_GATHER:
      return gather_case(t, i);
    case TNI_CLK_NORM:
      return norm_case(t, i);
    case TNI_CLK_GEMV:
    case TNI_CLK_GEMM:
      return product_case(t, kind, i);
    case TNI_CLK_ROTARY:
      return rotary_case(t, i);
    case TNI_CLK_APPEND:
      return append_case(t, i);
    case TNI_CLK_ATTN:
      return attention_case(t, i);
    case TNI_CLK_MATMUL:
      return matmul_case(t, i);
    default:
      return false;
  }
}

/* --- bounds ----------------------------------------------------------------------------------------------------- */

#define U32 0x1p-24
#define U16 0x1p-11

/* Sum over k of |x w| of output (m, n), for products; the rest by the largest operands. */
static double terms(const testcase *t, size_t at) {
  const int32_t *n = t->s.ints;
  size_t m = at / (size_t)n[5], c = at % (size_t)n[5];
  if (c >= (size_t)n[1]) return 0; /* behind a row: nothing is written there */
  const uint16_t *w = (const uint16_t *)t->op[1].data, *sc = (const uint16_t *)(t->op[1].data + t->s_at);
  double sum = 0;
  for (int64_t k = 0; k < n[2]; k++) {
    const uint16_t *g = sc + 2 * (k / 128 * n[3] + (int64_t)c);
    const uint16_t *unit = w + k / TNI_E0M_UNIT * t->s.bits * n[3] + (int64_t)c;
    double h = 1 + tni_e0m_code(t->s.bits, unit, n[3], (uint32_t)k % TNI_E0M_UNIT) / (double)(1u << t->s.bits);
    sum += fabs(element(TN_DT_F16, t->op[0].data, m * (size_t)n[4] + (size_t)k) *
                (h - (double)tni_cm_f16_to_f32(g[1])) * (double)tni_cm_f16_to_f32(g[0]));
  }
  return sum;
}

/* How far element `at` may be off before it is stored: what the format declares for products (sums of a group of 128 in
 * half, groups in float), sums in float for the rest. Values are at most 2, scales 1. */
static double before_store(const testcase *t, size_t at, double y, bool half) {
  const int32_t *n = t->s.ints;
  double f = t->s.floats[0];
  switch (t->s.kind) {
    case TNI_CLK_GEMV:
    case TNI_CLK_GEMM:
      return terms(t, at) * ((half ? (128 + 2) * U16 : 0) + (n[2] + 4) * U32) + n[2] * 0x1p-24;
    case TNI_CLK_MATMUL:
      return (n[2] + 2) * U32 * 4 * n[2];
    case TNI_CLK_NORM: /* the mean's error is divided by the deviation, which eps keeps from 0 */
      return (n[1] + 16) * U32 * (fabs(y) + (t->s.types[0] == TN_DT_F32 && n[1] < 2 ? 0 : 8)) *
             (n[4] && n[1] < 4 ? 1e3 : 1);
    case TNI_CLK_ROTARY:
      return 4 * U32 * 8;
    case TNI_CLK_ATTN: /* scores: sums of D terms; exponentials: their error, twice; then T terms of at most 2 */
      return 2 * (2 * (n[4] + 8) * U32 * 4 * n[4] * f + (n[6] + 8) * U32) * 2;
    default:
      return 0;
  }
}

static bool close_to(const testcase *t, size_t at, double got, double want, bool half) {
  bool out16 = t->s.types[t->out] == TN_DT_F16;
  double bound = before_store(t, at, want, half);
  /* Both are rounded when they are stored. */
  bound += 2 * (out16 ? U16 : U32) * (fabs(want) + bound) + (out16 ? 0x1p-24 : 0x1p-126);
  return fabs(got - want) <= bound;
}

/* --- running ---------------------------------------------------------------------------------------------------- */

static bool broken;    /* the kernel is wrong on purpose */
static uint32_t wrong; /* cases that showed it */

static void check(const testcase *t, const tni_cl_variant *v, const unsigned char *got, const unsigned char *want,
                  bool half, uint32_t which) {
  const operand *o = &t->op[t->out];
  size_t size = size_of(o->type);
  for (size_t i = 0; i < o->n; i++)
    if (!close_to(t, i, element(o->type, got, i), element(o->type, want, i), half)) {
      if (broken) {
        wrong++;
        return;
      }
      fprintf(stderr, "%s %s case %u: element %zu is %g, not %g\n", v->name, v->options ? v->options : "", which, i,
              element(o->type, got, i), element(o->type, want, i));
      CU_FAIL("wrong result");
      return;
    }
  if (memcmp(got + o->n * size, want + o->n * size, GUARD)) {
    fprintf(stderr, "%s %s case %u: writes behind its output\n", v->name, v->options ? v->options : "", which);
    CU_FAIL("overrun");
  }
}

/* A simulator takes a microsecond per instruction. */
static bool too_long(const testcase *t) {
  const int32_t *n = t->s.ints;
  if (!strstr(R.info.name, "Oclgrind")) return false;
  if (t->s.kind == TNI_CLK_ATTN) return (int64_t)n[0] * n[1] * n[2] * n[4] * n[6] > 20000;
  if (t->s.kind == TNI_CLK_NORM) return n[1] > 300;
  return (t->s.kind == TNI_CLK_GEMV || t->s.kind == TNI_CLK_GEMM) && (int64_t)n[0] * n[1] * n[2] > 50000;
}

static bool launch(tni_cl_kernels *k, const tni_cl_variant *v, testcase *t, uint32_t which) {
  tn_error err = {.h = TN_HDR(tn_error)};
  tni_cl_program *p = NULL;
  if ((v->fits && !v->fits(&R.info, &t->s)) || too_long(t)) return false;
  bool product = t->s.kind == TNI_CLK_GEMV || t->s.kind == TNI_CLK_GEMM;
  tn_status st = tni_cl_kernel_for(k, &t->s, &p, &err);
  if (st != TN_OK) {
    fprintf(stderr, "%s case %u: %s\n", v->name, which, err.message);
    CU_FAIL("no kernel");
    return false;
  }
  if (product) weights(t);
  tni_cl_direct d = {.kernels = k, .program = p, .shape = &t->s, .s_at = t->s_at};
  void *ref[8] = {0};
  for (uint32_t i = 0; i < t->s.n_operands; i++) {
    operand *o = &t->op[i];
    if (product && i == 1) {
      ref[1] = o->data;
      d.data[1] = o->data;
      d.bytes[1] = 2 * o->n;
    }
    if (product && i == 2) ref[2] = t->op[1].data + t->s_at;
    if ((product && (i == 1 || i == 2)) || !o->type) continue;
    d.bytes[i] = o->n * size_of(o->type) + (i == t->out ? GUARD : 0);
    o->data = aligned_alloc(64, (d.bytes[i] + 63) / 64 * 64);
    memset(o->data, 0x3C, d.bytes[i]);
    if (i != t->out) fill(o);
    d.data[i] = ref[i] = o->data;
  }
  operand *o = &t->op[t->out];
  unsigned char *want = malloc(d.bytes[t->out]);
  memcpy(want, o->data, d.bytes[t->out]);
  ref[t->out] = want;
  const char *why = tni_cl_run_direct(&d);
  tni_cl_reference(&t->s, ref);
  if (why) {
    fprintf(stderr, "%s case %u: %s\n", v->name, which, why);
    CU_FAIL("launch");
  } else {
    check(t, v, o->data, want, (k->features & TNI_CLF_FP16) != 0, which);
  }
  free(want);
  for (uint32_t i = 0; i < 8; i++) free(t->op[i].data);
  return !why;
}

/* One variant alone, with and without half arithmetic where there is any. */
static void run_variant(const char *table, const tni_cl_variant *v, uint32_t features) {
  if (v->needs & ~features) return;
  const tni_cl_variant *const tables[2] = {v, NULL};
  const uint32_t n[2] = {1, 0};
  tni_cl_kernels k = {
      .c = &R.context, .host = &R.host, .tables = tables, .n = n, .mem = {.host = &R.host}, .features = features};
  testcase t;
  uint32_t ran = 0;
  uint64_t begin = seed;
  for (uint32_t i = 0; make_case(&t, v->kind, i); i++) ran += launch(&k, v, &t, i);
  printf("  %-8s %-16s %s: %u cases, seed %llu\n", table, v->name, v->options ? v->options : "", ran,
         (unsigned long long)begin);
  launched += ran != 0;
  CU_ASSERT_NOT_EQUAL(ran, 0);
  tni_cl_kernels_finish(&k);
}

static void all_variants(void) {
  for (const test_table *t = test_tables; t->name; t++)
    for (uint32_t i = 0; i < *t->n; i++) {
      const tni_cl_variant *v = &t->variants[i];
      const uint32_t all = R.info.features, poor = all & ~(uint32_t)TNI_CLF_FP16;
      if (only && !strstr(v->name, only)) continue;
      run_variant(t->name, v, all);
      /* The floor computes in float anyway, the others only products in half. */
      if (poor != all && t->variants != tni_cl_floor && (v->kind == TNI_CLK_GEMV || v->kind == TNI_CLK_GEMM))
        run_variant(t->name, v, poor);
    }
  printf("%u kernels on %s\n", launched, R.info.name);
  CU_ASSERT(only || launched >= MIN_KERNELS);
}

/* A copy of each plugin's GEMV that loses the last element of K: the cases see it. */
static void broken_copies(void) {
  static const char right[] = "k + 4 <= ", lost[] = "k + 5 <= ";
  for (const test_table *t = test_tables; !only && t->name; t++) {
    const tni_cl_variant *v = t->variants;
    while (v < t->variants + *t->n && (v->kind != TNI_CLK_GEMV || v->flags || v->needs & ~R.info.features)) v++;
    CU_ASSERT_FATAL(v < t->variants + *t->n);
    char *source = strdup(v->source), *at = strstr(source, right);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    memcpy(at, lost, strlen(lost));
    tni_cl_variant copy = *v;
    copy.source = source;
    broken = true;
    wrong = 0;
    run_variant(t->name, &copy, R.info.features);
    broken = false;
    printf("  a broken %s is seen in %u cases\n", v->name, wrong);
    CU_ASSERT(wrong > 0);
    free(source);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) library = argv[1];
  if (argc > 2) seed = strtoull(argv[2], NULL, 0);
  if (argc > 3 && *argv[3]) only = argv[3];
  if (!rig_open(&R, library)) return 77;
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("opencl kernels", NULL, close_device);
  if (!s || !CU_add_test(s, "variants", all_variants) || !CU_add_test(s, "broken copies", broken_copies)) return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures ? 1 : 0;
}
