/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/table.h"

/* If, Loop, Scan: what comes out depends on the subgraph that runs. Nothing is claimed about it but what the model says of
 * sequences and optionals, whose types carry no dims then. */
tn_status tni_shape_control(tni_infer *in) {
  for (uint32_t o = 0; o < in->node->pub.n_out; o++) {
    const tni_value *v = tni_rule_out(in, o);
    tn_status st = v && v->type ? TN_OK : tni_rule_set_unknown(in, o, v ? v->pub.dtype : TN_DT_UNDEFINED);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}
