/* SPDX-License-Identifier: Apache-2.0
 *
 * reshape: movement that another movement, or its reader, makes superfluous.
 *  - Reshape, Squeeze, Unsqueeze, Flatten after one another, the last one's dims known before the step: one Reshape.
 *  - Transpose of Transpose: one with the composed perm.
 *  - Cast of Cast, the first one lossless: one Cast, where that is proved to give the same value.
 *  - Expand, or Tile of axes of one element, whose reader, an element-wise operator, broadcasts as far without it.
 *
 * Keeps: the value, name, dtype and shape of the last node, bit for bit. Values with known elements are left to lift.
 */
#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"
#include "runtime/passes/forms/unit.h"

typedef struct pass {
  tni_graph *g;
  uint64_t given; /* symbols that are known before the step */
  uint32_t fired;
  tn_error *err;
} pass;

/* The live node that makes v's first output, or NULL. */
static const tni_node *reshape_maker(const tni_graph *g, tn_id v) {
  const tni_value *val = tni_match_value(g, v);
  if (!val || val->pub.producer >= g->n_nodes || val->out_index) return NULL;
  const tni_node *n = g->nodes[val->pub.producer];
  return n->dead || !n->op ? NULL : n;
}

/* --- reshapes --- */

static bool keeps_order(const tni_node *n) {
  const uint32_t op = n->pub.op;
  return op == TN_OP_RESHAPE || op == TN_OP_SQUEEZE || op == TN_OP_UNSQUEEZE || op == TN_OP_FLATTEN;
}

static tn_status merge_reshapes(pass *p, tni_node *n) {
  const tni_node *before = reshape_maker(p->g, n->pub.in[0]);
  const tni_value *y = p->g->values[n->pub.out[0]];
  tni_build_node b = {.type = "Reshape", .version = 14, .n_in = 2, .n_attr = 1};
  if (!before || !keeps_order(before) || y->elems || y->pub.rank == TNI_RANK_UNKNOWN) return TN_OK;
  if (!tni_symbols_given(p->g, p->given, y->pub.dims, y->pub.rank)) return TN_OK;
  b.in[0] = before->pub.in[0];
  b.in[1] = tni_build_elems(p->g, y->pub.dims, y->pub.rank);
  if (b.in[1] == TN_NONE) return tni_fail_memory(p->err, n->pub.name);
  b.attr[0] = tni_raw_int("allowzero", 1); /* a dim of 0 is one, no copy of another input's */
  p->fired++;
  return tni_build_in_place(p->g, n, &b, p->err);
}

/* --- transposes --- */

static tn_status merge_transposes(pass *p, tni_node *n) {
  const tni_node *before = tni_match_node(p->g, n->pub.in[0], TN_OP_TRANSPOSE);
  const tni_value *y = p->g->values[n->pub.out[0]];
  tni_build_node b = {.type = "Transpose", .version = 13, .n_in = 1, .n_attr = 1};
  int64_t first[TN_MAX_RANK], then[TN_MAX_RANK], both[TN_MAX_RANK];
  const uint32_t rank = y->pub.rank;
  if (!before || y->elems || !tni_match_perm(before, rank, first) || !tni_match_perm(n, rank, then)) return TN_OK;
  for (uint32_t d = 0; d < rank; d++) both[d] = first[then[d]];
  b.in[0] = before->pub.in[0];
  b.attr[0] = tni_raw_ints("perm", both, rank);
  p->fired++;
  return tni_build_in_place(p->g, n, &b, p->err);
}

/* --- casts --- */

/* Digits of the magnitude; 0: not a plain number. */
static uint32_t dtype_digits(uint32_t t, bool *is_float, bool *is_signed) {
  *is_float = t == TN_DT_F16 || t == TN_DT_BF16 || t == TN_DT_F32 || t == TN_DT_F64;
  *is_signed = *is_float || t == TN_DT_I8 || t == TN_DT_I16 || t == TN_DT_I32 || t == TN_DT_I64;
  switch (t) {
    case TN_DT_F16:
      return 11;
    case TN_DT_BF16:
      return 8;
    case TN_DT_F32:
      return 24;
    case TN_DT_F64:
      return 53;
    case TN_DT_BOOL:
      return 1;
    case TN_DT_I8:
    case TN_DT_I16:
    case TN_DT_I32:
    case TN_DT_I64:
      return tni_dtype_bits(t) - 1;
    case TN_DT_U8:
    case TN_DT_U16:
    case TN_DT_U32:
    case TN_DT_U64:
      return tni_dtype_bits(t);
    default:
      return 0;
  }
}

/* Every value of a is one of b. Halves and bfloat16 do not hold each other. */
static bool is_lossless_cast(uint32_t a, uint32_t b) {
  bool fa, fb, sa, sb;
  const uint32_t da = dtype_digits(a, &fa, &sa), db = dtype_digits(b, &fb, &sb);
  if (!da || !db) return false;
  if (a == b) return true;
  if (fa && (!fb || b == TN_DT_F16 || b == TN_DT_BF16)) return false;
  return da <= db && (sb || !sa);
}

static bool is_whole(uint32_t t) {
  bool f, s;
  return dtype_digits(t, &f, &s) && !f;
}

/* a -> b -> c is a -> c: back to a, ever wider, or through whole numbers only before the last rounding. */
static bool casts_merge(uint32_t a, uint32_t b, uint32_t c) {
  if (!is_lossless_cast(a, b)) return false;
  return c == a || is_lossless_cast(b, c) || (is_whole(a) && is_whole(b) && is_lossless_cast(c, TN_DT_F64));
}

static tn_status merge_casts(pass *p, tni_node *n) {
  const tni_node *before = tni_match_node(p->g, n->pub.in[0], TN_OP_CAST);
  if (!before || p->g->values[n->pub.out[0]]->elems) return TN_OK;
  const tn_id x = before->pub.in[0];
  if (!casts_merge(p->g->values[x]->pub.dtype, p->g->values[n->pub.in[0]]->pub.dtype,
                   p->g->values[n->pub.out[0]]->pub.dtype))
    return TN_OK;
  p->fired++;
  return tni_build_swap_input(p->g, n, 0, x, p->err);
}

/* --- expands --- */

/* Operand v spans axis d, counted from the end, of an output whose dim is e. */
static bool spans_dim(const tni_graph *g, tn_id v, uint32_t d, tn_expr e) {
  const tni_value *val = tni_match_value(g, v);
  if (!val || val->pub.rank == TNI_RANK_UNKNOWN || d >= val->pub.rank) return false;
  return val->pub.dims[val->pub.rank - 1 - d] == e;
}

/* Each axis of the output is spanned by an operand, input i counted as x. */
static bool broadcasts_without(const tni_graph *g, const tni_node *n, uint32_t i, tn_id x) {
  const tni_value *y = g->values[n->pub.out[0]];
  if (y->elems || y->pub.rank == TNI_RANK_UNKNOWN) return false;
  for (uint32_t d = 0; d < y->pub.rank; d++) {
    const tn_expr e = y->pub.dims[y->pub.rank - 1 - d];
    bool spanned = false;
    for (uint32_t k = 0; k < n->pub.n_in && !spanned; k++) spanned = spans_dim(g, k == i ? x : n->pub.in[k], d, e);
    if (e == TNI_EXPR_NONE || !spanned) return false;
  }
  return true;
}

static tn_status drop_expands(pass *p, tni_node *n) {
  for (uint32_t i = 0; i < n->pub.n_in && n->pub.n_in <= 8; i++) {
    const tni_node *expand = tni_unit_widens(p->g, n->pub.in[i]);
    if (!expand || !broadcasts_without(p->g, n, i, expand->pub.in[0])) continue;
    p->fired++;
    return tni_build_swap_input(p->g, n, i, expand->pub.in[0], p->err); /* another one: next round */
  }
  return TN_OK;
}

static bool may_broadcast(const tni_node *n) {
  return n->pub.op >= TN_OP_ADD && n->pub.op <= TN_OP_SUM && n->pub.n_in > 1;
}

static tn_status reshape_one(pass *p, tni_node *n) {
  if (n->pub.n_out == 0 || n->pub.out[0] == TN_NONE) return TN_OK;
  if (n->pub.op == TN_OP_TRANSPOSE) return merge_transposes(p, n);
  if (n->pub.op == TN_OP_CAST) return merge_casts(p, n);
  if (keeps_order(n)) return merge_reshapes(p, n);
  return may_broadcast(n) ? drop_expands(p, n) : TN_OK;
}

tn_status tni_pass_reshape(tni_graph *g, uint32_t *n, tn_error *err) {
  pass p = {.g = g, .given = tni_given_symbols(g), .err = err};
  const uint32_t n_nodes = g->n_nodes;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *node = g->nodes[i];
    if (node->dead || !node->op) continue;
    tn_status st = reshape_one(&p, node);
    if (st != TN_OK) return st;
  }
  return tni_build_done(g, p.fired, n, err);
}
