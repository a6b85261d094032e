/* SPDX-License-Identifier: Apache-2.0
 *
 * What passes use to recognise patterns and to put nodes in their place.
 *
 * A pass walks the nodes it found at its start, asks with tni_match_*, and writes with tni_build_in_place: the new node
 * makes the very value that the pattern's last node made, so names, graph outputs and readers stay as they are. Nodes
 * inside the pattern are left to dce: what somebody else still reads goes on being computed, so no pattern has to ask
 * who reads what to be right. It ends with tni_build_done. Nothing here changes ids of nodes or values.
 *
 * Matching is about what is proved: an unknown rank or dim is never equal to anything. Values may be TN_NONE.
 */
#ifndef TENON_PASSES_BUILD_BUILD_H
#define TENON_PASSES_BUILD_BUILD_H

#include "runtime/shape/shape.h"

/* The value, or NULL for TN_NONE. */
const tni_value *tni_match_value(const tni_graph *g, tn_id v);
/* Input i of n, or TN_NONE where it is absent. */
tn_id tni_match_in(const tni_node *n, uint32_t i);
/* The live node whose first output is v, if it is this operator (TN_OP_*); NULL otherwise. */
const tni_node *tni_match_node(const tni_graph *g, tn_id v, uint32_t op);
/* How many live nodes read v, a node that reads it twice counted twice, and one more if v is a graph output. */
uint32_t tni_match_uses(const tni_graph *g, tn_id v);
/* The live node that is the only reader of v, which it reads once and which is no graph output; TN_NONE otherwise. */
tn_id tni_match_only_reader(const tni_graph *g, tn_id v);
/* The operand of a binary node that is not v (v itself where both are). TN_NONE: v is no operand. */
tn_id tni_match_other(const tni_node *n, tn_id v);

/* v is a CONST float, int32, int64 or bool of one element, whatever its rank. */
bool tni_match_scalar(const tni_graph *g, tn_id v, double *c);
/* Equal up to what dtype keeps: relative 1e-6, halves 1e-3, bfloat16 8e-3. Zero only equals zero. */
bool tni_match_close(uint32_t dtype, double c, double want);
/* The dtype whose precision v's constants have: halves in a graph that was widened from them. */
uint32_t tni_match_precision(const tni_graph *g, tn_id v);
/* Numbers at most as large hide a key where a mask adds them to scores of float32. Converters to float16 write -65504,
 * and onnxconverter-common -10000, for what was -3e38. */
double tni_match_lowest(const tni_graph *g);
/* v is such a constant and close to want. */
bool tni_match_near(const tni_graph *g, tn_id v, double want);
/* n is binary with one scalar constant, on either side, of no higher rank than the other operand, *rest. */
bool tni_match_with_scalar(const tni_graph *g, const tni_node *n, double *c, tn_id *rest);
/* Same known rank and the same dims, proved. */
bool tni_match_same_shape(const tni_graph *g, tn_id a, tn_id b);
/* v has this rank, and all its dims are known. An unknown rank (callers pass another value's) is none. */
bool tni_match_rank(const tni_graph *g, tn_id v, uint32_t rank);
/* The last dim of v, or TNI_EXPR_NONE. */
tn_expr tni_match_last_dim(const tni_graph *g, tn_id v);
/* n is a Transpose of `rank` axes; perm is filled in. */
bool tni_match_perm(const tni_node *n, uint32_t rank, int64_t *perm);
/* n (a reduction) reduces over the last axis alone and keeps it. */
bool tni_match_reduces_last(const tni_graph *g, const tni_node *n);

/* A fresh CONST; data (bytes as the dtype and dims say) is copied onto the arena. TN_NONE without memory, or for dims
 * that no tensor has. */
tn_id tni_build_const(tni_graph *g, uint32_t dtype, uint32_t rank, const int64_t *dims, const void *data);
/* A fresh CONST f16, bf16, f32 or f64 vector [n] of value c. TN_NONE: without memory, or another dtype. */
tn_id tni_build_filled(tni_graph *g, uint32_t dtype, int64_t n, double c);
/* A fresh CONST with the bytes (shared) and origin of the CONST v and other dims of the same count. */
tn_id tni_build_view(tni_graph *g, tn_id v, uint32_t rank, const int64_t *dims);
/* A fresh CONST vector of elements [first, first + n) of the CONST v, of whole-byte elements; bytes are shared. */
tn_id tni_build_slice(tni_graph *g, tn_id v, int64_t first, int64_t n);
/* A fresh int64 vector with these symbolic elements: CONST where all are constant, else STEP. */
tn_id tni_build_elems(tni_graph *g, const tn_expr *elems, uint32_t n);

/* What takes a pattern's place. domain NULL: ai.onnx. */
enum { TNI_BUILD_INPUTS = 16 };
typedef struct tni_build_node {
  const char *domain, *type;
  int64_t version;
  tn_id in[TNI_BUILD_INPUTS];
  uint32_t n_in;
  tni_raw_attr attr[16];
  uint32_t n_attr;
} tni_build_node;

/* A new node that makes one fresh value of these dims (rank TNI_RANK_UNKNOWN: inference will tell). TN_NONE: without
 * memory. */
tn_id tni_build_op(tni_graph *g, const tni_build_node *b, uint32_t dtype, uint32_t rank, const tn_expr *dims,
                   tn_error *err);
/* `last` dies; the new node has its name and makes its outputs. An input that is TN_NONE is absent. */
TN_MUST_CHECK tn_status tni_build_in_place(tni_graph *g, tni_node *last, const tni_build_node *b, tn_error *err);
/* A copy of `last` that reads `to` as its input i takes its place. */
TN_MUST_CHECK tn_status tni_build_swap_input(tni_graph *g, tni_node *last, uint32_t i, tn_id to, tn_error *err);
/* The end of every pass: *n = fired; finishes the graph where anything was changed. */
TN_MUST_CHECK tn_status tni_build_done(tni_graph *g, uint32_t fired, uint32_t *n, tn_error *err);

#endif
