/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest inside a plugin (tenon/manifest.h), read from the mapped file: nothing is loaded or run.
 *
 * Its SHA-256 is of, one after another:
 *   1. the ELF header (64 bytes) with e_shoff, e_shentsize, e_shnum and e_shstrndx as zeros: where sections lie, which
 *      only linkers and debuggers read and strip changes;
 *   2. all program headers as they are in the file;
 *   3. for each PT_LOAD in their order, its p_filesz bytes of the file, with (1)'s fields as zeros where the ELF header
 *      lies in it, and with the 32 bytes of the hash itself as zeros.
 * That is all that the system's loader maps of the file, but for what follows a segment on its last page, which nothing
 * that was hashed refers to. Section headers, symbols for linkers and debugging information are not in it: strip may
 * go.
 */
#ifndef TENON_PLUGIN_ELFNOTE_H
#define TENON_PLUGIN_ELFNOTE_H

#include <stdbool.h>

#include "runtime/base/base.h"

typedef struct tni_elfnote {
  const char *yaml; /* in the mapping, n_yaml bytes */
  size_t n_yaml;
  uint64_t hash_at; /* where the 32 bytes lie in the file */
  bool has_hash;    /* they are not all zero */
} tni_elfnote;

/* Finds it in a file that tni_elf_check accepted. False: there is none, or what there is is not well-formed. */
bool tni_elfnote_find(const tni_file *f, tni_elfnote *out);
/* The SHA-256 above; n NULL: the file has no note. */
void tni_elfnote_sum(const tni_file *f, const tni_elfnote *n, uint8_t sum[32]);
/* TN_OK also where it states no hash; TN_E_CORRUPT names path and both. */
TN_MUST_CHECK tn_status tni_elfnote_verify(const tni_file *f, const tni_elfnote *n, const char *path, tn_error *err);

#endif
