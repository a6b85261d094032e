/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/emit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/base.h"

enum { MAX_WALK = 6 }; /* nodes looked back for a rank: two operands each */

tn_id tni_em_fail(tni_emit *e, tn_status st, const char *fmt, ...) {
  if (e->st) return TN_NONE;
  va_list ap;
  va_start(ap, fmt);
  e->st = tni_vfail(e->c->err, st, e->c->file, fmt, ap);
  va_end(ap);
  return TN_NONE;
}

static tn_id no_memory(tni_emit *e) {
  if (!e->st) e->st = tni_fail_memory(e->c->err, e->c->file);
  return TN_NONE;
}

/* --- the node as written --- */

tn_id tni_em_in(const tni_emit *e, uint32_t i) { return i < e->d->n_in ? e->d->in[i] : TN_NONE; }

bool tni_em_wants(const tni_emit *e, uint32_t i) { return i < e->d->n_out && e->d->out[i] != TN_NONE; }

static const tn_attr *find_emit_attr(tni_emit *e, const char *name, uint32_t type) {
  for (uint32_t i = 0; i < e->d->n_raw; i++) {
    if (strcmp(e->d->raw[i].name, name) != 0) continue;
    if (e->d->raw[i].a.type == type) return &e->d->raw[i].a;
    tni_em_fail(e, TN_E_INVALID, "attribute '%s' has the wrong type", name);
  }
  return NULL;
}

int64_t tni_em_int(tni_emit *e, const char *name, int64_t dflt) {
  const tn_attr *a = find_emit_attr(e, name, TN_ATTR_INT);
  return a ? a->u.i : dflt;
}

float tni_em_float(tni_emit *e, const char *name, float dflt) {
  const tn_attr *a = find_emit_attr(e, name, TN_ATTR_FLOAT);
  return a ? (float)a->u.f : dflt;
}

/* The bytes of the message are not terminated. */
const char *tni_em_string(tni_emit *e, const char *name, const char *dflt) {
  const tn_attr *a = find_emit_attr(e, name, TN_ATTR_STRING);
  if (!a) return dflt;
  const char *s = tni_onnx_copy_bytes(e->c, e->c->scratch, a->u.s, (size_t)a->n);
  if (!s) e->st = e->c->err ? e->c->err->code : TN_E_NO_MEMORY;
  return s ? s : dflt;
}

size_t tni_em_ints(tni_emit *e, const char *name, const int64_t **v) {
  const tn_attr *a = find_emit_attr(e, name, TN_ATTR_INTS);
  *v = a ? a->u.ints : NULL;
  return a ? (size_t)a->n : 0;
}

size_t tni_em_float_list(tni_emit *e, const char *name, const float **v) {
  const tn_attr *a = find_emit_attr(e, name, TN_ATTR_FLOATS);
  *v = a ? a->u.floats : NULL;
  return a ? (size_t)a->n : 0;
}

static bool is_listed_name(const char *name, const char *const *names) {
  while (*names && strcmp(*names, name) != 0) names++;
  return *names;
}

bool tni_em_knows(tni_emit *e, uint32_t n_in, uint32_t n_out, const char *const *names) {
  for (uint32_t i = 0; i < e->d->n_raw; i++)
    if (!is_listed_name(e->d->raw[i].name, names))
      tni_em_fail(e, TN_E_UNSUPPORTED, "attribute '%s' is not supported", e->d->raw[i].name);
  for (uint32_t i = n_in; i < e->d->n_in; i++)
    if (e->d->in[i] != TN_NONE) tni_em_fail(e, TN_E_UNSUPPORTED, "operand %u is not supported", i);
  for (uint32_t i = n_out; i < e->d->n_out; i++)
    if (e->d->out[i] != TN_NONE) tni_em_fail(e, TN_E_UNSUPPORTED, "result %u is not supported", i);
  return e->st == TN_OK;
}

/* --- values --- */

static uint32_t stated_rank(const tni_value *x) {
  return x->pub.rank != TNI_RANK_UNKNOWN ? x->pub.rank : x->declared ? x->hint_rank : TNI_RANK_UNKNOWN;
}

/* Elements of a vector of dims or axes, where it is one whose length is stated. */
static uint32_t length_of(const tni_emit *e, tn_id v) {
  const int64_t n = tni_em_dim(e, v, 0);
  return n >= 0 && n <= TN_MAX_RANK && tni_em_rank(e, v) == 1 ? (uint32_t)n : TNI_RANK_UNKNOWN;
}

static uint32_t rank_of(const tni_emit *e, tn_id v, uint32_t depth);

static uint32_t largest_rank(const tni_emit *e, const tni_node *n, uint32_t depth) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const uint32_t r = rank_of(e, n->pub.in[i], depth);
    if (r == TNI_RANK_UNKNOWN) return r;
    if (r > most) most = r;
  }
  return most;
}

/* What the nodes before tell: exporters state ranks of inputs and constants only. */
static uint32_t rank_made(const tni_emit *e, const tni_node *n, uint32_t depth) {
  switch (n->op ? n->op->id : TN_OP_UNKNOWN) {
    case TN_OP_TRANSPOSE: {
      const tn_attr *perm = tni_attr(&n->pub, "perm");
      return perm && perm->u.ints ? (uint32_t)perm->n : rank_of(e, n->pub.in[0], depth);
    }
    case TN_OP_RESHAPE:
      return n->pub.n_in > 1 ? length_of(e, n->pub.in[1]) : TNI_RANK_UNKNOWN;
    case TN_OP_UNSQUEEZE: {
      const uint32_t r = rank_of(e, n->pub.in[0], depth), more = n->pub.n_in > 1 ? length_of(e, n->pub.in[1]) : 0;
      return r == TNI_RANK_UNKNOWN || more == TNI_RANK_UNKNOWN ? TNI_RANK_UNKNOWN : r + more;
    }
    case TN_OP_GATHER: {
      const uint32_t r = rank_of(e, n->pub.in[0], depth), i = rank_of(e, n->pub.in[1], depth);
      return r == TNI_RANK_UNKNOWN || i == TNI_RANK_UNKNOWN || r + i == 0 ? TNI_RANK_UNKNOWN : r + i - 1;
    }
    case TN_OP_REDUCE_SUM: {
      const uint32_t r = rank_of(e, n->pub.in[0], depth), less = n->pub.n_in > 1 ? length_of(e, n->pub.in[1]) : r;
      if (tni_attr_i(&n->pub, "keepdims", 1)) return r;
      return r == TNI_RANK_UNKNOWN || less == TNI_RANK_UNKNOWN || less > r ? TNI_RANK_UNKNOWN : r - less;
    }
    case TN_OP_EQUAL:
    case TN_OP_ADD:
    case TN_OP_SUB:
    case TN_OP_MUL:
    case TN_OP_DIV:
    case TN_OP_MATMUL:
      return largest_rank(e, n, depth);
    case TN_OP_IDENTITY:
    case TN_OP_CAST:
    case TN_OP_SPLIT:
    case TN_OP_SLICE:
    case TN_OP_CONCAT:
    case TN_OP_SOFTMAX:
    case TN_OP_GELU:
    case TN_OP_LAYER_NORMALIZATION:
    case TN_OP_RMS_NORMALIZATION:
    case TN_OP_ATTENTION:
    case TN_OP_ROTARY_EMBEDDING:
      return n->pub.n_in ? rank_of(e, n->pub.in[0], depth) : TNI_RANK_UNKNOWN;
    default:
      return TNI_RANK_UNKNOWN;
  }
}

static uint32_t rank_of(const tni_emit *e, tn_id v, uint32_t depth) {
  const tni_value *x = v == TN_NONE ? NULL : tni_graph_value(e->g, v);
  if (!x) return TNI_RANK_UNKNOWN;
  const uint32_t r = stated_rank(x);
  if (r != TNI_RANK_UNKNOWN || x->pub.producer == TN_NONE || depth == 0) return r;
  return rank_made(e, tni_graph_node(e->g, x->pub.producer), depth - 1);
}

uint32_t tni_em_rank(const tni_emit *e, tn_id v) { return rank_of(e, v, MAX_WALK); }

int64_t tni_em_dim(const tni_emit *e, tn_id v, uint32_t axis) {
  const tni_value *x = v == TN_NONE ? NULL : tni_graph_value(e->g, v);
  int64_t n;
  const uint32_t rank = x ? stated_rank(x) : TNI_RANK_UNKNOWN;
  if (rank == TNI_RANK_UNKNOWN || axis >= rank) return -1;
  const tn_expr d = x->pub.rank != TNI_RANK_UNKNOWN ? x->pub.dims[axis] : x->hint_dims[axis];
  return d != TNI_EXPR_NONE && tni_ex_is_const(e->g->exprs, d, &n) ? n : -1;
}

uint32_t tni_em_dtype(const tni_emit *e, tn_id v) {
  const tni_value *x = v == TN_NONE ? NULL : tni_graph_value(e->g, v);
  return x ? x->pub.dtype : 0;
}

uint32_t tni_em_float_dtype(const tni_emit *e, uint32_t n) {
  for (uint32_t i = 0; i < n && i < e->d->n_in; i++) {
    const uint32_t t = tni_em_dtype(e, e->d->in[i]);
    if (t == TN_DT_F32 || t == TN_DT_F16 || t == TN_DT_BF16 || t == TN_DT_F64) return t;
  }
  return TN_DT_F32;
}

/* --- making --- */

/* "<node>/<what>", or a fresh name where that is taken. */
static tn_id fresh_value(tni_emit *e, const char *what, uint32_t kind, uint32_t dtype) {
  const size_t n = strlen(e->d->name) + strlen(what) + 2;
  char *name = tni_charge(e->c, n) == TN_OK ? tni_arena_alloc(e->c->scratch, n, 1) : NULL;
  if (!name) return no_memory(e);
  snprintf(name, n, "%s/%s", e->d->name, what);
  const tn_id v = tni_graph_add_value(e->g, tni_graph_find(e->g, name) == TN_NONE ? name : "", kind, dtype);
  return v == TN_NONE ? no_memory(e) : v;
}

static tn_id emit_constant(tni_emit *e, tni_tensor t, const void *data) {
  if (e->st) return TN_NONE;
  const tn_id v = fresh_value(e, "constant", TN_VALUE_CONST, t.dtype);
  if (v == TN_NONE) return v;
  t.data = tni_charge(e->c, t.bytes + 64) == TN_OK ? tni_arena_memdup(e->g->arena, data, t.bytes, 64) : NULL;
  if (!t.data) return no_memory(e);
  return tni_value_set_tensor(e->g, v, &t, NULL) == TN_OK ? v : no_memory(e);
}

tn_id tni_em_vector(tni_emit *e, const int64_t *v, size_t n) {
  return emit_constant(e, (tni_tensor){.dtype = TN_DT_I64, .rank = 1, .dims = {(int64_t)n}, .bytes = n * sizeof *v}, v);
}

tn_id tni_em_floats(tni_emit *e, const float *v, size_t n) {
  return emit_constant(e, (tni_tensor){.dtype = TN_DT_F32, .rank = 1, .dims = {(int64_t)n}, .bytes = n * sizeof *v}, v);
}

tn_id tni_em_index(tni_emit *e, int64_t v) { return tni_em_vector(e, &v, 1); }

tn_id tni_em_scalar(tni_emit *e, uint32_t dtype, double v) {
  unsigned char data[8];
  const uint32_t n = tni_elem_encode(dtype, v, data);
  if (!n) return tni_em_fail(e, TN_E_UNSUPPORTED, "a constant of %s", tni_dtype_name(dtype));
  return emit_constant(e, (tni_tensor){.dtype = dtype, .bytes = n}, data);
}

tn_id tni_em_filled(tni_emit *e, uint32_t dtype, int64_t n, double v) {
  unsigned char one[8];
  const uint32_t size = tni_elem_encode(dtype, v, one);
  size_t bytes;
  if (!size || n < 0 || !tni_mul_size((size_t)n, size, &bytes))
    return tni_em_fail(e, TN_E_UNSUPPORTED, "a constant of %" PRId64 " x %s", n, tni_dtype_name(dtype));
  unsigned char *all = tni_charge(e->c, bytes) == TN_OK ? tni_arena_alloc(e->c->scratch, bytes + 1, 1) : NULL;
  if (!all) return no_memory(e);
  for (int64_t i = 0; i < n; i++) memcpy(all + (size_t)i * size, one, size);
  return emit_constant(e, (tni_tensor){.dtype = dtype, .rank = 1, .dims = {n}, .bytes = bytes}, all);
}

const tni_tensor *tni_em_const(const tni_emit *e, tn_id v) {
  const tni_value *x = v == TN_NONE ? NULL : tni_graph_value(e->g, v);
  return x && x->pub.kind == TN_VALUE_CONST ? x->tensor : NULL;
}

tn_id tni_em_view(tni_emit *e, const tni_tensor *t) {
  if (e->st) return TN_NONE;
  const tn_id v = fresh_value(e, "part", TN_VALUE_CONST, t->dtype);
  if (v == TN_NONE) return v;
  return tni_value_set_tensor(e->g, v, t, NULL) == TN_OK ? v : no_memory(e);
}

tn_id tni_em_quantized(tni_emit *e, const tni_quantized *q, uint32_t dtype) {
  int64_t count;
  tni_tensor t = {
      .dtype = dtype, .rank = 2, .dims = {q->transposed ? q->K : q->N, q->transposed ? q->N : q->K}};
  if (e->st) return TN_NONE;
  if (tni_dims_count(t.dims, 2, &count) != TN_OK || tni_dtype_bytes(t.dtype, count, &t.bytes) != TN_OK)
    return tni_em_fail(e, TN_E_LIMIT, "its weights are too large");
  tni_quantized looked = *q;
  tni_quantized_look(&looked);
  t.quantized = tni_arena_memdup(e->g->arena, &looked, sizeof looked, _Alignof(tni_quantized));
  const tn_id v = t.quantized ? fresh_value(e, "weight", TN_VALUE_CONST, t.dtype) : no_memory(e);
  if (v == TN_NONE) return v;
  return tni_value_set_tensor(e->g, v, &t, NULL) == TN_OK ? v : no_memory(e);
}

tn_id tni_em_node_add(tni_emit *e, tni_em_node *n) {
  if (n->n_out == 0) n->n_out = 1;
  for (uint32_t i = 0; i < n->n_out; i++) n->out[i] = TN_NONE;
  if (e->st) return TN_NONE;
  const size_t room = strlen(e->d->name) + strlen(n->type) + 2;
  char *name = tni_charge(e->c, room) == TN_OK ? tni_arena_alloc(e->c->scratch, room, 1) : NULL;
  if (!name) return no_memory(e);
  snprintf(name, room, "%s/%s", e->d->name, n->type);
  for (uint32_t i = 0; i < n->n_out && !e->st; i++) n->out[i] = fresh_value(e, n->type, TN_VALUE_ACT, TN_DT_UNDEFINED);
  uint32_t n_in = n->n_in;
  while (n_in && n->in[n_in - 1] == TN_NONE) n_in--;
  if (!e->st)
    e->st = tni_graph_add_node(e->g, name, n->domain ? n->domain : "", n->type, n->domain ? 1 : TNI_OPSET_MAX, n->in,
                               n_in, n->out, n->n_out, n->attr, n->n_attr, NULL, e->c->err);
  return e->st ? TN_NONE : n->out[0];
}

tn_id tni_em_1(tni_emit *e, const char *type, tn_id a) {
  return tni_em_node_add(e, &(tni_em_node){.type = type, .n_in = 1, .in = {a}});
}

tn_id tni_em_2(tni_emit *e, const char *type, tn_id a, tn_id b) {
  return tni_em_node_add(e, &(tni_em_node){.type = type, .n_in = 2, .in = {a, b}});
}

tn_id tni_em_3(tni_emit *e, const char *type, tn_id a, tn_id b, tn_id c) {
  return tni_em_node_add(e, &(tni_em_node){.type = type, .n_in = 3, .in = {a, b, c}});
}

tn_id tni_em_add(tni_emit *e, tn_id a, tn_id b) {
  return a == TN_NONE ? b : b == TN_NONE ? a : tni_em_2(e, "Add", a, b);
}

tn_id tni_em_cast(tni_emit *e, tn_id x, uint32_t dtype) {
  return tni_em_node_add(
      e, &(tni_em_node){.type = "Cast", .n_in = 1, .in = {x}, .n_attr = 1, .attr = {tni_raw_int("to", dtype)}});
}

tn_id tni_em_reshape(tni_emit *e, tn_id x, const int64_t *dims, size_t n) {
  return tni_em_2(e, "Reshape", x, tni_em_vector(e, dims, n));
}

tn_id tni_em_transpose(tni_emit *e, tn_id x, const int64_t *perm, size_t n) {
  return tni_em_node_add(
      e,
      &(tni_em_node){.type = "Transpose", .n_in = 1, .in = {x}, .n_attr = 1, .attr = {tni_raw_ints("perm", perm, n)}});
}

tn_id tni_em_unsqueeze(tni_emit *e, tn_id x, const int64_t *axes, size_t n) {
  return tni_em_2(e, "Unsqueeze", x, tni_em_vector(e, axes, n));
}

tn_id tni_em_slice(tni_emit *e, tn_id x, int64_t axis, tn_id from, tn_id to) {
  return tni_em_node_add(e, &(tni_em_node){.type = "Slice", .n_in = 4, .in = {x, from, to, tni_em_index(e, axis)}});
}

void tni_em_split(tni_emit *e, tn_id x, int64_t axis, const int64_t *sizes, uint32_t n, tn_id *parts) {
  tni_em_node s = {.type = "Split", .n_in = 2, .in = {x, TN_NONE}, .n_out = n};
  s.attr[s.n_attr++] = tni_raw_int("axis", axis);
  if (sizes)
    s.in[1] = tni_em_vector(e, sizes, n);
  else
    s.attr[s.n_attr++] = tni_raw_int("num_outputs", n);
  tni_em_node_add(e, &s);
  for (uint32_t i = 0; i < n; i++) parts[i] = s.out[i];
}

tn_id tni_em_concat(tni_emit *e, const tn_id *v, uint32_t n, int64_t axis) {
  tni_em_node c = {.type = "Concat", .n_in = n, .n_attr = 1, .attr = {tni_raw_int("axis", axis)}};
  for (uint32_t i = 0; i < n; i++) c.in[i] = v[i];
  return tni_em_node_add(e, &c);
}

tn_id tni_em_shape(tni_emit *e, tn_id x, int64_t from, int64_t to) {
  tni_em_node s = {.type = "Shape", .n_in = 1, .in = {x}, .n_attr = 1, .attr = {tni_raw_int("start", from)}};
  if (to) s.attr[s.n_attr++] = tni_raw_int("end", to);
  return tni_em_node_add(e, &s);
}

void tni_em_give(tni_emit *e, uint32_t i, tn_id v) {
  if (e->st || !tni_em_wants(e, i)) return;
  e->st = tni_graph_add_node(e->g, e->d->name, "", "Identity", TNI_OPSET_MAX, &v, 1, &e->d->out[i], 1, NULL, 0, NULL,
                             e->c->err);
}
