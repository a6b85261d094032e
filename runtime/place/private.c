/* SPDX-License-Identifier: Apache-2.0
 *
 * How much private memory a program has. The vendor kit asks here too.
 */
#include <string.h>

#include "runtime/place/program_check.h"

static const uint64_t MOST_BYTES = UINT64_C(1) << 46;

void tni_private_dims(int64_t *v, uint32_t n, tn_id run, int64_t rows) {
  for (uint32_t i = 0; i < n; i++) v[i] = i == run && rows > 0 ? rows : 1;
}

tn_status tni_private_bytes(const tni_program *p, tn_id slot, const tn_dims *dims, uint64_t *sizes, uint64_t *bytes,
                            tn_error *err) {
  const char *name = p->dev->name;
  *bytes = 0;
  for (uint32_t t = 0; t < p->info->n_tasks; t++) {
    tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = sizes};
    memset(sizes, 0, p->info->n_slots * sizeof *sizes);
    const tn_status st = p->dev->device->measure(p->program, t, dims, &me);
    if (st != TN_OK) return tni_fail(err, st, name, "plugin '%s' cannot measure its private memory", name);
    if (sizes[slot] > MOST_BYTES)
      return tni_fail(err, TN_E_LIMIT, name, "plugin '%s' wants more private memory than there is", name);
    if (sizes[slot] > *bytes) *bytes = sizes[slot];
  }
  return TN_OK;
}
