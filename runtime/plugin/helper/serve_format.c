/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats, and what they ask of the host: rows of weights, bytes of packed files.
 */
#include <stdatomic.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/pack/pack.h"
#include "runtime/plugin/helper/serve.h"
#include "runtime/plugin/process/process.h"

/* --- questions --------------------------------------------------------------------------------------------------- */

static tn_status ask_rows(uint32_t kind, uint32_t id, int64_t n0, int64_t n1, uint64_t bytes, const void **out) {
  tni_srv *s = tni_srv_self();
  tni_wire w = {.n = 0};
  tni_w_u32(&w, id);
  tni_w_i64(&w, n0);
  tni_w_i64(&w, n1);
  tn_status st = tni_srv_ask(s, kind, &w, bytes, out);
  tni_wire_finish(&w);
  return st;
}

/* As many rows at once as the window holds. */
static int64_t rows_at_once(uint64_t row_bytes) {
  return row_bytes && row_bytes <= TNI_ISO_WINDOW ? (int64_t)(TNI_ISO_WINDOW / row_bytes) : 0;
}

tn_status tni_srv_rows(const tn_weight *x, int64_t n0, int64_t n1, float *dst) {
  const uint32_t id = (uint32_t)(uintptr_t)x->ctx;
  if (n0 < 0 || n1 < n0 || n1 > x->N) return TN_E_INVALID;
  if (!x->K) return TN_OK;
  const uint64_t row = (uint64_t)x->K * sizeof(float);
  const int64_t most = rows_at_once(row);
  if (!most) return TN_E_LIMIT;
  for (int64_t n = n0; n < n1; n += most) {
    const int64_t m = n1 - n < most ? n1 - n : most;
    const void *p;
    tn_status st = ask_rows(TNI_ISO_ROWS, id, n, n + m, (uint64_t)m * row, &p);
    if (st != TN_OK) return st;
    memcpy(dst + (n - n0) * x->K, p, (size_t)m * row);
    tni_srv_answered(tni_srv_self());
  }
  return TN_OK;
}

/* What is wanted of some rows; NULL: not wanted. */
typedef struct grid_parts {
  float *scales, *zeros, *parents;
  uint8_t *codes, *index;
} grid_parts;

static void copy_part(void *dst, int64_t at, const void *src, int64_t n, size_t each) {
  if (dst) memcpy((char *)dst + (size_t)at * each, src, (size_t)n * each);
}

/* Scales, zeros and, of steps, parents; codes and, of steps, indices: as send_grid puts them. */
static tn_status ask_grid(const tn_quant *q, int64_t n0, int64_t n1, const grid_parts *out) {
  const tn_weight *x = q->ctx;
  const uint32_t id = (uint32_t)(uintptr_t)x->ctx;
  if (n0 < 0 || n1 < n0 || n1 > x->N || !q->group) return TN_E_INVALID;
  const int64_t blocks = (x->K + q->group - 1) / q->group;
  const int64_t row_codes = (x->K + q->vec - 1) / q->vec, steps = q->n_steps != 0;
  const uint64_t floats = (uint64_t)(2 * blocks + steps),
                 row = floats * sizeof(float) + (uint64_t)(row_codes + steps * blocks);
  const int64_t most = rows_at_once(row + 8);
  if (!most) return TN_E_LIMIT;
  for (int64_t n = n0; n < n1; n += most) {
    const int64_t m = n1 - n < most ? n1 - n : most;
    const void *p;
    tn_status st = ask_rows(TNI_ISO_GRID, id, n, n + m, (uint64_t)m * row, &p);
    if (st != TN_OK) return st;
    const float *f = p;
    const uint8_t *c = (const uint8_t *)(f + m * (int64_t)floats);
    copy_part(out->scales, (n - n0) * blocks, f, m * blocks, sizeof *f);
    copy_part(out->zeros, (n - n0) * blocks, f + m * blocks, m * blocks, sizeof *f);
    copy_part(out->parents, n - n0, f + 2 * m * blocks, steps * m, sizeof *f);
    copy_part(out->codes, (n - n0) * row_codes, c, m * row_codes, 1);
    copy_part(out->index, (n - n0) * blocks, c + m * row_codes, steps * m * blocks, 1);
    tni_srv_answered(tni_srv_self());
  }
  return TN_OK;
}

static tn_status grid_of_host(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  return ask_grid(q, n0, n1, &(grid_parts){.codes = codes, .scales = scales, .zeros = zeros});
}

static tn_status steps_of_host(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *index, float *parents) {
  return ask_grid(q, n0, n1, &(grid_parts){.index = index, .parents = parents});
}

const tni_weight_readers tni_srv_readers = {tni_srv_rows, grid_of_host, steps_of_host};

static tn_status read_from_host(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  const tni_srv_blob *own = (const tni_srv_blob *)b->ctx;
  if (offset > b->bytes || n > b->bytes - offset) return TN_E_INVALID;
  if (b->ptr) {
    memcpy(dst, (const char *)b->ptr + offset, n);
    return TN_OK;
  }
  for (uint64_t at = 0; at < n; at += TNI_ISO_WINDOW) {
    const uint64_t m = n - at < TNI_ISO_WINDOW ? n - at : TNI_ISO_WINDOW;
    const void *p;
    tn_status st = ask_rows(TNI_ISO_READ, own->id, (int64_t)(offset + at), (int64_t)m, m, &p);
    if (st != TN_OK) return st;
    memcpy((char *)dst + at, p, m);
    tni_srv_answered(tni_srv_self());
  }
  return TN_OK;
}

/* format, N, K, bytes, params, where: piece and offset, or the host's number for read. */
bool tni_srv_get_blob(tni_srv *s, tni_rd *r, tni_srv_blob *out) {
  uint32_t n;
  *out = (tni_srv_blob){.b = {.h = TN_HDR(tn_blob), .read = read_from_host}};
  out->b.ctx = out;
  out->b.format = tni_srv_format(s, tni_r_u32(r));
  out->b.N = tni_r_i64(r);
  out->b.K = tni_r_i64(r);
  out->b.bytes = tni_r_u64(r);
  n = tni_r_count(r, 8, 16);
  const void *params = tni_r_bytes(r, n * sizeof(int64_t));
  if (params) memcpy(out->params, params, n * sizeof(int64_t));
  out->b.params = out->params;
  out->b.n_params = n;
  if (tni_r_u32(r)) {
    const uint32_t piece = tni_r_u32(r);
    const uint64_t offset = tni_r_u64(r);
    out->b.ptr = tni_srv_at(s, piece, offset, out->b.bytes);
    if (!out->b.ptr) r->bad = true;
  } else {
    out->id = tni_r_u32(r);
  }
  return !r->bad && out->b.format;
}

/* --- formats ----------------------------------------------------------------------------------------------------- */

static const int64_t *get_params(tni_rd *r, uint32_t *n) {
  *n = tni_r_count(r, 8, 16);
  return tni_r_bytes(r, *n * sizeof(int64_t));
}

/* Bodies need not be aligned: params are copied where they are used. */
typedef struct params {
  int64_t v[16];
  uint32_t n;
} params;

static params read_params(tni_rd *r) {
  params p = {.n = 0};
  const void *at = get_params(r, &p.n);
  if (at) memcpy(p.v, at, p.n * sizeof *p.v);
  return p;
}

tn_status tni_srv_size(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  const tn_format *f = tni_srv_format(s, tni_r_u32(r));
  const int64_t N = tni_r_i64(r), K = tni_r_i64(r);
  const params p = read_params(r);
  tn_pack_size size = {.bytes = 0};
  (void)err;
  if (!f || r->bad) return TN_E_INVALID;
  tn_status st = f->size(f, N, K, p.v, p.n, &size);
  tni_w_bytes(w, &size, sizeof size);
  return st;
}

tn_status tni_srv_numerics(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  const tn_format *f = tni_srv_format(s, tni_r_u32(r));
  const params p = read_params(r);
  (void)err;
  if (!f || r->bad || !f->numerics_of) return TN_E_INVALID;
  tni_numerics_put(w, f->numerics_of(f, p.v, p.n));
  return TN_OK;
}

tn_status tni_srv_pack_begin(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_arena *a = tni_arena_create();
  tni_srv_pack *k = a ? TNI_NEW(a, tni_srv_pack) : NULL;
  uint32_t id = 0;
  if (!k) {
    tni_arena_destroy(a);
    return TN_E_NO_MEMORY;
  }
  k->arena = a;
  k->f = tni_srv_format(s, tni_r_u32(r));
  const uint32_t weight = tni_r_u32(r);
  params *p = TNI_NEW(a, params);
  if (p) *p = read_params(r);
  tn_weight *x = tni_weight_get(r, a, weight, &tni_srv_readers);
  tn_pack_size size = {.bytes = 0};
  tn_status st = !r->bad && k->f && p && x ? TN_OK : TN_E_INVALID;
  if (st == TN_OK) st = k->f->size(k->f, x->N, x->K, p->v, p->n, &size);
  k->N = x ? x->N : 0;
  k->unit = size.row_unit ? size.row_unit : 1;
  tni_pack_kept *kept = TNI_NEW(a, tni_pack_kept);
  if (st == TN_OK) st = kept ? tni_pack_keep(kept, k->f, p->v, p->n, x, NULL) : TN_E_NO_MEMORY;
  if (st == TN_OK) st = k->f->begin(tni_services_host(s->l->ctx), k->f, &kept->weight, p->v, p->n, &k->p, err);
  if (st == TN_OK && (!k->p || !tni_srv_add(s, TNI_SRV_PACKS, k, &id))) st = TN_E_INTERNAL;
  tni_w_u32(w, id);
  if (st != TN_OK) tni_arena_destroy(a);
  return st;
}

typedef struct strip {
  const tni_srv_pack *k;
  int64_t n0, n1;
  void *dst;
  _Atomic int32_t status;
} strip;

static void pack_units(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  strip *j = arg;
  const int64_t a = j->n0 + begin * j->k->unit, b = j->n0 + end * j->k->unit;
  (void)worker;
  tn_status st = j->k->f->rows(j->k->p, a, b < j->n1 ? b : j->n1, j->dst);
  if (st != TN_OK) atomic_store(&j->status, st);
}

tn_status tni_srv_pack_rows(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  strip j = {.k = tni_srv_get(s, TNI_SRV_PACKS, tni_r_u32(r))};
  j.n0 = tni_r_i64(r);
  j.n1 = tni_r_i64(r);
  const uint32_t piece = tni_r_u32(r);
  const uint64_t bytes = tni_r_u64(r);
  j.dst = tni_srv_at(s, piece, 0, bytes);
  (void)w;
  (void)err;
  if (!j.k || !j.dst || j.n0 < 0 || j.n1 > j.k->N || j.n1 < j.n0) return TN_E_INVALID;
  const int64_t units = (j.n1 - j.n0 + j.k->unit - 1) / j.k->unit;
  tni_pool_for(s->pool, units, 1 + units / (int64_t)(4 * tni_pool_workers(s->pool)), pack_units, &j);
  return atomic_load(&j.status);
}

tn_status tni_srv_pack_end(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_pack *k = tni_srv_take(s, TNI_SRV_PACKS, tni_r_u32(r));
  const bool write = tni_r_u32(r) != 0;
  const uint32_t piece = write ? tni_r_u32(r) : 0;
  const uint64_t bytes = write ? tni_r_u64(r) : 0;
  void *blob = write ? tni_srv_at(s, piece, 0, bytes) : NULL;
  (void)w;
  (void)err;
  if (!k) return TN_E_INVALID;
  tn_status st = k->f->end(k->p, blob);
  tni_arena_destroy(k->arena);
  return st;
}

tn_status tni_srv_unpack(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_blob b;
  int64_t box[4];
  const bool ok = tni_srv_get_blob(s, r, &b);
  for (int i = 0; i < 4; i++) box[i] = tni_r_i64(r);
  const uint32_t piece = tni_r_u32(r);
  (void)w;
  (void)err;
  if (!ok || r->bad || box[1] < box[0] || box[3] < box[2]) return TN_E_INVALID;
  int64_t n;
  if (!tni_mul_i64(box[1] - box[0], box[3] - box[2], &n) || n > INT64_MAX / 4) return TN_E_LIMIT;
  float *dst = tni_srv_at(s, piece, 0, (uint64_t)n * sizeof *dst);
  return dst ? b.b.format->unpack(&b.b, box, dst) : TN_E_INVALID;
}
