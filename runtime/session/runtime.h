/* SPDX-License-Identifier: Apache-2.0
 *
 * A runtime's making: profile, threads, plugins.
 */
#ifndef TENON_SESSION_RUNTIME_H
#define TENON_SESSION_RUNTIME_H

#include "runtime/place/place.h"

/* The profile that these options name, found where tn_runtime_create looks. */
TN_MUST_CHECK tn_status tni_runtime_profile(const tn_runtime_opts *opts, tni_profile **out, tn_error *err);
/* The pool, and where its threads run (threads.c). */
TN_MUST_CHECK tn_status tni_runtime_pool(tn_runtime *rt, const tn_runtime_opts *o, tn_error *err);
/* One holder less: who was the last one frees it. */
void tni_runtime_release(tn_runtime *rt);
void tni_model_release(tn_model *m);
/* What was cancelled has ended. */
void tni_runtime_resume(tn_runtime *rt);

#endif
