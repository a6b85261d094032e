/* SPDX-License-Identifier: Apache-2.0
 *
 * States of fixed size, found by their form.
 */
#ifndef TENON_ROLES_FIXED_H
#define TENON_ROLES_FIXED_H

#include "runtime/roles/roles.h"

/* Fills r->continues and n_fixed, and, in a graph without caches, r->step and total where there are such states. false:
 * memory is short. */
TN_MUST_CHECK bool tni_fixed_find(const tni_graph *g, tni_arena *arena, tni_roles *r);

#endif
