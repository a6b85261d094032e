/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

void tenon_test_nobody_has_this(void);

static tn_status fault_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  tenon_test_nobody_has_this();
  return base_entry(host, neg, out, "undefined");
}

TN_PLUGIN(fault, fault_entry)
