/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes run one by one on host kernels, their dims taken from the operands at hand: what only the run can size (NonZero
 * and what follows from it), control flow, whose subgraphs are run node by node, sequences and optionals.
 *
 * Memory comes with each result and goes with its last reader (cells are counted). One thread; kernels share the
 * caller's tn_run. Errors name the node, and the node whose subgraph it stands in.
 */
#ifndef TENON_INTERP_CELLS_H
#define TENON_INTERP_CELLS_H

#include <tenon/tenon.h>

#include "runtime/graph/graph.h"

/* A tensor, sequence or optional, and who holds it. A borrowed tensor lies in memory that somebody else frees: only
 * valid until the task ends, or the run where it is the caller's. A sequence holds its elements, which others may hold
 * too; nothing changes in a cell once it is made. */
typedef struct tni_cell {
  uint32_t form, n;        /* TNI_FORM_*; n: elements of a sequence, none or one of an optional */
  tni_tensor t;            /* of a tensor */
  struct tni_cell **items; /* [n], of the others */
  uint32_t refs;
  bool borrowed;
  void *shown; /* tni_cell_show's */
} tni_cell;

/* Values of one graph while it runs. outer: of the graph whose node holds it, or NULL. */
typedef struct tni_frame {
  const tni_graph *g;
  tni_cell **cells; /* [n_values]; CONST values have none */
  const struct tni_frame *outer;
} tni_frame;

typedef struct tni_interp {
  tn_run *run;    /* asked before each node and each turn whether to stop */
  uint32_t depth; /* of control flow under way */
  tn_error *err;  /* never NULL */
  /* tni_interp_graph, for nodes that hold subgraphs; set when a node is run. */
  tn_status (*graph)(struct tni_interp *ip, const tni_graph *g, const tni_frame *outer, tni_cell *const *in,
                     uint32_t n_in, tni_cell **out);
} tni_interp;

/* A cell of its own for t's dtype and dims, data not set; refs is 1. NULL without memory. */
tni_cell *tni_cell_new(const tni_tensor *t);
/* Around memory of somebody else. */
tni_cell *tni_cell_borrow(const tni_tensor *t);
/* A sequence or optional with room for n elements, all NULL: the caller fills them with cells that it holds. */
tni_cell *tni_cell_group(uint32_t form, uint32_t n);
/* What the caller of a run gave, in its memory. NULL without memory. */
tni_cell *tni_cell_given(const tn_tensor *t);
tni_cell *tni_cell_hold(tni_cell *c);
void tni_cell_drop(tni_cell *c); /* NULL is fine */
/* c with nothing borrowed in it, for the caller to drop. NULL without memory. */
tni_cell *tni_cell_own(tni_cell *c);
/* As the API shows it: all of *t but name is set; it lives as long as c. TN_E_NO_MEMORY. */
TN_MUST_CHECK tn_status tni_cell_show(tni_cell *c, tn_tensor *t);

/* TN_E_CANCELLED, for n. */
tn_status tni_interp_stop(const tni_interp *ip, const char *name);
/* Runs node n of f->g; its operands are constants, captured or in f->cells, where its results go (what was there is
 * dropped). */
TN_MUST_CHECK tn_status tni_interp_node(tni_interp *ip, tni_frame *f, const tni_node *n);
/* The value as a cell that the caller drops; NULL, with the error set, where nothing made it. */
tni_cell *tni_interp_read(const tni_interp *ip, const tni_frame *f, tn_id v);
/* A whole subgraph. in[n_in] in the order of its inputs; out[n_outputs] are the caller's to drop. */
TN_MUST_CHECK tn_status tni_interp_graph(tni_interp *ip, const tni_graph *g, const tni_frame *outer,
                                         tni_cell *const *in, uint32_t n_in, tni_cell **out);
/* If, Loop, Scan, SequenceMap (control.c). in[n->n_in] (NULL: absent) stay the caller's, out[n->n_out] become so. */
TN_MUST_CHECK tn_status tni_interp_control(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in,
                                           tni_cell **out);
/* Operators on sequences and optionals (sequence.c). */
TN_MUST_CHECK tn_status tni_interp_sequence(tni_interp *ip, const tni_node *n, tni_cell *const *in, tni_cell **out);

#endif
