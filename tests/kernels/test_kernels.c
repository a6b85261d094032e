/* SPDX-License-Identifier: Apache-2.0
 *
 * Every row of the kernel table: same bits as the scalar reference, which lies within the declared bound of a reference
 * in double; guards; one-hot activations; and a broken kernel, to show that all this can fail.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/grid.h"
#include "tests/kernels/harness.h"

static const int64_t Ks[] = {1, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 511, 513, 1000, 2049};
/* Two passes of rows and a rest, also where kernels take the most at once; an emulator's emulation takes long. */
#ifdef TEST_SME_EMULATED
enum { MOST_M = 45 };
#else
enum { MOST_M = 209 };
#endif
static const int64_t Ms[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, MOST_M};
static uint32_t cpu;

static int init(void) {
  cpu = test_cpu_features() | TNI_CLT_AVERAGES | TNI_CLT_NARROW; /* which need nothing */
  return 0;
}

static bool runs(const tni_clt_kernel *k) { return !(k->features & ~cpu) && test_wants(k->name); }

/* Differences between a kernel and what is expected of it; prints the first. */
typedef struct tally {
  uint64_t checked, wrong;
  const char *kernel;
} tally;

static void note(tally *t, bool ok, int64_t M, int64_t K, int px, int pw) {
  t->checked++;
  if (ok) return;
  if (t->wrong++ == 0)
    printf("\n    %s: M %lld K %lld x %s w %s seed %llu\n", t->kernel, (long long)M, (long long)K, pattern_name(px),
           pattern_name(pw), (unsigned long long)test_seed);
}

static float *make(size_t n, int pattern, float amplitude, uint64_t stream) {
  rng r = rng_of(stream);
  float *x = malloc((n ? n : 1) * sizeof *x);
  if (!x) abort();
  fill(x, n, pattern, amplitude, &r);
  return x;
}

/* acc of rows [0, M) by a GEMV or GEMM variant, between guards. */
static bool compute(const tni_clt_kernel *k, const uint8_t *w, const tni_clt_geometry *g, const act_buf *a, int64_t M,
                    float *out) {
  guarded acc = guarded_new((size_t)M * 16 * sizeof(float));
  float *p = (float *)(void *)acc.p;
  if (k->op == TNI_CLT_GEMV) {
    for (int64_t m = 0; m < M; m++) {
      size_t i = (size_t)m;
      tni_clt_act row = a->a;
      row.q += i * row.q_stride;
      row.scale += i * row.s_stride;
      row.zero += i * row.z_stride;
      ((tni_clt_gemv_fn)k->fn)(w, (size_t)g->superblocks, &row, p + m * 16);
    }
  } else {
    ((tni_clt_gemm_fn)k->fn)(w, (size_t)g->superblocks, &a->a, 0, (size_t)M, p);
  }
  bool ok = guarded_ok(&acc);
  for (int64_t i = 0; i < M * 16; i++) out[i] = a->a.row ? p[i] * a->a.row[i / 16] : p[i];
  guarded_free(&acc);
  return ok;
}

static bool within(const tn_numerics *num, const float *x, int64_t M, int64_t K, const float *w, const float *acc) {
  double y[16 * MOST_M], mag[16 * MOST_M], bound = reference_bound(num, K);
  reference(num, x, M, K, w, 16, y, mag);
  for (int64_t i = 0; i < M * 16; i++)
    if (!(fabs(y[i] - (double)acc[i]) <=
          bound * mag[i] + 1e-44 + (1 + bound) * reference_averages(num, x + i / 16 * K, K, w + i % 16 * K)))
      return false;
  return true;
}

static const tni_clt_kernel *select_like(const tni_clt_kernel *k, uint32_t features) {
  return tni_clt_select(&KERNELS, k->op, k->format, k->group, features, k->min_m > 1 ? k->min_m : 1);
}
static const tni_clt_kernel *scalar_of(const tni_clt_kernel *k) {
  return select_like(k, k->features & TNI_CLT_AVERAGES);
}

/* What was packed, kept for the other variants of a format: fitting takes longer than they do. */
typedef struct kept_pack {
  uint32_t format, group;
  int64_t K;
  int pattern;
  uint8_t *packed;
  tn_blob blob;
  subject s; /* has the blob's parameters */
  struct kept_pack *next;
} kept_pack;
static kept_pack *kept;

static int forget_packs(void) {
  for (kept_pack *p; (p = kept);) {
    kept = p->next;
    free(p->packed);
    free(p);
  }
  return 0;
}

/* Weights [16,K] of one pattern, packed for a variant; its reference may read another layout of x. */
typedef struct matrix {
  const tni_clt_kernel *k;
  subject s, ref;
  tn_blob blob;
  int64_t K;
  int pattern;
  const uint8_t *packed;
  float *back;
} matrix;

/* f32 zero points as far as they may be, on both sides, whole ones and others: fitted ones are within the codes. */
static void far_zeros(const subject *s, uint8_t *packed) {
  const tni_clt_geometry *g = &s->geo;
  if (g->zero_bits != 32) return;
  const tni_grid_layout l = tni_grid_layout_of(s->f->format->bits, (uint32_t)g->group, g->scale_bits, g->zero_bits);
  rng r = rng_of(78);
  for (int64_t sb = 0; sb < g->superblocks; sb++)
    for (uint32_t i = 0; i < l.groups * TNI_GRID_ROWS; i++) {
      const float any = (float)(2 * rng_unit(&r) - 1) * TNI_GRID_MOST_ZERO, z = i % 3 ? any : rintf(any);
      memcpy(packed + sb * l.bytes + l.zeros_at + i * sizeof z, &z, sizeof z);
    }
}

static const kept_pack *pack_of(const tni_clt_kernel *k, int64_t K, int pattern) {
  for (const kept_pack *p = kept; p; p = p->next)
    if (p->format == k->format && p->group == k->group && p->K == K && p->pattern == pattern) return p;
  kept_pack *p = calloc(1, sizeof *p);
  if (!p) abort();
  *p = (kept_pack){.format = k->format, .group = k->group, .K = K, .pattern = pattern, .next = kept};
  subject_init(&p->s, k, 16, K);
  float *f = make((size_t)(16 * K), pattern, 1e4f, 77 + (uint64_t)K);
  p->packed = subject_pack(&p->s, f, &p->blob);
  if (K % 2) far_zeros(&p->s, p->packed);
  free(f);
  return kept = p;
}

static void matrix_init(matrix *w, const tni_clt_kernel *k, int64_t K, int pattern) {
  const kept_pack *p = pack_of(k, K, pattern);
  *w = (matrix){.k = k, .K = K, .pattern = pattern, .packed = p->packed, .blob = p->blob};
  subject_init(&w->s, k, 16, K);
  subject_init(&w->ref, scalar_of(k), 16, K);
  w->back = unpack_all(&w->blob);
}

static void matrix_free(matrix *w) { free(w->back); }

enum { MOST_TOLD = 2049 }; /* K that scalar rows compute, too */

/* A GEMM gives rows [8, M) of a few what it gives them among all: m0 may be any multiple of 8, whatever a tile of x is.
 */
static bool begins_later(const tni_clt_kernel *k, const uint8_t *w, const tni_clt_geometry *g, const act_buf *a,
                         int64_t M, const float *all) {
  if (k->op != TNI_CLT_GEMM || M <= 8 || M > 64) return true;
  const size_t bytes = (size_t)(M - 8) * 16 * sizeof(float);
  guarded acc = guarded_new(bytes);
  ((tni_clt_gemm_fn)k->fn)(w, (size_t)g->superblocks, &a->a, 8, (size_t)M, (float *)(void *)acc.p);
  const bool ok = guarded_ok(&acc) && !memcmp(acc.p, all + 8 * 16, bytes);
  guarded_free(&acc);
  return ok;
}

/* One variant on one case: bits as the scalar's; the scalar's within the bound. */
static void check_as(tally *t, const matrix *w, int64_t M, int px, bool by_row, bool narrow) {
  const tni_clt_geometry *g = &w->s.geo;
  float *x = make((size_t)(M * w->K), px, 1e25f, 1000 + (uint64_t)(w->K * 31 + M)), acc[16 * MOST_M], want[16 * MOST_M];
  act_buf a = act_make_as(w->s.prologue, x, M, g, by_row, narrow),
          r = act_make_as(w->ref.prologue, x, M, g, by_row, narrow);
  bool ok = compute(w->k, w->packed, g, &a, M, acc) && (by_row || begins_later(w->k, w->packed, g, &a, M, acc));
  ok = compute(scalar_of(w->k), w->packed, g, &r, M, want) && ok;
  ok = ok && !memcmp(acc, want, (size_t)M * 16 * sizeof *acc);
  /* Of bits that are the scalar's its own turn says it, but for what only the others compute. */
  const bool told = w->k != scalar_of(w->k) && (test_bits || (!*test_only && w->K <= MOST_TOLD));
  ok = ok && (told || within(numerics_of_kernel(w->k, &w->blob, by_row, narrow), x, M, w->K, w->back, acc));
  note(t, ok, M, w->K, px, w->pattern);
  act_free(&a);
  act_free(&r);
  free(x);
}

/* One scale for a row of x, and narrow codes where no row is for them alone: a case in seven. */
static void check_case(tally *t, const matrix *w, int64_t M, int px) {
  const bool narrow = w->k->features & TNI_CLT_NARROW, tables = tni_lut_kind_of(w->s.f->format) != NULL;
  if (narrow && (w->K + M + px) % 2) return; /* their tiles are those of other formats */
  check_as(t, w, M, px, false, narrow);
  if ((w->K + M + px) % 7) return;
  if (scales_rows(w->s.f)) check_as(t, w, M, px, true, false);
  if (tables && !narrow) check_as(t, w, M, px, false, true);
}

static void check_one(tally *t, const tni_clt_kernel *k, int64_t M, int64_t K, int px, int pw) {
  matrix w;
  matrix_init(&w, k, K, pw);
  check_case(t, &w, M, px);
  matrix_free(&w);
}

static void check_variant(tally *t, const tni_clt_kernel *k) {
  matrix w;
  t->kernel = k->name;
  for (size_t ik = 0; ik < sizeof Ks / sizeof *Ks; ik++) {
    matrix_init(&w, k, Ks[ik], V_NORMAL);
    for (size_t im = 0; im < sizeof Ms / sizeof *Ms; im++)
      if (k->op == TNI_CLT_GEMM || Ms[im] <= 3) check_case(t, &w, Ms[im], V_NORMAL);
    matrix_free(&w);
  }
  for (int pw = 0; pw < V_COUNT; pw++) {
    for (int i = 0; i < (pw == V_NORMAL ? 3 : 1); i++) {
      matrix_init(&w, k, (int64_t[]){32, 200, 700}[(i + pw) % 3], pw);
      for (int px = 0; px < V_COUNT; px++) check_case(t, &w, k->op == TNI_CLT_GEMM ? 7 : 1, px);
      matrix_free(&w);
    }
  }
  if (k == scalar_of(k)) return; /* each variant compares with it */
  /* Tables begin to leave a cache, and weights are asked for. */
  for (int64_t K = 2560; K <= 2561; K++) check_one(t, k, 1, K, V_NORMAL, V_NORMAL);
  check_one(t, k, 2, 11008, V_MAX, V_MAX);
  check_one(t, k, 1, 11008, V_ONE_SIGN, V_ONE_SIGN);
  check_one(t, k, 1, 11008, V_OUTLIER, V_NORMAL);
}

static void each_product(uint32_t op) {
  uint32_t n = KERNELS.n;
  const tni_clt_kernel *k = KERNELS.rows;
  for (uint32_t i = 0; i < n; i++) {
    if (k[i].op != op || !runs(&k[i])) continue;
    tally t = {0};
    check_variant(&t, &k[i]);
    CU_ASSERT(t.checked > 100);
    CU_ASSERT_EQUAL(t.wrong, 0);
  }
}

/* Two row blocks at once: bits of the scalar reference for each alone, each in its own place. */
static bool two_blocks(const tni_clt_kernel *k, int64_t M, int64_t K, int pattern) {
  const tni_clt_kernel *one = tni_clt_select(&KERNELS, TNI_CLT_GEMM, k->format, k->group, 0, 1);
  subject s, ref;
  tn_blob b;
  subject_init(&s, k, 32, K);
  subject_init(&ref, one, 32, K);
  float *f = make((size_t)(32 * K), pattern, 1e4f, 99 + (uint64_t)K), *x = make((size_t)(M * K), pattern, 1e25f, 7),
        want[16 * MOST_M];
  uint8_t *w = subject_pack(&s, f, &b);
  const bool narrow = k->features & TNI_CLT_NARROW;
  act_buf a = act_make_as(s.prologue, x, M, &s.geo, false, narrow),
          r = act_make_as(ref.prologue, x, M, &s.geo, false, narrow);
  const size_t bytes = (size_t)M * 16 * sizeof(float), block = (size_t)s.geo.row_block_bytes;
  guarded acc[2] = {guarded_new(bytes), guarded_new(bytes)};
  float *const to[2] = {(float *)(void *)acc[0].p, (float *)(void *)acc[1].p};
  ((tni_clt_gemm2_fn)k->fn)(w, block, (size_t)s.geo.superblocks, &a.a, 0, (size_t)M, to);
  bool ok = true;
  for (size_t i = 0; i < 2; i++) {
    ok = compute(one, w + i * block, &s.geo, &r, M, want) && ok;
    ok = ok && guarded_ok(&acc[i]) && !memcmp(to[i], want, bytes);
    guarded_free(&acc[i]);
  }
  act_free(&a);
  act_free(&r);
  free(x);
  free(f);
  free(w);
  return ok;
}

static void gemm2_variants(void) {
  static const int64_t Ms2[] = {1, 9, 12, 13, 24, 31, 32, 33, 65, MOST_M};
  const tni_clt_kernel *k = KERNELS.rows;
  for (uint32_t i = 0; i < KERNELS.n; i++) {
    if (k[i].op != TNI_CLT_GEMM2 || !runs(&k[i])) continue;
    tally t = {.kernel = k[i].name};
    for (size_t ik = 0; ik < sizeof Ks / sizeof *Ks; ik++)
      for (size_t im = 0; im < sizeof Ms2 / sizeof *Ms2; im++)
        note(&t, two_blocks(&k[i], Ms2[im], Ks[ik], V_NORMAL), Ms2[im], Ks[ik], V_NORMAL, V_NORMAL);
    for (int p = 0; p < V_COUNT; p++) note(&t, two_blocks(&k[i], 45, 700, p), 45, 700, p, p);
    CU_ASSERT_EQUAL(t.wrong, 0);
  }
}

static void gemv_variants(void) { each_product(TNI_CLT_GEMV); }
static void gemm_variants(void) { each_product(TNI_CLT_GEMM); }

/* Codes against the C library's rounding; scales exactly as declared; zero words add up. */
static void quant_matches_declaration(void) {
  uint32_t wrong = 0;
  for (uint32_t group = 32; group <= 128; group += 96) {
    for (int p = 0; p < V_COUNT; p++) {
      for (size_t ik = 0; ik < sizeof Ks / sizeof *Ks; ik++) {
        int64_t K = Ks[ik];
        subject s;
        subject_init(&s, quant_of(group, 0), 16, K);
        float *x = make((size_t)K, p, 1e25f, 5 + (uint64_t)K);
        act_buf a = act_make(quant_of(group, 0), x, 1, &s.geo);
        for (int64_t k = 0; k < s.geo.K_padded; k++) {
          float absmax = 0;
          for (int64_t i = k / group * group; i < K && i < (k / group + 1) * group; i++)
            absmax = fmaxf(absmax, fabsf(x[i]));
          float step = absmax / 127.0f;
          if (step < 0x1p-126f) step = 0;
          float want = step > 0 && k < K ? nearbyintf(x[k] * (127.0f / absmax)) : 0;
          wrong += a.a.q[k] != (int)want || a.a.scale[k / group] != step;
        }
        int64_t sub = group == 32 ? 32 : 64;
        for (int64_t k = 0; k < s.geo.K_padded; k += sub) {
          int32_t sum[2] = {0, 0};
          for (int64_t i = 0; i < sub; i++) sum[i % 4 / 2] += a.a.q[k + i];
          uint32_t word = (uint32_t)a.a.zero[k / sub];
          wrong += (int16_t)(word & 0xffff) != -8 * sum[0] || (int16_t)(word >> 16) != -8 * sum[1];
        }
        wrong += !act_equal(&a, &a, 1);
        act_free(&a);
        free(x);
      }
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

static void quant_variants(void) {
  uint32_t n = KERNELS.n, wrong = 0, compared = 0;
  const tni_clt_kernel *k = KERNELS.rows;
  for (uint32_t i = 0; i < n; i++) {
    if (k[i].op != TNI_CLT_QUANT || !runs(&k[i])) continue;
    for (int p = 0; p < V_COUNT; p++) {
      for (size_t ik = 0; ik < sizeof Ks / sizeof *Ks; ik++) {
        subject s;
        subject_init(&s, &k[i], 16, Ks[ik]);
        float *x = make((size_t)Ks[ik] * 3, p, 1e25f, 60 + ik);
        for (int by_row = 0; by_row <= scales_rows(s.f); by_row++) {
          act_buf a = act_make_as(&k[i], x, 3, &s.geo, by_row, false),
                  b = act_make_as(s.prologue, x, 3, &s.geo, by_row, false);
          wrong += !act_equal(&a, &b, 3);
          compared++;
          act_free(&a);
          act_free(&b);
        }
        free(x);
      }
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(*test_only || compared >= 2 * V_COUNT * sizeof Ks / sizeof *Ks);
}

/* NaN and infinity: undefined results, but no write out of place and no code outside -127..127. */
static void quant_survives_nan(void) {
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (uint32_t group = 32; group <= 128; group += 96) {
    for (uint32_t features = 0, i = 0; i < 2; i++, features = cpu) {
      for (size_t v = 0; v < 3; v++) {
        float *x = make(300, V_NORMAL, 1, 3);
        subject s;
        subject_init(&s, quant_of(group, 0), 16, 300);
        x[0] = x[40] = x[299] = bad[v];
        act_buf a = act_make(quant_of(group, features), x, 1, &s.geo);
        bool ok = act_equal(&a, &a, 1);
        for (int64_t k = 0; k < s.geo.K_padded; k++) ok = ok && a.a.q[k] != -128;
        CU_ASSERT(ok);
        act_free(&a);
        free(x);
      }
    }
  }
}

/* x = e_k reads column k of the weights: 127 * (1/127) * w, exactly the unpacked weight after one rounding. */
static void one_hot(void) {
  uint32_t n = KERNELS.n, wrong = 0;
  const tni_clt_kernel *k = KERNELS.rows;
  for (uint32_t i = 0; i < n; i++) {
    if ((k[i].op != TNI_CLT_GEMV && k[i].op != TNI_CLT_GEMM) || !runs(&k[i])) continue;
    enum { K = 300 };
    subject s;
    tn_blob b;
    subject_init(&s, &k[i], 16, K);
    float *w = make(16 * K, V_NORMAL, 1, 4), x[K] = {0}, acc[16];
    uint8_t *packed = subject_pack(&s, w, &b);
    float *back = unpack_all(&b);
    for (int64_t at = 0; at < K; at++) {
      x[at] = 1;
      act_buf a = act_make(s.prologue, x, 1, &s.geo);
      wrong += !compute(&k[i], packed, &s.geo, &a, 1, acc);
      for (int64_t r = 0; r < 16; r++)
        wrong += !(fabs((double)acc[r] - (double)back[r * K + at]) <=
                   4 * 0x1p-24 * fabs((double)back[r * K + at]) +
                       1.001 * reference_averages(numerics_of_kernel(&k[i], &b, false, false), x, K, back + r * K));
      act_free(&a);
      x[at] = 0;
    }
    free(back);
    free(packed);
    free(w);
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* Broken copies: a zero point forgotten in one group, two rows swapped, a chunk left out, a write one too far. */
static int breakage;

static void broken_gemv(const uint8_t *block, size_t superblocks, const tni_clt_act *a, float *acc) {
  int8_t q[2048];
  tni_clt_act copy = *a;
  size_t n = superblocks * 64;
  memcpy(q, a->q, n);
  if (breakage == 2) memset(q + 8, 0, 8);
  copy.q = q;
  tni_clt_gemv_f32_q8g32_w4g32_1x16_scalar(block, superblocks, &copy, acc);
  if (breakage == 0) {
    int32_t sum = 0;
    for (size_t k = 0; k < 32; k++) sum += q[k];
    for (size_t r = 0; r < 16; r++) {
      uint16_t h;
      memcpy(&h, block + r * 2, 2);
      acc[r] += 8 * (float)sum * (tni_cm_f16_to_f32(h) * a->scale[0]);
    }
  }
  if (breakage == 1) {
    float t = acc[3];
    acc[3] = acc[4];
    acc[4] = t;
  }
  if (breakage == 3) acc[16] = 0;
  if (breakage == 4) acc[15] = nextafterf(acc[15], 1e30f); /* one unit in the last place: bits differ */
}

static void broken_kernels_are_caught(void) {
  tni_clt_kernel k = {TNI_CLT_GEMV, TNI_CLT_W4G, 32, 0, 0, 0, "broken", (void (*)(void))broken_gemv};
  for (breakage = 0; breakage < 5; breakage++) {
    subject s;
    tn_blob b;
    enum { K = 200 };
    subject_init(&s, &k, 16, K);
    float *x = make(K, V_NORMAL, 1, 21), *w = make(16 * K, V_NORMAL, 1, 22), acc[16], want[16];
    uint8_t *packed = pack_w4g(w, 16, K, 32, &b);
    float *back = unpack_all(&b);
    act_buf a = act_make(quant_of(32, 0), x, 1, &s.geo);
    bool guards = compute(&k, packed, &s.geo, &a, 1, acc);
    compute(scalar_of(&k), packed, &s.geo, &a, 1, want);
    bool bits = !memcmp(acc, want, sizeof acc), bound = within(tni_w4g_numerics(32), x, 1, K, back, acc);
    CU_ASSERT_EQUAL(guards, breakage != 3);
    CU_ASSERT_EQUAL(bits, breakage == 3);
    CU_ASSERT_EQUAL(bound, breakage >= 3);
    act_free(&a);
    free(back);
    free(packed);
    free(w);
    free(x);
  }
}

/* f32 products: same bits as the scalar chain, and within K roundings of the sum in double. */
static bool matmul_case(const tni_clt_kernel *k, size_t M, size_t N, size_t K, int pattern) {
  size_t lda = K + 3, ldb = N + 5, ldc = N + 1;
  float *a = make(M * lda + 8, pattern, 1e15f, 31), *b = make(K * ldb + 8, V_NORMAL, 1, 32);
  guarded c = guarded_new(M * ldc * 4), want = guarded_new(M * ldc * 4);
  tni_clt_matmul p = {a, b, (float *)(void *)c.p, lda, ldb, ldc, M, N, K};
  ((tni_clt_matmul_fn)k->fn)(&p);
  p.c = (float *)(void *)want.p;
  tni_clt_matmul_f32_f32_f32_1x1_scalar(&p);
  bool ok = guarded_ok(&c) && guarded_ok(&want) && !memcmp(c.p, want.p, M * ldc * 4); /* gaps between rows too */
  for (size_t m = 0; m < M; m++) {
    for (size_t n = 0; n < N; n++) {
      double y = 0, mag = 0;
      for (size_t i = 0; i < K; i++) {
        y += (double)a[m * lda + i] * b[i * ldb + n];
        mag += fabs((double)a[m * lda + i] * b[i * ldb + n]);
      }
      ok = ok && fabs(y - (double)p.c[m * ldc + n]) <= (double)(K + 1) * 0x1p-24 * mag + (double)(K + 1) * 1e-45;
    }
  }
  guarded_free(&c);
  guarded_free(&want);
  free(a);
  free(b);
  return ok;
}

static void matmul_variants(void) {
  static const size_t Ms1[] = {1, 2, 3, 5, 6, 7, 13}, Ns[] = {1, 2, 7, 8, 9, 15, 16, 17, 33, 64},
                      K1[] = {0, 1, 2, 17, 64, 300};
  uint32_t n = KERNELS.n, wrong = 0, cases = 0;
  const tni_clt_kernel *k = KERNELS.rows;
  for (uint32_t i = 0; i < n; i++) {
    if (k[i].op != TNI_CLT_MATMUL || !runs(&k[i])) continue;
    for (size_t c = 0; c < 7 * 10 * 6; c++, cases++)
      wrong += !matmul_case(&k[i], Ms1[c % 7], Ns[c / 7 % 10], K1[c / 70], (int)(c % V_COUNT));
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(*test_only || cases >= 420);
}

/* Memory with a hole after it, where a read ends the process. */
typedef struct before_hole {
  uint8_t *base, *p;
  size_t all;
} before_hole;

static before_hole before_hole_new(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page - 1) / page * page;
  before_hole h = {.all = body + page};
  h.base = mmap(NULL, h.all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (h.base == MAP_FAILED || mprotect(h.base + body, page, PROT_NONE)) abort();
  h.p = h.base + body - bytes;
  return h;
}

/* Bytes: exact sums modulo 2^32, of rows that lie apart, between guards. kind 0: at random; else the ends of the
 * ranges. */
static bool bytes_case(const tni_clt_kernel *k, size_t rows, size_t quads, bool one_block, int kind) {
  const size_t K = 4 * quads, lda = K + 16;
  const size_t a_bytes = (rows - 1) * lda + K;
  guarded w[2] = {guarded_new(16 * K), guarded_new(16 * K)}, acc = guarded_new(rows * 128);
  before_hole a = before_hole_new(a_bytes);
  rng r = rng_of(900 + rows + K + (uint64_t)kind);
  const uint8_t ends[] = {0x80, 0x7f, 0xff, 0};
  for (size_t i = 0; i < 32 * K; i++)
    w[i / (16 * K)].p[i % (16 * K)] = kind ? ends[(size_t)kind % 3] : (uint8_t)rng_next(&r);
  for (size_t i = 0; i < a_bytes; i++) a.p[i] = kind ? ends[(size_t)kind / 3 + 2] : (uint8_t)rng_next(&r);
  const uint8_t *blocks[2] = {w[0].p, w[one_block ? 0 : 1].p};
  const tni_clt_next next = {blocks[0], 32 * K};
  ((tni_clt_bytes_fn)k->fn)(blocks, quads, a.p, lda, rows, kind ? NULL : &next, (int32_t *)(void *)acc.p);
  bool ok = guarded_ok(&acc);
  for (size_t m = 0; m < rows; m++)
    for (size_t n = 0; n < 32; n++) {
      int64_t want = 0;
      int32_t got;
      for (size_t i = 0; i < K; i++) want += a.p[m * lda + i] * (int8_t)blocks[n / 16][i / 4 * 64 + n % 16 * 4 + i % 4];
      memcpy(&got, acc.p + (m * 32 + n) * sizeof got, sizeof got);
      ok = ok && (uint32_t)got == (uint32_t)want;
    }
  guarded_free(&acc);
  munmap(a.base, a.all);
  guarded_free(&w[1]);
  guarded_free(&w[0]);
  return ok;
}

static void bytes_variants(void) {
  static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 31, 32, 48, 97};
  const tni_clt_kernel *k = KERNELS.rows;
  uint32_t wrong = 0, cases = 0;
  for (uint32_t i = 0; i < KERNELS.n; i++) {
    if (k[i].op != TNI_CLT_BYTES || !runs(&k[i])) continue;
    for (size_t c = 0; c < 16 * 5; c++, cases++)
      wrong += !bytes_case(&k[i], rows[c % 16], c / 16 * 48 + 16, c / 16 % 2, 0);
    for (int kind = 1; kind < 6; kind++, cases++) wrong += !bytes_case(&k[i], 42, 2048, false, kind);
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(*test_only || cases >= 85);
}

static void selection(void) {
  uint32_t n = KERNELS.n;
  const tni_clt_kernel *k = KERNELS.rows;
  for (uint32_t i = 0; i < n; i++) {
    if (k[i].op == TNI_CLT_GEMM2) { /* a GEMM reads what it reads, by the same instructions, for as few rows */
      const tni_clt_kernel *one =
          tni_clt_select(&KERNELS, TNI_CLT_GEMM, k[i].format, k[i].group, k[i].features, k[i].min_m);
      CU_ASSERT(one && one->features == k[i].features && one->layout == k[i].layout);
      continue;
    }
    CU_ASSERT_PTR_NOT_NULL(scalar_of(&k[i]));
    if (k[i].features) CU_ASSERT_PTR_EQUAL(select_like(&k[i], k[i].features), &k[i]); /* references may be shadowed */
    CU_ASSERT_PTR_EQUAL(select_like(&k[i], TNI_CPU_AVX2 | (k[i].features & TNI_CLT_AVERAGES)), scalar_of(&k[i]));
    if (!(k[i].features & TNI_CPU_GFNI)) continue;
    const tni_clt_kernel *without = select_like(&k[i], k[i].features & ~(uint32_t)TNI_CPU_GFNI);
    CU_ASSERT(without && without != scalar_of(&k[i]) && without->layout == k[i].layout);
  }
  CU_ASSERT_PTR_NULL(tni_clt_select(&KERNELS, TNI_CLT_GEMV, TNI_CLT_W4G, 64, UINT32_MAX, 1));
}

static void cpu_features_are_named(void) {
  char text[64];
  tni_cm_cpu_missing(TNI_CPU_FMA, TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C, text, sizeof text);
  CU_ASSERT_STRING_EQUAL(text, "avx2, f16c");
  tni_cm_cpu_missing(7, 7, text, sizeof text);
  CU_ASSERT_STRING_EQUAL(text, "");
  tni_cm_cpu_missing(0, 31, text, 8);
  CU_ASSERT_STRING_EQUAL(text, "avx2, f");
  tni_cm_cpu_missing(TNI_CPU_PREFETCH, TNI_CPU_PREFETCH | TNI_CPU_GFNI, text, sizeof text);
  CU_ASSERT_STRING_EQUAL(text, "gfni");
}

int add_kernel_suite(void) {
  CU_TestInfo tests[] = {{"quant_matches_declaration", quant_matches_declaration},
                         {"quant_variants", quant_variants},
                         {"quant_survives_nan", quant_survives_nan},
                         {"gemv_variants", gemv_variants},
                         {"gemm_variants", gemm_variants},
                         {"gemm2_variants", gemm2_variants},
                         {"one_hot", one_hot},
                         {"broken_kernels_are_caught", broken_kernels_are_caught},
                         {"matmul_variants", matmul_variants},
                         {"bytes_variants", bytes_variants},
                         {"selection", selection},
                         {"cpu_features_are_named", cpu_features_are_named},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"kernels", init, forget_packs, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
