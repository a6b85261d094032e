/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants, once: an XNNPACK operator for each slice of a step's result, which packs its weights when it is made. */
#include <math.h>
#include <string.h>

#include "backend.h"

static const float *find(const tn_program *p, tn_id v) {
  for (uint32_t i = 0; v != TN_NONE && i < p->n_constants; i++)
    if (p->constants[i].value == v) return p->constants[i].ptr;
  return NULL;
}

/* Weights of output channels [o, o + n), channels last: [n, kh, kw, C / groups]. */
static void gather_conv(const step *s, const float *w, int64_t o, int64_t n, float *dst) {
  const int64_t pixels = s->kernel[0] * s->kernel[1], wi = s->C / s->groups;
  for (int64_t r = o; r < o + n; r++)
    for (int64_t p = 0; p < pixels; p++)
      for (int64_t i = 0; i < wi; i++) *dst++ = w[(r * wi + i) * pixels + p];
}

static enum xnn_status make_operator(const step *s, const float *w, const float *bias, float low, float high,
                                     xnn_operator_t *out) {
  const uint32_t p[4] = {(uint32_t)s->pads[0], (uint32_t)s->pads[1], (uint32_t)s->pads[2], (uint32_t)s->pads[3]};
  const size_t groups = s->groups > 1 ? (size_t)(s->groups / s->slices) : 1,
               outer = (size_t)(s->OC / s->slices) / groups;
  return xnn_create_convolution2d_nhwc_f32(p[0], p[3], p[2], p[1], (uint32_t)s->kernel[0], (uint32_t)s->kernel[1],
      (uint32_t)s->stride[0], (uint32_t)s->stride[1], (uint32_t)s->dilation[0], (uint32_t)s->dilation[1],
      (uint32_t)groups, (size_t)(s->C / s->groups), outer, (size_t)s->C, (size_t)s->OC, w, bias, low, high,
      s->same ? XNN_FLAG_TENSORFLOW_SAME_PADDING : 0, out);
}

static tn_status pack_step(tn_program *p, step *s) {
  const tn_host *h = p->device->host;
  const float *w = find(p, s->w), *bias = find(p, s->bias), *low = find(p, s->low), *high = find(p, s->high);
  const int64_t n = s->OC / s->slices;
  const int64_t row = s->C / s->groups * s->kernel[0] * s->kernel[1];
  float *room = h->alloc(h->ctx, (size_t)(n * row) * sizeof *room + 64, 64, TN_TAG_PACK);
  tn_status st = room ? TN_OK : TN_E_NO_MEMORY;
  for (uint32_t k = 0; st == TN_OK && k < s->slices; k++) {
    gather_conv(s, w, k * n, n, room);
    if (s->op[k]) (void)xnn_delete_operator(s->op[k]);
    s->op[k] = NULL;
    if (make_operator(s, room, bias ? bias + k * n : NULL, low ? *low : s->relu ? 0 : -INFINITY,
            high ? *high : INFINITY, &s->op[k]) != xnn_status_success)
      st = TN_E_UNSUPPORTED;
  }
  h->free(h->ctx, room);
  return st;
}

static tn_status pack(tn_program *p) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < p->n_steps; i++) st = pack_step(p, &p->steps[i]);
  return st;
}

/* The last constant makes the operators. */
tn_status set_memory(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  const unsigned char *memory = view ? at(view) : NULL;
  const constant *c = slot < p->n_constants ? &p->constants[slot] : NULL;
  if (!memory || !c || blob)
    return fail(err, TN_E_INVALID, "slot %u takes plain constants, or is none to be set", slot);
  if (view->bytes < p->constants[slot].bytes)
    return fail(err, TN_E_INVALID, "slot %u has %llu bytes, not %llu", slot, (unsigned long long)view->bytes,
        (unsigned long long)p->constants[slot].bytes);
  p->constants[slot].ptr = memory;
  for (uint32_t i = 0; i < p->n_constants; i++)
    if (!p->constants[i].ptr) return TN_OK;
  const tn_status st = pack(p);
  return st == TN_OK ? st : fail(err, st, "XNNPACK makes no operator of these weights");
}
