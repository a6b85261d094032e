/* SPDX-License-Identifier: Apache-2.0
 *
 * One product on an open device, run and compared: what the questions of product_cases.c and product_repeat.c, and the
 * matrices of model.c, are made of.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/product.h"
#include "runtime/ops/kernel/kernel.h"

/* --- one product ------------------------------------------------------------------------------------------------- */

tni_cn_want tni_cn_want_of(const tni_cn_question *q, int64_t N, int64_t K) {
  return (tni_cn_want){.kind = q->kind,
                       .pattern = TNI_CN_NORMAL,
                       .N = N,
                       .K = K,
                       .dtype = q->dtype ? q->dtype : TN_DT_F32,
                       .flip = UINT64_MAX,
                       .link = q->link};
}

bool tni_cn_try(tni_cf *cf, tni_cf_host *h, const tni_cn_want *w, tni_cn_tally *t, tni_cn_product *p) {
  const int st = tni_cn_product_open(cf, h, w, p);
  if (st == TNI_CN_TAKEN) return t->products++, true;
  if (st == TNI_CN_REFUSED) {
    t->refused++;
    snprintf(t->reason, sizeof t->reason, "%s", p->d.refusal ? p->d.refusal->text : "claimed in parts");
  }
  tni_cn_product_close(p);
  return false;
}

bool tni_cn_try_near(tni_cf *cf, tni_cf_host *h, const tni_cn_want *w, tni_cn_tally *t, tni_cn_product *p) {
  if (tni_cn_try(cf, h, w, t, p)) return true;
  tni_cn_want even = *w;
  const bool three = w->kind == TNI_CN_QKV || w->kind == TNI_CN_FUSED_QKV;
  const int64_t unit = three ? 128 : 64;
  even.even = true;
  even.K = w->K < 64 ? 64 : w->K / 64 * 64;
  even.N = w->N < unit ? unit : w->N / unit * unit;
  return (three || even.K != w->K || even.N != w->N) && tni_cn_try(cf, h, &even, t, p);
}

bool tni_cn_buffers_make(tni_cn_buffers *b, const tni_cn_product *p, int64_t M) {
  *b = (tni_cn_buffers){.M = M, .n = tni_cn_product_elems(p, M)};
  b->x = calloc((size_t)(M * p->want.K) + 1, sizeof *b->x);
  b->full = calloc((size_t)(M * p->want.N) + 1, sizeof *b->full);
  b->y = calloc((size_t)b->n + 1, sizeof *b->y);
  b->want = calloc((size_t)b->n + 1, sizeof *b->want);
  b->bound = calloc((size_t)b->n + 1, sizeof *b->bound);
  return b->x && b->full && b->y && b->want && b->bound;
}

void tni_cn_buffers_free(tni_cn_buffers *b) {
  free(b->x);
  free(b->full);
  free(b->y);
  free(b->want);
  free(b->bound);
}

bool tni_cn_instance(tni_cn_product *p, tni_cf_inst *i, int64_t M) {
  const int64_t sym[TNI_CF_MAX_SYMBOLS] = {M, 1};
  if (tni_cf_inst_make(i, &p->d, sym, (tni_cf_room){0})) return true;
  tni_cf_fail(p->cf, "%s", tni_cn_product_where(p, M, i->why));
  tni_cf_inst_finish(i);
  return false;
}

/* Runs x and compares. */
bool tni_cn_check(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, uint32_t split, const char *what,
                  tni_cn_tally *t) {
  if (!tni_cn_product_run(p, i, b->M, b->x, b->full, 0xff, split, b->y)) return false;
  if (!tni_cn_product_reference(p, b->M, b->x, b->full, b->want, b->bound)) return false;
  const tni_cn_found f = tni_cn_compare(b->y, b->want, b->bound, b->n);
  t->runs++;
  t->elements += b->n;
  if (isfinite(f.worst) && f.worst > t->worst) t->worst = f.worst;
  if (f.bad) tni_cn_complain(p->cf, tni_cn_product_where(p, b->M, what), &f, b->n);
  return !f.bad;
}

/* Row m has pattern (m + first) modulo their number, so that one run has many. */
void tni_cn_mixed(tni_cn_product *p, tni_cn_buffers *b, int first) {
  float *x = malloc((size_t)(p->want.K + 1) * sizeof *x), *full = malloc((size_t)(p->want.N + 1) * sizeof *full);
  for (int64_t m = 0; x && full && m < b->M; m++) {
    tni_cn_product_values(p, 1, (int)((m + first) % TNI_CN_PATTERNS), (uint64_t)m + 1, x, full);
    memcpy(b->x + m * p->want.K, x, (size_t)p->want.K * sizeof *x);
    memcpy(b->full + m * p->want.N, full, (size_t)p->want.N * sizeof *full);
  }
  free(x);
  free(full);
}

bool tni_cn_few(const tni_cf *cf, const tni_cf_host *h) { return h->caps->n_engines && !cf->subject->thorough; }

/* --- one-hot ------------------------------------------------------------------------------------------------------ */

enum { MAGNITUDES = 8 };

/* Elements of which quantizing loses nothing but the rounding of a scale; both kinds of halves hold `halves`. */
static uint32_t list_magnitudes(const tn_numerics *num, uint32_t dtype, float *out) {
  static const float wide[] = {1, -1, 0x1p-40f, 3, -0x1p40f, -777.25f, 1e-3f, 0x1p20f},
                     halves[] = {1, -1, 2, -8, 0.0625f, 1.5f, -1024, 6},
                     codes[] = {127, -127, 1, -1, 64, -128, 300, -40000};
  const bool fixed = num->act_scheme == TN_ACT_STATIC, half = tni_is_half(num->act_dtype) || dtype != TN_DT_F32;
  uint32_t n = 0;
  for (uint32_t i = 0; i < MAGNITUDES; i++) {
    const float v = fixed ? codes[i] * num->act_scale : half ? halves[i] : wide[i];
    if (!(num->finite_max > 0) || (double)fabsf(v) <= num->finite_max) out[n++] = v;
  }
  return n;
}

static double element_quantized(const tn_numerics *num, float x) {
  if (num->act_scheme != TN_ACT_STATIC) return (double)x;
  const float q = rintf(x / num->act_scale), top = num->act_max;
  return (double)(q > top ? top : q < -top - 1 ? -top - 1 : q) * (double)num->act_scale;
}

/* Of such a sum all terms but one are zero: the bound is that of one product, whatever K is. */
static void hot_bounds(tni_cn_product *p, const tn_numerics *num, tni_cn_buffers *b, const float *w, int64_t N,
                       int64_t K, int64_t k0) {
  const bool scaled = num->act_scheme == TN_ACT_ABSMAX || num->act_scheme == TN_ACT_RUNSUM;
  const double rel =
      tni_reference_bound(num, 1) + (scaled ? 2 * 0x1p-24 : 0) + (p->want.dtype != TN_DT_F32 ? 0x1p-10 : 0);
  const double tiny = tni_cn_tiny(p->want.dtype, num->denormals == TN_DENORM_FLUSH) * 5;
  for (int64_t m = 0; m < b->M; m++)
    for (int64_t n = 0; n < N; n++) {
      const int64_t k = k0 + m;
      const double v = k < K ? (double)w[n * K + k] * element_quantized(num, b->x[m * K + k]) : 0;
      b->want[m * N + n] = (float)v;
      const double more = k < K ? tni_reference_averages_at(num, w + n * K, K, k, b->x[m * K + k]) : 0;
      b->bound[m * N + n] = rel > 0 ? (float)(rel * fabs(v) + tiny + more) : 0;
    }
}

void tni_cn_read_back(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, tni_cn_tally *t) {
  const int64_t K = p->want.K;
  float v[MAGNITUDES];
  int64_t N, k_;
  tn_numerics num;
  const float *w = tni_cn_product_weight(p, p->b.g->nodes[0]->pub.in[1], p->want.kind != TNI_CN_GEMM, &N, &k_, &num);
  const uint32_t n = list_magnitudes(&num, p->want.dtype, v);
  for (int64_t k0 = 0; w && k0 < K; k0 += b->M) {
    char text[64];
    snprintf(text, sizeof text, "one-hot, columns from %lld on", (long long)k0);
    memset(b->x, 0, (size_t)(b->M * K) * sizeof *b->x);
    for (int64_t m = 0; m < b->M && k0 + m < K; m++) b->x[m * K + k0 + m] = v[(uint64_t)(k0 + m + b->M) % n];
    if (!tni_cn_product_run(p, i, b->M, b->x, b->full, 0xff, TNI_CF_INLINE, b->y)) return;
    hot_bounds(p, &num, b, w, N, K, k0);
    const tni_cn_found f = tni_cn_compare(b->y, b->want, b->bound, b->M * N);
    t->runs++;
    t->elements += b->M * N;
    if (!f.bad) continue;
    tni_cn_complain(p->cf, tni_cn_product_where(p, b->M, text), &f, b->M * N);
    return;
  }
}
