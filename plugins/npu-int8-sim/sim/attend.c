/* SPDX-License-Identifier: Apache-2.0
 *
 * Float attention: sums in double, one rounding per element of the result, so that its bits depend on nothing but the
 * inputs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/npu-int8-sim/sim/state.h"

static bool attention_good(const npusim_attention *a) {
  const int64_t limit = INT64_C(1) << 24;
  return a->M > 0 && a->M % 32 == 0 && a->M <= limit && a->T > 0 && a->T <= limit && a->heads > 0 && a->kv_heads > 0 &&
         a->heads <= 4096 && a->heads % a->kv_heads == 0 && a->size > 0 && a->size <= 1024 && a->v_size > 0 &&
         a->v_size <= 1024;
}

int npusim_prepare_attention(npusim *s, const npusim_attention *a, npusim_graph **out) {
  if (!s->config.profile->float_attention || !attention_good(a)) return NPUSIM_SHAPE;
  npusim_graph *g = calloc(1, sizeof *g);
  if (g) g->scores = malloc((size_t)(a->T + a->v_size) * sizeof *g->scores);
  if (!g || !g->scores) {
    free(g);
    return NPUSIM_MEMORY;
  }
  g->s = s;
  g->attention = *a;
  g->ns = npusim_attention_ns(s->config.profile, a->M, a->T, a->heads * a->size, a->kv_heads * a->size, a->heads);
  g->bytes = 4 * (uint64_t)(a->M * a->heads * (a->size + a->v_size) + a->T * a->kv_heads * (a->size + a->v_size));
  pthread_mutex_lock(&s->lock);
  const int rc = s->lost ? NPUSIM_LOST : ++s->n.graphs == s->config.faults.graph_at ? NPUSIM_MEMORY : NPUSIM_OK;
  g->id = ++s->n_graphs;
  s->n.live_graphs++;
  pthread_mutex_unlock(&s->lock);
  if (rc == NPUSIM_OK)
    *out = g;
  else
    npusim_graph_free(g);
  return rc;
}

/* Bytes from `at` to the last element. */
static int reach_of_rows(const npusim_rows *r, int64_t rows, int64_t heads, int64_t size, uint64_t *bytes) {
  const int64_t limit = INT64_C(1) << 40;
  if (r->row < size || r->head < size || r->row > limit / rows || r->head > limit / heads || r->first < 0 ||
      r->first > limit)
    return NPUSIM_BAD;
  *bytes = 4 * (uint64_t)(r->first + (rows - 1) * r->row + (heads - 1) * r->head + size);
  return NPUSIM_OK;
}

enum { Q, K, V, Y };

static int hold_attention(const npusim_graph *g, const void *arg, npusim_held *h) {
  const npusim_attention *a = &g->attention;
  const npusim_attention_io *io = arg;
  const npusim_rows *const r[4] = {&io->q, &io->k, &io->v, &io->y};
  const int64_t rows[4] = {a->M, a->T, a->T, a->M}, heads[4] = {a->heads, a->kv_heads, a->kv_heads, a->heads},
                size[4] = {a->size, a->size, a->v_size, a->v_size};
  int rc = NPUSIM_OK;
  for (uint32_t i = 0; rc == NPUSIM_OK && i < 4; i++) {
    uint64_t bytes = 0;
    rc = reach_of_rows(r[i], rows[i], heads[i], size[i], &bytes);
    if (rc == NPUSIM_OK) rc = npusim_hold_at(g->s, r[i]->handle, r[i]->at, bytes, h, &h->x[i]);
    if (rc == NPUSIM_OK) h->x[i] += 4 * r[i]->first;
  }
  /* Eight bytes of a small block: any multiple of eight. */
  if (rc == NPUSIM_OK && io->valid_at % 8) rc = NPUSIM_BAD;
  if (rc == NPUSIM_OK) rc = npusim_hold(g->s, io->valid, io->valid_at, sizeof(int64_t), &h->x[4]);
  if (rc == NPUSIM_OK) h->handles[h->n++] = io->valid;
  if (rc != NPUSIM_OK || !io->mask) return rc;
  if (io->mask_row < 0 || io->mask_head < 0 || io->mask_row > a->T || io->mask_head > a->M * a->T) return NPUSIM_BAD;
  rc = npusim_hold(g->s, io->mask, io->mask_at,
                   (uint64_t)((a->M - 1) * io->mask_row + (a->heads - 1) * io->mask_head + a->T), &h->x[5]);
  if (rc == NPUSIM_OK) h->handles[h->n++] = io->mask;
  return rc;
}

static double dot_floats(const float *a, const float *b, int64_t n) {
  double sum[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) sum[k] += (double)a[i + k] * (double)b[i + k];
  for (; i < n; i++) sum[0] += (double)a[i] * (double)b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* One query over those of the keys [0, n) that mask leaves; NULL: all. */
static void attend_rows(const npusim_attention *a, const float *q, const float *k, int64_t k_row, const float *v,
                        int64_t v_row, const uint8_t *mask, int64_t n, double *p, float *y) {
  double *out = p + a->T, top = -INFINITY, sum = 0;
  bool any = false;
  for (int64_t j = 0; j < n; j++) {
    if (mask && !mask[j]) continue;
    p[j] = dot_floats(q, k + j * k_row, a->size) * (double)a->scale;
    if (!(p[j] <= top)) top = p[j];
    any = true;
  }
  memset(out, 0, (size_t)a->v_size * sizeof *out);
  for (int64_t j = 0; j < n; j++) {
    if (mask && !mask[j]) continue;
    const double e = exp(p[j] - top);
    sum += e;
    for (int64_t i = 0; i < a->v_size; i++) out[i] += e * (double)v[j * v_row + i];
  }
  for (int64_t i = 0; i < a->v_size; i++) y[i] = any ? (float)(out[i] / sum) : 0.0f;
}

static int compute_attention(const npusim_graph *g, const void *arg, const npusim_held *h, const npusim_stop *stop) {
  const npusim_attention *a = &g->attention;
  const npusim_attention_io *io = arg;
  const float *f[4];
  int64_t valid;
  for (int i = 0; i < 4; i++) f[i] = (const float *)(const void *)h->x[i];
  memcpy(&valid, h->x[4], sizeof valid);
  if (valid < 0 || valid > a->T) return NPUSIM_BAD;
  for (int64_t m = 0; m < a->M; m++) {
    if (npusim_stopped(stop)) return NPUSIM_STOPPED;
    const int64_t seen = a->causal ? valid - a->M + m + 1 : valid;
    for (int64_t i = 0; i < a->heads; i++) {
      const int64_t kv = i / (a->heads / a->kv_heads);
      attend_rows(a, f[Q] + m * io->q.row + i * io->q.head, f[K] + kv * io->k.head, io->k.row, f[V] + kv * io->v.head,
                  io->v.row, io->mask ? h->x[5] + m * io->mask_row + i * io->mask_head : NULL, seen > 0 ? seen : 0,
                  g->scores, (float *)(void *)h->x[Y] + m * io->y.row + i * io->y.head);
    }
  }
  return NPUSIM_OK;
}

int npusim_attend(npusim_graph *g, const npusim_attention_io *io, int64_t ready, int (*stop)(void *arg), void *arg,
                  npusim_times *times) {
  const npusim_stop s = {stop, arg};
  return !g->attention.M ? NPUSIM_BAD : npusim_run(g, io, hold_attention, compute_attention, ready, &s, times);
}
