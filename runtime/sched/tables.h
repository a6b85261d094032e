/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants that are only looked up row by row (embeddings). They stay in the model's mapped file, and of them only
 * what is touched takes memory: the page of a row, with what the system maps around it at once (64 KiB on Linux).
 */
#ifndef TENON_SCHED_TABLES_H
#define TENON_SCHED_TABLES_H

#include "runtime/sched/internal.h"

/* t's data lies in a mapped file of the model. */
bool tni_is_mapped(const tn_model *m, const tni_tensor *t);
/* v is read by nothing but Gather on axis 0, and its data lies in a mapped file of the model. */
bool tni_is_table(const tn_model *m, tn_id v);
/* Most bytes of it that a context can touch: as many rows as its Gathers have indices at dims. All where that is more,
 * or not known. */
uint64_t tni_table_bytes(const tn_model *m, tn_id v, const int64_t *dims);
/* Asks the system to bring in what is touched and no more. */
void tni_table_advise(const tn_model *m, tn_id v);

#endif
