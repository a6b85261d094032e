/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files may become code: absolute, regular, owned by root or the current user, not writable by anybody else, in a
 * folder of the same kind; and an ELF file of this machine whose segments lie inside it (the system's loader maps what
 * a truncated file lacks, and faults).
 */
#ifndef TENON_PLUGIN_TRUST_H
#define TENON_PLUGIN_TRUST_H

#include "runtime/base/base.h"

/* What is allowed besides: SHARED: others may write (tests). OWNER: any owner (a bundle, whose program is the same
 * owner's and has compared the file with its list). */
enum { TNI_TRUST_SHARED = 1, TNI_TRUST_OWNER = 2 };
/* TN_E_UNAVAILABLE with the reason. */
TN_MUST_CHECK tn_status tni_trust_dir(const char *dir, uint32_t allow, tn_error *err);
/* A trusted file, as a copy in memory: nothing that happens to it later is seen. The last component may not be a link.
 */
TN_MUST_CHECK tn_status tni_trust_map(const char *path, uint32_t allow, tni_file *out, tn_error *err);
/* TN_E_INVALID: no ELF shared object, or truncated; TN_E_INCOMPATIBLE: of another machine. */
TN_MUST_CHECK tn_status tni_elf_check(const tni_file *f, const char *path, tn_error *err);

#endif
