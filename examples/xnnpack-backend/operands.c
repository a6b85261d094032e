/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of constants are seen by set() only. What is asked here is what a claim sees: types and shapes. */
#include "backend.h"

int is_constant(const tn_graph *g, tn_id v, uint32_t dtype) {
  return v != TN_NONE && g->values[v]->kind == TN_VALUE_CONST && g->values[v]->dtype == dtype;
}

/* A constant with n elements along its last axis, and one along each other. */
static int is_row(const device *d, const tn_graph *g, tn_id v, uint32_t dtype, int64_t n) {
  int64_t dim = 1;
  if (!is_constant(g, v, dtype)) return 0;
  for (uint32_t i = 0; i < g->values[v]->rank; i++)
    if (!fixed_dim(d, g, v, i, &dim) || (i + 1 < g->values[v]->rank && dim != 1)) return 0;
  return dim == n;
}

static uint32_t read_bias(const device *d, const tn_graph *g, const step *s, uint32_t dtype, const char **text) {
  *text = "the bias is no constant with an element per output channel";
  return s->constants[BIAS] == TN_NONE || is_row(d, g, s->constants[BIAS], dtype, s->OC) ? TN_WHY_NONE : TN_WHY_NOT_CONST;
}

uint32_t read_floats(const device *d, const tn_graph *g, step *s, const char **text) {
  *text = "XNNPACK convolves float32 here, and bytes";
  if (g->values[s->x]->dtype != TN_DT_F32) return TN_WHY_DTYPE;
  *text = "the weight is no constant of float32";
  if (!is_constant(g, s->constants[W], TN_DT_F32)) return TN_WHY_NOT_CONST;
  s->kind = F32;
  s->form = LAST;
  return read_bias(d, g, s, TN_DT_F32, text);
}

/* uint8: 0, int8: SIGNED. */
static int byte_form(const tn_graph *g, tn_id v, uint32_t *form) {
  const uint32_t t = v == TN_NONE ? TN_DT_UNDEFINED : g->values[v]->dtype;
  *form = t == TN_DT_I8 ? SIGNED : 0;
  return t == TN_DT_I8 || t == TN_DT_U8;
}

/* A scale, and a zero point of v's type: n of each. */
static int is_scaled(const device *d, const tn_graph *g, tn_id v, tn_id scale, tn_id zero, int64_t n) {
  return is_row(d, g, scale, TN_DT_F32, n) && is_row(d, g, zero, g->values[v]->dtype, n);
}

uint32_t read_bytes(const device *d, const tn_graph *g, step *s, const char **text) {
  const tn_id *c = s->constants;
  uint32_t w_form;
  *text = "an operand is neither int8 nor uint8";
  if (!byte_form(g, s->x, &s->x_host) || !byte_form(g, s->y, &s->y_host) || !byte_form(g, c[W], &w_form))
    return TN_WHY_DTYPE;
  *text = "the weight is no constant";
  if (!is_constant(g, c[W], g->values[c[W]]->dtype)) return TN_WHY_NOT_CONST;
  *text = "XNNPACK takes one constant scale and zero point of input and output";
  if (!is_scaled(d, g, s->x, c[X_SCALE], c[X_ZERO], 1) || !is_scaled(d, g, s->y, c[Y_SCALE], c[Y_ZERO], 1))
    return TN_WHY_NOT_CONST;
  *text = "the weight's scales and zero points are neither one nor one per output channel, or no constants";
  if (is_scaled(d, g, c[W], c[W_SCALE], c[W_ZERO], 1))
    s->kind = QU8;
  else if (is_scaled(d, g, c[W], c[W_SCALE], c[W_ZERO], s->OC))
    s->kind = QC8;
  else
    return TN_WHY_NOT_CONST;
  *text = "XNNPACK takes a scale per output channel with int8 weights only";
  if (s->kind == QC8 && !w_form) return TN_WHY_DTYPE;
  s->form = (s->kind == QC8 ? SIGNED : 0) | (s->matrix ? 0 : LAST);
  s->flip_w = flip(w_form, s->form);
  return read_bias(d, g, s, TN_DT_I32, text);
}
