/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the host for a terabyte as often as it gets one.
 */
#include "whole.h"

static void hoard(const tn_host *h) {
  while (h->alloc(h->ctx, (size_t)1 << 40, 64, TN_TAG_PLUGIN)) continue;
}

IN_LOWER(hoard(backend_of(d)->host); return TN_E_NO_MEMORY)
