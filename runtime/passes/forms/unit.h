/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes of one element: what the passes unit and turn share.
 */
#ifndef TENON_PASSES_FORMS_UNIT_H
#define TENON_PASSES_FORMS_UNIT_H

#include "runtime/shape/shape.h"

/* Axes of more than one element keep their order under perm. x may lack leading axes. */
bool tni_unit_keeps_big(const tni_graph *g, const tni_value *x, uint32_t rank, const int64_t *perm);
/* A MatMul of floats [.., m, 1] x [.., 1, n]. */
bool tni_unit_is_outer(const tni_graph *g, const tni_node *n);
/* The Expand that makes v, or the Tile that only repeats axes of one element; NULL: neither. */
const tni_node *tni_unit_widens(const tni_graph *g, tn_id v);
/* A Reshape of v to what its axes would be under perm; only where it keeps big axes. */
tn_id tni_unit_permuted(tni_graph *g, tn_id v, uint32_t rank, const int64_t *perm, tn_error *err);

#endif
