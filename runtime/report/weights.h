/* SPDX-License-Identifier: Apache-2.0
 *
 * What weights are and were, in words of reports: the grid that a model brings, the format that holds it.
 */
#ifndef TENON_REPORT_WEIGHTS_H
#define TENON_REPORT_WEIGHTS_H

#include <jansson.h>
#include <tenon/plugin.h>

/* {dtype} of floats; {bits, group, zeros, scales} of a grid: zeros is half, codes, values or unknown. */
json_t *tni_weight_source_json(const tn_weight *w);
/* The dtype that a format stores scales in. */
const char *tni_weight_scales_name(const tn_format *f, const int64_t *params, uint32_t n);

#endif
