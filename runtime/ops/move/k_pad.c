/* SPDX-License-Identifier: Apache-2.0
 *
 * Pad: constant, reflect, edge, wrap; negative pads crop. Each output coordinate is mapped to an input one, or to none.
 */
#include "runtime/ops/kernel/kernel.h"

enum {
  CONSTANT = TN_WORD_PAD_MODE_CONSTANT,
  REFLECT = TN_WORD_PAD_MODE_REFLECT,
  EDGE = TN_WORD_PAD_MODE_EDGE,
  WRAP = TN_WORD_PAD_MODE_WRAP
};

typedef struct pad {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  uint32_t mode;
  uint32_t size;
  int64_t begin[TN_MAX_RANK], st[TN_MAX_RANK];
  char value[16];
} pad;

/* Input coordinate of output coordinate i, or -1: the constant. */
static int64_t pad_source(const pad *p, uint32_t d, int64_t i) {
  const int64_t n = p->x->dims[d];
  int64_t v;
  if (__builtin_sub_overflow(i, p->begin[d], &v)) v = INT64_MAX; /* far after the end */
  if (v >= 0 && v < n) return v;
  if (p->mode == CONSTANT) return -1;
  if (p->mode == EDGE) return v < 0 ? 0 : n - 1;
  if (p->mode == WRAP) return (v % n + n) % n;
  const int64_t period = n > 1 ? 2 * (n - 1) : 1;
  v = (v % period + period) % period;
  return v < n ? v : period - v;
}

static void pad_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const pad *p = arg;
  const uint32_t l = p->x->rank - 1;
  const int64_t n = p->y->dims[l], size = p->size;
  tni_poll poll = {p->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    char *y = (char *)p->y->data + r * n * size;
    int64_t off = 0, rest = r;
    bool inside = true;
    for (uint32_t d = l; d-- > 0;) {
      const int64_t v = pad_source(p, d, rest % p->y->dims[d]);
      rest /= p->y->dims[d];
      if (v < 0) inside = false;
      off += v * p->st[d];
    }
    for (int64_t i = 0; i < n && !tni_poll_stop(&poll, 2); i++) {
      const int64_t v = inside ? pad_source(p, l, i) : -1;
      memcpy(y + i * size, v < 0 ? p->value : (const char *)p->x->data + (off + v) * size, (size_t)size);
    }
  }
}

static tn_status fill_pads(const tni_kargs *a, pad *p) {
  const tni_tensor *pads = a->in[1], *axes = a->n_in > 3 ? a->in[3] : NULL;
  const int64_t n = axes ? tni_knumel(axes) : p->x->rank;
  if (n > p->x->rank || tni_knumel(pads) != 2 * n) return tni_kfail(a, TN_E_INVALID, "Pad: pads do not fit the axes");
  for (int64_t i = 0; i < n; i++) {
    const int32_t d = axes ? tni_kaxis(tni_get_i64(axes, i), p->x->rank) : (int32_t)i;
    if (d < 0) return tni_kfail(a, TN_E_INVALID, "Pad: axis out of range");
    p->begin[d] = tni_get_i64(pads, i);
  }
  for (uint32_t d = 0; d < p->x->rank; d++)
    if (p->x->dims[d] == 0 && p->y->dims[d] != 0 && p->mode != CONSTANT)
      return tni_kfail(a, TN_E_INVALID, "Pad: nothing to repeat along dim %u", d);
  return TN_OK;
}

tn_status tni_k_pad(const tni_kargs *a) {
  pad p = {.run = a->run,
           .x = a->in[0],
           .y = a->out[0],
           .mode = tni_at_word(a->node, TNI_A_MODE),
           .size = tni_elem_size(a->in[0]->dtype)};
  const tni_tensor *value = a->n_in > 2 ? a->in[2] : NULL;
  if (!p.size) return tni_kdtype(a, p.x->dtype);
  if (!p.mode) return tni_kfail(a, TN_E_INVALID, "Pad: unknown mode");
  if (p.y->rank != p.x->rank) return tni_kfail(a, TN_E_INVALID, "Pad: ranks differ");
  if (value && (value->dtype != p.x->dtype || tni_knumel(value) != 1))
    return tni_kfail(a, TN_E_INVALID, "Pad: constant_value is not one element of the input's type");
  tn_status s = fill_pads(a, &p);
  if (s) return s;
  if (value) memcpy(p.value, value->data, p.size);
  tni_kstrides(p.x, p.st);
  if (!tni_knumel(p.y)) return TN_OK;
  if (!p.x->rank)
    memcpy(p.y->data, p.x->data, p.size);
  else
    tni_kfor(a->run, tni_dim_product(p.y, 0, p.x->rank - 1), p.y->dims[p.x->rank - 1] * 4, pad_rows, &p);
  return TN_OK;
}
