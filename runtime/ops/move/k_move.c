/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements to other places, by element size: Transpose, Concat, tenon.ConcatHeads, Split, Slice, Expand, Tile, Trilu.
 */
#include "runtime/ops/kernel/kernel.h"

static tn_status need_size(const tni_kargs *a, uint32_t *size) {
  *size = tni_elem_size(a->out[0]->dtype);
  return *size > 0 ? TN_OK : tni_kdtype(a, a->out[0]->dtype);
}

tn_status tni_k_transpose(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  const int64_t *perm;
  const uint32_t n_perm = tni_at_ints(a->node, TNI_A_PERM, &perm);
  int64_t st[TN_MAX_RANK];
  uint32_t size, seen = 0;
  tn_status s = need_size(a, &size);
  if (s) return s;
  if (n_perm && n_perm != x->rank)
    return tni_kfail(a, TN_E_INVALID, "Transpose: perm has %u axes, the input %u", n_perm, x->rank);
  tni_scopy c = {.rank = x->rank};
  tni_kstrides(x, st);
  for (uint32_t i = 0; i < x->rank; i++) {
    const int32_t p = n_perm ? tni_kaxis(perm[i], x->rank) : (int32_t)(x->rank - 1 - i);
    if (p < 0 || (seen & (1u << p))) return tni_kfail(a, TN_E_INVALID, "Transpose: perm is not a permutation");
    seen |= 1u << p;
    c.dims[i] = x->dims[p];
    c.ss[i] = st[p];
  }
  tni_kstrides(a->out[0], c.ds);
  tni_copy_strided(a->run, size, &c, a->out[0]->data, x->data);
  return TN_OK;
}

tn_status tni_k_concat(const tni_kargs *a) {
  tni_tensor *y = a->out[0];
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, 0), y->rank);
  uint32_t size;
  tn_status s = need_size(a, &size);
  if (s) return s;
  if (axis < 0) return tni_kfail(a, TN_E_INVALID, "Concat: axis out of range");
  const int64_t outer = tni_dim_product(y, 0, (uint32_t)axis), row = tni_dim_product(y, (uint32_t)axis, y->rank);
  int64_t at = 0;
  for (uint32_t i = 0; i < a->n_in; i++) {
    const tni_tensor *x = a->in[i];
    if (x->dtype != y->dtype || x->rank != y->rank)
      return tni_kfail(a, TN_E_INVALID, "Concat: input %u does not fit", i);
    const int64_t n = tni_dim_product(x, (uint32_t)axis, x->rank);
    if (at + n > row || (n && tni_dim_product(x, 0, (uint32_t)axis) != outer))
      return tni_kfail(a, TN_E_INVALID, "Concat: input %u does not fit", i);
    const tni_scopy c = {.rank = 2, .dims = {outer, n}, .ss = {n, 1}, .ds = {row, 1}};
    if (n) tni_copy_strided(a->run, size, &c, (char *)y->data + at * size, x->data);
    at += n;
  }
  return at == row || outer == 0 ? TN_OK : tni_kfail(a, TN_E_INVALID, "Concat: the inputs do not fill the output");
}

tn_status tni_k_concat_heads(const tni_kargs *a) {
  tni_tensor *y = a->out[0];
  const int64_t heads = tni_at_i(a->node, TNI_A_NUM_HEADS, 1), shared = tni_at_i(a->node, TNI_A_SHARED, 0);
  const int64_t outer = y->rank ? tni_dim_product(y, 0, y->rank - 1) : 0, all = y->rank ? y->dims[y->rank - 1] : 0;
  uint32_t size;
  tn_status s = need_size(a, &size);
  if (s) return s;
  if (heads < 1 || all % heads)
    return tni_kfail(a, TN_E_INVALID, "ConcatHeads: %lld heads do not fit", (long long)heads);
  const int64_t head = all / heads;
  int64_t at = 0;
  for (uint32_t i = 0; i < a->n_in; i++) {
    const tni_tensor *x = a->in[i];
    const int64_t own = shared >> i & 1 ? 1 : heads, width = x->rank ? x->dims[x->rank - 1] : 0, n = width / own;
    if (x->dtype != y->dtype || x->rank != y->rank || width % own || at + n > head ||
        tni_dim_product(x, 0, x->rank - 1) != outer)
      return tni_kfail(a, TN_E_INVALID, "ConcatHeads: input %u does not fit", i);
    const tni_scopy c = {.rank = 3, .dims = {outer, heads, n}, .ss = {width, own > 1 ? n : 0, 1}, .ds = {all, head, 1}};
    if (n) tni_copy_strided(a->run, size, &c, (char *)y->data + at * size, x->data);
    at += n;
  }
  return at == head ? TN_OK : tni_kfail(a, TN_E_INVALID, "ConcatHeads: the inputs do not fill the output");
}

tn_status tni_k_split(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, 0), x->rank);
  const uint32_t size = tni_elem_size(x->dtype);
  if (!size) return tni_kdtype(a, x->dtype);
  if (axis < 0 || !x->rank) return tni_kfail(a, TN_E_INVALID, "Split: axis out of range");
  const int64_t outer = tni_dim_product(x, 0, (uint32_t)axis), row = tni_dim_product(x, (uint32_t)axis, x->rank);
  const int64_t inner = tni_dim_product(x, (uint32_t)axis + 1, x->rank), len = x->dims[axis];
  const tni_tensor *parts = a->n_in > 1 ? a->in[1] : NULL;
  const int64_t each = (len + a->n_out - 1) / a->n_out;
  int64_t at = 0;
  for (uint32_t i = 0; i < a->n_out; i++) {
    int64_t n = parts && parts->data ? tni_get_i64(parts, i) : each < len - at ? each : len - at;
    if (a->out[i]) n = a->out[i]->dims[axis];
    if (n < 0 || n > len - at)
      return tni_kfail(a, TN_E_INVALID, "Split: the parts exceed the axis of %lld", (long long)len);
    const tni_scopy c = {.rank = 2, .dims = {outer, n * inner}, .ss = {row, 1}, .ds = {n * inner, 1}};
    if (a->out[i] && n > 0 && inner > 0)
      tni_copy_strided(a->run, size, &c, a->out[i]->data, (const char *)x->data + at * inner * size);
    at += n;
  }
  return TN_OK;
}

/* First element and count of one axis after the clamping that Slice (13) prescribes. */
static void slice_axis(int64_t start, int64_t end, int64_t step, int64_t dim, int64_t *first, int64_t *count) {
  const int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? dim : dim - 1;
  if (start < 0) start = start < -dim ? 0 : start + dim;
  if (end < 0) end = end < -dim ? lo : end + dim;
  start = start > hi ? hi : start;
  end = end < lo ? lo : end > hi ? hi : end;
  *first = start;
  const uint64_t mag = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  const int64_t span = step > 0 ? end - start : start - end;
  *count = span <= 0 ? 0 : (int64_t)(((uint64_t)span - 1) / mag + 1);
}

tn_status tni_k_slice(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *starts = a->in[1], *ends = a->in[2];
  const tni_tensor *axes = a->n_in > 3 ? a->in[3] : NULL, *steps = a->n_in > 4 ? a->in[4] : NULL;
  const int64_t n = tni_knumel(starts);
  int64_t st[TN_MAX_RANK], off = 0;
  uint32_t size;
  tn_status s = need_size(a, &size);
  if (s) return s;
  if (tni_knumel(ends) != n || (axes && tni_knumel(axes) != n) || (steps && tni_knumel(steps) != n) || n > x->rank)
    return tni_kfail(a, TN_E_INVALID, "Slice: starts, ends, axes and steps differ in length");
  tni_scopy c = {.rank = x->rank};
  tni_kstrides(x, st);
  for (uint32_t d = 0; d < x->rank; d++) {
    c.dims[d] = x->dims[d];
    c.ss[d] = st[d];
  }
  for (int64_t i = 0; i < n; i++) {
    const int32_t d = axes ? tni_kaxis(tni_get_i64(axes, i), x->rank) : (int32_t)i;
    const int64_t step = steps ? tni_get_i64(steps, i) : 1;
    int64_t first, count;
    if (d < 0 || step == 0) return tni_kfail(a, TN_E_INVALID, "Slice: %s", d < 0 ? "axis out of range" : "step is 0");
    slice_axis(tni_get_i64(starts, i), tni_get_i64(ends, i), step, x->dims[d], &first, &count);
    c.dims[d] = count;
    c.ss[d] = count > 1 ? st[d] * step : 0; /* a step past the axis could overflow and moves nothing */
    off += count ? first * st[d] : 0;
  }
  for (uint32_t d = 0; d < x->rank; d++)
    if (a->out[0]->rank != x->rank || a->out[0]->dims[d] != c.dims[d])
      return tni_kfail(a, TN_E_INVALID, "Slice: the output is not as inferred");
  tni_kstrides(a->out[0], c.ds);
  if (tni_knumel(a->out[0])) tni_copy_strided(a->run, size, &c, a->out[0]->data, (const char *)x->data + off * size);
  return TN_OK;
}

tn_status tni_k_expand(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *y = a->out[0];
  int64_t st[TN_MAX_RANK];
  uint32_t size;
  tn_status s = need_size(a, &size);
  if (s) return s;
  tni_scopy c = {.rank = y->rank};
  if (x->rank > y->rank) return tni_kfail(a, TN_E_INVALID, "Expand: the output has fewer dims");
  tni_kstrides(x, st);
  tni_kstrides(y, c.ds);
  for (uint32_t d = 0; d < y->rank; d++) {
    const int64_t p = (int64_t)d - (y->rank - x->rank);
    c.dims[d] = y->dims[d];
    if (p >= 0 && x->dims[p] != 1) c.ss[d] = st[p];
    if (p >= 0 && x->dims[p] != 1 && x->dims[p] != y->dims[d])
      return tni_kfail(a, TN_E_INVALID, "Expand: dim %u of %lld does not become %lld", d, (long long)x->dims[p],
                       (long long)y->dims[d]);
  }
  tni_copy_strided(a->run, size, &c, y->data, x->data);
  return TN_OK;
}

/* Each axis is (repeat, dim): the repeat has source stride 0. */
tn_status tni_k_tile(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *y = a->out[0];
  int64_t st[TN_MAX_RANK], dt[TN_MAX_RANK];
  uint32_t size;
  tn_status s = need_size(a, &size);
  if (s) return s;
  if (x->rank != y->rank) return tni_kfail(a, TN_E_INVALID, "Tile: ranks differ");
  tni_scopy c = {.rank = 2 * x->rank};
  tni_kstrides(x, st);
  tni_kstrides(y, dt);
  for (uint32_t d = 0; d < x->rank; d++) {
    if (x->dims[d] == 0 ? y->dims[d] != 0 : y->dims[d] % x->dims[d] != 0)
      return tni_kfail(a, TN_E_INVALID, "Tile: not a multiple");
    c.dims[2 * d] = x->dims[d] ? y->dims[d] / x->dims[d] : 0;
    c.dims[2 * d + 1] = x->dims[d];
    c.ss[2 * d + 1] = st[d];
    c.ds[2 * d] = dt[d] * x->dims[d];
    c.ds[2 * d + 1] = dt[d];
  }
  tni_copy_strided(a->run, size, &c, y->data, x->data);
  return TN_OK;
}

typedef struct trilu {
  const char *x;
  char *y;
  int64_t rows, cols, k;
  uint32_t size;
  bool upper;
} trilu;

/* Row r keeps columns >= r + k (upper) or <= r + k (lower). */
static void trilu_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const trilu *t = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t r = i % t->rows;
    int64_t cut = t->k > t->cols ? t->cols : t->k < -t->rows ? -t->rows : t->k;
    cut += r + (t->upper ? 0 : 1);
    cut = cut < 0 ? 0 : cut > t->cols ? t->cols : cut;
    char *y = t->y + i * t->cols * t->size;
    const size_t head = (size_t)(cut * t->size), tail = (size_t)((t->cols - cut) * t->size);
    memcpy(y, t->x + i * t->cols * t->size, head + tail);
    memset(t->upper ? y : y + head, 0, t->upper ? head : tail);
  }
}

tn_status tni_k_trilu(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *k = a->n_in > 1 ? a->in[1] : NULL;
  uint32_t size;
  tn_status s = need_size(a, &size);
  if (s) return s;
  if (x->rank < 2) return tni_kfail(a, TN_E_INVALID, "Trilu: the input has rank %u", x->rank);
  if (k && tni_knumel(k) != 1) return tni_kfail(a, TN_E_INVALID, "Trilu: k is not one element");
  trilu t = {x->data,
             a->out[0]->data,
             x->dims[x->rank - 2],
             x->dims[x->rank - 1],
             k ? tni_get_i64(k, 0) : 0,
             size,
             tni_at_i(a->node, TNI_A_UPPER, 1) != 0};
  if (tni_knumel(x)) tni_kfor(a->run, tni_dim_product(x, 0, x->rank - 1), t.cols, trilu_rows, &t);
  return TN_OK;
}
