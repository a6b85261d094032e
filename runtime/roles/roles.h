/* SPDX-License-Identifier: Apache-2.0
 *
 * What the inputs of a model with caches mean, found by their dims: which symbol is the past, how many positions a step
 * has, which inputs have an entry per position of the whole context. And whether the past may be rounded up.
 */
#ifndef TENON_ROLES_ROLES_H
#define TENON_ROLES_ROLES_H

#include "runtime/graph/graph.h"

typedef enum {
  TNI_IN_PLAIN,  /* does not depend on the past */
  TNI_IN_CACHED, /* past of a cache */
  TNI_IN_CONTEXT, /* [batch, past + step]: an entry per position of the whole context */
  TNI_IN_STATE    /* a state of fixed size that an output continues: of a short convolution, a recurrence */
} tni_in_kind;

typedef struct tni_roles {
  const char *why_not;  /* the caches cannot be kept; NULL: they can. On the arena or static */
  const char *exact;    /* why the past must not be rounded up; NULL: it may be */
  tn_id past;           /* symbol; TN_NONE: the model has states of fixed size only */
  tn_expr step, total;  /* positions of a run; past + step */
  uint8_t *kinds;       /* [n_inputs] tni_in_kind */
  uint32_t *continues;  /* [n_inputs] the output that continues a state of fixed size; TN_NONE */
  uint32_t n_fixed;     /* such states */
  uint32_t input, axis; /* a plain input and its axis of length `step` */
} tni_roles;

/* After passes. Sets g->padded, step and step_fixed. */
TN_MUST_CHECK tn_status tni_roles_find(tni_graph *g, tni_arena *arena, tni_roles *out, tn_error *err);

/* The cache that a graph value is past or present of; TN_NONE. */
uint32_t tni_state_of_past(const tni_graph *g, tn_id v);
uint32_t tni_state_of_present(const tni_graph *g, tn_id v);

#endif
