/* SPDX-License-Identifier: Apache-2.0
 *
 * A host small enough to read: one linear (MatMul or FusedMatMul) from claim to its outputs, with an engine, device
 * memory, and blobs that are read instead of mapped.
 */
#ifndef TENON_TESTS_NPU_MINIHOST_H
#define TENON_TESTS_NPU_MINIHOST_H

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <tenon/plugin.h>

#include "plugins/npu-int8-sim/extension.h"
#include "tests/kit/exprs.h"
#include "tests/kit/host.h"

extern uint64_t npu_seed;
typedef struct rng {
  uint64_t s;
} rng;
rng rng_of(uint64_t stream);
uint64_t rng_next(rng *r);
int64_t rng_below(rng *r, int64_t n);
double rng_normal(rng *r);

/* The plugin, its options, and the fake host. */
typedef struct mini {
  kit_host h; /* first: host.ctx points here */
  const char *profile, *shadow, *fault;
  int64_t chunk, wake, window_mib;
  double prune, hot;
  tn_plugin *plugin;
  tn_device *device;
  const tni_npu_counters *counters;
  tn_error err;
  int64_t disk_reads;
  uint64_t disk_bytes;
} mini;

/* Options at their defaults, but for chunk 64. */
mini mini_defaults(void);
bool mini_open(mini *m);
void mini_close(mini *m);
tn_run mini_run(mini *m);
npusim_counters mini_count(mini *m);

enum { MAX_WEIGHTS = 4, MAX_EXTRAS = 2, MAX_VALUES = 32, MAX_OUT = 4 };

/* The node's parts: weights [K,N_j] ([N_j,K] with trans_b); extras: 0 one element, 1 [N], 2 [S,N]. chain NULL: a
 * MatMul. */
typedef struct chain_spec {
  uint32_t n_parts, n_ops, n_results;
  int64_t parts[3 * 4], ops[3 * 8], results[MAX_OUT];
  float floats[8];
} chain_spec;
typedef struct net {
  int64_t K, N[MAX_WEIGHTS];
  uint32_t n_weights, n_extras, op, phase;
  int64_t extra_kind[MAX_EXTRAS];
  bool trans_b, no_stats, rank3;
  const chain_spec *chain;
  /* Owned. */
  float *w[MAX_WEIGHTS]; /* [K,N] or [N,K] as stored */
  float *extra[MAX_EXTRAS];
  bool extra_const[MAX_EXTRAS];
  float *ch_over; /* [K] */
  tn_stats stats;
  /* Built. */
  tn_graph graph;
  struct tn_graph_ctx ctx; /* expression 0 is symbol 0 */
  tn_value value[MAX_VALUES];
  const tn_value *values[MAX_VALUES];
  tn_expr dims[MAX_VALUES][3];
  tn_node node;
  const tn_node *nodes[1];
  tn_attr attr[6];
  const tn_attr *attrs[6];
  tn_id in[16], out[MAX_OUT], uses[1];
  uint32_t n_out;
  tn_symbol symbol;
  const tn_symbol *symbols[1];
} net;

/* Random weights and extras; x's statistics are those that s gives: p999 = 127 s, absmax = 8 times it. */
void net_init(net *n, int64_t K, uint32_t n_weights, const int64_t *N, float s, rng *r);
void net_extra(net *n, int64_t kind, int64_t elems, bool constant, rng *r);
void net_build(net *n, int64_t chunk);
void net_free(net *n);
/* w[n][k] of weight j, whichever way it is stored. */
float net_weight(const net *n, uint32_t j, int64_t row, int64_t k);

/* Answers to claim. */
typedef struct claimed {
  tn_claim claim;
  tn_constraint constraints[8];
  int64_t params[4];
  uint32_t n;
} claimed;
tn_status mini_claim(mini *m, const net *n, claimed *out);

/* A lowered, attached, bound program; run as often as one likes. */
enum { MAX_SLOTS = 64, MAX_TASKS = 8 };
typedef struct built {
  tn_program *p;
  const tn_program_info *info;
  tn_blob blob[MAX_SLOTS];
  uint8_t *bytes[MAX_SLOTS];    /* packed, host memory of slots */
  tn_buffer *buffer[MAX_SLOTS]; /* device memory */
  tn_view view[MAX_SLOTS];
  tn_plan *plan[MAX_TASKS];
  tn_args *args[MAX_TASKS];
  uint8_t *scratch[MAX_TASKS];
  tn_times times[MAX_TASKS];
  int64_t run_allocs;
  tn_status st;
} built;
/* rows: of x; x [rows][K] is copied. Blobs of residency DISK have no pointer unless in_memory. */
built mini_build(mini *m, net *n, int64_t rows, bool in_memory);
/* Runs all tasks; shadow_first: before the product. Outputs are in view[].ptr of OUTPUT slots. */
tn_status mini_step(mini *m, built *b, const float *x, bool shadow_first);
const float *mini_output(const net *n, const built *b, uint32_t i);
void mini_unbuild(mini *m, built *b);

bool add_sim_suite(void);
bool add_w8_suite(void);
bool add_plugin_suite(void);
bool add_device_suite(void);

#endif
