/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused nodes and the devices that do not know them.
 *
 * The fused graph is offered first. A fused node that the best device of a phase's order does not take is taken apart
 * on trial: first the chain comes off and the products stay joined, then everything. It stays apart where one of its
 * products or operators is then taken by a device that the phase prefers to the one that took the fused node; otherwise
 * it is put together again. So no device loses work to fusion, and what nobody wants in pieces stays whole. At most
 * four rounds of claims, each over the whole graph.
 */
#ifndef TENON_PLACE_PLACE_FUSED_H
#define TENON_PLACE_PLACE_FUSED_H

#include "runtime/place/exec.h"

/* Claims and partition of every exec (their phase is set), over the model's graph, whose fused nodes may be taken
 * apart. Ids change. */
TN_MUST_CHECK tn_status tni_place_fused(tn_model *m, const uint32_t *phases, tn_error *err);

#endif
