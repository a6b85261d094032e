/* SPDX-License-Identifier: Apache-2.0
 *
 * What weights are and were, in words of reports: the grid that a model brings, the format that holds it, and how far
 * the one is from the other.
 */
#ifndef TENON_REPORT_WEIGHTS_H
#define TENON_REPORT_WEIGHTS_H

#include <stdbool.h>

#include "runtime/base/json.h"
#include "runtime/place/place.h"

/* {dtype} of floats, as the model stored them: `widened` (tni_graph) where it is not 0; {bits, group, zeros, scales} of
 * a grid: zeros is half, codes, values or unknown. */
json_t *tni_weight_source_json(const tn_weight *w, uint32_t widened);
/* The dtype that a format stores scales in. */
const char *tni_weight_scales_name(const tn_format *f, const int64_t *params, uint32_t n);

/* {weights: [{format, params, bits_per_weight, source, matrices, rms, exact}], exact, caches: [dtype]}: an entry for
 * each pair of format and source. all: every row is compared; else a few row blocks, and rms is theirs: of each matrix
 * of codes, of those of floats until one is not exact. Where nothing was packed (inspection), they are packed in memory
 * and forgotten. */
TN_MUST_CHECK tn_status tni_weights_report(tn_model *m, bool all, json_t **out, tn_error *err);

#endif
