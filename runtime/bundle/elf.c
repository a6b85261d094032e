/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program or library needs: machine, DT_NEEDED, DT_RUNPATH. 64 bits, little endian. Nothing in the file is
 * believed: every offset is checked against its size.
 */
#include <elf.h>
#include <string.h>

#include "runtime/bundle/internal.h"

typedef struct image {
  const uint8_t *p;
  uint64_t n;
  Elf64_Ehdr h;
} image;

static bool bytes_at(const image *f, uint64_t at, void *to, size_t n) {
  if (at > f->n || n > f->n - at) return false;
  memcpy(to, f->p + at, n);
  return true;
}

/* A virtual address as an offset in the file; UINT64_MAX: in no segment. */
static uint64_t offset_of(const image *f, uint64_t address) {
  Elf64_Phdr ph;
  for (uint32_t i = 0; i < f->h.e_phnum; i++) {
    if (!bytes_at(f, f->h.e_phoff + i * sizeof ph, &ph, sizeof ph)) break;
    if (ph.p_type == PT_LOAD && address >= ph.p_vaddr && address - ph.p_vaddr < ph.p_filesz)
      return address - ph.p_vaddr + ph.p_offset;
  }
  return UINT64_MAX;
}

static const char *string_at(const image *f, tni_arena *a, uint64_t at) {
  if (at >= f->n) return NULL;
  const char *s = (const char *)f->p + at;
  const size_t n = strnlen(s, f->n - at);
  return n == f->n - at ? NULL : tni_arena_strndup(a, s, n);
}

/* Entry i of the dynamic section; false past its end. */
static bool dynamic_at(const image *f, const Elf64_Phdr *dynamic, uint64_t i, Elf64_Dyn *d) {
  return i < dynamic->p_filesz / sizeof *d && bytes_at(f, dynamic->p_offset + i * sizeof *d, d, sizeof *d) &&
         d->d_tag != DT_NULL;
}

static bool read_dynamic(const image *f, tni_arena *a, const Elf64_Phdr *dynamic, tni_elf *out) {
  uint64_t strings = UINT64_MAX;
  Elf64_Dyn d;
  for (uint64_t i = 0; dynamic_at(f, dynamic, i, &d); i++)
    if (d.d_tag == DT_STRTAB) strings = offset_of(f, d.d_un.d_ptr);
  if (strings >= f->n) return false;
  for (uint64_t i = 0; dynamic_at(f, dynamic, i, &d); i++) {
    if (d.d_tag != DT_NEEDED && d.d_tag != DT_RUNPATH && d.d_tag != DT_RPATH) continue;
    const char *s = d.d_un.d_val < f->n - strings ? string_at(f, a, strings + d.d_un.d_val) : NULL;
    if (!s) return false;
    if (d.d_tag != DT_NEEDED) out->runpath = s;
    if (d.d_tag == DT_NEEDED && out->n_needed == sizeof out->needed / sizeof *out->needed) return false;
    if (d.d_tag == DT_NEEDED) out->needed[out->n_needed++] = s;
  }
  return true;
}

tn_status tni_elf_read(tni_arena *a, const char *path, tni_elf *out, tn_error *err) {
  tni_file m;
  Elf64_Phdr ph;
  tn_status st = tni_file_map(path, &m, err);
  if (st != TN_OK) return st;
  image f = {.p = m.data, .n = m.bytes};
  *out = (tni_elf){0};
  bool ok = bytes_at(&f, 0, &f.h, sizeof f.h) && memcmp(f.h.e_ident, ELFMAG, SELFMAG) == 0 &&
            f.h.e_ident[EI_CLASS] == ELFCLASS64 && f.h.e_ident[EI_DATA] == ELFDATA2LSB && f.h.e_phentsize == sizeof ph;
  out->machine = f.h.e_machine;
  for (uint32_t i = 0; ok && i < f.h.e_phnum; i++) {
    ok = bytes_at(&f, f.h.e_phoff + i * sizeof ph, &ph, sizeof ph);
    if (ok && ph.p_type == PT_DYNAMIC) ok = read_dynamic(&f, a, &ph, out);
  }
  tni_file_unmap(&m);
  return ok ? TN_OK : tni_fail(err, TN_E_INVALID, path, "'%s' is no program or library of 64 bits", path);
}

const char *tni_elf_arch(uint16_t machine) {
  return machine == EM_X86_64 ? "x86-64" : machine == EM_AARCH64 ? "aarch64" : NULL;
}
