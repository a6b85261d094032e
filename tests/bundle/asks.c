/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that opens no device without a file of its folder, asks.bin.
 */
#include "tests/faults/corpus/whole.h"

static tn_status ask(tn_plugin *pub) {
  const tn_host *h = ((backend *)(void *)pub)->host;
  const void *data;
  uint64_t n;
  const tn_status st = h->resource(h->ctx, "asks.bin", &data, &n);
  return st == TN_OK && n == 4 && memcmp(data, "here", 4) == 0 ? TN_OK : TN_E_UNAVAILABLE;
}

IN_OPEN(if (ask(p) != TN_OK) return TN_E_UNAVAILABLE)
