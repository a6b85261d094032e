/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/edges: the families that ask what a plugin does at the edges of numbers and versions.
 */
#ifndef TENON_CONFORM_EDGES_EDGES_H
#define TENON_CONFORM_EDGES_EDGES_H

#include "runtime/conform/case/case.h"

void tni_cf_edge_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
