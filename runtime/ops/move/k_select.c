/* SPDX-License-Identifier: Apache-2.0
 *
 * Compress, Unique, ReverseSequence: items along an axis, chosen by the data. The tensor is seen as [outer, n, inner].
 */
#include "runtime/ops/kernel/kernel.h"
#include "runtime/shape/dims/dims.h"

/* Items `from` of x after each other as items `to` of y, of n_x and n_y items. */
static void copy_item(const tni_items *it, const tni_tensor *y, int64_t n_y, int64_t from, int64_t to) {
  const size_t bytes = (size_t)it->inner * tni_elem_size(y->dtype);
  for (int64_t o = 0; o < it->outer && bytes; o++)
    memcpy((char *)y->data + (size_t)(o * n_y + to) * bytes,
           (const char *)it->t->data + (size_t)(o * it->n + from) * bytes, bytes);
}

/* Axis attribute, or flat. */
static tn_status items_along(const tni_kargs *a, tni_items *it) {
  const tn_attr *axis = tni_at(a->node, TNI_A_AXIS);
  const bool flat = !axis || !axis->n;
  const int32_t d = flat ? 0 : tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, 0), a->in[0]->rank);
  if (!tni_elem_size(a->in[0]->dtype)) return tni_kdtype(a, a->in[0]->dtype);
  if (d < 0 || (!flat && !a->in[0]->rank)) return tni_kfail(a, TN_E_INVALID, "axis out of range");
  *it = tni_items_of(a->in[0], flat, (uint32_t)d);
  return TN_OK;
}

/* Items of y: what its dims leave. */
static int64_t n_items(const tni_tensor *y, const tni_items *it) {
  const int64_t each = it->outer * it->inner;
  return each ? tni_knumel(y) / each : 0;
}

tn_status tni_k_compress(const tni_kargs *a) {
  const tni_tensor *cond = a->in[1];
  tni_items it;
  tn_status st = items_along(a, &it);
  if (st) return st;
  if (cond->dtype != TN_DT_BOOL || cond->rank != 1) return tni_kfail(a, TN_E_INVALID, "Compress: no list of bools");
  const int64_t n = n_items(a->out[0], &it), n_cond = tni_knumel(cond);
  const int64_t work = it.outer * (it.inner ? it.inner : 1);
  tni_poll poll = {a->run, TNI_POLL};
  int64_t to = 0;
  for (int64_t i = 0; i < n_cond; i++) {
    if (!((const u8u *)cond->data)[i]) continue;
    if (i >= it.n)
      return tni_kfail(a, TN_E_INVALID, "Compress: condition %lld of %lld items", (long long)i, (long long)it.n);
    if (tni_poll_stop(&poll, work)) return TN_E_CANCELLED;
    if (to < n) copy_item(&it, a->out[0], n, i, to);
    to++;
  }
  return to == n || it.outer * it.inner == 0 ? TN_OK
                                             : tni_kfail(a, TN_E_INTERNAL, "Compress: the output has other dims");
}

/* Order, room, and the first item of every group. */
uint64_t tni_unique_scratch(const tni_tensor *x) {
  uint64_t n = (uint64_t)tni_knumel(x);
  for (uint32_t d = 0; d < x->rank; d++) /* items may have no element */
    if ((uint64_t)x->dims[d] > n) n = (uint64_t)x->dims[d];
  return __builtin_mul_overflow(n + 1, 3 * sizeof(int64_t), &n) ? UINT64_MAX : n;
}

/* Group g of n: items order[from, to). They ascend, so the first in order is the first in the tensor. */
static void put_group(const tni_kargs *a, const tni_items *it, const int64_t *order, int64_t from, int64_t to,
                      int64_t g, int64_t n) {
  if (a->out[0]) copy_item(it, a->out[0], n, order[from], g);
  if (a->n_out > 1 && a->out[1]) ((i64u *)a->out[1]->data)[g] = order[from];
  for (int64_t i = from; i < to && a->n_out > 2 && a->out[2]; i++) ((i64u *)a->out[2]->data)[order[i]] = g;
  if (a->n_out > 3 && a->out[3]) ((i64u *)a->out[3]->data)[g] = to - from;
}

tn_status tni_k_unique(const tni_kargs *a) {
  tni_items it;
  tn_status st = items_along(a, &it);
  if (st) return st;
  if (!tni_items_comparable(it.t->dtype)) return tni_kdtype(a, it.t->dtype);
  int64_t *order = a->scratch, *room = order + it.n, *rank = room + it.n;
  const bool sorted = tni_at_i(a->node, TNI_A_SORTED, 1) != 0;
  tni_poll poll = {a->run, TNI_POLL};
  const int64_t work = tni_items_work(&it);
  if (!tni_items_sort(&it, order, room, &poll)) return TN_E_CANCELLED;
  /* room[i]: where the group of the item i begins in order, if i is its first item, else -1. */
  int64_t n = 0;
  for (int64_t i = 0; i < it.n; i++) room[i] = -1;
  for (int64_t i = 0; i < it.n; i++) {
    if (tni_poll_stop(&poll, work)) return TN_E_CANCELLED;
    if (i && !tni_items_compare(&it, order[i - 1], order[i])) continue;
    room[order[i]] = i;
    rank[n++] = i;
  }
  if (a->out[0] && it.outer * it.inner != 0 && n_items(a->out[0], &it) != n)
    return tni_kfail(a, TN_E_INTERNAL, "Unique: the output has other dims");
  int64_t g = 0;
  for (int64_t i = 0; i < (sorted ? n : it.n); i++) {
    const int64_t from = sorted ? rank[i] : room[i];
    if (from < 0) continue;
    int64_t to = from + 1;
    while (to < it.n && !tni_poll_stop(&poll, work) && !tni_items_compare(&it, order[from], order[to])) to++;
    if (tni_poll_stop(&poll, work)) return TN_E_CANCELLED;
    put_group(a, &it, order, from, to, g++, n);
  }
  return TN_OK;
}

tn_status tni_k_reverse_sequence(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *lens = a->in[1];
  const bool time_first = tni_at_i(a->node, TNI_A_TIME_AXIS, 0) == 0;
  const uint32_t size = tni_elem_size(x->dtype);
  if (!size) return tni_kdtype(a, x->dtype);
  if (x->rank < 2 || lens->rank != 1) return tni_kfail(a, TN_E_INVALID, "ReverseSequence: rank");
  const int64_t time = x->dims[!time_first], batch = x->dims[time_first];
  const size_t inner = (size_t)tni_dim_product(x, 2, x->rank) * size;
  const int64_t st = time_first ? batch : 1, sb = time_first ? 1 : time;
  tni_poll poll = {a->run, TNI_POLL};
  if (lens->dims[0] != batch)
    return tni_kfail(a, TN_E_INVALID, "ReverseSequence: %lld lengths", (long long)lens->dims[0]);
  for (int64_t b = 0; b < batch; b++) {
    const int64_t n = tni_get_i64(lens, b);
    if (n < 0 || n > time)
      return tni_kfail(a, TN_E_INVALID, "ReverseSequence: length %lld of %lld", (long long)n, (long long)time);
    if (tni_poll_stop(&poll, time * (1 + (int64_t)(inner / 8)))) return TN_E_CANCELLED;
    for (int64_t t = 0; t < time && inner; t++) {
      const int64_t from = t < n ? n - 1 - t : t;
      memcpy((char *)a->out[0]->data + (size_t)(b * sb + t * st) * inner,
             (const char *)x->data + (size_t)(b * sb + from * st) * inner, inner);
    }
  }
  return TN_OK;
}
