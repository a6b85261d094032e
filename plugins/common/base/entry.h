/* SPDX-License-Identifier: Apache-2.0
 *
 * What every entry does first, and how structs of the other side are copied: by the smaller of both sizes, since a host
 * of another minor has others (rules 1 and 4 of tenon/plugin.h).
 */
#ifndef TENON_COMMON_BASE_ENTRY_H
#define TENON_COMMON_BASE_ENTRY_H

#include <tenon/plugin.h>

/* Fills neg for a plugin that needs nothing beyond ABI 1.0. TN_E_INCOMPATIBLE, said in neg->message, where the host's
 * range does not meet or its table lacks what 1.0 has. */
TN_MUST_CHECK tn_status tni_cm_negotiate(const char *name, const char *version, const tn_host *host, tn_negotiate *neg);

/* *mine, a growing struct of `bytes` as this plugin knows it, becomes what *theirs has of it; the rest is zero. */
void tni_cm_take(void *mine, size_t bytes, const void *theirs);
/* Out-struct *theirs gets what of *mine fits after its header. */
void tni_cm_give(void *theirs, const void *mine, size_t bytes);

#endif
