/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration of a loaded model: its file on every view, its recorder in every run.
 */
#ifndef TENON_ORACLE_TASKS_CALIBRATE_H
#define TENON_ORACLE_TASKS_CALIBRATE_H

#include <jansson.h>

#include "runtime/session/internal.h"

/* After the import, before passes: the model's hash, and the calibration file, which must be of this model. */
TN_MUST_CHECK tn_status tni_calibrate_open(tn_model *m, tn_error *err);
/* After each tni_graph_view of the model's graph. */
TN_MUST_CHECK tn_status tni_calibrate_attach(tn_model *m, tn_error *err);
/* Records what task i is about to read. Its regions are the CPU's. */
TN_MUST_CHECK tn_status tni_calibrate_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
/* What was recorded, without the arrays: a new object. */
TN_MUST_CHECK tn_status tni_calibrate_report(const tn_model *m, json_t **out, tn_error *err);

#endif
