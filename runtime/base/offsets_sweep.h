/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets for many thousand regions: one walk over their births and deaths with a heap of gaps, as an allocator keeps
 * it. O(n log n); the arena is larger than what offsets.c finds, which looks at all pairs.
 */
#ifndef TENON_BASE_OFFSETS_SWEEP_H
#define TENON_BASE_OFFSETS_SWEEP_H

#include <tenon/plugin.h>

/* Offsets of iv[0..n) into `offsets`, the end of the arena into *total. Lives and alignments are valid; nothing in iv
 * is written. TN_E_LIMIT: sizes overflow; TN_E_NO_MEMORY. */
TN_MUST_CHECK tn_status tni_sweep_offsets(uint32_t n, const tn_interval *iv, uint64_t *offsets, uint64_t *total);

#endif
