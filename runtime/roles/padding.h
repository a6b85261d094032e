/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a run may have rows after its last real one: right padding of static chunks.
 *
 * Sound where no real row ever sees a padded one: rows of a run (the axis of length `step`) go side by side through
 * every operator, and meet only in attention over the caches, which is causal: a padded row's key lies after every
 * real query. The proof walks the graph from its inputs and knows, per value, which axis the rows lie on; an operator
 * that it does not know, or that mixes rows, ends it. Numbers computed from the length of the run end it too, but for
 * the cut that `last_rows` made, whose end the session knows.
 */
#ifndef TENON_ROLES_PADDING_H
#define TENON_ROLES_PADDING_H

#include "runtime/roles/roles.h"

/* NULL: it may; else why not, on the arena or static. r: lengths found, why_not and exact are NULL. */
const char *tni_padding_refusal(const tni_graph *g, const tni_roles *r, tni_arena *arena);

#endif
