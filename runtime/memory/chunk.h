/* SPDX-License-Identifier: Apache-2.0
 *
 * How many positions a run has, and what that does to lengths: pieces of a prompt that a device takes in one length
 * only (chunk), and lengths of the context that are rounded up (bucket). The memory statement (limits.c) promises by
 * these rules and sessions (keep.c) allocate by them.
 */
#ifndef TENON_MEMORY_CHUNK_H
#define TENON_MEMORY_CHUNK_H

#include "runtime/place/place.h"

/* Most positions of a run of a prompt, because a device takes certain lengths only; 0: any. After place. */
int64_t tni_model_chunk(const tn_model *m);
/* Whether a session that keeps its caches runs n positions on x (a padded chunk counts whole): one position is decoded,
 * more are prefilled. */
bool tni_exec_takes(const tn_model *m, const tni_exec *x, int64_t n);
/* Positions that n, no more than its chunk, are run with on x: the least allowed length that has room for them. */
int64_t tni_exec_length(const tni_exec *x, int64_t n);
/* Positions that a step of n, no more than a chunk, is run with: the next length that is allowed. */
int64_t tni_chunk_padded(const tn_model *m, int64_t n);
/* The same, and rounded up to the bucket: what caches for so many positions hold. */
int64_t tni_chunk_capacity(const tn_model *m, int64_t positions);
/* Most positions of a step in caches for so many, where the caller says nothing and no device has a length. */
int64_t tni_chunk_step(const tn_model *m, int64_t positions);
/* Length of the context that a step up to `valid` is run at, in caches for `capacity`. */
int64_t tni_chunk_total(const tn_model *m, int64_t capacity, int64_t valid);
/* rows as the graph counts them: without the symbol all are computed, and there is one case less to tell apart. */
int64_t tni_chunk_rows(const tn_model *m, uint32_t rows, int64_t n);

#endif
