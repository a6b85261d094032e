/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexed reads: Gather, GatherElements, GatherND, OneHot, EyeLike, NonZero. Indices may be negative; one out of range
 * is an error that names the node, the index and the limit.
 */
#include <stdatomic.h>

#include "runtime/graph/graph.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/shape/shape.h"

/* Checks all indices first, so that the copying loops need no way out. */
static tn_status check_indices(const tni_kargs *a, const tni_tensor *idx, int64_t first, int64_t stride, int64_t dim) {
  const int64_t n = tni_knumel(idx);
  tni_poll poll = {a->run, TNI_POLL};
  if (idx->dtype != TN_DT_I64 && idx->dtype != TN_DT_I32) return tni_kdtype(a, idx->dtype);
  for (int64_t i = first; i < n; i += stride) {
    const int64_t v = tni_get_i64(idx, i);
    if (tni_poll_stop(&poll, 1)) return TN_E_CANCELLED;
    if (v < -dim || v >= dim)
      return tni_kfail(a, TN_E_INVALID, "index %lld is outside [-%lld, %lld)", (long long)v, (long long)dim,
                       (long long)dim);
  }
  return TN_OK;
}

typedef struct gather {
  const tni_tensor *idx;
  const char *x;
  char *y;
  int64_t n_idx, dim;
  size_t inner; /* bytes */
} gather;

typedef struct gather_codes {
  const tni_tensor *idx, *y;
  const tni_quantized *q;
} gather_codes;

static void gather_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const gather *g = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t v = tni_get_i64(g->idx, i % g->n_idx), at = (i / g->n_idx) * g->dim + (v < 0 ? v + g->dim : v);
    memcpy(g->y + (size_t)i * g->inner, g->x + (size_t)at * g->inner, g->inner);
  }
}

/* Rows of a table that lies quantized. */
static void gather_quantized(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const gather_codes *g = arg;
  float row[TNI_CHUNK];
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t v = tni_get_i64(g->idx, i), r = v < 0 ? v + g->q->N : v;
    for (int64_t k = 0; k < g->q->K; k += TNI_CHUNK) {
      const int64_t n = g->q->K - k < TNI_CHUNK ? g->q->K - k : TNI_CHUNK;
      tni_quantized_row(g->q, r, k, k + n, row);
      tni_store_f32(g->y->dtype, g->y->data, i * g->q->K + k, n, row);
    }
  }
}

typedef struct gather_packed {
  const tni_tensor *idx, *x, *y;
  _Atomic int32_t status;
} gather_packed;

static tn_status packed_row(const gather_packed *g, int64_t i, int64_t row) {
  const int64_t K = g->x->dims[1];
  float part[TNI_CHUNK];
  if (g->y->dtype == TN_DT_F32) return tni_rows_read(g->x->rows, row, 0, K, (float *)g->y->data + i * K);
  for (int64_t k = 0; k < K; k += TNI_CHUNK) {
    const int64_t n = K - k < TNI_CHUNK ? K - k : TNI_CHUNK;
    const tn_status s = tni_rows_read(g->x->rows, row, k, k + n, part);
    if (s) return s;
    tni_store_f32(g->y->dtype, g->y->data, i * K + k, n, part);
  }
  return TN_OK;
}

/* Rows of a table that lies packed. */
static void gather_packed_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  gather_packed *g = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t v = tni_get_i64(g->idx, i);
    const tn_status s = packed_row(g, i, v < 0 ? v + g->x->dims[0] : v);
    if (s) atomic_store(&g->status, (int32_t)s);
  }
}

static tn_status gather_from_rows(const tni_kargs *a) {
  gather_packed g = {.idx = a->in[1], .x = a->in[0], .y = a->out[0]};
  const tn_blob *b = g.x->rows->blob;
  tni_kfor(a->run, tni_knumel(g.idx), 4 * g.x->dims[1] + 4, gather_packed_rows, &g);
  const tn_status s = (tn_status)atomic_load(&g.status);
  if (!s) return TN_OK;
  return tni_kfail(a, s, "format '%s' cannot unpack rows of its own blob (%s)", b->format->name, tni_status_name(s));
}

tn_status tni_k_gather(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *idx = a->in[1];
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, 0), x->rank);
  const uint32_t size = tni_elem_size(x->dtype);
  if (!size) return tni_kdtype(a, x->dtype);
  if (axis < 0 || !x->rank) return tni_kfail(a, TN_E_INVALID, "Gather: axis out of range");
  const int64_t inner = tni_dim_product(x, (uint32_t)axis + 1, x->rank), outer = tni_dim_product(x, 0, (uint32_t)axis);
  tn_status s = check_indices(a, idx, 0, 1, x->dims[axis]);
  if (s) return s;
  if (x->rows && axis == 0) return inner > 0 ? gather_from_rows(a) : TN_OK;
  if (x->quantized && !x->data) {
    gather_codes codes = {idx, a->out[0], x->quantized};
    tni_kfor(a->run, tni_knumel(idx), inner + 4, gather_quantized, &codes);
    return TN_OK;
  }
  gather g = {idx, x->data, a->out[0]->data, tni_knumel(idx), x->dims[axis], (size_t)(inner * size)};
  if (inner > 0) tni_kfor(a->run, outer * g.n_idx, inner + 4, gather_rows, &g);
  return TN_OK;
}

/* Offset in x of the element that output index i selects along axis: coordinates from out, the axis from v. */
static int64_t element_offset(const tni_tensor *out, const int64_t *st, uint32_t axis, int64_t i, int64_t v) {
  int64_t off = v * st[axis];
  for (uint32_t d = out->rank; d-- > 0;) {
    if (d != axis) off += (i % out->dims[d]) * st[d];
    i /= out->dims[d];
  }
  return off;
}

typedef struct picks {
  const tni_tensor *x, *idx;
  tni_tensor *y;
  uint32_t axis, size;
  int64_t st[TN_MAX_RANK];
  int64_t k, inner, per, batch_elems; /* GatherND: of a tuple; elements of a slice; tuples and elements per batch */
} picks;

static void pick_elements(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const picks *p = arg;
  const int64_t dim = p->x->dims[p->axis];
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t v = tni_get_i64(p->idx, i), off = element_offset(p->idx, p->st, p->axis, i, v < 0 ? v + dim : v);
    memcpy((char *)p->y->data + i * p->size, (const char *)p->x->data + off * p->size, p->size);
  }
}

tn_status tni_k_gather_elements(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *idx = a->in[1];
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, 0), x->rank);
  picks p = {.x = x, .idx = idx, .y = a->out[0], .axis = (uint32_t)axis, .size = tni_elem_size(x->dtype)};
  if (!p.size) return tni_kdtype(a, x->dtype);
  if (axis < 0 || !x->rank || idx->rank != x->rank) return tni_kfail(a, TN_E_INVALID, "GatherElements: axis or rank");
  for (uint32_t d = 0; d < x->rank; d++)
    if (d != (uint32_t)axis && idx->dims[d] > x->dims[d])
      return tni_kfail(a, TN_E_INVALID, "GatherElements: indices exceed dim %u", d);
  tn_status s = check_indices(a, idx, 0, 1, x->dims[axis]);
  if (s) return s;
  tni_kstrides(x, p.st);
  tni_kfor(a->run, tni_knumel(idx), 16, pick_elements, &p);
  return TN_OK;
}

static void pick_slices(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const picks *p = arg;
  const size_t bytes = (size_t)(p->inner * p->size);
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    int64_t off = (i / p->per) * p->batch_elems;
    for (int64_t j = 0; j < p->k; j++) {
      const int64_t v = tni_get_i64(p->idx, i * p->k + j);
      off += (v < 0 ? v + p->x->dims[p->axis + j] : v) * p->st[p->axis + j];
    }
    memcpy((char *)p->y->data + (size_t)i * bytes, (const char *)p->x->data + off * p->size, bytes);
  }
}

/* indices[batch..., m, k] select slices of x past its batch_dims. */
tn_status tni_k_gather_nd(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *idx = a->in[1];
  const int64_t b = tni_at_i(a->node, TNI_A_BATCH_DIMS, 0);
  picks p = {.x = x, .idx = idx, .y = a->out[0], .size = tni_elem_size(x->dtype)};
  if (!p.size) return tni_kdtype(a, x->dtype);
  if (!idx->rank || b < 0 || b >= idx->rank || b >= x->rank) return tni_kfail(a, TN_E_INVALID, "GatherND: batch_dims");
  const int64_t k = idx->dims[idx->rank - 1];
  if (k < 1 || b + k > x->rank) return tni_kfail(a, TN_E_INVALID, "GatherND: index tuples of %lld", (long long)k);
  for (int64_t i = 0; i < b; i++)
    if (x->dims[i] != idx->dims[i]) return tni_kfail(a, TN_E_INVALID, "GatherND: batch dims differ");
  for (int64_t j = 0; j < k; j++) {
    tn_status s = check_indices(a, idx, j, k, x->dims[b + j]);
    if (s) return s;
  }
  tni_kstrides(x, p.st);
  const int64_t batches = tni_dim_product(x, 0, (uint32_t)b), tuples = tni_knumel(idx) / k;
  p.axis = (uint32_t)b;
  p.k = k;
  p.inner = tni_dim_product(x, (uint32_t)(b + k), x->rank);
  p.per = batches ? tuples / batches : 0;
  p.batch_elems = tni_dim_product(x, (uint32_t)b, x->rank);
  if (p.inner) tni_kfor(a->run, tuples, p.inner + 4 * k, pick_slices, &p);
  return TN_OK;
}

/* values = [off, on]; indices outside [-depth, depth) give a row of off. */
tn_status tni_k_one_hot(const tni_kargs *a) {
  const tni_tensor *idx = a->in[0], *values = a->in[2];
  tni_tensor *y = a->out[0];
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, -1), y->rank);
  const uint32_t size = tni_elem_size(y->dtype);
  if (!size) return tni_kdtype(a, y->dtype);
  if (axis < 0 || tni_knumel(values) != 2 || values->dtype != y->dtype)
    return tni_kfail(a, TN_E_INVALID, "OneHot: axis out of range or values not [off, on]");
  const int64_t depth = y->dims[axis], inner = tni_dim_product(y, (uint32_t)axis + 1, y->rank);
  const tni_scopy fill = {.rank = 1, .dims = {tni_knumel(y)}, .ss = {0}, .ds = {1}};
  tni_copy_strided(a->run, size, &fill, y->data, values->data);
  const int64_t n = tni_knumel(idx);
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0, to; inner && (to = tni_poll_until(&poll, i, n)) > i;)
    for (; i < to; i++) {
      const double d = tni_get_f64(idx, i);
      if (!(d >= -(double)depth && d < (double)depth)) continue;
      const int64_t v = (int64_t)d, p = v < 0 ? v + depth : v;
      const int64_t at = (i / inner) * depth * inner + p * inner + i % inner;
      memcpy((char *)y->data + at * size, (const char *)values->data + size, size);
    }
  return TN_OK;
}

static tn_status write_one(const tni_kargs *a, tni_tensor *y, int64_t i) {
  const float one = 1;
  switch (y->dtype) {
    case TN_DT_F32:
    case TN_DT_F64:
    case TN_DT_F16:
    case TN_DT_BF16:
      tni_store_f32(y->dtype, y->data, i, 1, &one);
      break;
    case TN_DT_BOOL:
      ((u8u *)y->data)[i] = 1;
      break;
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    ((U *)y->data)[i] = 1;  \
    break;
      TNI_INT_TYPES(X)
#undef X
    default:
      return tni_kdtype(a, y->dtype);
  }
  return TN_OK;
}

tn_status tni_k_eye_like(const tni_kargs *a) {
  tni_tensor *y = a->out[0];
  const int64_t k = tni_at_i(a->node, TNI_A_K, 0);
  tni_poll poll = {a->run, TNI_POLL};
  tn_status s = TN_OK;
  if (y->rank != 2) return tni_kfail(a, TN_E_INVALID, "EyeLike: rank %u", y->rank);
  if (y->bytes) memset(y->data, 0, (size_t)y->bytes);
  if (k <= -y->dims[0] || k >= y->dims[1]) return TN_OK;
  for (int64_t r = k < 0 ? -k : 0; r < y->dims[0] && r + k < y->dims[1] && !s && !tni_poll_stop(&poll, 1); r++)
    s = write_one(a, y, r * y->dims[1] + r + k);
  return s;
}

/* [rank, count], indices in row-major order. The caller has counted. */
tn_status tni_k_non_zero(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  tni_tensor *y = a->out[0];
  const int64_t n = tni_knumel(x);
  int64_t at = 0, index[TN_MAX_RANK] = {0};
  if (!tni_elem_size(x->dtype)) return tni_kdtype(a, x->dtype);
  if (y->dtype != TN_DT_I64 || y->rank != 2 || y->dims[0] != x->rank)
    return tni_kfail(a, TN_E_INVALID, "NonZero: the output has other dims");
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0; i < n && !tni_poll_stop(&poll, 2); i++) {
    if (!tni_elem_is_zero(x, i)) {
      if (at == y->dims[1]) return tni_kfail(a, TN_E_INTERNAL, "NonZero: more elements than were counted");
      for (uint32_t d = 0; d < x->rank; d++) ((i64u *)y->data)[d * y->dims[1] + at] = index[d];
      at++;
    }
    for (uint32_t d = x->rank; d-- > 0 && ++index[d] == x->dims[d];) index[d] = 0;
  }
  return at == y->dims[1] ? TN_OK : tni_kfail(a, TN_E_INTERNAL, "NonZero: fewer elements than were counted");
}
