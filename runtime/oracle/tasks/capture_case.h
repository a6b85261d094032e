/* SPDX-License-Identifier: Apache-2.0
 *
 * A task that left its bound, as a folder that anybody can run again: FOLDER/model.onnx of its nodes and their
 * constants, test_data_set_0/input_K.pb as the task read them, output_K.pb as the reference computed them,
 * device/output_K.pb as the device did, case.json with task, device, plugin and how far off it is.
 */
#ifndef TENON_ORACLE_TASKS_CAPTURE_CASE_H
#define TENON_ORACLE_TASKS_CAPTURE_CASE_H

#include "runtime/oracle/tasks/evaluation.h"

/* Writes what ev computed; ratio: the largest difference over its bound. Makes FOLDER. */
TN_MUST_CHECK tn_status tni_capture_write(tni_evaluation *ev, double ratio, const char *folder);
/* File of the plugin that task belongs to; its name for one that has no file. */
const char *tni_capture_plugin(const tn_session *s, const tni_exec *x, uint32_t task);

#endif
