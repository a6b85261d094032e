/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of weights that outliers need (NPU5): the hottest channels stay, the others are read when they are met and kept
 * for a while. A row is contiguous in w8r, so it is one read.
 */
#include <stdlib.h>
#include <string.h>

#include "plugins/npu-int8-sim/program.h"

enum { KEPT = 64 };

typedef struct rank {
  float count;
  int64_t channel;
} rank;

static int by_count(const void *pa, const void *pb) {
  const rank *a = pa, *b = pb;
  if (a->count != b->count) return a->count > b->count ? -1 : 1;
  return a->channel < b->channel ? -1 : a->channel > b->channel;
}

/* Expected outliers of a row: what calibration counted, else the thousandth that lies above p999. */
tn_status tni_npu_rows_order(tn_program *p, tni_npu_block *b, const tn_stats *s, double hot) {
  const int64_t K = b->l.K;
  b->outliers = 0.001 * (double)K;
  if (!s || !s->ch_over || (int64_t)s->n != K) return TN_OK;
  const tn_host *h = p->device->host;
  rank *r = h->alloc(h->ctx, (size_t)K * sizeof *r, 16, TN_TAG_SCRATCH);
  b->order = tni_cm_new(&p->mem, (size_t)K, sizeof *b->order);
  if (!r || !b->order) {
    h->free(h->ctx, r);
    return TN_E_NO_MEMORY;
  }
  double all = 0, covered = 0;
  for (int64_t k = 0; k < K; k++) {
    r[k] = (rank){s->ch_over[k] > 0 && s->ch_over[k] < 1e30f ? s->ch_over[k] : 0, k};
    all += (double)r[k].count;
  }
  qsort(r, (size_t)K, sizeof *r, by_count);
  for (int64_t k = 0; k < K; k++) {
    b->order[k] = r[k].channel;
    if (covered < hot * all && r[k].count > 0) b->n_hot = k + 1;
    covered += (double)r[k].count;
  }
  h->free(h->ctx, r);
  if (TN_HAS(s, tn_stats, rows) && s->rows) b->outliers = all / (double)s->rows;
  return TN_OK;
}

uint64_t tni_npu_rows_bytes(const tni_npu_block *b, uint32_t w) {
  const int64_t kept = b->n_hot + KEPT < b->l.K ? b->n_hot + KEPT : b->l.K;
  return (uint64_t)kept * (tni_w8r_pitch(b->l.N[w]) + sizeof(int64_t) + sizeof(uint64_t)) +
         (uint64_t)b->l.K * sizeof(uint32_t);
}

static tn_status read_row(const tni_npu_rows *r, int64_t k, int8_t *dst) {
  return r->blob->read(r->blob, (uint64_t)k * r->pitch, r->pitch, dst);
}

static bool get_room(tn_program *p, tni_npu_rows *r, int64_t K, int64_t n_kept) {
  r->channel = tni_cm_new(&p->mem, (size_t)n_kept, sizeof *r->channel);
  r->used = tni_cm_new(&p->mem, (size_t)n_kept, sizeof *r->used);
  r->kept = tni_cm_new(&p->mem, (size_t)n_kept, r->pitch);
  r->at = tni_cm_new(&p->mem, (size_t)K, sizeof *r->at);
  r->n_kept = (uint32_t)n_kept;
  return r->channel && r->used && r->kept && r->at;
}

/* Nothing is here yet: also where weights are set a second time. */
static void forget_rows(tni_npu_rows *r, int64_t K) {
  r->n_hot = 0;
  for (uint32_t i = 0; i < r->n_kept; i++) {
    r->channel[i] = -1;
    r->used[i] = 0;
  }
  for (int64_t k = 0; k < K; k++) r->at[k] = TN_NONE;
}

tn_status tni_npu_rows_set(tn_program *p, tni_npu_block *b, uint32_t w, const tn_blob *blob, tn_error *err) {
  tni_npu_rows *r = &b->cold[w];
  const int64_t K = b->l.K, kept = b->n_hot + KEPT < K ? b->n_hot + KEPT : K;
  r->blob = blob;
  r->pitch = tni_w8r_pitch(b->l.N[w]);
  r->ptr = blob->ptr;
  if (r->ptr) return TN_OK;
  if (!blob->read) return tni_cm_fail(err, TN_E_INVALID, b->name, "a blob that is neither in memory nor readable");
  if (!r->at && !get_room(p, r, K, kept)) {
    r->at = NULL;
    return tni_cm_fail(err, TN_E_NO_MEMORY, b->name, "out of memory");
  }
  forget_rows(r, K);
  for (; r->n_hot < b->n_hot; r->n_hot++) {
    const int64_t k = b->order[r->n_hot];
    tn_status st = read_row(r, k, r->kept + (uint64_t)r->n_hot * r->pitch);
    if (st != TN_OK) return tni_cm_fail(err, st, b->name, "row %lld of the weights cannot be read", (long long)k);
    r->channel[r->n_hot] = k;
    r->at[k] = r->n_hot;
  }
  return TN_OK;
}

/* The place of the row that was not needed for longest, now free. */
static uint32_t evict_rows(tni_npu_rows *r) {
  uint32_t oldest = r->n_hot;
  for (uint32_t i = r->n_hot; i < r->n_kept; i++)
    if (r->used[i] < r->used[oldest]) oldest = i;
  if (r->channel[oldest] >= 0) r->at[r->channel[oldest]] = TN_NONE;
  r->channel[oldest] = -1;
  return oldest;
}

tn_status tni_npu_rows_get(tni_npu_block *b, uint32_t w, int64_t k, int8_t *dst) {
  tni_npu_rows *r = &b->cold[w];
  if (r->ptr) {
    memcpy(dst, r->ptr + (uint64_t)k * r->pitch, r->pitch);
    return TN_OK;
  }
  tn_status st = TN_OK;
  pthread_mutex_lock(&b->lock);
  if (r->at[k] == TN_NONE) {
    const uint32_t i = r->n_hot < r->n_kept ? evict_rows(r) : TN_NONE;
    st = i == TN_NONE ? TN_E_INTERNAL : read_row(r, k, r->kept + (uint64_t)i * r->pitch);
    r->reads++;
    if (st == TN_OK) {
      r->channel[i] = k;
      r->at[k] = i;
    }
  }
  if (st == TN_OK) {
    memcpy(dst, r->kept + (uint64_t)r->at[k] * r->pitch, r->pitch);
    r->used[r->at[k]] = ++r->clock;
  }
  pthread_mutex_unlock(&b->lock);
  return st;
}
