/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of products beside their numbers: the same bits again, runs at once, weights that are read as they are.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/product.h"

/* --- the same again ------------------------------------------------------------------------------------------------
 */

static bool run_again(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, uint8_t fill, uint32_t split,
                      const float *first, const char *what, tni_cn_tally *t) {
  if (!tni_cn_product_run(p, i, b->M, b->x, b->full, fill, split, b->y)) return false;
  t->runs++;
  if (!memcmp(b->y, first, (size_t)b->n * sizeof *first)) return true;
  tni_cf_fail(p->cf, "%s: other bits %s", tni_cn_product_where(p, b->M, ""), what);
  return false;
}

static void run_repeated(tni_cn_product *p, int64_t M, tni_cn_tally *t) {
  tni_cf_inst i, other;
  tni_cn_buffers b, o;
  static const char *const splits[] = {"in one piece", "on threads", "grain by grain", "grain by grain from the end"};
  const int64_t M2 = tni_cn_product_rows(p, M == 1 ? 5 : 1);
  if (!tni_cn_instance(p, &i, M)) return;
  float *first = NULL;
  bool ok = tni_cn_buffers_make(&b, p, M) && tni_cn_buffers_make(&o, p, M2) &&
            (first = calloc((size_t)b.n + 1, sizeof *first));
  if (ok) {
    tni_cn_mixed(p, &b, 0);
    ok = tni_cn_check(p, &i, &b, TNI_CF_INLINE, "first run", t);
    memcpy(first, b.y, (size_t)b.n * sizeof *first);
  }
  ok = ok && run_again(p, &i, &b, 0xff, TNI_CF_INLINE, first, "from the second run of the same memory", t);
  ok = ok && run_again(p, &i, &b, 0, TNI_CF_INLINE, first, "with another content of scratch and old outputs", t);
  ok = ok && run_again(p, &i, &b, 0x3f, TNI_CF_INLINE, first, "with another content of scratch and old outputs", t);
  for (uint32_t s = 1; ok && s < TNI_CF_SPLITS; s++) {
    char text[80];
    snprintf(text, sizeof text, "when parallel_for cuts %s", splits[s]);
    ok = run_again(p, &i, &b, 0xa5, s, first, text, t);
  }
  if (ok && tni_cn_instance(p, &other, M2)) { /* other values and another number of rows in between */
    tni_cn_mixed(p, &o, 3);
    ok = tni_cn_check(p, &other, &o, TNI_CF_INLINE, "another number of rows beside", t);
    float *x = b.x;
    b.x = calloc((size_t)(M * p->want.K) + 1, sizeof *x);
    ok = ok && b.x;
    if (ok) tni_cn_product_values(p, M, TNI_CN_ONE_SIGN, 9, b.x, b.full);
    ok = ok && tni_cn_product_run(p, &i, M, b.x, b.full, 0, TNI_CF_INLINE, b.y);
    free(b.x);
    b.x = x;
    if (ok) tni_cn_mixed(p, &b, 0);
    ok = ok &&
         run_again(p, &i, &b, 0xff, TNI_CF_INLINE, first, "after runs with other values and another number of rows", t);
    tni_cf_inst_finish(&other);
  }
  free(first);
  tni_cn_buffers_free(&b);
  tni_cn_buffers_free(&o);
  tni_cf_inst_finish(&i);
}

void tni_cn_ask_repeat(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  static const int64_t shapes[][3] = {{5, 130, 129}, {1, 300, 257}, {1, 3000, 512}, {40, 1030, 256}};
  /* The last two are large enough to be cut into many pieces: once per format will do. */
  const size_t n = tni_cn_few(cf, h) ? 1 : q->kind == TNI_CN_MATMUL || cf->subject->thorough ? 4 : 2;
  for (size_t k = 0; k < n; k++) {
    tni_cn_product p;
    const tni_cn_want w = tni_cn_want_of(q, shapes[k][1], shapes[k][2]);
    if (!tni_cn_try_near(cf, h, &w, t, &p)) continue;
    run_repeated(&p, tni_cn_product_rows(&p, shapes[k][0]), t);
    const int64_t allocs = __atomic_load_n(&h->run_allocs, __ATOMIC_RELAXED);
    if (allocs) tni_cf_fail(cf, "run asked the host for %lld blocks of memory", (long long)allocs);
    h->run_allocs = 0;
    tni_cn_product_close(&p);
  }
}

/* --- at once -------------------------------------------------------------------------------------------------------
 */

enum { TOGETHER = 3, ROUNDS = 24 };

/* lock is held until it is known whether all threads are there: `all`. */
typedef struct gate {
  pthread_mutex_t lock;
  pthread_barrier_t barrier;
  bool all;
} gate;

typedef struct repeat_runner {
  tni_cf_inst *i;
  uint32_t split;
  gate *gate;
  tn_status st;
} repeat_runner;

static void *run_many(void *arg) {
  repeat_runner *r = arg;
  pthread_mutex_lock(&r->gate->lock);
  const bool all = r->gate->all;
  pthread_mutex_unlock(&r->gate->lock);
  for (int k = 0; all && k < ROUNDS; k++) {
    pthread_barrier_wait(&r->gate->barrier);
    if (r->st == TN_OK) r->st = tni_cf_inst_run(r->i, 0x3f, r->split);
  }
  return NULL;
}

/* False: there were not enough threads, and none has run. */
static bool run_together(repeat_runner *r) {
  pthread_t th[TOGETHER];
  gate g = {.lock = PTHREAD_MUTEX_INITIALIZER};
  int n = 0;
  if (pthread_barrier_init(&g.barrier, NULL, TOGETHER) != 0) return false;
  pthread_mutex_lock(&g.lock);
  for (; n < TOGETHER; n++) {
    r[n].gate = &g;
    if (pthread_create(&th[n], NULL, run_many, &r[n]) != 0) break;
  }
  g.all = n == TOGETHER;
  pthread_mutex_unlock(&g.lock);
  for (int k = 0; k < n; k++) pthread_join(th[k], NULL);
  pthread_barrier_destroy(&g.barrier);
  return n == TOGETHER;
}

/* Each on its own first, then all at once, over and over; a plan of another M, and two args of one plan. */
static void at_once(tni_cn_product *p, int64_t M, tni_cn_tally *t) {
  tni_cf_inst i[TOGETHER];
  tni_cn_buffers b[TOGETHER];
  float *first[TOGETHER] = {NULL};
  repeat_runner r[TOGETHER];
  const int64_t rows[TOGETHER] = {M, M, tni_cn_product_rows(p, M + 2)};
  bool ok = true, made[TOGETHER] = {false};
  memset(b, 0, sizeof b);
  for (int k = 0; ok && k < TOGETHER; k++) {
    made[k] = ok = k == 1 ? tni_cf_inst_share(&i[k], &i[0]) : tni_cn_instance(p, &i[k], rows[k]);
    ok = ok && tni_cn_buffers_make(&b[k], p, rows[k]) && (first[k] = calloc((size_t)b[k].n + 1, sizeof **first));
    if (!ok) break;
    tni_cn_product_values(p, rows[k], k ? TNI_CN_ONE_SIGN : TNI_CN_NORMAL, 40 + (uint64_t)k, b[k].x, b[k].full);
    ok = tni_cn_check(p, &i[k], &b[k], TNI_CF_INLINE, "alone", t);
    memcpy(first[k], b[k].y, (size_t)b[k].n * sizeof **first);
  }
  for (int k = 0; k < TOGETHER; k++)
    r[k] = (repeat_runner){.i = &i[k], .split = k == 2 ? TNI_CF_INLINE : TNI_CF_GRAINS};
  if (ok && !run_together(r)) {
    tni_cf_fail(p->cf, "the kit could not start %d threads", TOGETHER);
  } else if (ok) {
    t->runs += (int64_t)TOGETHER * ROUNDS;
    for (int k = 0; k < TOGETHER; k++) {
      float *y = b[k].y;
      if (r[k].st != TN_OK) tni_cf_fail(p->cf, "%s", tni_cn_product_where(p, rows[k], i[k].why));
      for (uint32_t o = 0; o < p->b.n_out; o++) {
        tni_tensor out = tni_cn_tensor(&p->b, p->b.out[o], i[k].sym, p->arena);
        if (!out.data || !tni_cf_inst_read(&i[k], p->b.out[o], out.data, out.bytes)) break;
        tni_tensor_to_f32(&out, 0, tni_cn_count(&out), y);
        y += tni_cn_count(&out);
      }
      if (memcmp(b[k].y, first[k], (size_t)b[k].n * sizeof **first) != 0)
        tni_cf_fail(p->cf, "%s: other bits when %d runs are under way at once", tni_cn_product_where(p, rows[k], ""),
                    TOGETHER);
    }
  }
  for (int k = TOGETHER - 1; k >= 0; k--) {
    free(first[k]);
    tni_cn_buffers_free(&b[k]);
    if (made[k]) tni_cf_inst_finish(&i[k]);
  }
}

void tni_cn_ask_together(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  tni_cn_product p;
  const tni_cn_want w = tni_cn_want_of(q, 96, 512);
  for (int64_t M = 1; M < 20; M += 15) {
    if (!tni_cn_try(cf, h, &w, t, &p)) return;
    at_once(&p, tni_cn_product_rows(&p, M), t);
    tni_cn_product_close(&p);
  }
}

/* --- what it reads --------------------------------------------------------------------------------------------------
 */

/* The element that a changed blob moves most, beside what the bound allows at a one-hot activation; -1: none clearly.
 */
static int64_t most_moved(const tn_numerics *num, const float *was, const float *is, int64_t n, int64_t K) {
  const double rel = 4 * tni_reference_bound(num, 256) + 0x1p-12;
  double best = 1;
  int64_t at = -1;
  for (int64_t i = 0; i < n; i++) {
    const int64_t row = i / K * K;
    const double a = (double)was[i], b = (double)is[i],
                 more = tni_reference_averages_at(num, was + row, K, i % K, 1) +
                        tni_reference_averages_at(num, is + row, K, i % K, 1),
                 times = fabs(a - b) / (rel * (fabs(a) + fabs(b)) + more + 0x1p-10);
    if (times > best) best = times, at = i;
  }
  return at;
}

typedef struct flipped_source {
  tn_weight w;
  const float *data;
} flipped_source;

static tn_status flipped_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const flipped_source *s = (const flipped_source *)(const void *)w;
  memcpy(dst, s->data + n0 * w->K, (size_t)((n1 - n0) * w->K) * sizeof *dst);
  return TN_OK;
}

/* Whether packing gives the byte that the flipped bit made: the weights that unpack reads from it are packed once more.
 * A code to which no weight is packed may mean anything, and to a kernel another thing than to unpack: of the 32 that
 * five bits have, the last five of tern17, which keeps three trits in them; its padding, too. */
static bool can_be_packed(const tni_cf_host *h, const tn_blob *b, const tn_stats *x, const float *is, uint64_t byte) {
  const flipped_source from = {
      .w = {.h = TN_HDR(tn_weight), .N = b->N, .K = b->K, .dtype = TN_DT_F32, .rows = flipped_rows, .x = x},
      .data = is};
  const tn_format *f = b->format;
  tn_pack *p = NULL;
  tn_error err;
  tni_error_init(&err);
  uint8_t *again = aligned_alloc(4096, (b->bytes + 2 * 4096 - 1) / 4096 * 4096);
  if (again) memset(again, 0, b->bytes);
  bool ok = again && f->begin(h->host, f, &from.w, b->params, b->n_params, &p, &err) == TN_OK;
  ok = ok && f->rows(p, 0, b->N, again) == TN_OK;
  if (p) ok = f->end(p, ok ? again : NULL) == TN_OK && ok;
  ok = ok && again[byte] == ((const uint8_t *)b->ptr)[byte];
  free(again);
  return ok;
}

/* A bit of the packed weights that changes what they mean must show in what is computed, just so. */
static void check_flipped_bits(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t, int round,
                               int64_t *shown) {
  enum { N = 64, K = 256 };
  tni_cn_product p;
  tni_cf_inst i;
  tni_cn_buffers b;
  int64_t n_, k_;
  tn_numerics num;
  tni_cf_rng r = tni_cf_rng_of(cf, 600 + (uint64_t)round);
  tni_cn_want w = tni_cn_want_of(q, N, K);
  if (!tni_cn_try(cf, h, &w, t, &p)) return;
  const float *was = tni_cn_product_weight(&p, p.b.g->nodes[0]->pub.in[1], true, &n_, &k_, &num);
  tn_blob *blob = NULL;
  const tn_section *part = NULL;
  for (uint32_t s = 0; s < p.d.info->n_slots && !blob; s++)
    if (p.d.packed[s] && p.d.fixed[s].bytes && p.d.blob[s].N == N) blob = &p.d.blob[s], part = &p.d.section[s];
  const int64_t M = tni_cn_product_rows(&p, 1), box[4] = {0, N, 0, K};
  float *is = malloc(N * K * sizeof *is);
  int64_t at = -1;
  uint64_t bit = UINT64_MAX;
  if (blob && was && is) {
    uint8_t *bytes = (uint8_t *)(uintptr_t)blob->ptr;
    bit = part->offset * 8 + tni_cf_rng_next(&r) % (part->bytes * 8); /* of what is attached */
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    const bool meant = blob->format->unpack(blob, box, is) == TN_OK && can_be_packed(h, blob, &p.stats, is, bit / 8);
    at = meant ? most_moved(&num, was, is, N * K, K) : -1;
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  const double from = at >= 0 ? (double)was[at] : 0;
  tni_cn_product_close(&p);
  w.flip = bit;
  if (at >= 0 && isfinite(is[at]) && tni_cn_try(cf, h, &w, t, &p)) {
    if (tni_cn_instance(&p, &i, M) && tni_cn_buffers_make(&b, &p, M)) {
      for (int64_t m = 0; m < M; m++) b.x[m * K + at % K] = 1;
      if (tni_cn_product_run(&p, &i, M, b.x, b.full, 0xff, TNI_CF_INLINE, b.y) &&
          tni_cn_product_reference(&p, M, b.x, b.full, b.want, b.bound)) {
        if (!tni_cn_compare(b.y, b.want, b.bound, b.n).bad)
          tni_cf_fail(
              cf,
              "bit %llu of the packed weights changes weight [%lld,%lld] from %.6g to %.6g, and the product of a "
              "one there does not show it: it is %.6g (allowed %.3g)",
              (unsigned long long)bit, (long long)(at / K), (long long)(at % K), from, (double)is[at],
              (double)b.y[at / K], (double)b.bound[at / K]);
        ++*shown;
      }
      tni_cn_buffers_free(&b);
      tni_cf_inst_finish(&i);
    }
    tni_cn_product_close(&p);
  }
  free(is);
}

void tni_cn_ask_flips(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  const int rounds = h->caps->n_engines ? 8 : 24;
  int64_t shown = 0;
  for (int i = 0; i < rounds; i++) check_flipped_bits(cf, h, q, t, i, &shown);
  tni_cf_note(cf, "%lld of %d flipped bits change a weight clearly", (long long)shown, rounds);
}
