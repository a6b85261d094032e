/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing one matrix: begin, rows in strips over the pool, end. Between strips the caller's thread reports progress and
 * looks for a cancellation.
 */
#include <stdatomic.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/pack/internal.h"
#include "runtime/pack/keep.h"

/* Of a piece: with fewer rows a [K,N] source is read in parts of a few lines of memory. */
static const int64_t LEAST_ROWS = 64, MOST_ELEMS = 1024 * 1024;

typedef struct pack_strip {
  const tn_format *format;
  tn_pack *pack;
  void *dst;
  int64_t first_unit, unit, N;
  _Atomic int32_t status;
} pack_strip;

static void pack_units(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  pack_strip *j = arg;
  (void)worker;
  if (atomic_load_explicit(&j->status, memory_order_relaxed) != TN_OK) return;
  int64_t n0 = (j->first_unit + begin) * j->unit, n1 = (j->first_unit + end) * j->unit;
  tn_status st = j->format->rows(j->pack, n0, n1 < j->N ? n1 : j->N, j->dst);
  if (st != TN_OK) atomic_store(&j->status, st);
}

static tn_status pack_strips(tni_pack_store *s, pack_strip *j, const tni_pk_want *w) {
  int64_t units = (j->N + j->unit - 1) / j->unit, K = w->item->weight->K;
  const int64_t workers = tni_pool_workers(s->o->pool), most = MOST_ELEMS / (K > 0 ? K : 1) / j->unit;
  int64_t grain = units / (8 * workers);
  if (grain < LEAST_ROWS / j->unit) grain = LEAST_ROWS / j->unit;
  if (grain > most) grain = most;
  if (grain < 1) grain = 1;
  const int64_t step = grain * workers * 4;
  for (int64_t at = 0; at < units; at += step) {
    int64_t n = units - at < step ? units - at : step;
    if (tni_pk_cancelled(s)) return TN_E_CANCELLED;
    tni_pk_sign(s);
    j->first_unit = at;
    tni_pool_for(s->o->pool, n, grain, pack_units, j);
    tn_status st = atomic_load(&j->status);
    if (st != TN_OK) return st;
    if (s->o->progress)
      s->o->progress(s->o->progress_user, w->item->name,
                     s->done_bytes + (uint64_t)((double)w->size.bytes * (double)(at + n) / (double)units),
                     s->total_bytes);
  }
  return TN_OK;
}

tn_status tni_pk_pack(tni_pack_store *s, const tni_pk_want *w, uint8_t *dst, tn_error *err) {
  const tni_pack_item *it = w->item;
  const char *name = it->name ? it->name : "weight";
  tni_pack_kept kept;
  pack_strip j = {.format = it->format, .dst = dst, .unit = w->size.row_unit, .N = it->weight->N};
  for (uint32_t i = 0; i < it->n_parts; i++)
    if (it->sources[i].content)
      return tni_fail(err, TN_E_UNAVAILABLE, name,
                      "'%s' cannot be packed as '%s' here: its elements were left out of this model", name,
                      it->format->name);
  if (tni_pk_cancelled(s)) return tni_fail(err, TN_E_CANCELLED, name, "packing was cancelled");
  tn_status st = tni_pack_keep(&kept, it->format, it->params, it->n_params, it->weight, s->o->pool);
  memset(kept.weight.hash, 0, sizeof kept.weight.hash);
  memcpy(kept.weight.hash, &w->content, sizeof w->content);
  if (st == TN_OK)
    st = it->format->begin(s->o->host, it->format, &kept.weight, it->params, it->n_params, &j.pack, err);
  if (st == TN_OK) {
    st = pack_strips(s, &j, w);
    tn_status ended = it->format->end(j.pack, st == TN_OK ? dst : NULL);
    if (st == TN_OK) st = ended;
  }
  for (uint32_t i = 0; i < it->n_parts; i++)
    if (it->sources[i].mapped) tni_file_drop(it->sources[i].mapped, it->sources[i].bytes);
  s->done_bytes += w->size.bytes;
  if (st == TN_E_CANCELLED) return tni_fail(err, st, name, "packing was cancelled");
  if (st != TN_OK)
    return tni_fail(err, st, name, "cannot pack '%s' as '%s' (%s)", name, it->format->name, tni_status_name(st));
  return TN_OK;
}
