/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that the importer makes in the place of one that it reads: what operators of other domains are rewritten to.
 * Private to runtime/onnx.
 *
 * Shapes are not known yet, so what a rewrite needs of them is written as nodes that shape inference takes away (Shape,
 * Slice, Range). Ranks are known of inputs and constants, and stated by value_info of the rest; where a rewrite depends
 * on one that nobody states, it says what it takes it for.
 *
 * The first failure sticks: calls after it do nothing and give TN_NONE, so that a rewrite reads like the formula that
 * it is. Values may be TN_NONE (absent); nodes made with an absent first operand are a rewrite's bug.
 */
#ifndef TENON_ONNX_EMIT_H
#define TENON_ONNX_EMIT_H

#include "runtime/graph/graph.h"
#include "runtime/onnx/convert.h"

typedef struct tni_emit {
  tni_import *c;
  tni_graph *g;
  const tni_draft *d; /* the node as the model wrote it */
  tn_status st;
} tni_emit;

/* Says what is wrong with the node; status sticks. Returns TN_NONE. */
tn_id tni_em_fail(tni_emit *e, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);

/* --- the node as written --- */
/* Operand i, TN_NONE where it is absent. */
tn_id tni_em_in(const tni_emit *e, uint32_t i);
/* Somebody named output i. */
bool tni_em_wants(const tni_emit *e, uint32_t i);
/* Attributes; another type fails. */
int64_t tni_em_int(tni_emit *e, const char *name, int64_t dflt);
float tni_em_float(tni_emit *e, const char *name, float dflt);
const char *tni_em_string(tni_emit *e, const char *name, const char *dflt);
/* *v NULL: absent. */
size_t tni_em_ints(tni_emit *e, const char *name, const int64_t **v);
size_t tni_em_float_list(tni_emit *e, const char *name, const float **v);
/* Fails for an attribute that is not among names (NULL ends them) and for an output past n_out or an operand past n_in:
 * a newer version of the operator than the rewrite knows. */
bool tni_em_knows(tni_emit *e, uint32_t n_in, uint32_t n_out, const char *const *names);

/* --- values --- */
/* The rank, TNI_RANK_UNKNOWN where neither the value nor value_info tells. */
uint32_t tni_em_rank(const tni_emit *e, tn_id v);
/* A dim that is a number, else -1. value_info counts. */
int64_t tni_em_dim(const tni_emit *e, tn_id v, uint32_t axis);
/* The dtype, 0 where it is not known. */
uint32_t tni_em_dtype(const tni_emit *e, tn_id v);
/* The first dtype that is known among the node's operands [0, n) that are not integers; f32 where none is. */
uint32_t tni_em_float_dtype(const tni_emit *e, uint32_t n);

/* --- making --- */
tn_id tni_em_vector(tni_emit *e, const int64_t *v, size_t n); /* int64 [n] */
tn_id tni_em_floats(tni_emit *e, const float *v, size_t n);   /* f32 [n] */
tn_id tni_em_index(tni_emit *e, int64_t v);                   /* int64 [1] */
tn_id tni_em_scalar(tni_emit *e, uint32_t dtype, double v);   /* f16, bf16, f32, f64, i32, i64, bool */
/* A constant of n equal elements [n] of a float dtype. */
tn_id tni_em_filled(tni_emit *e, uint32_t dtype, int64_t n, double v);

/* The constant that v is, or NULL. */
const tni_tensor *tni_em_const(const tni_emit *e, tn_id v);
/* A constant that is t; its bytes are not copied. */
tn_id tni_em_view(tni_emit *e, const tni_tensor *t);
/* A constant of this dtype whose elements are q's (copied; what it points to is not): [K, N] where it is transposed,
 * else [N, K]. */
tn_id tni_em_quantized(tni_emit *e, const tni_quantized *q, uint32_t dtype);

enum { TNI_EM_IN = 10, TNI_EM_ATTR = 10, TNI_EM_OUT = 4 };
typedef struct tni_em_node {
  const char *type, *domain; /* domain NULL: ai.onnx */
  uint32_t n_in, n_attr, n_out;
  tn_id in[TNI_EM_IN];
  tni_raw_attr attr[TNI_EM_ATTR];
  tn_id out[TNI_EM_OUT]; /* filled in, n_out (0: one) fresh values */
} tni_em_node;
/* Adds the node; returns out[0]. */
tn_id tni_em_node_add(tni_emit *e, tni_em_node *n);
/* Nodes of one to three operands without attributes. */
tn_id tni_em_1(tni_emit *e, const char *type, tn_id a);
tn_id tni_em_2(tni_emit *e, const char *type, tn_id a, tn_id b);
tn_id tni_em_3(tni_emit *e, const char *type, tn_id a, tn_id b, tn_id c);
/* a + b; the other where one is absent. */
tn_id tni_em_add(tni_emit *e, tn_id a, tn_id b);
tn_id tni_em_cast(tni_emit *e, tn_id x, uint32_t dtype);
tn_id tni_em_reshape(tni_emit *e, tn_id x, const int64_t *dims, size_t n); /* 0 keeps a dim, -1 takes what is left */
tn_id tni_em_transpose(tni_emit *e, tn_id x, const int64_t *perm, size_t n);
tn_id tni_em_unsqueeze(tni_emit *e, tn_id x, const int64_t *axes, size_t n);
/* x[from : to] of one axis, each int64 [1]. */
tn_id tni_em_slice(tni_emit *e, tn_id x, int64_t axis, tn_id from, tn_id to);
/* Parts of these sizes (sizes NULL: n equal ones) of one axis. */
void tni_em_split(tni_emit *e, tn_id x, int64_t axis, const int64_t *sizes, uint32_t n, tn_id *parts);
/* Concat of n <= TNI_EM_IN. */
tn_id tni_em_concat(tni_emit *e, const tn_id *v, uint32_t n, int64_t axis);
/* Dims [from, to) of x as int64; from counts from the end where negative, to 0 is the end. */
tn_id tni_em_shape(tni_emit *e, tn_id x, int64_t from, int64_t to);
/* The node's output i is v. Nothing where nobody named it. */
void tni_em_give(tni_emit *e, uint32_t i, tn_id v);

#endif
