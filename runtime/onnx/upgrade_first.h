/* SPDX-License-Identifier: Apache-2.0
 *
 * What opsets 1 to 5 wrote otherwise than 6, rewritten in the draft before the rules of upgrade.c. Private to
 * runtime/onnx.
 */
#ifndef TENON_ONNX_UPGRADE_FIRST_H
#define TENON_ONNX_UPGRADE_FIRST_H

#include "runtime/onnx/convert.h"

/* d is written for an opset below 6. */
TN_MUST_CHECK tn_status tni_upgrade_first(tni_import *c, tni_graph *g, tni_draft *d);
/* Whether the operator's form of 6 means what its form of d's opset says, now that the rules have seen it. */
bool tni_is_as_6(const tni_draft *d);

#endif
