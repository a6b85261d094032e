/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants that are only looked up row by row (embeddings), of floats or quantized. They stay in the model's mapped
 * file, and of them only what is touched takes memory: the page of a row, with what the system maps around it at once
 * (64 KiB on Linux). A session drops them again after some rows, so that a long context does not gather a whole table.
 */
#ifndef TENON_PLACE_TABLES_H
#define TENON_PLACE_TABLES_H

#include "runtime/place/model_data.h"

/* Dropped after a run once so many rows were looked up; smaller tables are kept. */
enum { TNI_TABLE_ROWS = 64, TNI_TABLE_BYTES = 1 << 20 };

/* t's data lies in a mapped file of the model. */
bool tni_is_mapped(const tn_model *m, const tni_tensor *t);
/* v is read by nothing but Gather on axis 0, its bytes lie in mapped files and are no other constant's, and they are not
 * few. */
bool tni_is_table(const tn_model *m, tn_id v);
/* Most bytes of it that are resident at once: the rows of one step at dims `step` and of those before that were not
 * dropped yet, and no more than a context looks up. All where that is more, or not known. */
uint64_t tni_table_bytes(const tn_model *m, tn_id v, const int64_t *context, const int64_t *step);

/* While weights are attached: v is a table of the model. Asks the system to bring in what is touched and no more. */
TN_MUST_CHECK tn_status tni_table_add(tn_model *m, tn_id v);
/* Rows that one run at dims looks up in all tables of the model. */
uint64_t tni_tables_rows(const tn_model *m, const int64_t *dims);
/* After a run that looked up so many. looked_up: of the session, since they were dropped. Allocates nothing. */
void tni_tables_used(const tn_model *m, uint64_t rows, uint64_t *looked_up);

#endif
