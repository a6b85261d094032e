/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

void tenon_test_nobody_has_this(void);

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  (void)host;
  tenon_test_nobody_has_this();
  return base_entry(neg, out, "undefined");
}

TN_PLUGIN(fault, entry)
