/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of `check`: who takes each node. It is written node by node, since models of a million nodes have one too.
 */
#ifndef TENON_REPORT_REPORT_CHECK_H
#define TENON_REPORT_REPORT_CHECK_H

#include "runtime/base/json_write.h"
#include "runtime/place/place.h"

/* The whole report; nodes false: TN_REPORT_PLACEMENT, without their list. */
void tni_check_write(const tn_model *m, bool nodes, tni_json_writer *w);
/* {device: nodes, ..., "unsupported": nodes}, without those that are 0. */
json_t *tni_placement_json(const tn_model *m, const tni_exec *x);

#endif
