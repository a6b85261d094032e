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
/* Takes what the worker of one case reported, and how it ended. */
void tni_cf_result_judge(tni_cf_result *r, tni_cf_child *c);

/* Of workers with several cases: how many have ended. */
uint32_t tni_cf_ended(const tni_cf_child *c);
bool tni_cf_sanitizer_spoke(const tni_cf_child *c);
/* Takes a case's part of the report, from p on, and says where the next one begins. NULL: the case did not pass, r is as
 * before, and found[n] is its first finding. */
const char *tni_cf_result_take(tni_cf_result *r, const char *p, char *found, size_t n);

#endif
