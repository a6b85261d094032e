/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorScatter (24): rows [write_indices[b], + n) of each sequence's cache become the n rows of the update.
 *
 * A cache of the session is input and output in one memory: then only those rows are written, and it may be of another
 * float dtype than the update, which is rounded half to even, or quantized (kvrow.h). Otherwise the cache is copied
 * first. A row outside the cache is an error before anything is written. Mode `circular`, and a cache that is a ring,
 * wrap around: of more rows than it has the last ones stay.
 */
#include "runtime/ops/kernel/kernel.h"

typedef struct scatter {
  const tni_tensor *update, *at; /* at NULL: row 0 */
  char *cache;
  int64_t batch, inner, rows, limit;  /* inner: what stands between batch and sequence; rows of the update */
  int64_t st_batch, st_inner, st_row; /* of the cache, in bytes */
  int64_t up_inner, up_row;           /* of the update, in bytes */
  size_t row_bytes;                   /* of the update */
  uint32_t to;                        /* dtype of the cache */
  bool circular;
} scatter;

static void write_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const scatter *s = arg;
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t i = u % s->rows, k = u / s->rows % s->inner, b = u / s->rows / s->inner;
    int64_t row = (s->at ? tni_get_i64(s->at, b) : 0) + i;
    if (s->circular) {
      if (s->rows - i > s->limit) continue; /* a later row takes its place */
      row %= s->limit;
    }
    const char *from = (const char *)s->update->data + b * s->inner * s->rows * (int64_t)s->row_bytes +
                       k * s->up_inner + i * s->up_row;
    char *to = s->cache + b * s->st_batch + k * s->st_inner + row * s->st_row;
    if (s->to == s->update->dtype)
      memcpy(to, from, s->row_bytes);
    else
      tni_kv_store(s->to, to, s->update->dtype, from, 1, (int64_t)s->row_bytes / tni_elem_size(s->update->dtype));
  }
}

static tn_status check_rows(const tni_kargs *a, const scatter *s) {
  for (int64_t b = 0; s->rows && b < s->batch; b++) {
    const int64_t at = s->at ? tni_get_i64(s->at, b) : 0;
    const bool fits = s->circular ? s->limit > 0 && at <= INT64_MAX - s->rows : at <= s->limit - s->rows;
    if (at < 0 || !fits)
      return tni_kfail(a, TN_E_INVALID, "TensorScatter: %lld rows at row %lld of sequence %lld; the cache has %lld",
                       (long long)s->rows, (long long)at, (long long)b, (long long)s->limit);
  }
  return TN_OK;
}

/* What is wrong, or NULL. The axes between batch and sequence count as one: only the sequence has room to spare. */
static const char *read_shapes(const tni_kargs *a, scatter *s) {
  const tni_tensor *cache = a->in[0], *update = a->in[1];
  const uint32_t mode = tni_at_word(a->node, TNI_A_MODE);
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, -2), cache->rank);
  int64_t st[TN_MAX_RANK];
  const int64_t size = tni_elem_size(cache->dtype), up = tni_elem_size(update->dtype);
  if (axis < 1) return "the axis is none of the cache after its batch";
  if (update->rank != cache->rank) return "cache and update differ in rank";
  for (uint32_t d = 0; d < cache->rank; d++)
    if (d != (uint32_t)axis && update->dims[d] != cache->dims[d]) return "cache and update differ in their dims";
  if (s->at && (s->at->rank != 1 || s->at->dims[0] != cache->dims[0]))
    return "write_indices needs one element per batch";
  s->circular = mode == TN_WORD_TENSOR_SCATTER_MODE_CIRCULAR;
  if (!mode) return "the mode is neither linear nor circular";
  tni_kin_strides(a, 0, st);
  s->batch = cache->dims[0];
  s->inner = tni_dim_product(cache, 1, (uint32_t)axis);
  s->rows = update->dims[axis];
  s->limit = st[TNI_ST_RING] ? st[TNI_ST_RING] : cache->dims[axis];
  s->circular = s->circular || st[TNI_ST_RING];
  s->row_bytes = (size_t)(tni_dim_product(cache, (uint32_t)axis + 1, cache->rank) * up);
  s->st_batch = st[0] * size;
  s->st_inner = axis > 1 ? st[axis - 1] * size : 0;
  s->st_row = st[axis] * size;
  s->up_row = (int64_t)s->row_bytes;
  s->up_inner = s->rows * s->up_row;
  if (!st[TNI_ST_HEADS]) return NULL;
  if (axis != 1 || cache->rank != 3) return "heads lie apart in a cache that has no place for them";
  s->inner = st[TNI_ST_HEADS];
  s->st_inner = st[TNI_ST_HEAD] * size;
  s->up_inner = s->up_row / s->inner;
  s->row_bytes = (size_t)s->up_inner;
  return NULL;
}

tn_status tni_k_tensor_scatter(const tni_kargs *a) {
  tni_tensor *out = a->out[0];
  scatter s = {.update = a->in[1], .at = a->n_in > 2 ? a->in[2] : NULL, .cache = out->data};
  const bool converts = a->in[0]->data == out->data && tni_kv_dtype(out->dtype) &&
                        (a->in[1]->dtype == TN_DT_F32 || tni_is_half(a->in[1]->dtype));
  if (!tni_elem_size(out->dtype) || (a->in[1]->dtype != out->dtype && !converts) || a->in[0]->dtype != out->dtype)
    return tni_kdtype(a, a->in[1]->dtype);
  s.to = out->dtype;
  const char *wrong = read_shapes(a, &s);
  if (wrong) return tni_kfail(a, TN_E_INVALID, "TensorScatter: %s", wrong);
  const tn_status st = check_rows(a, &s);
  if (st) return st;
  if (a->in[0]->data != out->data) tni_kcopy(a->run, out->data, a->in[0]->data, out->bytes);
  if (s.row_bytes) tni_kfor(a->run, s.batch * s.inner * s.rows, (int64_t)s.row_bytes, write_rows, &s);
  return TN_OK;
}
