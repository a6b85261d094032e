/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

int tenon_test_helper(void);

static tn_status fault_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  return tenon_test_helper() ? base_entry(host, neg, out, "missing") : TN_E_INTERNAL;
}

TN_PLUGIN(fault, fault_entry)
