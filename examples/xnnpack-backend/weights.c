/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants, once: an XNNPACK operator for each slice of a step's result, which packs its weights when it is made. Here
 * the values of constants are seen for the first time: what XNNPACK does not take of them is refused with a text. */
#include <math.h>
#include <string.h>

#include "backend.h"

static const void *find(const tn_program *p, tn_id v) {
  for (uint32_t i = 0; v != TN_NONE && i < p->n_constants; i++)
    if (p->constants[i].value == v) return p->constants[i].ptr;
  return NULL;
}

/* Weights of output channels [o, o + n), channels last: [n, kh, kw, C / groups]. */
static void gather(const step *s, const void *w, int64_t o, int64_t n, void *dst) {
  const int64_t pixels = s->kernel[0] * s->kernel[1], wi = s->C / s->groups;
  const int64_t row = s->kn ? 1 : wi * pixels, column = s->kn ? s->OC : pixels;
  int64_t to = 0;
  for (int64_t r = o; r < o + n; r++)
    for (int64_t p = 0; p < pixels; p++)
      for (int64_t i = 0; i < wi; i++, to++) {
        const int64_t from = r * row + i * column + p;
        if (s->kind == F32)
          ((float *)dst)[to] = ((const float *)w)[from];
        else
          ((unsigned char *)dst)[to] = ((const unsigned char *)w)[from] ^ s->flip_w;
      }
}

/* A zero point, in the operator's type. */
static unsigned char zero_of(const tn_program *p, tn_id v, unsigned char bits) {
  return *(const unsigned char *)find(p, v) ^ bits;
}

/* What multiplies sums of products, an element per scale of the weight: floats in ONNX's order. XNNPACK takes 2^-32 up to
 * 256. Less rounds every sum to 0 as 2^-32 does, and more saturates every sum but 0 as the last number below 256 does. */
static int get_factors(const tn_program *p, const step *s, float *out) {
  const float *x = find(p, s->constants[X_SCALE]), *w = find(p, s->constants[W_SCALE]), *y = find(p, s->constants[Y_SCALE]);
  for (int64_t i = 0; i < (s->kind == QC8 ? s->OC : 1); i++) {
    const float f = *x * w[i] / *y;
    if (!(f >= 0) || isinf(f)) return 0;
    out[i] = fminf(fmaxf(f, 0x1p-32f), 0x1.fffffep7f);
  }
  return 1;
}

/* Zero points of a weight with a scale per output channel. */
static int all_zero(const tn_program *p, const step *s) {
  const unsigned char *zero = find(p, s->constants[W_ZERO]);
  for (int64_t i = 0; i < s->OC; i++)
    if (zero[i]) return 0;
  return 1;
}

/* Operator k of the step; its weights lie in w, what multiplies sums in factors. */
static enum xnn_status make_operator(const tn_program *p, step *s, uint32_t k, const void *w, const float *factors) {
  const tn_id *c = s->constants;
  const uint32_t pad[4] = {(uint32_t)s->pads[0], (uint32_t)s->pads[1], (uint32_t)s->pads[2], (uint32_t)s->pads[3]},
                 kernel[2] = {(uint32_t)s->kernel[0], (uint32_t)s->kernel[1]},
                 stride[2] = {(uint32_t)s->stride[0], (uint32_t)s->stride[1]},
                 dilation[2] = {(uint32_t)s->dilation[0], (uint32_t)s->dilation[1]},
                 groups = s->groups > 1 ? (uint32_t)(s->groups / s->slices) : 1,
                 flags = s->same ? XNN_FLAG_TENSORFLOW_SAME_PADDING : 0;
  const size_t inner = (size_t)(s->C / s->groups), outer = (size_t)(s->OC / s->slices) / groups, C = (size_t)s->C,
               OC = (size_t)s->OC, first = OC / s->slices * k;
  const void *bias = find(p, c[BIAS]);
  if (bias) bias = (const unsigned char *)bias + first * 4; /* float32 or int32 */
  if (s->kind == QU8)
    return xnn_create_convolution2d_nhwc_qu8(pad[0], pad[3], pad[2], pad[1], kernel[0], kernel[1], stride[0], stride[1],
        dilation[0], dilation[1], groups, inner, outer, C, OC, zero_of(p, c[X_ZERO], flip(s->x_host, s->form)), 1,
        zero_of(p, c[W_ZERO], s->flip_w), *factors, w, bias, zero_of(p, c[Y_ZERO], flip(s->y_host, s->form)), 1, 0, UINT8_MAX,
        flags, &s->op[k]);
  if (s->kind == QC8)
    return xnn_create_convolution2d_nhwc_qc8(pad[0], pad[3], pad[2], pad[1], kernel[0], kernel[1], stride[0], stride[1],
        dilation[0], dilation[1], groups, inner, outer, C, OC, (int8_t)zero_of(p, c[X_ZERO], flip(s->x_host, s->form)), 1,
        factors + first, w, bias, (int8_t)zero_of(p, c[Y_ZERO], flip(s->y_host, s->form)), 1, INT8_MIN, INT8_MAX, flags,
        &s->op[k]);
  const float *low = find(p, c[LOW]), *high = find(p, c[HIGH]);
  return xnn_create_convolution2d_nhwc_f32(pad[0], pad[3], pad[2], pad[1], kernel[0], kernel[1], stride[0], stride[1],
      dilation[0], dilation[1], groups, inner, outer, C, OC, w, bias, low ? *low : s->relu ? 0 : -INFINITY,
      high ? *high : INFINITY, flags, &s->op[k]);
}

static tn_status pack_step(tn_program *p, step *s, tn_error *err) {
  const tn_host *h = p->device->host;
  const int64_t n = s->OC / s->slices, row = s->C / s->groups * s->kernel[0] * s->kernel[1];
  const size_t factors = ((size_t)s->OC * sizeof(float) + 63) & ~(size_t)63;
  float *room = h->alloc(h->ctx, factors + (size_t)(n * row) * size_of(s) + 64, 64, TN_TAG_PACK);
  if (!room) return fail(err, TN_E_NO_MEMORY, "no memory for weights");
  void *w = (unsigned char *)room + factors;
  tn_status st = TN_OK;
  if (s->kind != F32 && !get_factors(p, s, room))
    st = fail(err, TN_E_UNSUPPORTED, "scales are negative or no numbers, which XNNPACK does not take");
  if (s->kind == QC8 && !all_zero(p, s))
    st = fail(err, TN_E_UNSUPPORTED, "XNNPACK takes no zero points beside a scale per output channel");
  for (uint32_t k = 0; st == TN_OK && k < s->slices; k++) {
    gather(s, find(p, s->constants[W]), k * n, n, w);
    if (s->op[k]) (void)xnn_delete_operator(s->op[k]);
    s->op[k] = NULL;
    if (make_operator(p, s, k, w, room) != xnn_status_success)
      st = fail(err, TN_E_UNSUPPORTED, "XNNPACK makes no operator of these weights");
  }
  h->free(h->ctx, room);
  return st;
}

/* The last constant makes the operators. */
tn_status set_memory(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  const unsigned char *memory = view ? at(view) : NULL;
  const constant *c = slot < p->n_constants ? &p->constants[slot] : NULL;
  tn_status st = TN_OK;
  if (!memory || !c || blob)
    return fail(err, TN_E_INVALID, "slot %u takes plain constants, or is none to be set", slot);
  if (view->bytes < p->constants[slot].bytes)
    return fail(err, TN_E_INVALID, "slot %u has %llu bytes, not %llu", slot, (unsigned long long)view->bytes,
        (unsigned long long)p->constants[slot].bytes);
  p->constants[slot].ptr = memory;
  for (uint32_t i = 0; i < p->n_constants; i++)
    if (!p->constants[i].ptr) return TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < p->n_steps; i++) st = pack_step(p, &p->steps[i], err);
  return st;
}
