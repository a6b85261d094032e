/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files may become code: absolute, regular, of the right owner and mode, in a folder of the same kind
 * (runtime/base/trust.h has the rule); and an ELF file of this machine whose segments lie inside it (the system's loader
 * maps what a truncated file lacks, and faults).
 */
#ifndef TENON_PLUGIN_TRUST_H
#define TENON_PLUGIN_TRUST_H

#include "runtime/base/base.h"

/* tni_trust_folder of an absolute path. */
TN_MUST_CHECK tn_status tni_trust_dir(const char *dir, uint32_t allow, tn_error *err);
/* A trusted file (tni_trust_open) as a copy in memory, up to where what is loaded of it ends: debugging information, which
 * is ten times as large, stays where it is. sum: SHA-256 of the whole file, whose rest is read piece by piece; may be
 * NULL. */
TN_MUST_CHECK tn_status tni_trust_elf(const char *path, uint32_t allow, uint8_t sum[32], tni_file *out, tn_error *err);
/* TN_E_INVALID: no ELF shared object, or truncated; TN_E_INCOMPATIBLE: of another machine. */
TN_MUST_CHECK tn_status tni_elf_check(const tni_file *f, const char *path, tn_error *err);

#endif
