/* SPDX-License-Identifier: Apache-2.0
 *
 * The op table for operators.py: per row a line "DOMAIN NAME SINCE UNTIL FLAGS MASK", tab separated. UNTIL 0: still
 * current; MASK: dtypes that the host takes as the first input (Where: the second).
 */
#include <stdio.h>

#include "runtime/ops/kernel/args.h"

int main(void) {
  uint32_t n;
  const tni_op *t = tni_op_table(&n);
  for (uint32_t i = 0; i < n; i++)
    printf("%s\t%s\t%u\t%u\t%u\t%u\n", t[i].domain, t[i].name, t[i].since, t[i].until, t[i].flags,
           tni_ops_dtypes(t[i].id, t[i].id == TN_OP_WHERE));
  return 0;
}
