/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/trust.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tn_status check_owner(const struct stat *s, const char *path, const char *what, uint32_t allow, tn_error *err) {
  if (!(allow & TNI_TRUST_OWNER) && s->st_uid != 0 && s->st_uid != geteuid())
    return tni_fail(err, TN_E_UNAVAILABLE, path, "refused: the %s belongs to user %u, not to root or the current user",
                    what, (unsigned)s->st_uid);
  if (!(allow & TNI_TRUST_SHARED) && (s->st_mode & (S_IWGRP | S_IWOTH)))
    return tni_fail(err, TN_E_UNAVAILABLE, path, "refused: the %s is writable by others (mode %04o)", what,
                    (unsigned)(s->st_mode & 07777));
  return TN_OK;
}

tn_status tni_trust_dir(const char *dir, uint32_t allow, tn_error *err) {
  struct stat s;
  if (dir[0] != '/') return tni_fail(err, TN_E_INVALID, dir, "a plugin folder must be an absolute path, not '%s'", dir);
  if (stat(dir, &s) != 0) return tni_fail(err, TN_E_UNAVAILABLE, dir, "cannot read the folder: %s", strerror(errno));
  if (!S_ISDIR(s.st_mode)) return tni_fail(err, TN_E_UNAVAILABLE, dir, "is not a folder");
  return check_owner(&s, dir, "folder", allow, err);
}

tn_status tni_trust_map(const char *path, uint32_t allow, tni_file *out, tn_error *err) {
  /* O_NONBLOCK: a FIFO of that name must not hang the host; it is refused as not regular. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ELOOP) return tni_fail(err, TN_E_UNAVAILABLE, path, "refused: is a symbolic link");
  if (fd < 0)
    return tni_fail(err, tni_errno_status(errno, TN_E_UNAVAILABLE), path, "cannot be opened: %s", strerror(errno));
  struct stat s;
  tn_status st = TN_OK;
  if (fstat(fd, &s) != 0)
    st = tni_fail(err, TN_E_IO, path, "cannot be read: %s", strerror(errno));
  else if (!S_ISREG(s.st_mode))
    st = tni_fail(err, TN_E_UNAVAILABLE, path, "refused: is not a regular file");
  if (st == TN_OK) st = check_owner(&s, path, "file", allow, err);
  if (st == TN_OK) st = tni_file_map_cut(fd, path, NULL, 0, true, out, err);
  close(fd);
  return st;
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
