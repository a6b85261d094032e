/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants that the model brings quantized and that somebody reads as floats in memory: a program that wants them raw
 * (other than a host kernel that reads codes), a subgraph, a node that is run when its operands are there, the caller.
 */
#ifndef TENON_PLACE_DENSE_H
#define TENON_PLACE_DENSE_H

#include "runtime/place/model_data.h"

/* After lowering, before anything is attached. */
TN_MUST_CHECK tn_status tni_dense_constants(tn_model *m, tn_error *err);

#endif
