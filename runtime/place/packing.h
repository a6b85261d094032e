/* SPDX-License-Identifier: Apache-2.0
 *
 * From the programs' needs to packed weights: one pack file per model and plugin.
 */
#ifndef TENON_PLACE_PACKING_H
#define TENON_PLACE_PACKING_H

#include "runtime/base/json.h"
#include "runtime/place/model_data.h"

/* Gathers the needs of all phases per device; equal needs are packed once. */
TN_MUST_CHECK tn_status tni_packed_collect(tn_model *m, tn_error *err);
/* Packs or maps. */
TN_MUST_CHECK tn_status tni_packed_open(tn_model *m, tn_error *err);
void tni_packed_close(tn_model *m);
/* Whether the files that m is mapped from are as they were (TNI_WATCH_*, watch.h): TN_E_IO names the first that is not.
 */
TN_MUST_CHECK tn_status tni_files_check(const tn_model *m, uint32_t what, tn_error *err);
/* Where the bytes of constant v lie. */
void tni_packed_source(const tn_model *m, tn_id v, tni_pack_source *s);

/* Whether every need of item i of a device is for reading from the disk: then it takes no memory where it has a file.
 */
bool tni_packed_on_disk(const tn_model *m, uint32_t dev, uint32_t item);

/* The report of a pack as JSON, a new object (packreport.c). errors: with tensors and their errors. */
TN_MUST_CHECK tn_status tni_pack_report(tn_model *m, bool errors, json_t **out, tn_error *err);

#endif
