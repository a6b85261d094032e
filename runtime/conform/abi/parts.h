/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the family abi.
 */
#ifndef TENON_CONFORM_ABI_PARTS_H
#define TENON_CONFORM_ABI_PARTS_H

#include "runtime/conform/case/case.h"
#include "runtime/conform/run/run.h"
#include "runtime/plugin/plugin.h"

void tni_cf_abi_file_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);     /* file.c */
void tni_cf_abi_manifest_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* manifest.c */
void tni_cf_abi_entry_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);    /* entry.c */
void tni_cf_abi_calls_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);    /* calls.c */

void tni_cf_abi_lives_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* lives.c */
void tni_cf_abi_state_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* state.c */

/* The plugin's file; false: said why. tni_cf_elf_close. */
bool tni_cf_open_file(tni_cf *cf, tni_cf_elf *e);
/* The manifest beside the file, or the one in it; false: said why. Its memory is cf->arena's. */
bool tni_cf_manifest_of(tni_cf *cf, tni_manifest *m);
/* Path of the manifest beside the file; false: there is none. */
bool tni_cf_manifest_path(const tni_cf *cf, char *path, size_t size);
/* Reads the manifest at path; false: said why. */
bool tni_cf_manifest_beside(tni_cf *cf, const char *path, tni_manifest *m);
/* The note in the plugin's file: its text is copied. False: there is none, or the file is no ELF file. */
bool tni_cf_manifest_note(tni_cf *cf, const char **text, size_t *n, bool *has_hash, tn_error *err);
/* Reads a manifest's text; file: what findings name. */
bool tni_cf_manifest_read(tni_cf *cf, const char *text, size_t n, const char *file, tni_manifest *m);
/* Operators that are claimed over caches. */
typedef struct tni_cf_over_caches {
  bool appends, attends; /* TensorScatter, Attention */
} tni_cf_over_caches;
tni_cf_over_caches tni_cf_abi_over_caches(tni_cf *cf); /* cached.c */
bool tni_cf_has_name(const char *const *names, size_t n, const char *name);

#endif
