/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences that end at different rows of their past (tni_graph.lengths): where this run's rows go.
 */
#ifndef TENON_SESSION_LENGTHS_H
#define TENON_SESSION_LENGTHS_H

#include "runtime/memory/memory.h"

/* Reads what the model makes of the inputs, after pos and valid are known: s->row_pos, int64 [n_row_pos], or n_row_pos
 * 0 where all sequences are as long as the past. A model whose caches do not stay in place gets its pos here.
 * TN_E_INVALID naming the node: rows that the past does not have. TN_E_UNSUPPORTED: sequences that differ, and no
 * caches. */
TN_MUST_CHECK tn_status tni_lengths_read(tn_session *s, tn_error *err);
/* The same before a step of n positions of a session that keeps its caches. */
TN_MUST_CHECK tn_status tni_lengths_step(tn_session *s, int64_t n, tn_error *err);
/* The first row that the run writes: pos, or less where sequences differ. */
int64_t tni_lengths_least(const tn_session *s, int64_t pos);
/* Zeroes the rows of cache k that lie after what its sequences have of the past. */
void tni_lengths_clear(const tn_session *s, const tni_rows *rows, void *cache);

#endif
