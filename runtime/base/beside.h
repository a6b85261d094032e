/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies beside the library that runs.
 */
#ifndef TENON_BASE_BESIDE_H
#define TENON_BASE_BESIDE_H

#include "runtime/base/arena.h"

/* REL in the folder of the library that this code runs from (of the program where it is linked into one), so that an
 * installed tree can be moved. NULL where that folder is not known, or the arena has no memory. Any thread. */
const char *tni_beside_library(tni_arena *arena, const char *rel);

#endif
