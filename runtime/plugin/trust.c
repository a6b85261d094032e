/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/trust.h"

#include <elf.h>
#include <errno.h>
#include <sha2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

tn_status tni_trust_dir(const char *dir, uint32_t allow, tn_error *err) {
  if (dir[0] != '/') return tni_fail(err, TN_E_INVALID, dir, "a plugin folder must be an absolute path, not '%s'", dir);
  return tni_trust_folder(dir, allow, NULL, err);
}

static uint64_t larger_end(uint64_t end, uint64_t at, uint64_t n, uint64_t size) {
  const uint64_t to = at < size && n < size - at ? at + n : size;
  return to > end ? to : end;
}

/* Where the last segment ends, or the table of them; the file's end where it says more than there is. */
static bool loaded_end(int fd, uint64_t size, uint64_t *end) {
  Elf64_Ehdr h;
  *end = size < sizeof h ? size : sizeof h;
  if (size < sizeof h) return true;
  if (!tni_file_get(&h, sizeof h, fd, 0)) return false;
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64) return true;
  *end = larger_end(*end, h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr), size);
  for (uint32_t i = 0; *end < size && i < h.e_phnum; i++) {
    Elf64_Phdr p;
    if (!tni_file_get(&p, sizeof p, fd, h.e_phoff + i * sizeof p)) return false;
    *end = larger_end(*end, p.p_offset, p.p_filesz, size);
  }
  return true;
}

/* Of what is in memory, and what follows it in the file. */
static bool sum_file(int fd, const tni_file *f, uint64_t size, uint8_t sum[32]) {
  uint8_t piece[16384];
  SHA2_CTX h;
  SHA256Init(&h);
  if (f->bytes) SHA256Update(&h, f->data, (size_t)f->bytes);
  for (uint64_t at = f->bytes; at < size;) {
    const uint64_t n = size - at < sizeof piece ? size - at : sizeof piece;
    if (!tni_file_get(piece, n, fd, at)) return false;
    SHA256Update(&h, piece, (size_t)n);
    at += n;
  }
  SHA256Final(sum, &h);
  return true;
}

tn_status tni_trust_elf(const char *path, uint32_t allow, uint8_t sum[32], tni_file *out, tn_error *err) {
  struct stat s;
  int fd = -1;
  tn_status st = tni_trust_open(path, allow, &fd, err);
  if (st != TN_OK) return st;
  tni_file f = {0};
  bool ok = fstat(fd, &s) == 0 && loaded_end(fd, (uint64_t)s.st_size, &f.bytes);
  void *p = ok && f.bytes ? mmap(NULL, f.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
  ok = ok && p != MAP_FAILED && tni_file_get(p, f.bytes, fd, 0);
  f.data = p == MAP_FAILED ? NULL : p;
  ok = ok && (!sum || sum_file(fd, &f, (uint64_t)s.st_size, sum));
  const int why = errno;
  close(fd);
  if (ok) {
    *out = f;
    return TN_OK;
  }
  tni_file_unmap(&f);
  return tni_fail(err, tni_errno_status(why, TN_E_IO), path, "cannot be read: %s", strerror(why));
}

static const char *machine_name(uint16_t m) {
  switch (m) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86 (32 bit)";
    case EM_ARM:
      return "arm (32 bit)";
    case EM_RISCV:
      return "riscv";
    default:
      return "another machine";
  }
}

#if defined(__x86_64__)
enum { OURS = EM_X86_64 };
#elif defined(__aarch64__)
enum { OURS = EM_AARCH64 };
#else
enum { OURS = EM_NONE };
#endif

tn_status tni_elf_check(const tni_file *f, const char *path, tn_error *err) {
  Elf64_Ehdr h;
  if (f->bytes < sizeof h || memcmp(f->data, ELFMAG, SELFMAG) != 0)
    return tni_fail(err, TN_E_INVALID, path, "is no shared object (no ELF header)");
  memcpy(&h, f->data, sizeof h);
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != OURS)
    return tni_fail(err, TN_E_INCOMPATIBLE, path, "is built for %s (ELF machine %u, class %u), this machine is %s",
                    machine_name(h.e_machine), h.e_machine, h.e_ident[EI_CLASS], machine_name(OURS));
  if (h.e_type != ET_DYN) return tni_fail(err, TN_E_INVALID, path, "is an ELF file, but no shared object");
  if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phoff > f->bytes ||
      (f->bytes - h.e_phoff) / sizeof(Elf64_Phdr) < h.e_phnum)
    return tni_fail(err, TN_E_INVALID, path, "is truncated: its program headers lie outside the file");
  for (uint32_t i = 0; i < h.e_phnum; i++) {
    Elf64_Phdr p;
    memcpy(&p, (const char *)f->data + h.e_phoff + i * sizeof p, sizeof p);
    if (p.p_type == PT_LOAD && (p.p_offset > f->bytes || p.p_filesz > f->bytes - p.p_offset))
      return tni_fail(err, TN_E_INVALID, path, "is truncated: segment %u lies outside its %llu bytes", i,
                      (unsigned long long)f->bytes);
  }
  return TN_OK;
}
