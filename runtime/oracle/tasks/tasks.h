/* SPDX-License-Identifier: Apache-2.0
 *
 * Every task of a run beside what the format says: computed in place of the device (TN_MODEL_REFERENCE), compared with
 * it (TN_MODEL_CAPTURE), and what it reads recorded (TN_MODEL_CALIBRATE). And who a NaN belongs to (`watch` of profiles).
 *
 * The session installs these as its watch (run.h); nothing below knows of them.
 */
#ifndef TENON_ORACLE_TASKS_TASKS_H
#define TENON_ORACLE_TASKS_TASKS_H

#include "runtime/base/json.h"
#include "runtime/memory/memory.h"

/* --- reference --- */

/* Unpacked weights, made on first use, shared by sessions. */
TN_MUST_CHECK tn_status tni_refcache_create(tn_model *m, tn_error *err);
void tni_refcache_destroy(tn_model *m);

/* Computes task i's nodes into the task's own output regions. */
TN_MUST_CHECK tn_status tni_reference_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);

/* --- capture --- */

/* Results per task: largest |device - reference| over its bound. */
TN_MUST_CHECK tn_status tni_capture_create(tn_session *s);
void tni_capture_destroy(tn_session *s);
/* Compares what task i has just written. */
TN_MUST_CHECK tn_status tni_capture_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);

/* --- suspicion --- */

/* What task i has just written: TN_E_DEVICE_LOST, and its device is lost, where that has a NaN or an infinity that the
 * reference of the same inputs does not have; err names node, device and element. Caches are looked at only where
 * s->watch.only is TN_NONE: that reads all of their rows. */
TN_MUST_CHECK tn_status tni_suspect_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);

/* --- calibration --- */

/* Records what task i is about to read. Its regions are the CPU's. */
TN_MUST_CHECK tn_status tni_calibrate_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
/* What was recorded, without the arrays: a new object. */
TN_MUST_CHECK tn_status tni_calibrate_report(const tn_model *m, json_t **out, tn_error *err);

#endif
