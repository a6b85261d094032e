/* SPDX-License-Identifier: Apache-2.0
 *
 * A host small enough to read: expressions, options, hand-built graphs, and the walk claim -> lower -> pack -> set ->
 * bind -> args -> run for whatever the plugin takes.
 */
#ifndef TENON_TESTS_KERNELS_FAKEHOST_H
#define TENON_TESTS_KERNELS_FAKEHOST_H

#include "tests/kernels/harness.h"
#include "tests/kit/exprs.h"

enum { MAX_VALUES = 64, MAX_NODES = 32, MAX_GROUPS = 32, MAX_NEEDS = 64, MAX_IO = 24, MAX_ATTR = 6 };

typedef struct fake_graph {
  tn_graph pub;
  tn_graph_ctx ctx;
  tn_value values[MAX_VALUES];
  tn_node nodes[MAX_NODES];
  tn_symbol symbols[KIT_SYMBOLS];
  const tn_value *value_ptr[MAX_VALUES];
  const tn_node *node_ptr[MAX_NODES];
  const tn_symbol *symbol_ptr[KIT_SYMBOLS];
  tn_expr dims[MAX_VALUES][TN_MAX_RANK];
  tn_id uses[MAX_VALUES][MAX_NODES], io[MAX_NODES][MAX_IO];
  const tn_attr *attrs[MAX_NODES][MAX_ATTR];
  tn_attr attr[MAX_NODES][MAX_ATTR];
  float *data[MAX_VALUES]; /* CONST: elements, given at build; others: what run computed or was given */
  int64_t count[MAX_VALUES];
} fake_graph;

void graph_init(fake_graph *g);
void graph_free(fake_graph *g);       /* frees data[] */
tn_expr ex(fake_graph *g, int64_t v); /* constant */
tn_expr sym(fake_graph *g, const char *name, int64_t lo, int64_t hi);
tn_expr ex2(fake_graph *g, int kind, tn_expr a, tn_expr b);
tn_id value(fake_graph *g, uint32_t kind, uint32_t rank, const tn_expr *dims);
/* A constant of random values (pattern V_NORMAL, seeded by its id). */
tn_id constant(fake_graph *g, uint32_t rank, const int64_t *dims);
/* The same with the caller's values, copied. */
tn_id constant_of(fake_graph *g, uint32_t rank, const int64_t *dims, const float *data);
tn_id node(fake_graph *g, uint32_t op, tn_id a, tn_id b, tn_id c, tn_id out);
void gemm_attrs(fake_graph *g, tn_id node, double alpha, double beta, int64_t trans_a, int64_t trans_b);
/* A tenon.FusedMatMul; the arrays must outlive the graph. in: x, weights, operands. */
typedef struct fused_spec {
  uint32_t n_in, n_out, n_weights, n_parts, n_ops;
  tn_id in[MAX_IO], out[MAX_IO];
  int64_t trans_b;
  int64_t parts[3 * TN_FUSED_MAX_PARTS], ops[3 * TN_CHAIN_MAX_OPS], results[MAX_IO];
  float floats[TN_CHAIN_MAX_OPS];
} fused_spec;
tn_id fused_node(fake_graph *g, const fused_spec *s);
void graph_finish(fake_graph *g); /* uses, pointers */

/* A value of `isa` whose kernels are others than auto's on processors with more: pairs of row blocks on x86 with AMX.
 */
#if defined(__x86_64__)
#define FAKE_LESSER_ISA "avx512vnni"
#else
#define FAKE_LESSER_ISA "auto"
#endif

/* Options of the fake host; then the plugin. */
typedef struct fake {
  kit_host h; /* first: host.ctx points here */
  int64_t group, min_k, min_n, act_matmul;
  const char *isa, *format; /* format NULL: w4g */
  const char *act_scales;   /* NULL: group */
  int64_t act_bits;         /* 0: 9 */
  bool alias;               /* outputs lie where their slots say that they may */
  const char *const *set;   /* [n_set] "key=value": before the fields above; what neither has is the plugin's default */
  uint32_t n_set;
  tn_plugin *plugin;
  tn_device *device;
  tn_error err;
} fake;

/* "a=b,c=d" -> set[], at most cap; text is cut up. "prefill" and "decode" are phases. */
uint32_t fake_variant(char *text, const char **set, uint32_t cap, uint32_t *phase);
/* Loads (once per process) and opens. open_fails: leaves device NULL with err set instead of failing. */
bool fake_open(fake *f, const char *so);
void fake_close(fake *f);

typedef struct answers {
  tn_claim node[MAX_NODES];
  uint32_t n_answers[MAX_NODES];
  tn_id group[MAX_GROUPS][MAX_NODES];
  uint32_t group_n[MAX_GROUPS], n_groups;
  tn_claim group_claim[MAX_GROUPS];
} answers;
tn_status fake_claim(fake *f, const fake_graph *g, const tn_dims *at, answers *a);

/* What walk() did. y: per value, copies of outputs; bound to the graph's data[]. */
typedef struct walked {
  tn_program *program;
  const tn_program_info *info;
  tn_blob blobs[MAX_NEEDS];
  uint8_t *packed[MAX_NEEDS];
  uint64_t scratch;
  int64_t run_allocs; /* host allocations during run */
  uint32_t n_aliased; /* outputs that lay on an input */
  bool guards_ok;
  tn_status st;
} walked;

/* Takes groups in the order given, then single yeses; lowers all taken nodes as one subgraph; runs it with dims. Inputs
 * are read from g->data; every computed value's data is allocated, or replaced. */
/* The part of it before memory: claim, lower, pack, set. */
walked fake_prepare(fake *f, const fake_graph *g, const tn_dims *dims);
/* A run lent over f's threads. */
tn_run fake_run(fake *f);
walked walk(fake *f, fake_graph *g, const int64_t *symbols);
void walked_free(fake *f, walked *w);

/* [N,K] of a need's values joined, as a host presents them; free() it. */
float *fake_joined(const fake_graph *g, const tn_need *need, int64_t *N, int64_t *K);
void fake_dims(tn_dims *d, const fake_graph *g, const int64_t *symbols);
int64_t fake_count(const fake_graph *g, tn_id v, const int64_t *symbols);

#endif
