/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

tn_status tni_file_map_fd(int fd, const char *path, tni_file *out, tn_error *err) {
  struct stat st;
  if (fstat(fd, &st) != 0) return tni_fail(err, TN_E_IO, path, "cannot stat '%s': %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return tni_fail(err, TN_E_INVALID, path, "'%s' is not a regular file", path);
  tni_file f = {.bytes = (uint64_t)st.st_size,
                .device = (uint64_t)st.st_dev,
                .inode = (uint64_t)st.st_ino,
                .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
  if (f.bytes) {
    void *p = mmap(NULL, f.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return tni_fail(err, TN_E_IO, path, "cannot map '%s': %s", path, strerror(errno));
    f.data = p;
  }
  *out = f;
  return TN_OK;
}

tn_status tni_file_map(const char *path, tni_file *out, tn_error *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return tni_fail(err, errno == ENOENT || errno == ENOTDIR ? TN_E_UNAVAILABLE : TN_E_IO, path, "cannot open '%s': %s",
                    path, strerror(errno));
  tn_status st = tni_file_map_fd(fd, path, out, err);
  close(fd);
  return st;
}

void tni_file_drop(const void *p, uint64_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, begin = (uintptr_t)p & ~page;
  if (bytes) (void)madvise((void *)begin, ((uintptr_t)p + bytes - begin + page) & ~page, MADV_DONTNEED);
}

void tni_file_unmap(tni_file *f) {
  if (f && f->data) munmap((void *)f->data, f->bytes);
  if (f) *f = (tni_file){0};
}
