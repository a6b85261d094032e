/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes whose dims only the run knows: cells.h runs nodes and graphs over cells of memory, dynamic.h tasks of a
 * session.
 */
#ifndef TENON_INTERP_INTERP_H
#define TENON_INTERP_INTERP_H

#include "runtime/interp/cells.h"
#include "runtime/interp/dynamic.h"

#endif
