/* SPDX-License-Identifier: Apache-2.0
 *
 * A placement made ready: claims -> partition -> programs -> tasks over regions.
 */
#ifndef TENON_PLACE_EXEC_H
#define TENON_PLACE_EXEC_H

#include "runtime/place/model_data.h"

/* Claims and partition only (check, inspect). */
TN_MUST_CHECK tn_status tni_exec_place(tn_model *m, tni_exec *x, uint32_t phase, tn_error *err);
/* Lowers every cluster. All nodes must be placed. */
TN_MUST_CHECK tn_status tni_exec_lower(tn_model *m, tni_exec *x, tn_error *err);
/* Attaches weights (blobs, raw constants) and private memory to the programs. After packing. */
TN_MUST_CHECK tn_status tni_exec_attach(tn_model *m, tni_exec *x, tn_error *err);
/* Detaches, releases programs. */
void tni_exec_finish(tn_model *m, tni_exec *x);

/* A matrix product whose second operand is a constant: what `require` keeps off the host (model.c). */
bool tni_is_weight_product(const tn_graph *g, const tn_node *n);

/* What a raw constant of the host's memory is aligned to in a WEIGHT slot of a plugin. */
static inline uint32_t tni_constant_align(const tn_slot *s) { return s->align > 16 ? s->align : 16; }

#endif
