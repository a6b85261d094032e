/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains of element-wise operators after products: tenon.FusedMatMul and tenon.Elementwise as <tenon/ops.h> has them,
 * read from a node, cut into strips, and run over tiles by a table of kernels.
 *
 * A strip is what belongs together: products of one width N that meet in the chain, and all that is computed of them.
 * It is a straight program over numbered tiles. A tile is n elements in any order (rows x columns, say), the same order
 * in all tiles of one run; tiles are reused once nobody reads them again. Who runs a strip computes its products into
 * tiles 0 .. n_parts-1, spreads the other operands over the tiles of `loads`, calls tni_cm_strip_run and copies the
 * tiles of `stores` out.
 *
 * Plain data, nothing allocated, any thread.
 */
#ifndef TENON_COMMON_BASE_CHAIN_H
#define TENON_COMMON_BASE_CHAIN_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* Registers a and b; b TN_NONE where op has one operand. value: SWISH its alpha, GELU 1 for tanh and 0 for erf. */
typedef struct tni_cm_instr {
  uint32_t op, a, b;
  float value;
} tni_cm_instr;

enum { TNI_CM_MAX_RESULTS = TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS };

/* Registers 0 .. n_in-1 are given, n_in + i is what instruction i makes. */
typedef struct tni_cm_chain {
  uint32_t n_in, n_ops, n_results, reserved;
  tni_cm_instr ops[TN_CHAIN_MAX_OPS];
  uint32_t results[TNI_CM_MAX_RESULTS];
} tni_cm_chain;

/* Product p is x times columns [first, first + count) of the node's input 1 + weight. */
typedef struct tni_cm_part {
  int64_t first, count;
  uint32_t weight, reserved;
} tni_cm_part;

/* chain.n_in is n_parts + n_extras; extra e is the node's input 1 + n_weights + e. */
typedef struct tni_cm_fused {
  uint32_t n_weights, n_parts, n_extras;
  bool trans_b;
  tni_cm_part parts[TN_FUSED_MAX_PARTS];
  tni_cm_chain chain;
} tni_cm_fused;

/* Chain of a node whose attributes start with ops, floats, results (both operators). n_in: registers that are given.
 * NULL, or what is wrong with it (static text); then *out is not to be used. */
const char *tni_cm_chain_read(const tn_node *n, uint32_t n_in, tni_cm_chain *out);
/* A tenon.FusedMatMul. Columns are compared with nothing: the caller knows the weights' dims. */
const char *tni_cm_fused_read(const tn_node *n, tni_cm_fused *out);

/* Strip of each register (products, extras, instructions); TN_NONE for an extra. Returns the number of strips, which
 * are numbered by their first product; 0 where products of different widths meet or something is computed of no
 * product. */
enum { TNI_CM_MAX_REGISTERS = TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS + TN_CHAIN_MAX_OPS };
uint32_t tni_cm_strips(const tni_cm_fused *f, uint32_t strip[TNI_CM_MAX_REGISTERS]);

/* How an operand of a chain meets the products: a number of the graph's (NUMBER) or of one element (ONE), one for each
 * column, or element by element. */
enum { TNI_CM_NUMBER = 0, TNI_CM_ONE = 1, TNI_CM_ROW = 2, TNI_CM_WHOLE = 3 };
/* ONE, ROW or WHOLE of each extra that the chain reads into extra[]; extras: their values, of known rank. false: one
 * does not have the columns of the products that it meets. */
bool tni_cm_extras_read(const tn_host *host, const tn_graph *g, const tni_cm_fused *f,
                        const uint32_t strip[TNI_CM_MAX_REGISTERS], const tn_id *extras,
                        uint8_t extra[TN_CHAIN_MAX_INPUTS]);

/* dst may be a or b. */
typedef struct tni_cm_step {
  uint32_t op, dst, a, b; /* tiles; b TN_NONE */
  float value;
} tni_cm_step;

/* Tile with what: an extra's number, or an output's. */
typedef struct tni_cm_move {
  uint32_t tile, what;
} tni_cm_move;

typedef struct tni_cm_strip {
  uint32_t n_parts, n_loads, n_steps, n_stores, n_tiles, reserved;
  uint32_t parts[TN_FUSED_MAX_PARTS]; /* number of the product that goes into tile i */
  tni_cm_move loads[TN_CHAIN_MAX_INPUTS], stores[TNI_CM_MAX_RESULTS];
  tni_cm_step steps[TN_CHAIN_MAX_OPS];
} tni_cm_strip;

/* Program of strip `which`, as tni_cm_strips numbers them. Instructions that no result needs are left out. */
void tni_cm_strip_make(const tni_cm_fused *f, const uint32_t *strip, uint32_t which, tni_cm_strip *out);

/* Kernels in f32. n is a multiple of 16; arrays are 32-byte aligned; y may be an operand. */
enum { TNI_CM_CHAIN_UNIT = 16 };
typedef void (*tni_cm_binary_fn)(float *y, const float *a, const float *b, size_t n);
typedef void (*tni_cm_unary_fn)(float *y, const float *x, float value, size_t n);
typedef struct tni_cm_chain_kernels {
  tni_cm_binary_fn add, sub, mul, div;
  tni_cm_unary_fn neg, relu, sigmoid, tanh, gelu_erf, gelu_tanh;
  tni_cm_unary_fn swish; /* value: alpha */
  /* y[rows, blocks * 16] (row stride ldy, rows 64-byte aligned) = tiles[blocks, rows, 16], written past the caches, for
   * results that do not fit them; NULL: there is no such thing. */
  void (*put)(float *y, size_t ldy, const float *tiles, size_t rows, size_t blocks);
} tni_cm_chain_kernels;

/* Runs the steps; tile i is tiles + i * stride. */
void tni_cm_strip_run(const tni_cm_strip *s, const tni_cm_chain_kernels *k, float *tiles, size_t stride, size_t n);

#endif
