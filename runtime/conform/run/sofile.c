/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/run/sofile.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenon/plugin.h>
#include <unistd.h>

#include "runtime/base/base.h"

/* n bytes at a file offset, or NULL. */
static const void *file_at(const tni_cf_elf *e, uint64_t offset, uint64_t n) {
  return offset <= e->bytes && n <= e->bytes - offset ? e->map + offset : NULL;
}

static bool read_header(const tni_cf_elf *e, Elf64_Ehdr *h) {
  const void *p = file_at(e, 0, sizeof *h);
  if (p) memcpy(h, p, sizeof *h);
  return p != NULL;
}

static bool segment_of(const tni_cf_elf *e, uint32_t i, Elf64_Phdr *out) {
  Elf64_Ehdr h;
  if (!read_header(e, &h) || i >= h.e_phnum || h.e_phentsize != sizeof *out || h.e_phoff > e->bytes) return false;
  const void *p = file_at(e, h.e_phoff + (uint64_t)i * sizeof *out, sizeof *out);
  if (p) memcpy(out, p, sizeof *out);
  return p != NULL;
}

/* n bytes of the file that are loaded at an address, or NULL. */
static const void *loaded_bytes(const tni_cf_elf *e, uint64_t addr, uint64_t n) {
  Elf64_Phdr p;
  for (uint32_t i = 0; segment_of(e, i, &p); i++)
    if (p.p_type == PT_LOAD && addr >= p.p_vaddr && addr - p.p_vaddr <= p.p_filesz &&
        n <= p.p_filesz - (addr - p.p_vaddr) && p.p_offset <= UINT64_MAX - (addr - p.p_vaddr))
      return file_at(e, p.p_offset + (addr - p.p_vaddr), n);
  return NULL;
}

static uint32_t word_at(const tni_cf_elf *e, uint64_t addr, bool *ok) {
  const void *p = loaded_bytes(e, addr, 4);
  uint32_t v = 0;
  if (p)
    memcpy(&v, p, 4);
  else
    *ok = false;
  return v;
}

/* What the dynamic section says. */
typedef struct dynamic {
  uint64_t strtab, strsz, symtab, gnu_hash, hash, rela, relasz, init_array, init_size, fini_array, fini_size;
} dynamic;

static const char *dynamic_string(const tni_cf_elf *e, const dynamic *d, uint64_t offset) {
  if (offset >= d->strsz) return NULL;
  const char *s = loaded_bytes(e, d->strtab + offset, d->strsz - offset);
  return s && memchr(s, 0, d->strsz - offset) ? s : NULL;
}

/* Entry i of the dynamic section; false at its end. */
static bool dynamic_entry(const tni_cf_elf *e, uint32_t i, Elf64_Dyn *out) {
  Elf64_Phdr p;
  for (uint32_t k = 0; segment_of(e, k, &p); k++) {
    if (p.p_type != PT_DYNAMIC || (uint64_t)(i + 1) * sizeof *out > p.p_filesz) continue;
    const void *q = p.p_offset <= e->bytes ? file_at(e, p.p_offset + (uint64_t)i * sizeof *out, sizeof *out) : NULL;
    if (q) memcpy(out, q, sizeof *out);
    return q && out->d_tag != DT_NULL;
  }
  return false;
}

static void read_dynamic(tni_cf_elf *e, dynamic *d) {
  Elf64_Dyn t;
  for (uint32_t i = 0; dynamic_entry(e, i, &t); i++) {
    const uint64_t v = t.d_un.d_val;
    if (t.d_tag == DT_STRTAB) d->strtab = v;
    if (t.d_tag == DT_STRSZ) d->strsz = v;
    if (t.d_tag == DT_SYMTAB) d->symtab = v;
    if (t.d_tag == DT_GNU_HASH) d->gnu_hash = v;
    if (t.d_tag == DT_HASH) d->hash = v;
    if (t.d_tag == DT_RELA) d->rela = v;
    if (t.d_tag == DT_RELASZ) d->relasz = v;
    if (t.d_tag == DT_INIT_ARRAY) d->init_array = v;
    if (t.d_tag == DT_INIT_ARRAYSZ) d->init_size = v;
    if (t.d_tag == DT_FINI_ARRAY) d->fini_array = v;
    if (t.d_tag == DT_FINI_ARRAYSZ) d->fini_size = v;
    if (t.d_tag == DT_FLAGS) e->now |= (v & DF_BIND_NOW) != 0, e->text_relocations |= (v & DF_TEXTREL) != 0;
    if (t.d_tag == DT_FLAGS_1) e->now |= (v & DF_1_NOW) != 0;
    if (t.d_tag == DT_BIND_NOW) e->now = true;
    if (t.d_tag == DT_TEXTREL) e->text_relocations = true;
    if (t.d_tag == DT_RPATH || t.d_tag == DT_RUNPATH) e->runpath = true;
  }
  for (uint32_t i = 0; dynamic_entry(e, i, &t); i++) {
    if (t.d_tag != DT_NEEDED) continue;
    const char *name = dynamic_string(e, d, t.d_un.d_val);
    if (e->n_needed < TNI_CF_ELF_NAMES) e->needed[e->n_needed] = name ? name : "?";
    e->n_needed++;
  }
}

/* Symbols of the dynamic table: as many as its hash table knows (GNU hash: up to the end of the last chain). */
static uint32_t count_symbols(const tni_cf_elf *e, const dynamic *d) {
  bool ok = true;
  if (d->hash) {
    const uint32_t n = word_at(e, d->hash + 4, &ok);
    return ok ? n : 0;
  }
  if (!d->gnu_hash) return 0;
  const uint32_t buckets = word_at(e, d->gnu_hash, &ok), first = word_at(e, d->gnu_hash + 4, &ok),
                 bloom = word_at(e, d->gnu_hash + 8, &ok);
  const uint64_t at_buckets = d->gnu_hash + 16 + (uint64_t)bloom * 8, chains = at_buckets + (uint64_t)buckets * 4;
  uint32_t last = 0;
  for (uint32_t i = 0; ok && i < buckets; i++) {
    const uint32_t b = word_at(e, at_buckets + (uint64_t)i * 4, &ok);
    if (b > last) last = b;
  }
  if (!ok || last < first) return ok ? first : 0;
  while (ok && !(word_at(e, chains + (uint64_t)(last - first) * 4, &ok) & 1)) last++;
  return ok ? last + 1 : 0;
}

static void read_symbols(tni_cf_elf *e, const dynamic *d) {
  const uint32_t n = count_symbols(e, d);
  for (uint32_t i = 1; i < n; i++) {
    Elf64_Sym s;
    const void *p = loaded_bytes(e, d->symtab + (uint64_t)i * sizeof s, sizeof s);
    if (!p) return;
    memcpy(&s, p, sizeof s);
    if (s.st_shndx == SHN_UNDEF && e->n_imported < TNI_CF_ELF_IMPORTS) {
      const char *wanted = dynamic_string(e, d, s.st_name);
      if (wanted && *wanted) e->imported[e->n_imported++] = wanted;
    }
    if (s.st_shndx == SHN_UNDEF || ELF64_ST_BIND(s.st_info) == STB_LOCAL) continue;
    const char *name = dynamic_string(e, d, s.st_name);
    if (e->n_exported < TNI_CF_ELF_NAMES) e->exported[e->n_exported] = name ? name : "?";
    e->n_exported++;
    e->entry |= name && !strcmp(name, TN_ENTRY_SYMBOL);
  }
}

/* --- constructors ------------------------------------------------------------------------------------------------ */

static bool section_at(const tni_cf_elf *e, uint32_t i, Elf64_Shdr *out) {
  Elf64_Ehdr h;
  if (!read_header(e, &h) || i >= h.e_shnum || h.e_shentsize != sizeof *out || h.e_shoff > e->bytes) return false;
  const void *p = file_at(e, h.e_shoff + (uint64_t)i * sizeof *out, sizeof *out);
  if (p) memcpy(out, p, sizeof *out);
  return p != NULL;
}

/* Name of the function at an address, from the symbol table; "". */
static const char *function_at(const tni_cf_elf *e, uint64_t addr) {
  Elf64_Shdr t, names;
  for (uint32_t i = 0; section_at(e, i, &t); i++) {
    if (t.sh_type != SHT_SYMTAB || !section_at(e, t.sh_link, &names)) continue;
    const char *text = file_at(e, names.sh_offset, names.sh_size);
    for (uint64_t k = 0; text && k < t.sh_size / sizeof(Elf64_Sym); k++) {
      Elf64_Sym s;
      const void *p = t.sh_offset <= e->bytes ? file_at(e, t.sh_offset + k * sizeof s, sizeof s) : NULL;
      if (!p) break;
      memcpy(&s, p, sizeof s);
      if (s.st_value == addr && ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_name < names.sh_size &&
          memchr(text + s.st_name, 0, names.sh_size - s.st_name))
        return text + s.st_name;
    }
  }
  return "";
}

/* Address that the loader writes to a slot: of a relative relocation its addend, else what stands there. */
static uint64_t target_of(const tni_cf_elf *e, const dynamic *d, uint64_t slot) {
  for (uint64_t i = 0; i < d->relasz / sizeof(Elf64_Rela); i++) {
    Elf64_Rela r;
    const void *p = loaded_bytes(e, d->rela + i * sizeof r, sizeof r);
    if (!p) break;
    memcpy(&r, p, sizeof r);
    if (r.r_offset == slot) return (uint64_t)r.r_addend;
  }
  const void *p = loaded_bytes(e, slot, 8);
  uint64_t v = 0;
  if (p) memcpy(&v, p, 8);
  return v;
}

static void read_calls(const tni_cf_elf *e, const dynamic *d, uint64_t array, uint64_t size, tni_cf_elf_calls *c) {
  c->n = array ? size / 8 : 0;
  for (uint64_t i = 0; i < c->n && i < TNI_CF_ELF_NAMES; i++)
    c->name[i] = function_at(e, target_of(e, d, array + i * 8));
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static const char *parse_elf(tni_cf_elf *e) {
  Elf64_Ehdr h;
  Elf64_Phdr p;
  dynamic d = {0};
  if (!read_header(e, &h) || memcmp(h.e_ident, ELFMAG, SELFMAG)) return "is no ELF file";
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB) return "is no 64-bit little-endian ELF";
  if (h.e_type != ET_DYN) return "is an ELF file, but no shared object";
  e->machine = h.e_machine;
  e->type = h.e_type;
  for (uint32_t i = 0; segment_of(e, i, &p); i++) {
    if (p.p_type == PT_LOAD && (p.p_flags & PF_W) && (p.p_flags & PF_X)) e->writable_code = true;
    if (p.p_type == PT_GNU_STACK && (p.p_flags & PF_X)) e->executable_stack = true;
    if (p.p_type == PT_LOAD && (p.p_offset > e->bytes || p.p_filesz > e->bytes - p.p_offset)) return "is truncated";
  }
  read_dynamic(e, &d);
  read_symbols(e, &d);
  read_calls(e, &d, d.init_array, d.init_size, &e->init);
  read_calls(e, &d, d.fini_array, d.fini_size, &e->fini);
  return NULL;
}

const char *tni_cf_elf_open(const char *path, tni_cf_elf *e) {
  struct stat st;
  memset(e, 0, sizeof *e);
  const int fd = tni_file_open(path);
  if (fd < 0) return strerror(errno);
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
    return close(fd), "is no ELF file";
  void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return strerror(errno);
  e->map = map;
  e->bytes = (size_t)st.st_size;
  const char *why = parse_elf(e);
  if (why) tni_cf_elf_close(e);
  return why;
}

void tni_cf_elf_close(tni_cf_elf *e) {
  if (e->map) munmap((void *)(uintptr_t)e->map, e->bytes);
  e->map = NULL;
}
