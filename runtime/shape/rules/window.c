/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/rules/window.h"

#include <stdio.h>
#include <string.h>

/* `count` elements of an INTS attribute within [lo, 2^31), or dflt for each where it is absent. */
static bool read_ints(const tn_node *node, uint32_t attr, const char *name, uint32_t count, int64_t dflt, int64_t lo,
                      int64_t *v, char *why, size_t n) {
  const int64_t *given = NULL;
  const uint32_t got = tni_at_ints(node, attr, &given);
  if (given && got != count) {
    snprintf(why, n, "attribute '%s' has %u elements, not %u", name, got, count);
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    v[i] = given ? given[i] : dflt;
    if (v[i] >= lo && v[i] <= INT32_MAX) continue;
    snprintf(why, n, "attribute '%s' has the element %lld", name, (long long)v[i]);
    return false;
  }
  return true;
}

static bool read_kernel(const tn_node *node, const int64_t *kernel, tni_window *w, char *why, size_t n) {
  const int64_t *given = NULL;
  (void)tni_at_ints(node, TNI_A_KERNEL_SHAPE, &given);
  if (!given && !kernel) {
    snprintf(why, n, "attribute 'kernel_shape' is missing");
    return false;
  }
  if (given && !read_ints(node, TNI_A_KERNEL_SHAPE, "kernel_shape", w->rank, 1, 1, w->kernel, why, n)) return false;
  for (uint32_t d = 0; kernel && d < w->rank; d++) {
    if (given && w->kernel[d] != kernel[d]) {
      snprintf(why, n, "attribute 'kernel_shape' says %lld, the weight %lld", (long long)w->kernel[d],
               (long long)kernel[d]);
      return false;
    }
    w->kernel[d] = kernel[d];
    if (kernel[d] >= 1 && kernel[d] <= INT32_MAX) continue;
    snprintf(why, n, "a kernel of %lld elements", (long long)kernel[d]);
    return false;
  }
  return true;
}

static bool read_auto_pad(const tn_node *node, tni_window *w, char *why, size_t n) {
  const tn_attr *a = tni_at(node, TNI_A_AUTO_PAD);
  w->auto_pad = a && a->word ? a->word - TN_WORD_CONV_AUTO_PAD_NOTSET : TNI_PAD_NOTSET;
  if (!a || a->word) return true;
  snprintf(why, n, "attribute 'auto_pad' is '%.20s'", a->u.s ? a->u.s : "");
  return false;
}

bool tni_window_read(const tn_node *node, uint32_t rank, const int64_t *kernel, tni_window *w, char *why, size_t n) {
  int64_t pads[2 * TNI_WINDOW_MAX];
  *w = (tni_window){.rank = rank, .ceil = tni_at_i(node, TNI_A_CEIL_MODE, 0) != 0};
  if (rank > TNI_WINDOW_MAX) {
    snprintf(why, n, "%u spatial dims", rank);
    return false;
  }
  if (!read_kernel(node, kernel, w, why, n) || !read_auto_pad(node, w, why, n) ||
      !read_ints(node, TNI_A_STRIDES, "strides", rank, 1, 1, w->stride, why, n) ||
      !read_ints(node, TNI_A_DILATIONS, "dilations", rank, 1, 1, w->dilation, why, n) ||
      !read_ints(node, TNI_A_PADS, "pads", 2 * rank, 0, 0, pads, why, n))
    return false;
  for (uint32_t d = 0; d < rank && w->auto_pad == TNI_PAD_NOTSET; d++) {
    w->begin[d] = pads[d];
    w->end[d] = pads[rank + d];
  }
  return true;
}

static bool is_same(const tni_window *w) {
  return w->auto_pad == TNI_PAD_SAME_UPPER || w->auto_pad == TNI_PAD_SAME_LOWER;
}

/* Elements that one window spans: (kernel - 1) * dilation + 1. */
static int64_t window_span(const tni_window *w, uint32_t d) { return (w->kernel[d] - 1) * w->dilation[d] + 1; }

/* floor((e + add) / by) + plus */
static tn_expr window_steps(const tni_infer *in, tn_expr e, int64_t add, int64_t by, int64_t plus) {
  tn_expr q = tni_ex_floordiv(in->x, tni_ex_add(in->x, e, tni_rule_const(in, add)), tni_rule_const(in, by));
  return tni_ex_add(in->x, q, tni_rule_const(in, plus));
}

tn_expr tni_window_count(const tni_infer *in, const tni_window *w, uint32_t d, tn_expr size) {
  const int64_t s = w->stride[d], free = w->begin[d] + w->end[d] - window_span(w, d);
  if (size == TNI_EXPR_NONE) return size;
  if (is_same(w)) return window_steps(in, size, s - 1, s, 0);
  if (!w->ceil) return window_steps(in, size, free, s, 1);
  const tn_expr most = window_steps(in, size, free + s - 1, s, 1),
                begun = window_steps(in, size, w->begin[d] - 1, s, 1);
  if (most == TNI_EXPR_NONE || begun == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  return tni_ex_proves_le(in->x, most, begun) ? most : tni_ex_min(in->x, most, begun);
}

void tni_window_pads(tni_window *w, const int64_t *in, const int64_t *out) {
  if (!is_same(w)) return;
  for (uint32_t d = 0; d < w->rank; d++) {
    const int64_t need = (out[d] - 1) * w->stride[d] + window_span(w, d) - in[d], all = need > 0 ? need : 0;
    w->begin[d] = w->auto_pad == TNI_PAD_SAME_UPPER ? all / 2 : all - all / 2;
    w->end[d] = all - w->begin[d];
  }
}

/* output_shape may also be written with the batch and the channels. */
bool tni_window_read_spread(const tn_node *node, uint32_t rank, const int64_t *kernel, tni_window *w, char *why,
                            size_t n) {
  const int64_t *shape = NULL;
  int64_t all[TN_MAX_RANK] = {0};
  if (!tni_window_read(node, rank, kernel, w, why, n)) return false;
  if (!read_ints(node, TNI_A_OUTPUT_PADDING, "output_padding", rank, 0, 0, w->more, why, n)) return false;
  const uint32_t got = tni_at_ints(node, TNI_A_OUTPUT_SHAPE, &shape), skip = shape && got == rank + 2 ? 2 : 0;
  if (!shape || got == 0) return true;
  if (!read_ints(node, TNI_A_OUTPUT_SHAPE, "output_shape", rank + skip, 0, 1, all, why, n)) return false;
  for (uint32_t d = 0; d < rank; d++) w->out[d] = all[skip + d];
  return true;
}

tn_expr tni_window_spread(const tni_infer *in, const tni_window *w, uint32_t d, tn_expr size) {
  if (w->out[d]) return tni_rule_const(in, w->out[d]);
  const tn_expr wide = tni_ex_mul(in->x, size, tni_rule_const(in, w->stride[d]));
  if (is_same(w)) return wide;
  const int64_t more = window_span(w, d) + w->more[d] - w->stride[d] - w->begin[d] - w->end[d];
  return tni_ex_add(in->x, wide, tni_rule_const(in, more));
}

void tni_window_spread_pads(tni_window *w, const int64_t *in, const int64_t *out) {
  for (uint32_t d = 0; d < w->rank; d++) {
    if (!w->out[d] && !is_same(w)) continue;
    const int64_t total = w->stride[d] * (in[d] - 1) + w->more[d] + window_span(w, d) - out[d];
    const int64_t all = total > 0 ? total : 0;
    w->begin[d] = w->auto_pad == TNI_PAD_SAME_UPPER ? all / 2 : all - all / 2;
    w->end[d] = all - w->begin[d];
  }
}
