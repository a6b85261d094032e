/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the family abi.
 */
#ifndef TENON_CONFORM_ABI_H
#define TENON_CONFORM_ABI_H

#include "runtime/conform/families.h"
#include "runtime/conform/sofile.h"
#include "runtime/plugin/manifest.h"

void tni_cf_abi_file_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);     /* abi_file.c */
void tni_cf_abi_manifest_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* abi_manifest.c */
void tni_cf_abi_entry_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);    /* abi_entry.c */
void tni_cf_abi_calls_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);    /* abi_calls.c */

/* The plugin's file; false: said why. tni_cf_elf_close. */
bool tni_cf_open_file(tni_cf *cf, tni_cf_elf *e);
/* The manifest beside the file, or the one in it; false: said why. Its memory is cf->arena's. */
bool tni_cf_manifest_of(tni_cf *cf, tni_manifest *m);
bool tni_cf_has_name(const char *const *names, size_t n, const char *name);

#endif
