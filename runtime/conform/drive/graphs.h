/* SPDX-License-Identifier: Apache-2.0
 *
 * The graphs that the kit asks about: one operator each, and small ones of several. They are the subjects of the
 * families honesty, life and memory, and of the levels; the numbers family has its own shapes and values.
 *
 * A row's name is stable: it stands in names of cases and in the listing.
 */
#ifndef TENON_CONFORM_DRIVE_GRAPHS_H
#define TENON_CONFORM_DRIVE_GRAPHS_H

#include "runtime/conform/drive/build.h"
#include "runtime/conform/drive/device.h"

typedef struct tni_cf_graph_row {
  const char *name;
  uint32_t levels;  /* TNI_CF_LEVEL_* that require it; 0: none */
  tni_cn_spec spec; /* of one operator; op NULL: made by `make` */
  bool (*make)(tni_cn_graph *b, tni_cf_rng *r);
} tni_cf_graph_row;

const tni_cf_graph_row *tni_cf_graph_rows(uint32_t *n);
const tni_cf_graph_row *tni_cf_graph_find(const char *name);
/* Builds it; its floats get activation statistics, so that devices with calibrated scales have something to go
 * by. False: b->err. Free with tni_cn_destroy. */
bool tni_cf_graph_make(const tni_cf_graph_row *row, tni_cn_graph *b, tni_cf_rng *r);
/* Statistics of all its floats, which tni_cf_graph_make gives by itself. False without memory. */
bool tni_cf_graph_stats(tni_cn_graph *b);
/* A random acyclic graph of n nodes over [S,48] and [S,64] floats: products, chains, normalizations; some values read
 * twice, some outputs in the middle. */
bool tni_cf_graph_random(tni_cn_graph *b, uint32_t n, tni_cf_rng *r);

/* --- a graph on a device ----------------------------------------------------------------------------------------- */

/* Rows and inputs, run as a host would. */
typedef struct tni_cf_rig {
  tni_cf_host *h;
  tni_cn_graph b;
  tni_cf_drive d;
  tni_cf_inst i;
  tni_arena *arena;
  int64_t sym[TNI_CF_MAX_SYMBOLS];
  tni_tensor in[TNI_CN_MAX_IN], out[TNI_CN_MAX_OUT];
  bool refused, lowered, made, shares;
  char why[512];
} tni_cf_rig;

/* Claim: false: failed, or refused (refused is set); why. phase: TN_PHASE_*. */
bool tni_cf_rig_claim(tni_cf_rig *rig, tni_cf_host *h, const tni_cf_graph_row *row, uint32_t phase, tni_cf_rng *r);
/* For a graph that was made already (rig->b). */
bool tni_cf_rig_claim_made(tni_cf_rig *rig, tni_cf_host *h, uint32_t phase);
/* Lowers what was claimed: nothing is bound. */
bool tni_cf_rig_lower(tni_cf_rig *rig);
/* The rest up to arguments, S rows (or what the claim fixes), inputs written. */
bool tni_cf_rig_prepare(tni_cf_rig *rig, int64_t S, tni_cf_rng *r);
/* Another set of memory on a's plans, with inputs of its own: a second session. a must outlive it. */
bool tni_cf_rig_share(tni_cf_rig *rig, const tni_cf_rig *a, tni_cf_rng *r);
/* Another set of memory on plans of its own, of a's program, for S rows. a must outlive it. */
bool tni_cf_rig_again(tni_cf_rig *rig, tni_cf_rig *a, int64_t S, tni_cf_rng *r);
/* Other inputs, written. */
bool tni_cf_rig_inputs(tni_cf_rig *rig, tni_cf_rng *r);
/* One run; outputs into rig->out. */
bool tni_cf_rig_run(tni_cf_rig *rig, uint8_t fill, uint32_t split);
/* want[k] is a copy of output k, in the arena; false without memory. */
bool tni_cf_rig_keep(const tni_cf_rig *rig, tni_arena *arena, void **want);
/* Whether the outputs are what was kept, bit by bit. */
bool tni_cf_rig_same(const tni_cf_rig *rig, void *const *want);
void tni_cf_rig_finish(tni_cf_rig *rig);

#endif
