/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin whose manifest lies inside it.
 */
#include <tenon/manifest.h>

#include "base.h"

#if defined(__aarch64__)
#define ARCH "aarch64"
#else
#define ARCH "x86-64"
#endif

TN_MANIFEST("name: noted\nversion: 0.0.1\nabi: {min: \"1.0\", max: \"1.0\"}\narch: " ARCH "\nlicense: Apache-2.0\n")

static tn_status fault_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  return base_entry(host, neg, out, "noted");
}

TN_PLUGIN(noted, fault_entry)
