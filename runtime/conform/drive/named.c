/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols that a task does not name.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/conform/drive/device.h"

static bool measure_at(const tni_cf_drive *d, tn_id task, const int64_t *v, tn_measure *m, uint64_t *slots) {
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = v, .n = d->view.n_symbols};
  *m = (tn_measure){.h = TN_HDR(tn_measure), .slot_bytes = slots};
  return d->h->device->measure(d->prog.program, task, &dims, m) == TN_OK;
}

static bool differs(char *text, size_t n, const char *what, uint64_t a, uint64_t b) {
  snprintf(text, n, "%llu and %llu bytes of %s", (unsigned long long)a, (unsigned long long)b, what);
  return a != b;
}

bool tni_cf_drive_named(const tni_cf_drive *d, tn_id task, const int64_t *v, uint32_t symbol, int64_t other, char *text,
                        size_t n) {
  const uint32_t n_slots = d->info->n_slots;
  uint64_t *slots = TNI_NEW_ARRAY(d->arena, uint64_t, 2 * n_slots + 1);
  int64_t *v2 = TNI_NEW_ARRAY(d->arena, int64_t, d->view.n_symbols + 1);
  tn_measure m[2];
  char what[96];
  if (!slots || !v2 || symbol >= d->view.n_symbols || d->info->tasks[task]->symbols >> (symbol < 63 ? symbol : 63) & 1)
    return true;
  memcpy(v2, v, d->view.n_symbols * sizeof *v);
  v2[symbol] = other;
  if (!measure_at(d, task, v, &m[0], slots) || !measure_at(d, task, v2, &m[1], slots + n_slots)) return true;
  bool changed = differs(what, sizeof what, "scratch", m[0].scratch_bytes, m[1].scratch_bytes) ||
                 differs(what, sizeof what, "driver_bytes", m[0].driver_bytes, m[1].driver_bytes);
  for (uint32_t s = 0; s < n_slots && !changed; s++)
    changed = differs(what, sizeof what, "a slot", slots[s], slots[n_slots + s]);
  snprintf(
      text, n,
      "measure states %s for task %u at %s = %lld and %lld, and the task's `symbols` do not name %s: a plan of one "
      "would serve the other (plugin.h, tn_task)",
      what, task, d->view.symbols[symbol]->name, (long long)v[symbol], (long long)other, d->view.symbols[symbol]->name);
  return !changed;
}
