/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What lies between the cuts of a file of `bytes` bytes, cuts included. */
static bool map_pieces(char *at, uint64_t bytes, int fd, const tni_cut *cuts, uint32_t n) {
  uint64_t from = 0, gone = 0;
  for (uint32_t i = 0; i <= n; i++) {
    const uint64_t to = i < n ? cuts[i].at : bytes;
    if (to > from &&
        mmap(at + from, to - from, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)(from - gone)) == MAP_FAILED)
      return false;
    if (i == n) break;
    from = to + cuts[i].bytes;
    gone += cuts[i].bytes;
  }
  return true;
}

/* At an address as aligned as the system's units of mapping files (64 KiB; 2 MiB of huge pages): then an offset in the
 * file says which unit it is in. NULL: errno says why. */
static void *map_aligned(uint64_t bytes, int fd, const tni_cut *cuts, uint32_t n) {
  const uint64_t align = bytes < (2u << 20) ? 64u << 10 : 2u << 20;
  char *room = mmap(NULL, bytes + align, n ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return NULL;
  char *at = (char *)(((uintptr_t)room + align - 1) & ~(uintptr_t)(align - 1));
  const bool ok = map_pieces(at, bytes, fd, cuts, n);
  const int e = errno;
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE) - 1, end = ok ? (bytes + page) & ~page : 0;
  if (at > room) (void)munmap(room, (size_t)(at - room));
  (void)munmap(at + end, (size_t)(room + bytes + align - at - end + page) & ~page);
  errno = e;
  return ok ? at : NULL;
}

/* Bytes of the whole file that `have` are left of; false: they cannot be. */
static bool whole_bytes(uint64_t have, const tni_cut *cuts, uint32_t n, uint64_t *bytes) {
  uint64_t end = 0;
  *bytes = have;
  for (uint32_t i = 0; i < n; i++) {
    const tni_cut *c = &cuts[i];
    if (c->at % TNI_CUT_UNIT || c->bytes % TNI_CUT_UNIT || !c->bytes || c->at < end || c->at > *bytes ||
        c->bytes > INT64_MAX / 4 - *bytes)
      return false;
    *bytes += c->bytes;
    end = c->at + c->bytes;
  }
  return true;
}

int tni_file_open(const char *path) { return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }

tn_status tni_file_map_fd(int fd, const char *path, tni_file *out, tn_error *err) {
  return tni_file_map_cut(fd, path, NULL, 0, out, err);
}

tn_status tni_file_map_cut(int fd, const char *path, const tni_cut *cuts, uint32_t n, tni_file *out, tn_error *err) {
  struct stat st;
  if (fstat(fd, &st) != 0) return tni_fail(err, TN_E_IO, path, "cannot stat '%s': %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return tni_fail(err, TN_E_INVALID, path, "'%s' is not a regular file", path);
  tni_file f = {.bytes = (uint64_t)st.st_size,
                .device = (uint64_t)st.st_dev,
                .inode = (uint64_t)st.st_ino,
                .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
  if ((uint64_t)st.st_size > INT64_MAX / 4 || !whole_bytes(f.bytes, cuts, n, &f.bytes))
    return tni_fail(err, TN_E_CORRUPT, path, "what was cut out of '%s' does not fit its %lld bytes", path,
                    (long long)st.st_size);
  if (f.bytes) {
    f.data = map_aligned(f.bytes, fd, cuts, n);
    if (!f.data) return tni_fail(err, TN_E_IO, path, "cannot map '%s': %s", path, strerror(errno));
  }
  *out = f;
  return TN_OK;
}

tn_status tni_file_map(const char *path, tni_file *out, tn_error *err) {
  int fd = tni_file_open(path);
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

int tni_close_written(FILE *f) {
  errno = 0;
  /* What could not be written before is tried once more here, and says why. */
  const bool flushed = fflush(f) == 0;
  int why = flushed ? 0 : errno;
  const bool failed = ferror(f) != 0;
  errno = 0;
  if (fclose(f) != 0 && !why) why = errno;
  return why ? why : failed || !flushed ? EIO : 0;
}

int tni_make_folder(const char *path) {
  struct stat st;
  char *copy = strdup(path);
  if (!copy) return ENOMEM;
  for (char *p = copy; p && *p;) {
    p = strchr(p + 1, '/');
    if (p) *p = '\0';
    if (mkdir(copy, 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) break;
    if (p) *p = '/';
  }
  free(copy);
  if (stat(path, &st) != 0) return errno;
  return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}

char *tni_file_in(const char *folder, const char *name) {
  char *p = NULL;
  return asprintf(&p, "%s/%s", folder, name) < 0 ? NULL : p;
}

char *tni_path_folder(const char *path) {
  struct stat sb;
  char *p = strdup(path);
  if (!p) return NULL;
  const bool file = stat(path, &sb) == 0 && S_ISREG(sb.st_mode);
  size_t n = strlen(p);
  while (n > 1 && p[n - 1] == '/') p[--n] = '\0';
  if (!file) return p;
  char *slash = strrchr(p, '/');
  if (!slash) {
    free(p);
    return strdup(".");
  }
  *(slash == p ? slash + 1 : slash) = '\0';
  return p;
}
