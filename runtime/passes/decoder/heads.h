/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the pass `heads` that are files of their own.
 */
#ifndef TENON_PASSES_DECODER_HEADS_H
#define TENON_PASSES_DECODER_HEADS_H

#include "runtime/shape/shape.h"

/* Norm n before what splits heads off its operand. */
TN_MUST_CHECK tn_status tni_head_norm(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err);

#endif
