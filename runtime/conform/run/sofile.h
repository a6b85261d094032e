/* SPDX-License-Identifier: Apache-2.0
 *
 * What a shared object says of itself, read from the file: none of its code is run. 64-bit little-endian ELF (System V
 * ABI, chapters 4 and 5). Everything is found as the loader finds it, through program headers and the dynamic section;
 * names of constructors come from the symbol table, where it was not stripped.
 */
#ifndef TENON_CONFORM_RUN_SOFILE_H
#define TENON_CONFORM_RUN_SOFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TNI_CF_ELF_NAMES = 64, TNI_CF_ELF_IMPORTS = 1024 };

/* Functions that the loader calls: how many, and the names known of them ("" unknown). */
typedef struct tni_cf_elf_calls {
  uint64_t n;
  const char *name[TNI_CF_ELF_NAMES];
} tni_cf_elf_calls;

/* Names point into the file, which stays mapped until tni_cf_elf_close. */
typedef struct tni_cf_elf {
  const uint8_t *map;
  size_t bytes;
  uint16_t machine, type;
  const char *needed[TNI_CF_ELF_NAMES], *exported[TNI_CF_ELF_NAMES];
  uint32_t n_needed, n_exported;            /* all of them; the arrays hold the first TNI_CF_ELF_NAMES */
  const char *imported[TNI_CF_ELF_IMPORTS]; /* that another file has to define; n_imported of them are here */
  uint32_t n_imported;
  bool entry; /* TN_ENTRY_SYMBOL is among the exported */
  bool now;   /* all symbols are bound when it is loaded */
  bool text_relocations, runpath, writable_code, executable_stack;
  tni_cf_elf_calls init, fini;
} tni_cf_elf;

/* NULL, or what is wrong with the file. */
const char *tni_cf_elf_open(const char *path, tni_cf_elf *e);
void tni_cf_elf_close(tni_cf_elf *e);

#endif
