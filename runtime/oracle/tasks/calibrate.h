/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model records of its activations (TN_MODEL_CALIBRATE), run by run.
 */
#ifndef TENON_ORACLE_TASKS_CALIBRATE_H
#define TENON_ORACLE_TASKS_CALIBRATE_H

#include <jansson.h>

#include "runtime/memory/run.h"

/* Records what task i is about to read. Its regions are the CPU's. */
TN_MUST_CHECK tn_status tni_calibrate_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
/* What was recorded, without the arrays: a new object. */
TN_MUST_CHECK tn_status tni_calibrate_report(const tn_model *m, json_t **out, tn_error *err);

#endif
