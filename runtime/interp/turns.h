/* SPDX-License-Identifier: Apache-2.0
 *
 * What Loop and Scan share: a body that runs turn after turn, values that it carries from one to the next, and values
 * of every turn that are joined at the end.
 */
#ifndef TENON_INTERP_TURNS_H
#define TENON_INTERP_TURNS_H

#include "runtime/interp/cells.h"

/* Results of all turns for one stacked output. */
typedef struct tni_stack {
  tni_cell **turn;
  uint32_t n, cap;
} tni_stack;

typedef struct tni_turns {
  tni_interp *ip;
  const tni_frame *f;
  const tni_node *n;
  const tni_graph *body;
  uint32_t first, n_carried, n_stacked; /* of the body's outputs: the first carried one, then the stacked ones */
  tni_cell **carried;                   /* into args */
  tni_cell **args, **res;               /* [body inputs], [body outputs] */
  tni_stack *stacks;                    /* [n_stacked] */
} tni_turns;

/* The graph attribute `name`, or NULL. */
const tni_graph *tni_body_of(const tni_node *n, const char *name);
/* first_in: the body's first carried input. turns_end after either outcome. */
TN_MUST_CHECK tn_status tni_turns_start(tni_turns *t, uint32_t first_in);
void tni_turns_end(tni_turns *t);
/* One turn: the body's results become what is carried, and the tops of the stacks. */
TN_MUST_CHECK tn_status tni_turn(tni_turns *t);
/* The carried values, which are t's no more. */
void tni_turns_give(tni_turns *t, tni_cell **out);
/* Joins n tensors, none of them absent, along a new axis; backwards: the first one comes last. none: dims and dtype
 * where n is 0, else NULL. */
TN_MUST_CHECK tn_status tni_join(const tni_interp *ip, const tni_node *n, tni_cell *const *parts, uint32_t count,
                                 const tni_tensor *none, int64_t axis, bool backwards, tni_cell **out);
/* Stack i joined. */
TN_MUST_CHECK tn_status tni_turns_join(const tni_turns *t, uint32_t i, int64_t axis, bool backwards, tni_cell **out);
/* Bytes of t, from its dtype and dims. */
TN_MUST_CHECK tn_status tni_turns_size(const tni_interp *ip, const tni_node *n, tni_tensor *t);
/* Bytes of t's elements after one index of the axes before `axis`, and how many such indices there are. */
void tni_turns_blocks(const tni_tensor *t, uint32_t axis, size_t *bytes, int64_t *outer);

/* Scan, of version 8 (batches) and later (scan.c). As tni_interp_control. */
TN_MUST_CHECK tn_status tni_interp_scan(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in,
                                        tni_cell **out);

#endif
