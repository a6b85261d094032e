/* SPDX-License-Identifier: Apache-2.0
 *
 * Judging a worker that has ended. Private to the room.
 */
#ifndef TENON_CONFORM_RUN_JUDGE_H
#define TENON_CONFORM_RUN_JUDGE_H

#include "runtime/conform/run/child.h"
#include "runtime/conform/run/run.h"

/* The case has failed, for this. */
void tni_cf_add_finding(tni_cf_result *r, const char *text);
/* Takes what the worker reported, and how it ended. */
void tni_cf_result_judge(tni_cf_result *r, tni_cf_child *c);

#endif
