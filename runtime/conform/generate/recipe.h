/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes of graphs. A recipe is a few numbers, any of which make a legal graph and runs of it: so a recipe stays one
 * when it is made smaller. Private to the room.
 */
#ifndef TENON_CONFORM_GENERATE_RECIPE_H
#define TENON_CONFORM_GENERATE_RECIPE_H

#include "runtime/conform/drive/drive.h"

enum { TNI_GEN_STEPS = 6, TNI_GEN_RUNS = 6 };

/* What a step adds to the graph. */
enum {
  TNI_GEN_MATMUL,
  TNI_GEN_GEMM,
  TNI_GEN_SIBLINGS,
  TNI_GEN_FUSED,
  TNI_GEN_FUSED_CHAIN,
  TNI_GEN_UNARY,
  TNI_GEN_BINARY,
  TNI_GEN_SOFTMAX,
  TNI_GEN_NORM,
  TNI_GEN_TRANSPOSE,
  TNI_GEN_CONCAT,
  TNI_GEN_REDUCE,
  TNI_GEN_PRODUCT, /* of two activations */
  TNI_GEN_CONV,
  TNI_GEN_POOL,
  TNI_GEN_BATCHNORM,
  TNI_GEN_ATTENTION,
  TNI_GEN_ROTARY,
  TNI_GEN_GATHER,
  TNI_GEN_BLOCK,   /* a convolution and what follows it */
  TNI_GEN_BETWEEN, /* an operator between two images, and a convolution */
  TNI_GEN_CODE_CONV, /* of 8 bits, between floats */
  TNI_GEN_CODE_MATMUL,
  TNI_GEN_KINDS
};

/* a, b: which of the values so far; word: attributes and sizes. */
typedef struct tni_gen_step {
  uint32_t kind, a, b, word[6];
} tni_gen_step;

typedef struct tni_gen_recipe {
  uint32_t n_steps, n_runs, rank, batch[3], k; /* of the input: [batch.., S, k] */
  uint32_t threads, rows[TNI_GEN_RUNS];        /* S of each run */
  uint32_t order;                              /* 0: tasks in the planned order */
  uint32_t refuse;                             /* not 0: some of what the plugin would take goes to the host, by this */
  bool kept;                                   /* attention has caches, which sessions keep in place */
  uint32_t length;                             /* S of all runs, of a device that takes certain lengths; 0: any */
  uint64_t values;                             /* stream of weights and inputs */
  tni_gen_step step[TNI_GEN_STEPS];
} tni_gen_recipe;

/* A step that is a certain operator: word[i] is `is` modulo `of` (0: any). */
typedef struct tni_gen_form {
  uint32_t kind, i, of, is;
} tni_gen_form;
/* weights [TNI_GEN_KINDS]: how often each kind is drawn; the first step is `first`, NULL: one of the kinds with the largest
 * weight. stays: `first` does not give way to attention over caches, as some do. */
void tni_gen_draw(tni_gen_recipe *g, const uint32_t *weights, const tni_gen_form *first, bool stays, tni_cf_rng *r);
/* S of run i: `length`, where it is one; windows want a row at least, and so does a step. */
uint32_t tni_gen_rows(const tni_gen_recipe *g, uint32_t i);
/* Positions of step i over caches, of which the host makes runs of any length. */
uint32_t tni_gen_step_rows(const tni_gen_recipe *g, uint32_t i);
/* Whether S is a number in the graph. Over caches it is not: sessions add rows to what a run wants. */
static inline bool tni_gen_is_constant(const tni_gen_recipe *g) { return g->length && !g->kept; }
/* The i-th way to make g smaller; false: there are no more. */
bool tni_gen_smaller(const tni_gen_recipe *g, uint32_t i, tni_gen_recipe *out);
/* The graph. False: the kit's own mistake, b->err. */
bool tni_gen_build(const tni_gen_recipe *g, const tni_cf *cf, tni_cn_graph *b);
/* "MatMul [2,S,33] x [33,17] -> Relu": the nodes as text, cut at n. */
void tni_gen_print(const tni_gen_recipe *g, const tni_cn_graph *b, char *text, size_t n);

#endif
