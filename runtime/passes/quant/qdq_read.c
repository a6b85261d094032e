/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/quant/qdq.h"

#include <math.h>
#include <string.h>

enum { MOST_MOVES = 16 };

/* --- constants --- */

static bool is_byte(uint32_t dtype) { return dtype == TN_DT_I8 || dtype == TN_DT_U8; }

/* The constant with all its bytes, or NULL; *n: elements. */
static const tni_tensor *qdq_constant(const tni_graph *g, tn_id v, int64_t *n) {
  const tni_value *c = tni_match_value(g, v);
  uint64_t need;
  if (!c || c->pub.kind != TN_VALUE_CONST || !c->tensor || !c->tensor->data || c->tensor->quantized) return NULL;
  const tni_tensor *t = c->tensor;
  if (tni_dims_count(t->dims, t->rank, n) != TN_OK || tni_dtype_bytes(t->dtype, *n, &need) != TN_OK) return NULL;
  return t->bytes >= need ? t : NULL;
}

static int64_t code_at(const tni_tensor *t, int64_t i) {
  int32_t wide;
  if (t->dtype == TN_DT_I8) return ((const int8_t *)t->data)[i];
  if (t->dtype == TN_DT_U8) return ((const uint8_t *)t->data)[i];
  memcpy(&wide, (const char *)t->data + (size_t)i * sizeof wide, sizeof wide);
  return wide;
}

static float float_at(const tni_tensor *t, int64_t i) {
  float f;
  memcpy(&f, (const char *)t->data + (size_t)i * sizeof f, sizeof f);
  return f;
}

/* So that no product or quotient of scales leaves the range of f32. */
static bool is_ordinary_scale(float s) { return s >= 0x1p-40f && s <= 0x1p40f; }

static bool scales_of(const tni_graph *g, tn_id v, const tni_tensor **out, int64_t *n) {
  *out = qdq_constant(g, v, n);
  if (!*out || (*out)->dtype != TN_DT_F32 || (*out)->rank > 1) return false;
  for (int64_t i = 0; i < *n; i++)
    if (!is_ordinary_scale(float_at(*out, i))) return false;
  return *n > 0;
}

/* --- grids --- */

bool tni_grid_of(const tni_graph *g, const tni_node *n, tni_grid *out) {
  const bool to = n->pub.op == TN_OP_QUANTIZE_LINEAR;
  const tni_value *codes = tni_match_value(g, to ? n->pub.out[0] : n->pub.in[0]);
  const tni_value *floats = tni_match_value(g, to ? n->pub.in[0] : n->pub.out[0]);
  const tni_tensor *scale, *zero = NULL;
  int64_t count, zeros = 1;
  *out = (tni_grid){.scale = tni_match_in(n, 1), .zero = tni_match_in(n, 2)};
  if (!codes || !floats || !is_byte(codes->pub.dtype) || floats->pub.dtype != TN_DT_F32) return false;
  if (tni_attr_i(&n->pub, "block_size", 0) || !scales_of(g, out->scale, &scale, &count) || count != 1) return false;
  const int64_t precision = tni_attr_i(&n->pub, "precision", 0);
  if (to && precision && precision != TN_DT_F32) return false;
  if (out->zero != TN_NONE) {
    zero = qdq_constant(g, out->zero, &zeros);
    if (!zero || zero->dtype != codes->pub.dtype || zeros != 1) return false;
  }
  out->dtype = codes->pub.dtype;
  out->s = float_at(scale, 0);
  out->z = zero ? (int32_t)code_at(zero, 0) : 0;
  return true;
}

bool tni_grid_same(const tni_grid *a, const tni_grid *b) {
  return a->dtype == b->dtype && a->s == b->s && a->z == b->z;
}
int32_t tni_grid_low(const tni_grid *a) { return a->dtype == TN_DT_I8 ? INT8_MIN : 0; }
int32_t tni_grid_high(const tni_grid *a) { return a->dtype == TN_DT_I8 ? INT8_MAX : UINT8_MAX; }

int32_t tni_grid_code(const tni_grid *a, float v) {
  const float c = rintf(v / a->s) + (float)a->z, lo = (float)tni_grid_low(a), hi = (float)tni_grid_high(a);
  return (int32_t)(c < lo ? lo : c > hi ? hi : c);
}

tn_id tni_grid_zero(tni_graph *g, const tni_grid *a) {
  const uint8_t none = 0;
  return a->zero != TN_NONE ? a->zero : tni_build_const(g, a->dtype, 0, NULL, &none);
}

/* --- bytes that floats come from --- */

bool tni_build_copy(const tni_node *n, tni_build_node *b) {
  *b = (tni_build_node){
      .domain = n->pub.domain, .type = n->type, .version = n->version, .n_in = n->pub.n_in, .n_attr = n->n_raw};
  if (n->n_captures || n->pub.n_in > TNI_BUILD_INPUTS || n->n_raw > sizeof b->attr / sizeof *b->attr) return false;
  memcpy(b->in, n->pub.in, n->pub.n_in * sizeof *b->in);
  memcpy(b->attr, n->raw, n->n_raw * sizeof *b->attr);
  return true;
}

/* Operators that hand on elements of their first operand, or the largest of some, whatever they stand for. */
static bool moves_codes(const tni_node *n) {
  tni_build_node b;
  for (uint32_t o = 1; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE) return false;
  switch (n->pub.op) {
    case TN_OP_IDENTITY:
    case TN_OP_RESHAPE:
    case TN_OP_FLATTEN:
    case TN_OP_SQUEEZE:
    case TN_OP_UNSQUEEZE:
    case TN_OP_TRANSPOSE:
    case TN_OP_SLICE:
    case TN_OP_GATHER:
    case TN_OP_EXPAND:
    case TN_OP_TILE:
    case TN_OP_DEPTH_TO_SPACE:
    case TN_OP_SPACE_TO_DEPTH:
    case TN_OP_MAX_POOL:
      return tni_build_copy(n, &b);
    default:
      return false;
  }
}

static const tni_node *codes_maker(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.producer == TN_NONE || x->pub.producer >= g->n_nodes) return NULL;
  const tni_node *n = g->nodes[x->pub.producer];
  return n->dead || !n->op ? NULL : n;
}

/* The DequantizeLinear that v's movement begins at, or NULL. */
static const tni_node *codes_source(const tni_graph *g, tn_id v) {
  for (int i = 0; i < MOST_MOVES; i++) {
    const tni_node *n = codes_maker(g, v);
    if (!n) return NULL;
    if (n->pub.op == TN_OP_DEQUANTIZE_LINEAR) return n;
    if (!moves_codes(n)) return NULL;
    v = n->pub.in[0];
  }
  return NULL;
}

bool tni_bytes_peek(const tni_graph *g, tn_id v, tni_grid *out) {
  const tni_node *n = codes_source(g, v);
  return n && tni_grid_of(g, n, out);
}

bool tni_bytes_const(const tni_graph *g, tn_id v) {
  const tni_node *n = codes_source(g, v);
  return n && g->values[n->pub.in[0]]->pub.kind == TN_VALUE_CONST;
}

tn_id tni_bytes_make(tni_graph *g, tn_id v, tn_error *err) {
  const tni_node *n = codes_maker(g, v);
  tni_build_node b;
  if (!n || n->pub.op == TN_OP_DEQUANTIZE_LINEAR) return n ? n->pub.in[0] : TN_NONE;
  (void)tni_build_copy(n, &b);
  b.in[0] = tni_bytes_make(g, n->pub.in[0], err);
  if (b.in[0] == TN_NONE) return TN_NONE;
  const tn_value y = g->values[v]->pub;
  return tni_build_op(g, &b, g->values[b.in[0]]->pub.dtype, y.rank, y.dims, err);
}

/* --- weights and biases --- */

/* A per-axis operand of n belongs to index 0 .. count of this axis. */
static bool on_axis(const tni_node *n, uint32_t rank, uint32_t axis) {
  const int64_t a = tni_attr_i(&n->pub, "axis", 1);
  return (a < 0 ? a + rank : a) == axis;
}

bool tni_qweight_of(const tni_graph *g, tn_id v, uint32_t rank, uint32_t axis, tni_qweight *out) {
  const tni_node *n = tni_match_node(g, v, TN_OP_DEQUANTIZE_LINEAR);
  int64_t count, scales, zeros = 0;
  *out = (tni_qweight){.zero = NULL, .zero_id = TN_NONE};
  if (!n || tni_attr_i(&n->pub, "block_size", 0) || tni_match_value(g, v)->pub.dtype != TN_DT_F32) return false;
  out->w = n->pub.in[0];
  out->t = qdq_constant(g, out->w, &count);
  if (!out->t || !is_byte(out->t->dtype) || out->t->rank != rank || axis >= rank || !count) return false;
  out->scale_id = tni_match_in(n, 1);
  out->zero_id = tni_match_in(n, 2);
  if (!scales_of(g, out->scale_id, &out->scale, &scales)) return false;
  if (scales != 1 && (scales != out->t->dims[axis] || !on_axis(n, rank, axis))) return false;
  if (out->zero_id == TN_NONE) return true;
  out->zero = qdq_constant(g, out->zero_id, &zeros);
  return out->zero && out->zero->dtype == out->t->dtype && zeros == scales;
}

int32_t tni_qweight_code(const tni_qweight *w, int64_t i, int64_t m) {
  const bool many = w->zero && w->zero->rank && w->zero->dims[0] > 1;
  return (int32_t)(code_at(w->t, i) - (w->zero ? code_at(w->zero, many ? m : 0) : 0));
}

float tni_qweight_scale(const tni_qweight *w, int64_t m) {
  return float_at(w->scale, w->scale->rank && w->scale->dims[0] > 1 ? m : 0);
}

/* dims are 1 but for the last one, of which there are n, or 1. */
static bool a_row(const tni_tensor *t, int64_t count, int64_t n, uint32_t most_rank) {
  return t->rank <= most_rank && (count == 1 || (count == n && t->rank && t->dims[t->rank - 1] == n));
}

bool tni_qbias_peek(const tni_graph *g, tn_id v, int64_t n, uint32_t most_rank) {
  const tni_node *dq = tni_match_node(g, v, TN_OP_DEQUANTIZE_LINEAR);
  const tni_tensor *t, *scale, *zero = NULL;
  int64_t count, scales, zeros;
  if (!dq) {
    t = qdq_constant(g, v, &count);
    if (!t || t->dtype != TN_DT_F32 || !a_row(t, count, n, most_rank)) return false;
    for (int64_t i = 0; i < count; i++)
      if (!isfinite(float_at(t, i))) return false;
    return true;
  }
  t = qdq_constant(g, dq->pub.in[0], &count);
  if (!t || (!is_byte(t->dtype) && t->dtype != TN_DT_I32) || !a_row(t, count, n, most_rank)) return false;
  if (tni_attr_i(&dq->pub, "block_size", 0) || tni_match_value(g, v)->pub.dtype != TN_DT_F32) return false;
  if (!scales_of(g, tni_match_in(dq, 1), &scale, &scales)) return false;
  if (scales != 1 && (scales != count || !on_axis(dq, t->rank, t->rank - 1))) return false;
  if (tni_match_in(dq, 2) == TN_NONE) return true;
  zero = qdq_constant(g, tni_match_in(dq, 2), &zeros);
  return zero && zero->dtype == t->dtype && zeros == scales;
}

double tni_qbias_get(const tni_graph *g, tn_id v, int64_t i) {
  const tni_node *dq = tni_match_node(g, v, TN_OP_DEQUANTIZE_LINEAR);
  int64_t n, scales, zeros = 0;
  if (!dq) {
    const tni_tensor *t = qdq_constant(g, v, &n);
    return (double)float_at(t, n == 1 ? 0 : i);
  }
  const tni_tensor *t = qdq_constant(g, dq->pub.in[0], &n), *scale = qdq_constant(g, tni_match_in(dq, 1), &scales);
  const tni_tensor *zero = qdq_constant(g, tni_match_in(dq, 2), &zeros);
  const int64_t at = n == 1 ? 0 : i, k = scales == 1 ? 0 : at;
  return (double)(code_at(t, at) - (zero ? code_at(zero, k) : 0)) * (double)float_at(scale, k);
}
