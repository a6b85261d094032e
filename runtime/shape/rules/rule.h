/* SPDX-License-Identifier: Apache-2.0
 *
 * What shape rules are written with: operands, dims, elements, contradictions.
 *
 * A rule sees the node's operands as tni_value. Dims and elements are expressions of in->x; TNI_EXPR_NONE stands for
 * "not known" and every helper passes it through. Arrays that a helper returns lie on the graph's arena.
 */
#ifndef TENON_SHAPE_RULES_RULE_H
#define TENON_SHAPE_RULES_RULE_H

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"

/* More elements than this are never followed symbolically. */
enum { TNI_MAX_ELEMS = 1024 };

/* What one shape rule works with. */
typedef struct tni_infer {
  tni_graph *g;
  tni_exprs *x;
  const tni_node *node;
  tn_error *err;
  bool concrete;  /* dims only: elements of the outputs are not wanted */
  tn_status (*nodes)(tni_graph *body, tn_error *err); /* runs the rules of a body's nodes, in order */
  tni_poll *poll; /* for rules that count in data: where it says so they stop with whatever they have */
} tni_infer;

/* A rule sets dtype, rank, dims (and elems where it can) of the node's outputs from its inputs. A contradiction is
 * TN_E_INVALID with the node, the two shapes and why. What is not known stays unknown: rank TNI_RANK_UNKNOWN or dims
 * TNI_EXPR_NONE is legal, never a guess. */
typedef tn_status (*tni_shape_fn)(tni_infer *in);

/* Elements of an integer or bool tensor, row-major, and the constant dims they lie in. Single ones may be NONE. */
typedef struct tni_vals {
  const tn_expr *e;
  uint32_t n, rank;
  int64_t dims[TN_MAX_RANK];
} tni_vals;

/* --- operands */
tni_value *tni_rule_in(const tni_infer *in, uint32_t i);  /* NULL: absent */
tni_value *tni_rule_out(const tni_infer *in, uint32_t i); /* NULL: absent */
/* The operand, if it is there and its rank is known; otherwise NULL. */
const tni_value *tni_rule_ranked(const tni_infer *in, uint32_t i);
/* Elements of operand i: false if it is absent, not an integer, larger than TNI_MAX_ELEMS or unknown. */
bool tni_rule_vals(const tni_infer *in, uint32_t i, tni_vals *out);
/* The one element of a scalar or one-element operand, or NONE. */
tn_expr tni_rule_scalar(const tni_infer *in, uint32_t i);
/* Constant elements only, at most cap of them; false otherwise. */
bool tni_rule_ints(const tni_infer *in, uint32_t i, int64_t *v, uint32_t cap, uint32_t *n);
/* The one constant element of any numeric dtype as double. */
bool tni_rule_double(const tni_infer *in, uint32_t i, double *v);
/* How many elements a rank 1 operand has; false where that is not a known constant. */
bool tni_rule_length(const tni_infer *in, uint32_t i, uint32_t *n);

/* a is the length of an input that has a name of its own ("total_sequence_length"), b the sum of others' ("past +
 * sequence"): the caller found that they must be one. From now on a is defined as b, and a run whose inputs say
 * otherwise is told so. False: they are no such two, or the graph is a body, where one name may mean different sizes.
 */
bool tni_rule_names_sum(const tni_infer *in, tn_expr a, tn_expr b);
/* The same of a name that can only stand for a constant ("kv_cache_dim" for a head's size). */
void tni_rule_names_const(const tni_infer *in, tn_expr a, tn_expr b);

/* a and b, which the caller found to be one, are sums that differ in one symbol each, both of them lengths of inputs:
 * pasts that an exporter gave names of their own. From now on these are one, and a run whose inputs say otherwise is
 * told so. False: they are no such two. */
bool tni_rule_names_equal(const tni_infer *in, tn_expr a, tn_expr b);

/* --- results. Absent outputs are accepted and ignored. */
TN_MUST_CHECK tn_status tni_rule_set(tni_infer *in, uint32_t o, uint32_t dtype, uint32_t rank, const tn_expr *dims);
/* Rank unknown. */
TN_MUST_CHECK tn_status tni_rule_set_unknown(tni_infer *in, uint32_t o, uint32_t dtype);
/* A sequence or optional; type lies on the graph's arena. */
TN_MUST_CHECK tn_status tni_rule_set_type(tni_infer *in, uint32_t o, const tni_type *type);
/* dtype and dims, or type, of operand i. */
TN_MUST_CHECK tn_status tni_rule_set_like(tni_infer *in, uint32_t o, uint32_t i);
/* True if elements of output o are worth computing: an integer or bool tensor with n <= TNI_MAX_ELEMS known elements.
 * dims may be NULL. Call after tni_rule_set. */
bool tni_rule_wants_vals(const tni_infer *in, uint32_t o, uint32_t *n, int64_t *dims);
/* A fresh array for n elements, all NONE; NULL without memory. */
tn_expr *tni_rule_elems(const tni_infer *in, uint32_t n);
/* Hands elements over. All NONE, or a count that is not the tensor's: nothing is set. */
void tni_rule_set_vals(tni_infer *in, uint32_t o, const tn_expr *e, uint32_t n);
/* Elements picked from v: e[i] = v->e[src[i]]. */
void tni_rule_pick_vals(tni_infer *in, uint32_t o, const tni_vals *v, const uint32_t *src, uint32_t n);
/* The same elements in the same order under the output's dims (Reshape and its like). */
void tni_rule_keep_vals(tni_infer *in, uint32_t o, uint32_t i);

/* --- dims */
tn_expr tni_rule_const(const tni_infer *in, int64_t v);
bool tni_rule_is(const tni_infer *in, tn_expr e, int64_t v);
/* Product of n dims; 1 for none, 0 as soon as one is 0. */
tn_expr tni_rule_product(const tni_infer *in, const tn_expr *dims, uint32_t n);
/* A symbol for the size of axis k of output o, which only the data decide: always the same one, first named "VALUE.k"
 * (value names are unique in a graph, node names are not). NONE in concrete mode. */
tn_expr tni_rule_data_symbol(const tni_infer *in, uint32_t o, uint32_t k);
/* Axis in [-rank, rank) made positive; false where it is not. */
bool tni_rule_axis(int64_t axis, uint32_t rank, uint32_t *out);

/* Two dims that must be equal: the one that says more. *ok false: they never are. */
tn_expr tni_rule_same_dim(const tni_infer *in, tn_expr a, tn_expr b, bool *ok);
/* Broadcast of two dims, valid runs only: equal, or one of them is 1. Exact where the dims are known:
 * equal ids -> that; constant 1 -> the other; a dim that is never 1 -> that one; otherwise min(a * b, max(a, b)),
 * which is the right size in each of the three valid cases (also for 0), and max(a, b) when neither can be 0. */
tn_expr tni_rule_broadcast_dim(const tni_infer *in, tn_expr a, tn_expr b, bool *ok);
/* dims[rank] (in and out) broadcast with operand i. TN_E_INVALID names both. *rank may be TNI_RANK_UNKNOWN. */
TN_MUST_CHECK tn_status tni_rule_broadcast_with(tni_infer *in, uint32_t i, uint32_t *rank, tn_expr *dims);

/* --- errors */
/* "OP "node": shapes of all operands: why", TN_E_INVALID. */
TN_MUST_CHECK tn_status tni_rule_fail(tni_infer *in, const char *fmt, ...) TN_PRINTF(2, 3);

/* --- arithmetic on elements (values.c): NONE where the result is not decided */
tn_expr tni_val_unary(tni_exprs *x, uint32_t op, uint32_t dtype, tn_expr a);
tn_expr tni_val_binary(tni_exprs *x, const tni_node *node, uint32_t dtype, tn_expr a, tn_expr b);
tn_expr tni_val_compare(tni_exprs *x, uint32_t op, tn_expr a, tn_expr b);
/* a, if it is representable in dtype (symbolic ones of 32 and 64 bits count as representable; writing checks). */
tn_expr tni_val_fit(tni_exprs *x, uint32_t dtype, tn_expr a);
bool tni_dtype_is_index(uint32_t dtype); /* integers of 8 bits and more, and bool */
/* Flat index into v of the element that broadcasts to position `flat` of odims. */
uint32_t tni_val_index(const tni_vals *v, uint32_t orank, const int64_t *odims, uint32_t flat);

/* The tensor that a Constant node holds: from value, value_int(s), value_float(s). false: none of these. Memory for
 * scalars comes from the arena; a TENSOR attribute is shared. */
bool tni_constant_tensor(tni_arena *arena, const tni_node *node, tni_tensor *out);
/* Known constant elements of v as a tensor on the arena; false where some are not constant or memory ran out. */
bool tni_elems_tensor(const tni_graph *g, const tni_value *v, tni_tensor *out);

/* Whether element i is zero; -0.0 is, NaN is not. False for sub-byte types and strings. */
bool tni_elem_is_zero(const tni_tensor *t, int64_t i);

#endif
