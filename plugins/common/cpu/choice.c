/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/choice.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "plugins/common/cpu/kernels/kernels.h"

enum {
  K = 2048,
  BYTES = 24 << 20, /* of weights, read piece by piece */
  PIECES = 24,      /* small beside what the system gives a thread in one go */
  GEMM_BLOCKS = 2,
  GEMM_ROWS = 96,
  ROUNDS = 3,
  BUDGET_NS = 250000000, /* of this thread's time; no round begins later */
  /* Scales of 0x1.888p-7 (half) and 0x1.444444p-59 (float): neither slow denormals nor infinities. */
  FILLING = 0x22
};
static const float NEAR = 1.10f, PS_PER_NS = 1000.0f;

/* --- the rule --------------------------------------------------------------------------------------------------- */

static bool is_usable_pace(tni_clt_pace p) { return p.one > 0 && p.many > 0 && p.one < 1e9f && p.many < 1e9f; }

uint32_t tni_clt_prefer(const tni_clt_pace *pace, uint32_t n) {
  uint32_t best = 0;
  float least = 0;
  for (uint32_t i = 0; i < n; i++)
    if (is_usable_pace(pace[i]) && (least == 0 || pace[i].one < least)) least = pace[best = i].one;
  for (uint32_t i = 0; i < n; i++)
    if (is_usable_pace(pace[i]) && pace[i].one <= least * NEAR && pace[i].many < pace[best].many) best = i;
  return best;
}

/* --- measuring -------------------------------------------------------------------------------------------------- */

/* One format under test. */
typedef struct format_trial {
  tni_clt_geometry geo;
  tni_clt_act one, many;
  tni_clt_gemv_fn gemv;
  tni_clt_gemm_fn gemm;
} format_trial;

static const tni_clt_kernel *trial_kernel(const tni_clt_device *d, const tni_clt_format *f, const format_trial *t,
                                          uint32_t op, int64_t M) {
  return tni_clt_select(d->backend->kernels, op, f->id, (uint32_t)t->geo.group, d->set.features, M);
}

/* Activations of M rows as the format's kernels read them. */
static bool prepare_rows(const tni_clt_kernel *quant, const format_trial *t, const float *x, int64_t M, tni_cm_mem *mem,
                         tni_clt_act *a) {
  const size_t padded = (size_t)t->geo.K_padded;
  const tni_clt_act_room room = tni_clt_act_room_of(quant->layout, padded, (size_t)t->geo.group);
  const size_t strides = ((size_t)M + room.rows - 1) / room.rows;
  *a = tni_clt_act_of(&room, (size_t)M, tni_cm_new(mem, strides, room.q_stride),
                      tni_cm_new(mem, strides * room.s_stride + 1, sizeof(float)),
                      tni_cm_new(mem, strides * room.z_stride + 1, sizeof(int32_t)));
  if (!a->q || !a->scale || !a->zero) return false;
  for (int64_t m = 0; m < M; m++) ((tni_clt_quant_fn)quant->fn)(x, K, padded, a, (size_t)m);
  return true;
}

static bool prepare_trial(const tni_clt_device *d, const tni_clt_format *f, const float *x, tni_cm_mem *mem,
                          format_trial *t) {
  if (f->geometry(f, TNI_CLT_ROWS, K, d->set.params, &t->geo) != TN_OK) return false;
  const tni_clt_kernel *gemv = trial_kernel(d, f, t, TNI_CLT_GEMV, 1),
                       *gemm = trial_kernel(d, f, t, TNI_CLT_GEMM, GEMM_ROWS);
  const tni_clt_kernel *q1 = trial_kernel(d, f, t, TNI_CLT_QUANT, 1),
                       *q96 = trial_kernel(d, f, t, TNI_CLT_QUANT, GEMM_ROWS);
  if (!gemv || !gemm || !q1 || !q96) return false;
  t->gemv = (tni_clt_gemv_fn)gemv->fn;
  t->gemm = (tni_clt_gemm_fn)gemm->fn;
  return prepare_rows(q1, t, x, 1, mem, &t->one) && prepare_rows(q96, t, x, GEMM_ROWS, mem, &t->many);
}

/* This thread's own time, ns: what else runs on the machine counts less. */
static int64_t choice_clock_ns(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void keep_least(float *least, int64_t ns, double weights) {
  const float ps = (float)((double)ns * (double)PS_PER_NS / weights);
  if (ns > 0 && (*least == 0 || ps < *least)) *least = ps;
}

/* One piece of the weights. */
static void measure_format(const format_trial *t, const uint8_t *w, tni_clt_pace *p) {
  float acc[GEMM_ROWS * TNI_CLT_ROWS];
  const int64_t blocks = BYTES / PIECES / t->geo.row_block_bytes;
  const size_t superblocks = (size_t)t->geo.superblocks;
  int64_t at = choice_clock_ns();
  for (int64_t b = 0; b < blocks; b++) t->gemv(w + b * t->geo.row_block_bytes, superblocks, &t->one, acc);
  keep_least(&p->one, choice_clock_ns() - at, (double)blocks * TNI_CLT_ROWS * K);
  at = choice_clock_ns();
  for (int64_t b = 0; b < GEMM_BLOCKS; b++)
    t->gemm(w + b * t->geo.row_block_bytes, superblocks, &t->many, 0, GEMM_ROWS, acc);
  keep_least(&p->many, choice_clock_ns() - at, (double)GEMM_BLOCKS * TNI_CLT_ROWS * K * GEMM_ROWS);
}

static bool measure_all(const tni_clt_device *d, const tni_clt_width *w, tni_clt_choice *c) {
  const tn_host *h = d->host;
  tni_cm_mem mem = {.host = h};
  format_trial t[TNI_CLT_MAX_CANDIDATES];
  float *x = tni_cm_new(&mem, K, sizeof *x);
  uint8_t *weights = h->alloc(h->ctx, BYTES, 64, TN_TAG_PACK);
  bool ok = x && weights;
  for (uint32_t k = 0; ok && k < K; k++) x[k] = (float)(k % 17) - 8.0f;
  for (uint32_t i = 0; ok && i < w->n; i++) ok = prepare_trial(d, w->formats[i], x, &mem, &t[i]);
  if (ok) memset(weights, FILLING, BYTES);
  const int64_t begin = choice_clock_ns();
  for (uint32_t r = 0; ok && r < ROUNDS * PIECES && (r < PIECES || choice_clock_ns() - begin < BUDGET_NS); r++)
    for (uint32_t i = 0; i < w->n; i++)
      measure_format(&t[i], weights + (r * w->n + i) % PIECES * (BYTES / PIECES), &c->pace[i]);
  h->free(h->ctx, weights);
  tni_cm_free(&mem);
  return ok;
}

/* --- keeping ---------------------------------------------------------------------------------------------------- */

enum { NAME_BYTES = 16 };
typedef struct record {
  uint32_t n, reserved;
  char chosen[NAME_BYTES];
  tni_clt_pace pace[TNI_CLT_MAX_CANDIDATES];
} record;

static size_t key_of(const tni_clt_device *d, const tni_clt_width *w, char *key, size_t n) {
  char cpu[TNI_CPU_NAME];
  tni_cm_cpu_name(cpu, sizeof cpu);
  const int at = snprintf(key, n, "width %s, calibration %d, %s, features %x, group %lld", w->option,
                          (int)TNI_CLT_CALIBRATION, cpu, d->set.features, (long long)d->set.params[0]);
  return at > 0 && (size_t)at < n ? (size_t)at : 0;
}

static bool recall_choice(const tni_clt_device *d, const tni_clt_width *w, const char *key, size_t nkey,
                          tni_clt_choice *c) {
  const void *data;
  uint64_t bytes;
  record r;
  if (d->host->cache_get(d->host->ctx, key, nkey, &data, &bytes) != TN_OK || bytes != sizeof r) return false;
  memcpy(&r, data, sizeof r);
  for (uint32_t i = 0; i < w->n && r.n == w->n; i++) {
    if (strncmp(r.chosen, w->formats[i]->option, sizeof r.chosen)) continue;
    c->index = i;
    memcpy(c->pace, r.pace, sizeof c->pace);
    return true;
  }
  return false;
}

/* What another process has put meanwhile wins, so that both pack the same. */
static bool keep_choice(const tni_clt_device *d, const tni_clt_width *w, const char *key, size_t nkey,
                        tni_clt_choice *c) {
  record r = {.n = w->n};
  snprintf(r.chosen, sizeof r.chosen, "%s", w->formats[c->index]->option);
  memcpy(r.pace, c->pace, sizeof r.pace);
  return d->host->cache_put(d->host->ctx, key, nkey, &r, sizeof r) == TN_OK && recall_choice(d, w, key, nkey, c);
}

void tni_clt_choose(const tni_clt_device *d, const tni_clt_width *w, tni_clt_choice *out) {
  char key[256];
  *out = (tni_clt_choice){.how = TNI_CLT_ASSUMED};
  if (!d->backend->kernels || (d->backend->needed & ~d->set.features)) return;
  const size_t nkey = key_of(d, w, key, sizeof key);
  if (nkey && recall_choice(d, w, key, nkey, out)) {
    out->how = TNI_CLT_KEPT;
    return;
  }
  if (!measure_all(d, w, out)) return;
  out->how = TNI_CLT_MEASURED;
  out->index = tni_clt_prefer(out->pace, w->n);
  out->unkept = !nkey || !keep_choice(d, w, key, nkey, out);
}

void tni_clt_choice_text(const tni_clt_width *w, const tni_clt_choice *c, char *text, size_t n) {
  int at = snprintf(text, n, "%s is %s", w->option, w->formats[c->index]->option);
  if (c->how == TNI_CLT_ASSUMED) {
    snprintf(text + at, n - (size_t)at, " (not measured)");
    return;
  }
  for (uint32_t i = 0; i < w->n && at > 0 && (size_t)at < n; i++)
    at += snprintf(text + at, n - (size_t)at, "%s%s %.1f %.1f%s",
                   i ? ", " : " (ps per weight, one row and many: ", w->formats[i]->option, (double)c->pace[i].one,
                   (double)c->pace[i].many, i + 1 == w->n ? ")" : "");
}
