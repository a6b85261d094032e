/* SPDX-License-Identifier: Apache-2.0
 *
 * RotaryEmbedding (23): pairs of each head are turned by an angle of their position; what lies after
 * rotary_embedding_dim is copied. Computed in f32: a*cos - b*sin and a*sin + b*cos, each product rounded.
 */
#include "runtime/ops/kernel/kernel.h"

typedef struct rotary {
  const tni_tensor *x, *cos, *sin, *pos; /* pos NULL: the caches have a row for every position of every batch */
  tni_tensor *y;
  int64_t batch, heads, length, size, half;
  bool interleaved, by_head; /* by_head: [batch, heads, length, size] */
  int32_t bad;               /* atomic: a position outside the caches */
} rotary;

static void turn_row(const rotary *r, const float *restrict x, const float *restrict c, const float *restrict s,
                     int64_t n, int64_t step, int64_t other, float *restrict y) {
  (void)r;
  for (int64_t i = 0; i < n; i++) {
    const float a = x[i * step], b = x[i * step + other];
    y[i * step] = a * c[i] - b * s[i];
    y[i * step + other] = a * s[i] + b * c[i];
  }
}

/* One head of one position, TNI_CHUNK pairs at a time. */
static void turn_head(const rotary *r, int64_t at, int64_t row) {
  float x[2 * TNI_CHUNK], y[2 * TNI_CHUNK], c[TNI_CHUNK], s[TNI_CHUNK];
  const uint32_t t = r->x->dtype;
  for (int64_t i = 0; i < r->half; i += TNI_CHUNK) {
    const int64_t n = r->half - i < TNI_CHUNK ? r->half - i : TNI_CHUNK;
    tni_load_f32(t, r->cos->data, row * r->half + i, n, c);
    tni_load_f32(t, r->sin->data, row * r->half + i, n, s);
    if (r->interleaved) {
      tni_load_f32(t, r->x->data, at + 2 * i, 2 * n, x);
      turn_row(r, x, c, s, n, 2, 1, y);
      tni_store_f32(t, r->y->data, at + 2 * i, 2 * n, y);
    } else {
      tni_load_f32(t, r->x->data, at + i, n, x);
      tni_load_f32(t, r->x->data, at + r->half + i, n, x + n);
      turn_row(r, x, c, s, n, 1, n, y);
      tni_store_f32(t, r->y->data, at + i, n, y);
      tni_store_f32(t, r->y->data, at + r->half + i, n, y + n);
    }
  }
  const uint32_t bytes = tni_elem_size(t);
  const int64_t done = 2 * r->half;
  if (done < r->size)
    memcpy((char *)r->y->data + (at + done) * bytes, (const char *)r->x->data + (at + done) * bytes,
           (size_t)((r->size - done) * bytes));
}

static void rotary_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  rotary *r = arg;
  (void)worker;
  for (int64_t u = begin; u < end; u++) { /* rows in the order in which they lie */
    const int64_t b = u / (r->heads * r->length), in = u % (r->heads * r->length);
    const int64_t p = r->by_head ? in % r->length : in / r->heads;
    int64_t row = b * r->length + p;
    if (r->pos) {
      row = tni_get_i64(r->pos, row);
      if (row < 0) row += r->cos->dims[0];
      if (row < 0 || row >= r->cos->dims[0]) {
        __atomic_store_n(&r->bad, 1, __ATOMIC_RELAXED);
        continue;
      }
    }
    turn_head(r, u * r->size, row);
  }
}

static bool caches_fit(const rotary *r) {
  const tni_tensor *all[2] = {r->cos, r->sin};
  for (int i = 0; i < 2; i++) {
    const tni_tensor *t = all[i];
    if (t->rank != (r->pos ? 2 : 3) || t->dims[t->rank - 1] != r->half) return false;
    if (!r->pos && (t->dims[0] != r->batch || t->dims[1] != r->length)) return false;
  }
  if (r->pos && (r->pos->rank != 2 || r->pos->dims[0] != r->batch || r->pos->dims[1] != r->length)) return false;
  return r->cos->dims[0] == r->sin->dims[0];
}

tn_status tni_k_rotary_embedding(const tni_kargs *a) {
  rotary r = {.x = a->in[0], .cos = a->in[1], .sin = a->in[2], .pos = a->n_in > 3 ? a->in[3] : NULL, .y = a->out[0]};
  const uint32_t t = r.x->dtype;
  const int64_t heads = tni_at_i(a->node, TNI_A_NUM_HEADS, 0), dim = tni_at_i(a->node, TNI_A_ROTARY_EMBEDDING_DIM, 0);
  if ((t != TN_DT_F32 && !tni_is_half(t)) || r.cos->dtype != t || r.sin->dtype != t) return tni_kdtype(a, t);
  r.by_head = r.x->rank == 4;
  r.interleaved = tni_at_i(a->node, TNI_A_INTERLEAVED, 0) != 0;
  if (r.x->rank != 4 && (r.x->rank != 3 || heads <= 0 || r.x->dims[2] % heads))
    return tni_kfail(a, TN_E_INVALID,
                     "RotaryEmbedding: X needs 4 dimensions, or 3 and num_heads that divides the last");
  r.batch = r.x->dims[0];
  r.heads = r.by_head ? r.x->dims[1] : heads;
  r.length = r.x->dims[r.by_head ? 2 : 1];
  r.size = r.by_head ? r.x->dims[3] : r.x->dims[2] / heads;
  if (dim < 0 || dim > r.size || (dim ? dim : r.size) % 2)
    return tni_kfail(a, TN_E_INVALID, "RotaryEmbedding: %lld of %lld elements of a head cannot be turned",
                     (long long)(dim ? dim : r.size), (long long)r.size);
  r.half = (dim ? dim : r.size) / 2;
  if (!caches_fit(&r)) return tni_kfail(a, TN_E_INVALID, "RotaryEmbedding: the caches or positions do not fit X");
  tni_kfor(a->run, r.batch * r.heads * r.length, r.size, rotary_rows, &r);
  return r.bad ? tni_kfail(a, TN_E_INVALID, "RotaryEmbedding: a position outside the caches") : TN_OK;
}
