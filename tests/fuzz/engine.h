/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime as an application has it, in a folder of this process' own, for targets that load and run models.
 *
 * A load and a run may take FZ_CANCEL_S seconds of processor time; then they are cancelled, and what does not end
 * within FZ_ABORT_S ends the process: a finding. So do a status of TN_E_INTERNAL, a failure without a message, external
 * data outside of the folder, and outputs that are not what the model's description says.
 */
#ifndef TENON_FUZZ_ENGINE_H
#define TENON_FUZZ_ENGINE_H

#include <stdbool.h>

#include <tenon/tenon.h>

enum { FZ_CANCEL_S = 2, FZ_ABORT_S = 20 };

/* Ends the process with a message: a finding. */
__attribute__((noreturn, format(printf, 1, 2))) void fz_finding(const char *fmt, ...);
/* A failure must say what failed. */
void fz_failure(tn_status st, const tn_error *err);
/* The process' folder (made on the first call): model.onnx goes here, data.bin has 4096 bytes, `link` leads to /etc. */
const char *fz_folder(void);
/* Writes n bytes to NAME in the folder. path: the whole path, of 512 bytes at least. */
void fz_write(const char *name, const void *p, size_t n, char *path);
/* Loads a model from bytes and looks at its reports; run: makes a session and runs it once, inputs from the bytes. */
void fz_model(const void *bytes, size_t n, bool run);
/* Loads a model of one input and one output that gives its input back, and runs it on x: refused, or x again. */
void fz_model_given(const void *bytes, size_t n, const tn_tensor *x);
/* Processor time of what happens between the two is limited as above; cancel may be NULL. */
void fz_clock_start(void (*cancel)(void *arg), void *arg);
void fz_clock_stop(void);

#endif
