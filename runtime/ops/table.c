/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/kernel/kernel.h"

static const tni_kernel_fn kernel_table[] = {
#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  tni_k_##kernel,
#include "runtime/graph/ops.def"
#undef TNI_OP
};

tni_kernel_fn tni_ops_kernel(const tni_op *op) {
  if (!op || op->row >= sizeof kernel_table / sizeof *kernel_table || (op->flags & TNI_OPF_CONTROL)) return NULL;
  return kernel_table[op->row];
}

/* If, Loop and Scan have no kernel: whoever owns the subgraphs runs them. */
tn_status tni_k_control(const tni_kargs *a) { return tni_kfail(a, TN_E_UNSUPPORTED, "control flow is not a kernel"); }
