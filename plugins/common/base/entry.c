/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/entry.h"

#include <stdio.h>
#include <string.h>

/* From alloc to cancelled the table is functions and nothing else. */
static int has_all_services(const tn_host *host) {
  enum { FIRST = offsetof(tn_host, alloc), END = TN_UPTO(tn_host, cancelled) };
  static const char none[sizeof(void (*)(void))];
  for (size_t at = FIRST; at < END; at += sizeof none)
    if (!memcmp((const char *)host + at, none, sizeof none)) return 0;
  return 1;
}

tn_status tni_cm_negotiate(const char *name, const char *version, const tn_host *host, tn_negotiate *neg) {
  if (!neg || neg->h.size < TN_UPTO(tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = 0;
  neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "%s", name);
  snprintf(neg->version, sizeof neg->version, "%s", version);
  if (neg->host_max < neg->plugin_min || neg->host_min > neg->plugin_max) {
    snprintf(neg->message, sizeof neg->message, "host speaks ABI 1.%u to 1.%u, plugin 1.%u to 1.%u", neg->host_min,
             neg->host_max, neg->plugin_min, neg->plugin_max);
    return TN_E_INCOMPATIBLE;
  }
  if (!host || !TN_HAS(host, tn_host, cancelled)) {
    snprintf(neg->message, sizeof neg->message, "the host's table is shorter than that of ABI 1.0");
    return TN_E_INCOMPATIBLE;
  }
  if (!has_all_services(host)) {
    snprintf(neg->message, sizeof neg->message, "the host's table lacks a function of ABI 1.0");
    return TN_E_INCOMPATIBLE;
  }
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  return TN_OK;
}

static size_t common_bytes(size_t bytes, const void *theirs) {
  tn_hdr h;
  memcpy(&h, theirs, sizeof h);
  return h.size < bytes ? h.size : bytes;
}

void tni_cm_take(void *mine, size_t bytes, const void *theirs) {
  const size_t n = common_bytes(bytes, theirs);
  memset(mine, 0, bytes);
  memcpy(mine, theirs, n);
  tn_hdr h = {.size = (uint32_t)n, .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR};
  memcpy(mine, &h, sizeof h);
}

void tni_cm_give(void *theirs, const void *mine, size_t bytes) {
  const size_t n = common_bytes(bytes, theirs);
  if (n > sizeof(tn_hdr))
    memcpy((char *)theirs + sizeof(tn_hdr), (const char *)mine + sizeof(tn_hdr), n - sizeof(tn_hdr));
}
