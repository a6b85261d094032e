/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory planner: places regions with known lifetimes in one arena so that regions alive at the same step never
 * share a byte. Used by the core for its arenas and lent to plugins as host->offsets.
 *
 * Greedy best fit in three orders (largest first, birth first, largest area first), each bettered by placing what ended
 * at the top first, some dozen times; it stops where the lower bound is reached. The smallest arena wins, the earlier
 * attempt on a tie. Above 4,096 regions it is one walk over births and deaths instead (offsets_sweep.h), in O(n log n).
 * The answer depends on the arguments only; any thread.
 */
#ifndef TENON_BASE_OFFSETS_H
#define TENON_BASE_OFFSETS_H

#include <tenon/plugin.h>

/* Fills iv[i].offset (a multiple of iv[i].align) and *total, the bytes of the arena, which the caller aligns to the
 * largest align. bytes 0 gives offset 0 and takes nothing; align 0 is 1.
 * TN_E_INVALID: first > last, or align no power of two; TN_E_LIMIT: sizes overflow; TN_E_NO_MEMORY. On failure iv and
 * total are untouched. */
TN_MUST_CHECK tn_status tni_plan_offsets(uint32_t n, tn_interval *iv, uint64_t *total);

#endif
