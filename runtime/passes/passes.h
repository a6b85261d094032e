/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph passes: after them a graph is smaller and says the same. Most keep every bit; those that recognise an operator
 * in its primitives keep results up to rounding (docs/passes.md says which, and what each matches and keeps).
 *
 * tni_passes_run repeats rounds of  infer -> fold -> infer -> branch (these as long as it fires) -> the passes in the order of run.c -> compact  until
 * nothing fires any more, for six stages one after the other: quantized operators are put on bytes and quantized weights
 * kept as they are (in graphs that have any), operators are recognised, then brought into the forms that plugins and caches want, then caches put into memory that stays, then operators fused. Ids of nodes and values change. Subgraphs of If, Loop and Scan are left as they are, but for
 * the branch of an If that is known to be taken.
 */
#ifndef TENON_PASSES_PASSES_H
#define TENON_PASSES_PASSES_H

#include "runtime/shape/shape.h"

enum { TNI_PASSES_MAX = 48, TNI_PASSES_ROUNDS = 8 };
/* Larger results are not folded: a transposed weight stays an operation on the mapped file. */
#define TNI_FOLD_MAX_BYTES (UINT64_C(64) << 10)

typedef struct tni_passes_options {
  const char *const *disabled; /* names of passes to leave out, see tni_pass_name; "all" is all of them */
  uint32_t n_disabled;
  uint64_t max_fold_bytes; /* 0: TNI_FOLD_MAX_BYTES */
} tni_passes_options;

typedef struct tni_passes_report {
  struct {
    const char *name; /* static */
    uint64_t fired;   /* nodes or values that it changed or removed, all rounds together */
  } entries[TNI_PASSES_MAX];
  uint32_t n, rounds;
  uint32_t nodes_before, nodes_after;
} tni_passes_report;

/* opt, report: may be NULL. eval and ctx: see tni_fold_constants. TN_E_INVALID: contradicting shapes, or a name in
 * opt->disabled that is no pass. After a failure the graph is only good for tni_graph_destroy. */
TN_MUST_CHECK tn_status tni_passes_run(tni_graph *g, const tni_passes_options *opt, tni_eval_fn eval, void *ctx,
                                       tni_passes_report *report, tn_error *err);

/* The name of pass i in order, NULL past the last. *rounds (may be NULL): results may differ in their last bits. */
const char *tni_pass_name(uint32_t i, bool *rounds);

#endif
