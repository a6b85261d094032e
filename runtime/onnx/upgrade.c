/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: the version notes of each operator in ONNX's Operators and Changelog documents.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/onnx/convert.h"
#include "runtime/onnx/upgrade_image.h"

enum { NEW_VERSION = 13 }; /* of the nodes made here: all their rows hold for it */

typedef struct rewrite {
  tni_import *c;
  tni_graph *g;
  tni_draft *d;
} rewrite;

static tn_status wrong_type(const rewrite *r, const char *name) {
  return tni_fail(r->c->err, TN_E_INVALID, r->c->file, "attribute '%s' has the wrong type", name);
}

/* A value "<node>.<what>", or a fresh name where that is taken. */
static tn_id new_value(const rewrite *r, const char *what, uint32_t kind, uint32_t dtype) {
  size_t n = strlen(r->d->name) + strlen(what) + 2;
  char *name = tni_charge(r->c, n) == TN_OK ? tni_arena_alloc(r->c->scratch, n, 1) : NULL;
  if (!name) return TN_NONE;
  snprintf(name, n, "%s.%s", r->d->name, what);
  return tni_graph_add_value(r->g, tni_graph_find(r->g, name) == TN_NONE ? name : "", kind, dtype);
}

static tn_status add_const(const rewrite *r, const char *what, tni_tensor t, const void *data, tn_id *id) {
  *id = new_value(r, what, TN_VALUE_CONST, t.dtype);
  t.data = tni_charge(r->c, t.bytes) == TN_OK ? tni_arena_memdup(r->g->arena, data, t.bytes, 64) : NULL;
  if (*id == TN_NONE || !t.data) return tni_fail_memory(r->c->err, r->c->file);
  tn_status st = tni_value_set_tensor(r->g, *id, &t, NULL);
  return st ? tni_fail(r->c->err, st, r->c->file, "constant '%s'", what) : TN_OK;
}

static tn_status add_ints(const rewrite *r, const char *what, const int64_t *v, size_t n, tn_id *id) {
  tni_tensor t = {.dtype = TN_DT_I64, .rank = 1, .dims = {(int64_t)n}, .bytes = n * sizeof *v};
  return add_const(r, what, t, v, id);
}

/* A scalar of the dtype that value `like` has (f32 where that is not known). */
static tn_status add_scalar(const rewrite *r, const char *what, double v, tn_id like, tn_id *id) {
  const tni_value *x = tni_graph_value(r->g, like);
  unsigned char data[8];
  tni_tensor t = {.dtype = x ? x->pub.dtype : TN_DT_F32};
  if (t.dtype != TN_DT_F16 && t.dtype != TN_DT_BF16 && t.dtype != TN_DT_F64) t.dtype = TN_DT_F32;
  t.bytes = tni_elem_encode(t.dtype, v, data);
  return add_const(r, what, t, data, id);
}

static void set_input(tni_draft *d, uint32_t i, tn_id id) {
  while (d->n_in <= i) d->in[d->n_in++] = TN_NONE;
  d->in[i] = id;
}

/* INTS attribute `name` -> input i; nothing where it is absent. */
static tn_status ints_to_input(const rewrite *r, const char *name, uint32_t i) {
  const tni_raw_attr *a = tni_draft_attr(r->d, name);
  if (!a) return TN_OK;
  if (a->a.type != TN_ATTR_INTS) return wrong_type(r, name);
  if (r->d->n_in > i)
    return tni_fail(r->c->err, TN_E_INVALID, r->c->file, "'%s' is both an attribute and an input", name);
  tn_id id;
  tn_status st = add_ints(r, name, a->a.u.ints, a->a.n, &id);
  if (st) return st;
  set_input(r->d, i, id);
  tni_draft_drop_attr(r->d, name);
  return TN_OK;
}

static tn_status float_to_input(const rewrite *r, const char *name, uint32_t i) {
  const tni_raw_attr *a = tni_draft_attr(r->d, name);
  if (!a) return TN_OK;
  if (a->a.type != TN_ATTR_FLOAT) return wrong_type(r, name);
  tn_id id;
  tn_status st = add_scalar(r, name, a->a.u.f, r->d->n_in ? r->d->in[0] : TN_NONE, &id);
  if (st) return st;
  set_input(r->d, i, id);
  tni_draft_drop_attr(r->d, name);
  return TN_OK;
}

static tn_status require_attr(const rewrite *r, const char *name) {
  if (tni_draft_attr(r->d, name)) return TN_OK;
  return tni_fail(r->c->err, TN_E_INVALID, r->c->file, "attribute '%s' is required and missing", name);
}

static tn_status axes_input(const rewrite *r) { return ints_to_input(r, "axes", 1); }

static tn_status upgrade_unsqueeze(const rewrite *r) {
  tn_status st = require_attr(r, "axes");
  return st ? st : axes_input(r);
}

/* Equal parts are said by num_outputs since 18; before, the number of outputs said it. */
static tn_status upgrade_split(const rewrite *r) {
  tn_status st = r->d->version < 13 ? ints_to_input(r, "split", 1) : TN_OK;
  if (st || r->d->n_in > 1 || tni_draft_attr(r->d, "num_outputs")) return st;
  /* Room: raw has one entry more than the node has attributes. */
  r->d->raw[r->d->n_raw++] =
      (tni_raw_attr){.name = "num_outputs", .a = {.h = {sizeof(tn_attr), 1, 0}, .type = TN_ATTR_INT, .n = 1}};
  r->d->raw[r->d->n_raw - 1].a.u.i = r->d->n_out;
  return TN_OK;
}

static tn_status upgrade_slice(const rewrite *r) {
  tn_status st = require_attr(r, "starts");
  if (!st) st = require_attr(r, "ends");
  if (!st) st = ints_to_input(r, "starts", 1);
  if (!st) st = ints_to_input(r, "ends", 2);
  return st ? st : ints_to_input(r, "axes", 3);
}

static tn_status upgrade_clip(const rewrite *r) {
  tn_status st = float_to_input(r, "min", 1);
  return st ? st : float_to_input(r, "max", 2);
}

static tn_status upgrade_pad(const rewrite *r) {
  tn_status st = require_attr(r, "pads");
  if (!st) st = ints_to_input(r, "pads", 1);
  return st ? st : float_to_input(r, "value", 2);
}

static tn_status top_k(const rewrite *r) {
  const tni_raw_attr *k = tni_draft_attr(r->d, "k");
  if (!k) return require_attr(r, "k");
  if (k->a.type != TN_ATTR_INT) return wrong_type(r, "k");
  tn_id id;
  tn_status st = add_ints(r, "k", &k->a.u.i, 1, &id);
  if (st) return st;
  set_input(r->d, 1, id);
  tni_draft_drop_attr(r->d, "k");
  return TN_OK;
}

/* The axis became an input, and its default another. */
static tn_status upgrade_dft(const rewrite *r) {
  const tni_raw_attr *axis = tni_draft_attr(r->d, "axis");
  const int64_t v = axis ? axis->a.u.i : 1;
  if (axis && axis->a.type != TN_ATTR_INT) return wrong_type(r, "axis");
  tn_id id;
  tn_status st = add_ints(r, "axis", &v, 1, &id);
  if (st) return st;
  set_input(r->d, 2, id);
  tni_draft_drop_attr(r->d, "axis");
  return TN_OK;
}

/* is_test == 0 meant training; like ONNX Runtime and every later version, a graph that is run is run for inference. */
static tn_status upgrade_dropout(const rewrite *r) {
  tni_draft_drop_attr(r->d, "is_test");
  r->d->version = 7;
  return TN_OK;
}

/* Like ONNX Runtime and every later version, a graph that is run is run for inference, and its statistics are no
 * outputs. spatial 0 (a mean per element) has no later form. */
static tn_status batch_norm(const rewrite *r) {
  const tni_raw_attr *spatial = tni_draft_attr(r->d, "spatial");
  if (spatial && (spatial->a.type != TN_ATTR_INT || spatial->a.u.i != 1))
    return tni_fail(r->c->err, TN_E_UNSUPPORTED, r->c->file, "BatchNormalization '%s': attribute 'spatial' is not 1",
                    r->d->name);
  tni_draft_drop_attr(r->d, "spatial");
  tni_draft_drop_attr(r->d, "is_test");
  tni_draft_drop_attr(r->d, "consumed_inputs");
  if (r->d->n_out > 1) r->d->n_out = 1;
  return TN_OK;
}

static tn_status upgrade_scatter(const rewrite *r) {
  r->d->type = "ScatterElements";
  if (r->d->version < 11) r->d->version = 11;
  return TN_OK;
}

/* Of versions 1 to 4: the shape is an attribute. */
static tn_status upgrade_reshape(const rewrite *r) {
  tni_draft_drop_attr(r->d, "consumed_inputs");
  tn_status st = require_attr(r, "shape");
  r->d->version = 5;
  return st ? st : ints_to_input(r, "shape", 1);
}

static tn_status upgrade_gemm(const rewrite *r) {
  tni_draft_drop_attr(r->d, "broadcast");
  return TN_OK;
}

/* 0 meant that nobody reads Y, which the node's outputs say. */
static tn_status upgrade_recurrent(const rewrite *r) {
  tni_draft_drop_attr(r->d, "output_sequence");
  return TN_OK;
}

/* ONNX has it since 17. ONNX Runtime registers it for all opsets, and its optimizer writes it into models of any. */
static tn_status upgrade_layer_norm(const rewrite *r) {
  r->d->version = 17;
  return TN_OK;
}

/* --- broadcasting before opset 7: B's shape matches A's dims from `axis` on, so B needs ones at its end --- */

static tn_status new_node(const rewrite *r, const char *type, const tn_id *in, uint32_t n_in, const tni_raw_attr *raw,
                          uint32_t n_raw, const char *what, uint32_t dtype, tn_id *out) {
  *out = new_value(r, what, TN_VALUE_ACT, dtype);
  if (*out == TN_NONE) return tni_fail_memory(r->c->err, r->c->file);
  const char *name = tni_graph_value(r->g, *out)->pub.name;
  return tni_graph_add_node(r->g, name, "", type, NEW_VERSION, in, n_in, out, 1, raw, n_raw, NULL, r->c->err);
}

static tn_status unsqueeze_end(const rewrite *r, uint32_t rank, int64_t n, tn_id *b) {
  int64_t axes[TN_MAX_RANK];
  if (n < 0 || rank + n > TN_MAX_RANK)
    return tni_fail(r->c->err, TN_E_INVALID, r->c->file, "attribute 'axis' does not fit the ranks");
  if (n == 0) return TN_OK;
  for (int64_t i = 0; i < n; i++) axes[i] = rank + i;
  tn_id in[2] = {*b, TN_NONE};
  tn_status st = add_ints(r, "axes", axes, (size_t)n, &in[1]);
  uint32_t dtype = tni_graph_value(r->g, *b)->pub.dtype;
  return st ? st : new_node(r, "Unsqueeze", in, 2, NULL, 0, "unsqueezed", dtype, b);
}

/* How many ones, as a tensor: rank(A) - axis - rank(B), or -axis - rank(B) where axis counts from the end. The rank of
 * a tensor is the shape of its shape. */
static tn_status ones_needed(const rewrite *r, tn_id a, tn_id shape_b, int64_t axis, tn_id *k) {
  tn_id shape_a, pair[2] = {TN_NONE, TN_NONE};
  int64_t less = axis < 0 ? axis : -axis, fixed = -less;
  tn_status st = new_node(r, "Shape", &shape_b, 1, NULL, 0, "rank_b", TN_DT_I64, &pair[1]);
  if (!st && axis < 0) st = add_ints(r, "axis", &fixed, 1, &pair[0]);
  if (!st && axis >= 0) {
    tn_id from[2];
    st = new_node(r, "Shape", &a, 1, NULL, 0, "shape_a", TN_DT_I64, &shape_a);
    if (!st) st = new_node(r, "Shape", &shape_a, 1, NULL, 0, "rank_a", TN_DT_I64, &from[0]);
    if (!st) st = add_ints(r, "axis", &fixed, 1, &from[1]);
    if (!st) st = new_node(r, "Sub", from, 2, NULL, 0, "behind_axis", TN_DT_I64, &pair[0]);
  }
  return st ? st : new_node(r, "Sub", pair, 2, NULL, 0, "ones_needed", TN_DT_I64, k);
}

/* B reshaped to its shape and ones, where the ranks show only when shapes are inferred. */
static tn_status reshape_end(const rewrite *r, tn_id a, int64_t axis, tn_id *b) {
  tn_id shape[2], k, both[2] = {*b, TN_NONE};
  static const int64_t one = 1;
  tni_tensor *t = TNI_NEW(r->g->arena, tni_tensor);
  if (!t) return tni_fail_memory(r->c->err, r->c->file);
  *t = (tni_tensor){.dtype = TN_DT_I64, .rank = 1, .dims = {1}, .bytes = sizeof one};
  t->data = tni_arena_memdup(r->g->arena, &one, sizeof one, 64);
  if (!t->data) return tni_fail_memory(r->c->err, r->c->file);
  tni_raw_attr value = {.name = "value", .a = {.h = {sizeof(tn_attr), 1, 0}, .type = TN_ATTR_TENSOR, .n = 1}};
  value.tensor = t;
  tni_raw_attr zero = {.name = "axis", .a = {.h = {sizeof(tn_attr), 1, 0}, .type = TN_ATTR_INT, .n = 1}};
  tn_status st = new_node(r, "Shape", b, 1, NULL, 0, "shape_b", TN_DT_I64, &shape[0]);
  if (!st) st = ones_needed(r, a, shape[0], axis, &k);
  if (!st) st = new_node(r, "ConstantOfShape", &k, 1, &value, 1, "ones", TN_DT_I64, &shape[1]);
  if (!st) st = new_node(r, "Concat", shape, 2, &zero, 1, "shape", TN_DT_I64, &both[1]);
  uint32_t dtype = tni_graph_value(r->g, *b)->pub.dtype;
  return st ? st : new_node(r, "Reshape", both, 2, NULL, 0, "reshaped", dtype, b);
}

static tn_status broadcast_from(const rewrite *r, int64_t axis) {
  tni_draft *d = r->d;
  if (d->n_in < 2 || d->in[0] == TN_NONE || d->in[1] == TN_NONE) return TN_OK; /* arity is checked later */
  uint32_t ra = tni_graph_value(r->g, d->in[0])->pub.rank, rb = tni_graph_value(r->g, d->in[1])->pub.rank;
  if (axis < -TN_MAX_RANK || axis > TN_MAX_RANK)
    return tni_fail(r->c->err, TN_E_INVALID, r->c->file, "attribute 'axis' is %" PRId64, axis);
  if (rb != TNI_RANK_UNKNOWN && (ra != TNI_RANK_UNKNOWN || axis < 0))
    return unsqueeze_end(r, rb, (axis < 0 ? 0 : (int64_t)ra) - axis - rb, &d->in[1]);
  return reshape_end(r, d->in[0], axis, &d->in[1]);
}

static tn_status old_broadcast(const rewrite *r) {
  const tni_raw_attr *b = tni_draft_attr(r->d, "broadcast"), *a = tni_draft_attr(r->d, "axis");
  if (b && b->a.type != TN_ATTR_INT) return wrong_type(r, "broadcast");
  if (a && a->a.type != TN_ATTR_INT) return wrong_type(r, "axis");
  tn_status st = b && b->a.u.i && a ? broadcast_from(r, a->a.u.i) : TN_OK;
  tni_draft_drop_attr(r->d, "broadcast");
  tni_draft_drop_attr(r->d, "axis");
  return st;
}

/* A slope per channel: [C] stands for axis 1. */
static tn_status upgrade_prelu(const rewrite *r) {
  tni_draft *d = r->d;
  const tni_value *slope = d->n_in == 2 ? tni_graph_value(r->g, d->in[1]) : NULL;
  if (!slope || slope->pub.rank != 1 || (slope->tensor && slope->tensor->dims[0] == 1)) return TN_OK;
  return broadcast_from(r, 1);
}

static tn_status upgrade_image(const rewrite *r) { return tni_upgrade_image(r->c, r->g, r->d); }

/* Rewrites nodes of `type` written for opsets below `before`. */
static const struct {
  const char *type;
  int64_t before;
  tn_status (*fn)(const rewrite *r);
} rules[] = {
    {"Add", 7, old_broadcast},
    {"Sub", 7, old_broadcast},
    {"Mul", 7, old_broadcast},
    {"Div", 7, old_broadcast},
    {"Pow", 7, old_broadcast},
    {"And", 7, old_broadcast},
    {"Or", 7, old_broadcast},
    {"Xor", 7, old_broadcast},
    {"Equal", 7, old_broadcast},
    {"Greater", 7, old_broadcast},
    {"Less", 7, old_broadcast},
    {"PRelu", 7, upgrade_prelu},
    {"Gemm", 7, upgrade_gemm},
    {"Dropout", 7, upgrade_dropout},
    {"RNN", 7, upgrade_recurrent},
    {"GRU", 7, upgrade_recurrent},
    {"LSTM", 7, upgrade_recurrent},
    {"BatchNormalization", 14, batch_norm},
    {"LayerNormalization", 17, upgrade_layer_norm},
    {"Upsample", TNI_OPSET_MAX + 1, upgrade_image},
    {"Resize", 11, upgrade_image},
    {"RoiAlign", 16, upgrade_image},
    {"GridSample", 20, upgrade_image},
    {"GroupNormalization", 21, upgrade_image},
    {"Reshape", 5, upgrade_reshape},
    {"TopK", 10, top_k},
    {"Slice", 10, upgrade_slice},
    {"Clip", 11, upgrade_clip},
    {"Pad", 11, upgrade_pad},
    {"Squeeze", 13, axes_input},
    {"Unsqueeze", 13, upgrade_unsqueeze},
    {"Split", 18, upgrade_split},
    {"ReduceSum", 13, axes_input},
    {"ReduceMean", 18, axes_input},
    {"ReduceMax", 18, axes_input},
    {"ReduceMin", 18, axes_input},
    {"ReduceProd", 18, axes_input},
    {"ReduceSumSquare", 18, axes_input},
    {"ReduceL2", 18, axes_input},
    {"ReduceL1", 18, axes_input},
    {"ReduceLogSum", 18, axes_input},
    {"ReduceLogSumExp", 18, axes_input},
    {"DFT", 20, upgrade_dft},
    {"Scatter", TNI_OPSET_MAX + 1, upgrade_scatter},
};

tn_status tni_upgrade(tni_import *c, tni_graph *g, tni_draft *d) {
  rewrite r = {c, g, d};
  tni_upgrade_first(d);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (d->version < rules[i].before && strcmp(rules[i].type, d->type) == 0) return rules[i].fn(&r);
  return TN_OK;
}
