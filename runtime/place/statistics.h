/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration of a loaded model: its file on every view.
 */
#ifndef TENON_PLACE_STATISTICS_H
#define TENON_PLACE_STATISTICS_H

#include "runtime/place/model_data.h"

/* After the import, before passes: the model's hash, and the calibration file, which must be of this model. */
TN_MUST_CHECK tn_status tni_statistics_open(tn_model *m, tn_error *err);
/* After each tni_graph_view of the model's graph. */
TN_MUST_CHECK tn_status tni_statistics_attach(tn_model *m, tn_error *err);

#endif
