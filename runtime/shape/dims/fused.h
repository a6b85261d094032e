/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the attributes of tenon.FusedMatMul and tenon.Elementwise (ops.h has their meaning), for shape rules, kernels
 * and passes. What ops.h promises to plugins of attributes and counts is checked here, what it promises of shapes in
 * rules_fused.c.
 */
#ifndef TENON_SHAPE_DIMS_FUSED_H
#define TENON_SHAPE_DIMS_FUSED_H

#include "runtime/graph/graph.h"

/* One instruction: registers a and b; b UINT32_MAX for an operator of one operand. */
typedef struct tni_instr {
  uint32_t op, a, b;
  float value; /* SWISH: alpha; GELU: 1 tanh, 0 erf */
} tni_instr;

/* Registers 0 .. n_in-1 are inputs, n_in + i is what instruction i makes. */
typedef struct tni_chain {
  uint32_t n_in, n_ops, n_results;
  tni_instr ops[TN_CHAIN_MAX_OPS];
  uint32_t results[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS];
} tni_chain;

/* Product p is x times columns [first, first + count) of input 1 + weight. */
typedef struct tni_part {
  uint32_t weight;
  int64_t first, count;
} tni_part;

typedef struct tni_fused {
  uint32_t n_weights, n_parts;
  bool trans_b;
  tni_part parts[TN_FUSED_MAX_PARTS];
  tni_chain chain; /* n_in: parts, then inputs 1 + n_weights .. */
  /* Per register: its products, instructions and results have one width and one number here; TN_NONE: an input. */
  uint32_t group[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS + TN_CHAIN_MAX_OPS];
  uint32_t n_groups;
} tni_fused;

/* n: a node of a graph. NULL, or what is wrong with it (static). Groups are numbered by their first product; products
 * of one group are of one width. Columns are not compared with the weight's dims. */
const char *tni_chain_read(const tn_node *n, tni_chain *out);
const char *tni_fused_read(const tn_node *n, tni_fused *out);

#endif
