/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/plugin/process/describe.h"
#include "runtime/plugin/process/graph.h"
#include "runtime/plugin/process/proxy.h"

enum { MAX_PARAMS = 16 };

struct tn_pack {
  const tni_iso_format *f;
  uint32_t id, weight, offered;
  uint64_t bytes;
  void *mem; /* the blob, as the child writes it */
  tni_shm_at at;
  tn_weight copy;
};

typedef struct tni_iso_numerics {
  struct tni_iso_numerics *next;
  const tn_numerics *n;
  int64_t params[MAX_PARAMS];
  uint32_t n_params;
} numerics;

const tn_format *tni_iso_format_at(const void *iso, uint32_t index) {
  const tni_iso *p = iso;
  return index && index <= p->pub.n_formats ? p->format_list[index - 1] : NULL;
}

static const numerics *known_numerics(const tni_iso_format *f, const int64_t *params, uint32_t n) {
  const numerics *k = f->known;
  while (k && (k->n_params != n || (n && memcmp(k->params, params, n * sizeof *params) != 0))) k = k->next;
  return k;
}

static const numerics *ask_numerics(tni_iso_format *f, const int64_t *params, uint32_t n) {
  tni_wire w = {.n = 0};
  tni_rd r;
  numerics *k = TNI_NEW(f->p->arena, numerics);
  tni_w_u32(&w, f->index);
  tni_w_array(&w, params, n, sizeof *params);
  tn_status st = k ? tni_conn_call(f->p->c, TNI_ISO_NUMERICS, "numerics_of", &w, &r, NULL) : TN_E_NO_MEMORY;
  tni_wire_finish(&w);
  if (st != TN_OK) return NULL;
  k->n = tni_numerics_get(&r, f->p->arena);
  const bool ok = tni_rd_whole(&r);
  tni_rd_finish(&r);
  if (!ok) return (void)!tni_conn_wrong(f->p->c, "numerics_of", NULL), NULL;
  if (n) memcpy(k->params, params, n * sizeof *params);
  k->n_params = n;
  k->next = f->known;
  return f->known = k;
}

static const tn_numerics *numerics_of(const tn_format *pub, const int64_t *params, uint32_t n) {
  tni_iso_format *f = (tni_iso_format *)(uintptr_t)pub;
  if (n > MAX_PARAMS) return NULL;
  pthread_mutex_lock(&f->p->lock);
  const numerics *k = known_numerics(f, params, n);
  if (!k) k = ask_numerics(f, params, n);
  pthread_mutex_unlock(&f->p->lock);
  return k ? k->n : NULL;
}

/* Memory is made by the first answer and written by a later one: what was said once stays said. */
typedef struct tni_iso_size {
  struct tni_iso_size *next;
  int64_t N, K, params[MAX_PARAMS];
  uint32_t n_params;
  tn_pack_size size;
} known_size;

static const known_size *find_size(const tni_iso_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n) {
  const known_size *k = f->sizes;
  while (k && (k->N != N || k->K != K || k->n_params != n || (n && memcmp(k->params, params, n * sizeof *params) != 0)))
    k = k->next;
  return k;
}

/* Packing makes weights smaller; padding and tables may make small ones larger. More than that is a way to take the
 * host's memory. */
static bool plausible_size(int64_t N, int64_t K, uint64_t bytes) {
  enum { MOST_PER_WEIGHT = 32, LEAST = 1 << 20 };
  int64_t elems, most;
  return N >= 0 && K >= 0 && tni_mul_i64(N, K, &elems) && tni_mul_i64(elems, MOST_PER_WEIGHT, &most) &&
         most <= INT64_MAX - LEAST && bytes <= (uint64_t)most + LEAST;
}

static tn_status ask_size(tni_iso_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                          const known_size **out) {
  tni_wire w = {.n = 0};
  tni_rd r;
  known_size *k = TNI_NEW(f->p->arena, known_size);
  if (!k) return TN_E_NO_MEMORY;
  tni_w_u32(&w, f->index);
  tni_w_i64(&w, N);
  tni_w_i64(&w, K);
  tni_w_array(&w, params, n, sizeof *params);
  tn_status st = tni_conn_call(f->p->c, TNI_ISO_SIZE, "size", &w, &r, NULL);
  tni_wire_finish(&w);
  if (st != TN_OK) return st;
  const void *p = tni_r_bytes(&r, sizeof k->size);
  const bool ok = tni_rd_whole(&r) && p;
  if (ok) memcpy(&k->size, p, sizeof k->size);
  tni_rd_finish(&r);
  if (!ok) return tni_conn_wrong(f->p->c, "size", NULL);
  if (!plausible_size(N, K, k->size.bytes)) {
    tni_conn_fail(f->p->c, "it states %llu bytes for weights of %lld by %lld", (unsigned long long)k->size.bytes,
                  (long long)N, (long long)K);
    return TN_E_DEVICE_LOST;
  }
  k->N = N;
  k->K = K;
  if (n) memcpy(k->params, params, n * sizeof *params);
  k->n_params = n;
  k->next = f->sizes;
  *out = f->sizes = k;
  return TN_OK;
}

static tn_status proxy_size(const tn_format *pub, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                            tn_pack_size *out) {
  tni_iso_format *f = (tni_iso_format *)(uintptr_t)pub;
  if (n > MAX_PARAMS) return TN_E_INVALID;
  pthread_mutex_lock(&f->p->lock);
  const known_size *k = find_size(f, N, K, params, n);
  const tn_status st = k ? TN_OK : ask_size(f, N, K, params, n, &k);
  if (st == TN_OK) *out = k->size;
  pthread_mutex_unlock(&f->p->lock);
  return st;
}

/* --- packing ----------------------------------------------------------------------------------------------------- */

static void drop_pack(tn_pack *k) {
  tni_conn_withdraw(k->f->p->c, k->offered);
  tni_shm_free(k->f->p->o.shm, k->mem);
  tni_iso_sweep(k->f->p);
  free(k);
}

static tn_status proxy_begin(const tn_host *host, const tn_format *pub, const tn_weight *x, const int64_t *params,
                             uint32_t n, tn_pack **out, tn_error *err) {
  const tni_iso_format *f = (const tni_iso_format *)pub;
  tn_pack *k = calloc(1, sizeof *k);
  tn_pack_size bytes = {.bytes = 0};
  (void)host;
  if (!k) return tni_fail_memory(err, f->p->o.name);
  k->f = f;
  k->copy = *x; /* x is the caller's for this call, its content for as long as the pack */
  tn_status st = proxy_size(pub, x->N, x->K, params, n, &bytes);
  k->bytes = bytes.bytes;
  if (st == TN_OK && !(k->mem = tni_iso_alloc(f->p, k->bytes, &k->at, err))) st = TN_E_NO_MEMORY;
  if (st == TN_OK && !(k->offered = tni_conn_offer(f->p->c, &k->copy, NULL))) st = tni_fail_memory(err, f->p->o.name);
  tni_wire w = {.n = 0};
  tni_w_u32(&w, f->index);
  tni_w_u32(&w, k->offered);
  tni_w_array(&w, params, n, sizeof *params);
  tni_weight_put(&w, x);
  tni_rd r;
  if (st == TN_OK) st = tni_conn_call(f->p->c, TNI_ISO_PACK, "begin", &w, &r, err);
  tni_wire_finish(&w);
  if (st == TN_OK) {
    k->id = tni_r_u32(&r);
    if (!tni_rd_whole(&r)) st = tni_conn_wrong(f->p->c, "begin", err);
    tni_rd_finish(&r);
  }
  if (st == TN_OK)
    *out = k;
  else
    drop_pack(k);
  return st;
}

/* The blob is the child's copy until the end. */
static tn_status proxy_rows(tn_pack *k, int64_t n0, int64_t n1, void *blob) {
  tni_wire w = {.n = 0};
  (void)blob;
  tni_w_u32(&w, k->id);
  tni_w_i64(&w, n0);
  tni_w_i64(&w, n1);
  tni_w_u32(&w, k->at.id);
  tni_w_u64(&w, k->bytes);
  tn_status st = tni_conn_tell(k->f->p->c, TNI_ISO_PACK_ROWS, "rows", &w, NULL);
  tni_wire_finish(&w);
  return st;
}

static tn_status proxy_end(tn_pack *k, void *blob) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, k->id);
  tni_w_u32(&w, blob != NULL);
  if (blob) {
    tni_w_u32(&w, k->at.id);
    tni_w_u64(&w, k->bytes);
  }
  tn_status st = tni_conn_tell(k->f->p->c, TNI_ISO_PACK_END, "end", &w, NULL);
  tni_wire_finish(&w);
  if (st == TN_OK && blob) memcpy(blob, k->mem, k->bytes);
  drop_pack(k);
  return st;
}

void tni_iso_put_blob(tni_wire *w, const tn_blob *b, const tni_iso_const *at, uint32_t id) {
  tni_w_u32(w, ((const tni_iso_format *)b->format)->index);
  tni_w_i64(w, b->N);
  tni_w_i64(w, b->K);
  tni_w_u64(w, b->bytes);
  tni_w_array(w, b->params, b->n_params, sizeof *b->params);
  tni_w_u32(w, at != NULL);
  if (at) {
    tni_w_u32(w, at->piece);
    tni_w_u64(w, at->offset);
  } else {
    tni_w_u32(w, id);
  }
}

static tn_status proxy_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  const tni_iso_format *f = (const tni_iso_format *)b->format;
  tni_iso *p = f->p;
  tni_iso_const at = {.piece = 0};
  tni_shm_at to;
  int64_t n;
  if (box[1] < box[0] || box[3] < box[2] || !tni_mul_i64(box[1] - box[0], box[3] - box[2], &n) || n > INT64_MAX / 4)
    return TN_E_INVALID;
  const uint64_t bytes = (uint64_t)n * sizeof *dst;
  const uint32_t id = b->ptr ? 0 : tni_conn_offer(p->c, NULL, b);
  tn_status st = b->ptr ? tni_iso_const_get(p, b->ptr, b->bytes, &at, NULL) : id ? TN_OK : TN_E_NO_MEMORY;
  void *mem = st == TN_OK ? tni_iso_alloc(p, bytes, &to, NULL) : NULL;
  if (st == TN_OK && !mem) st = tni_conn_dead(p->c) ? TN_E_DEVICE_LOST : TN_E_NO_MEMORY;
  tni_wire w = {.n = 0};
  if (st == TN_OK) {
    tni_iso_put_blob(&w, b, b->ptr ? &at : NULL, id);
    for (int i = 0; i < 4; i++) tni_w_i64(&w, box[i]);
    tni_w_u32(&w, to.id);
    st = tni_conn_tell(p->c, TNI_ISO_UNPACK, "unpack", &w, NULL);
  }
  tni_wire_finish(&w);
  if (st == TN_OK) memcpy(dst, mem, bytes);
  tni_conn_withdraw(p->c, id);
  tni_iso_const_drop(p, &at);
  tni_shm_free(p->o.shm, mem);
  tni_iso_sweep(p);
  return st;
}

void tni_iso_format_fill(tni_iso *p, tni_iso_format *f, uint32_t index, bool more) {
  f->p = p;
  f->index = index;
  f->pub.numerics_of = more ? numerics_of : NULL;
  f->pub.size = proxy_size;
  f->pub.begin = proxy_begin;
  f->pub.rows = proxy_rows;
  f->pub.end = proxy_end;
  f->pub.unpack = proxy_unpack;
}
