/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels read and write nothing beyond what they are given: all that a kernel touches ends where a page without access
 * begins, of as many bytes as are stated, for tails of K and M. What the bytes are does not matter, so nothing is
 * packed.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kernels/harness.h"

/* Around superblocks and groups of all formats, those of tern17 (96 k, in spans of four) included. */
static const int64_t Ks[] = {1, 31, 33, 64, 95, 97, 127, 129, 191, 193, 255, 257, 289, 383, 385, 511, 513, 700, 1025};
static const int64_t Ms[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 25};

static sigjmp_buf back;
static void fell(int s) { siglongjmp(back, s); }

/* bytes that end at a hole. */
typedef struct holed {
  uint8_t *base, *p;
  size_t all;
} holed;

static holed holed_new(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page) / page * page;
  holed h = {.all = bytes ? body + page : 0};
  if (!bytes) return h;
  h.base = mmap(NULL, h.all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (h.base == MAP_FAILED || mprotect(h.base + body, page, PROT_NONE)) abort();
  h.p = h.base + body - bytes;
  memset(h.base, 0x11, body);
  return h;
}
static void holed_free(holed *h) {
  if (h->all) munmap(h->base, h->all);
}

/* What one call is given. */
typedef struct call {
  const tni_clt_kernel *k;
  size_t superblocks, block_bytes, M, K, K_padded;
  holed w, x, q, scale, zero, acc[2];
  tni_clt_act a;
} call;

static call call_of(const tni_clt_kernel *k, int64_t M, int64_t K) {
  subject s;
  subject_init(&s, k, 16, K);
  const tni_clt_geometry *g = &s.geo;
  const uint32_t layout = k->op == TNI_CLT_QUANT ? k->layout : s.prologue->layout;
  const tni_clt_act_room room = tni_clt_act_room_of(layout, (size_t)g->K_padded, (size_t)g->group);
  const size_t n = ((size_t)M + room.rows - 1) / room.rows, blocks = k->op == TNI_CLT_QUANT   ? 0
                                                                     : k->op == TNI_CLT_GEMM2 ? 2
                                                                                              : 1;
  call c = {.k = k,
            .superblocks = (size_t)g->superblocks,
            .block_bytes = (size_t)g->row_block_bytes,
            .M = (size_t)M,
            .K = (size_t)K,
            .K_padded = (size_t)g->K_padded,
            .w = holed_new(blocks * (size_t)g->row_block_bytes),
            .x = holed_new(blocks ? 0 : (size_t)(M * K) * 4),
            .q = holed_new(n * room.q_stride),
            .scale = holed_new(n * room.s_stride * 4),
            .zero = holed_new(n * room.z_stride * 4),
            .acc = {holed_new(blocks > 0 ? (size_t)M * 64 : 0), holed_new(blocks > 1 ? (size_t)M * 64 : 0)}};
  c.a = tni_clt_act_of(&room, (size_t)M, c.q.p, c.scale.p, c.zero.p);
  c.a.scale_bits = g->scale_bits;
  c.a.zero_bits = g->zero_bits;
  return c;
}

static void call_free(call *c) {
  holed *all[] = {&c->w, &c->x, &c->q, &c->scale, &c->zero, &c->acc[0], &c->acc[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) holed_free(all[i]);
}

static void make(const call *c) {
  float *const to[2] = {(float *)(void *)c->acc[0].p, (float *)(void *)c->acc[1].p};
  switch (c->k->op) {
    case TNI_CLT_QUANT:
      for (size_t m = 0; m < c->M; m++)
        ((tni_clt_quant_fn)c->k->fn)((const float *)(const void *)c->x.p + m * c->K, c->K, c->K_padded, &c->a, m);
      break;
    case TNI_CLT_GEMV: /* the last row, after which nothing is */
      ((tni_clt_gemv_fn)c->k->fn)(c->w.p, c->superblocks, &c->a, to[0]);
      break;
    case TNI_CLT_GEMM:
      ((tni_clt_gemm_fn)c->k->fn)(c->w.p, c->superblocks, &c->a, 0, c->M, to[0]);
      break;
    default:
      ((tni_clt_gemm2_fn)c->k->fn)(c->w.p, c->block_bytes, c->superblocks, &c->a, 0, c->M, to);
  }
}

/* False: it touched what is not its own, of which the processor or the emulator told. */
static bool keeps_within(const tni_clt_kernel *k, int64_t M, int64_t K) {
  call c = call_of(k, M, K);
  struct sigaction now = {.sa_handler = fell}, then[2];
  sigemptyset(&now.sa_mask);
  sigaction(SIGSEGV, &now, &then[0]);
  sigaction(SIGBUS, &now, &then[1]);
  const bool ok = sigsetjmp(back, 1) == 0;
  if (ok) make(&c);
  sigaction(SIGSEGV, &then[0], NULL);
  sigaction(SIGBUS, &then[1], NULL);
  call_free(&c);
  return ok;
}

static bool runs(const tni_clt_kernel *k) {
  return !(k->features & ~(test_cpu_features() | TNI_CLT_AVERAGES | TNI_CLT_NARROW)) && test_wants(k->name);
}

static void each(uint32_t op) {
  uint32_t cases = 0, wrong = 0;
  for (uint32_t i = 0; i < KERNELS.n; i++) {
    const tni_clt_kernel *k = &KERNELS.rows[i];
    if (k->op != op || !runs(k)) continue;
    for (size_t ik = 0; ik < sizeof Ks / sizeof *Ks; ik++)
      for (size_t im = 0; im < sizeof Ms / sizeof *Ms; im++) {
        if (op == TNI_CLT_GEMV && Ms[im] > 1) break;
        if (op == TNI_CLT_GEMM && Ms[im] < k->min_m) continue;
        cases++;
        if (keeps_within(k, Ms[im], Ks[ik])) continue;
        if (!wrong++) printf("\n    %s: M %lld K %lld", k->name, (long long)Ms[im], (long long)Ks[ik]);
      }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(*test_only || cases > 100 || op == TNI_CLT_GEMM2);
}

static void quants(void) { each(TNI_CLT_QUANT); }
static void gemvs(void) { each(TNI_CLT_GEMV); }
static void gemms(void) { each(TNI_CLT_GEMM); }
static void gemm2s(void) { each(TNI_CLT_GEMM2); }

/* Products of floats: the last row, the last column, the last k. */
static bool matmul_within(const tni_clt_kernel *k, size_t M, size_t N, size_t K) {
  holed a = holed_new(M * K * 4), b = holed_new(K * N * 4), c = holed_new(M * N * 4);
  const tni_clt_matmul p = {
      (const float *)(const void *)a.p, (const float *)(const void *)b.p, (float *)(void *)c.p, K, N, N, M, N, K};
  struct sigaction now = {.sa_handler = fell}, then;
  sigemptyset(&now.sa_mask);
  sigaction(SIGSEGV, &now, &then);
  const bool ok = sigsetjmp(back, 1) == 0;
  if (ok) ((tni_clt_matmul_fn)k->fn)(&p);
  sigaction(SIGSEGV, &then, NULL);
  holed_free(&a);
  holed_free(&b);
  holed_free(&c);
  return ok;
}

static void matmuls(void) {
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < KERNELS.n; i++) {
    const tni_clt_kernel *k = &KERNELS.rows[i];
    if (k->op != TNI_CLT_MATMUL || !runs(k)) continue;
    for (size_t M = 1; M < 10; M++)
      for (size_t N = 1; N < 36; N++)
        for (size_t K = 1; K < 20; K += 3) wrong += !matmul_within(k, M, N, K);
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* Kernels whose bound is one too far must be caught: a byte of weights, of codes, a scale, a start value, a result. */
static int breakage;
static void too_far(const uint8_t *w, size_t superblocks, const tni_clt_act *a, float *acc) {
  const volatile uint8_t *block = w;
  const volatile int8_t *q = a->q;
  const volatile float *scale = a->scale;
  const volatile int32_t *zero = a->zero;
  tni_clt_gemv_f32_q8g32_w4g32_1x16_scalar(w, superblocks, a, acc);
  if (breakage == 0) acc[0] += block[superblocks * 64 / 32 * (32 + 256)];
  if (breakage == 1) acc[0] += q[a->q_stride];
  if (breakage == 2) acc[0] += scale[a->s_stride];
  if (breakage == 3) acc[0] += (float)zero[a->z_stride];
  if (breakage == 4) acc[16] = 0;
}

static void broken_bounds_are_caught(void) {
  const tni_clt_kernel k = {TNI_CLT_GEMV, TNI_CLT_W4G, 32, 0, 0, 0, "broken", (void (*)(void))too_far};
  for (breakage = 0; breakage < 5; breakage++) CU_ASSERT_FALSE(keeps_within(&k, 1, 97));
  CU_ASSERT_TRUE(keeps_within(&k, 1, 97)); /* and nothing else is */
}

int add_hole_suite(void) {
  CU_TestInfo tests[] = {{"broken_bounds_are_caught", broken_bounds_are_caught},
                         {"quants", quants},
                         {"gemvs", gemvs},
                         {"gemms", gemms},
                         {"gemm2s", gemm2s},
                         {"matmuls", matmuls},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"holes", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
