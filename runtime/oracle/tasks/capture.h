/* SPDX-License-Identifier: Apache-2.0
 *
 * TN_MODEL_CAPTURE: every plugin task beside its reference, on the same inputs.
 */
#ifndef TENON_ORACLE_TASKS_CAPTURE_H
#define TENON_ORACLE_TASKS_CAPTURE_H

#include "runtime/memory/run.h"

/* Results per task: largest |device - reference| over its bound. */
TN_MUST_CHECK tn_status tni_capture_create(tn_session *s);
void tni_capture_destroy(tn_session *s);
/* Compares what task i has just written. */
TN_MUST_CHECK tn_status tni_capture_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);

#endif
