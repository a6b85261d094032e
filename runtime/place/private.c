/* SPDX-License-Identifier: Apache-2.0
 *
 * How much private memory a program has. The vendor kit asks here too.
 */
#include "runtime/place/calls.h"
#include "runtime/place/program_check.h"

void tni_private_dims(int64_t *v, uint32_t n, tn_id run, int64_t rows) {
  for (uint32_t i = 0; i < n; i++) v[i] = i == run && rows > 0 ? rows : 1;
}

tn_status tni_private_bytes(const tni_program *p, tn_id slot, const tn_dims *dims, uint64_t *sizes, uint64_t *bytes,
                            tn_error *err) {
  *bytes = 0;
  for (uint32_t t = 0; t < p->info->n_tasks; t++) {
    tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = sizes};
    const tn_status st = tni_dev_measure(p->dev, p->program, p->info, t, "private memory", dims, &me, err);
    if (st != TN_OK) return st;
    if (sizes[slot] > *bytes) *bytes = sizes[slot];
  }
  return TN_OK;
}
