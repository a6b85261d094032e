/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes run one by one on host kernels, their dims taken from the operands at hand: what only the run can size (NonZero
 * and what follows from it) and control flow, whose subgraphs are run node by node.
 *
 * Memory comes with each result and goes with its last reader (cells are counted). One thread; kernels share the
 * caller's tn_run. Errors name the node, and the node whose subgraph it stands in.
 */
#ifndef TENON_SCHED_INTERP_H
#define TENON_SCHED_INTERP_H

#include "runtime/graph/graph.h"

/* A tensor and who holds it. A borrowed one lies in memory that somebody else frees: only valid until the task ends. */
typedef struct tni_cell {
  tni_tensor t;
  uint32_t refs;
  bool borrowed;
} tni_cell;

/* Values of one graph while it runs. outer: of the graph whose node holds it, or NULL. */
typedef struct tni_frame {
  const tni_graph *g;
  tni_cell **cells; /* [n_values]; CONST values have none */
  const struct tni_frame *outer;
} tni_frame;

typedef struct tni_interp {
  tn_run *run;
  const volatile int32_t *cancel; /* may be NULL */
  uint32_t depth;                 /* of control flow under way */
  tn_error *err;                  /* never NULL */
} tni_interp;

/* A cell of its own for t's dtype and dims, data not set; refs is 1. NULL without memory. */
tni_cell *tni_cell_new(const tni_tensor *t);
/* Around memory of somebody else. */
tni_cell *tni_cell_borrow(const tni_tensor *t);
tni_cell *tni_cell_hold(tni_cell *c);
void tni_cell_drop(tni_cell *c); /* NULL is fine */

/* Runs node n of f->g; its operands are constants, captured or in f->cells, where its results go (what was there is
 * dropped). */
TN_MUST_CHECK tn_status tni_interp_node(tni_interp *ip, tni_frame *f, const tni_node *n);
/* The value as a cell that the caller drops; NULL, with the error set, where nothing made it. */
tni_cell *tni_interp_read(const tni_interp *ip, const tni_frame *f, tn_id v);
/* A whole subgraph. in[n_in] in the order of its inputs; out[n_outputs] are the caller's to drop. */
TN_MUST_CHECK tn_status tni_interp_graph(tni_interp *ip, const tni_graph *g, const tni_frame *outer,
                                         tni_cell *const *in, uint32_t n_in, tni_cell **out);
/* If, Loop, Scan (control.c). in[n->n_in] (NULL: absent) stay the caller's, out[n->n_out] become so. */
TN_MUST_CHECK tn_status tni_interp_control(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in,
                                           tni_cell **out);

#endif
