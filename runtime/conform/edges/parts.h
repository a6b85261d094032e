/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the room. Private to it.
 */
#ifndef TENON_CONFORM_EDGES_PARTS_H
#define TENON_CONFORM_EDGES_PARTS_H

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/edges/edges.h"

void tni_cf_edge_far_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_packed_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_weight_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_wide_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_struct_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_width_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_host_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_end_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_error_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cf_edge_ahead_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

/* What measure says of a task. */
typedef struct tni_cf_measured {
  uint64_t scratch, driver;
  double macs;
  bool ok;
} tni_cf_measured;
/* At S rows; bytes has room for the slots. A TEMP slot without room for its value is a finding. */
tni_cf_measured tni_cf_edge_measure_at(tni_cf *cf, const tni_cf_rig *rig, tn_id task, int64_t S, uint64_t *bytes);
/* What grows by the same number from step to step, near at 1, 2 and 3 steps, and at S is short of that by exactly a multiple of
 * 2^32, is a finding. */
void tni_cf_edge_goes_on(tni_cf *cf, const char *what, tn_id task, int64_t S, const uint64_t near[3], int64_t step,
                         uint64_t far);

/* Where TNI_CF_ENDS gives other elements than the first and the last, and TNI_CF_EVEN gives those. */
#define TNI_CF_CUT_OTHERWISE \
  "its work is cut otherwise: the first and the last part do not have the first and the last element"

/* A fused product of x [S, DEPTH] with w [N, DEPTH], which must outlive the graph. */
enum { TNI_CF_EDGE_DEPTH = 8 };
bool tni_cf_edge_columns_make(tni_cn_graph *b, float *w, int64_t N);

/* Why a rig's graph is not asked: a refusal, or (no text) a claim that fixes its rows. */
static inline const char *tni_cf_edge_why(const tni_cf_rig *rig) {
  return !rig->why[0] && rig->d.chunk ? "its claim fixes the number of rows" : rig->why;
}

/* The i-th graph of the listing that is taken, each name once; NULL: there are no more. */
const tni_cf_claimed *tni_cf_edge_taken(const tni_cf_listing *l, uint32_t i);
/* Keeps what the graph gives with `rows` on a host that gives all. false: a finding. */
bool tni_cf_edge_results(tni_cf *cf, const tni_cf_claimed *c, int64_t rows, void **want);

#endif
