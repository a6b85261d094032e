/* SPDX-License-Identifier: Apache-2.0
 *
 * What fits into the memory that the device can address: weights for good, codes and sums of a few products at a time.
 * Products with most time saved per byte come first; what is saved is what the CPU would take for them in int8.
 * Launching costs the same for all, so that large ones win: gate and up, down, q/k/v, o.
 */
#include <math.h>
#include <stdlib.h>

#include "plugins/npu-int8-sim/linear.h"

enum { PAGE = 4096, IN_FLIGHT = 4 };

typedef struct weighed {
  uint32_t node, reserved;
  uint64_t bytes;
  double saved; /* per byte */
} weighed;

static uint64_t whole_pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static weighed weigh_linear(const tni_npu_device *d, const tni_npu_linear *l) {
  weighed w = {.node = l->node};
  double macs = 0;
  for (uint32_t i = 0; i < l->n_weights; i++) {
    w.bytes += whole_pages(tni_w8a8_codes(l->N[i], l->K) + TNI_W8_TRAILER);
    macs += (double)d->set.chunk * (double)l->N[i] * (double)l->K;
  }
  const double cpu = 1e9 * macs / d->set.profile->cpu_int8_macs_ps, npu = (double)tni_npu_product_ns(d, l);
  w.saved = (cpu - npu) / (double)w.bytes;
  return w;
}

/* Codes and sums of one execution. */
static uint64_t working_bytes(const tni_npu_device *d, const tni_npu_linear *l) {
  uint64_t bytes = npusim_input_bytes(d->set.chunk, l->K);
  for (uint32_t i = 0; i < l->n_weights; i++) bytes += npusim_output_bytes(d->set.chunk, l->N[i]);
  return whole_pages(bytes);
}

static int by_saved(const void *pa, const void *pb) {
  const weighed *a = pa, *b = pb;
  if (a->saved != b->saved) return a->saved > b->saved ? -1 : 1;
  return a->node < b->node ? -1 : a->node > b->node;
}

static bool same_rows(const tni_npu_linear *a, const tni_npu_linear *b) {
  return a->n_rows == b->n_rows && (!a->n_rows || a->rows.lhs == b->rows.lhs);
}

bool tni_npu_fit_window(const tni_npu_device *d, tni_npu_answer *a, uint32_t n, tni_cm_mem *mem) {
  weighed *w = tni_cm_new(mem, n ? n : 1, sizeof *w);
  uint64_t used = 0;
  uint32_t count = 0;
  const tni_npu_linear *first = NULL;
  if (!w) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (!a[i].linear) continue;
    if (!first) first = a[i].linear;
    w[count] = weigh_linear(d, a[i].linear);
    const bool usual = same_rows(first, a[i].linear);
    const uint64_t working = usual ? IN_FLIGHT * working_bytes(d, a[i].linear) : 0;
    if (!usual) w[count].saved = -INFINITY;
    if (working > used) used = working;
    count++;
  }
  qsort(w, count, sizeof *w, by_saved);
  for (uint32_t i = 0; i < count; i++) {
    if (used <= d->set.window_bytes && w[i].bytes <= d->set.window_bytes - used) {
      used += w[i].bytes;
      continue;
    }
    a[w[i].node] =
        (tni_npu_answer){.reason = TN_WHY_TOO_BIG, .text = "the device's window is full (option window_mib)"};
  }
  return true;
}
