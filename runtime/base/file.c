/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 30 };

bool tni_file_get(void *to, uint64_t n, int fd, uint64_t at) {
  for (char *p = to; n;) {
    const ssize_t got = pread(fd, p, n < PIECE ? (size_t)n : PIECE, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO; /* it is shorter than it was a moment ago */
    if (got <= 0) return false;
    p += got;
    at += (uint64_t)got;
    n -= (uint64_t)got;
  }
  return true;
}

bool tni_file_put(const void *from, uint64_t n, int fd, uint64_t at) {
  for (const char *p = from; n;) {
    const ssize_t put = pwrite(fd, p, n < PIECE ? (size_t)n : PIECE, (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = EIO;
    if (put <= 0) return false;
    p += put;
    at += (uint64_t)put;
    n -= (uint64_t)put;
  }
  return true;
}

/* The kernel would send SIGXFSZ to whoever grows a file past the process's limit. */
bool tni_file_reserve(int fd, uint64_t at, uint64_t n) {
  struct rlimit lim;
  int e;
  if (getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY && at + n > lim.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  do {
    e = posix_fallocate(fd, (off_t)at, (off_t)n);
  } while (e == EINTR);
  errno = e;
  return !e;
}

static bool map_piece(void *to, uint64_t n, int fd, uint64_t at) {
  return mmap(to, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)at) != MAP_FAILED;
}

/* What lies between the cuts of a file of `bytes` bytes, cuts included. */
static bool map_pieces(char *at, uint64_t bytes, int fd, const tni_cut *cuts, uint32_t n, bool copy) {
  uint64_t from = 0, gone = 0;
  for (uint32_t i = 0; i <= n; i++) {
    const uint64_t to = i < n ? cuts[i].at : bytes;
    if (to > from && !(copy ? tni_file_get : map_piece)(at + from, to - from, fd, from - gone)) return false;
    if (i == n) break;
    from = to + cuts[i].bytes;
    gone += cuts[i].bytes;
  }
  return true;
}

/* At an address as aligned as the system's units of mapping files (64 KiB; 2 MiB of huge pages): then an offset in the
 * file says which unit it is in. NULL: errno says why. */
static void *map_aligned(uint64_t bytes, int fd, const tni_cut *cuts, uint32_t n, bool copy) {
  const uint64_t align = bytes < (2u << 20) ? 64u << 10 : 2u << 20;
  /* Shared, so that tni_file_drop drops nothing of a copy. */
  char *room = mmap(NULL, bytes + align,
                    copy ? PROT_READ | PROT_WRITE
                    : n  ? PROT_READ
                         : PROT_NONE,
                    (copy ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return NULL;
  char *at = (char *)(((uintptr_t)room + align - 1) & ~(uintptr_t)(align - 1));
  const bool ok = map_pieces(at, bytes, fd, cuts, n, copy) && (!copy || mprotect(at, bytes, PROT_READ) == 0);
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

static int64_t in_ns(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

static uint64_t generation_of(int fd) {
  int n = 0;
  return ioctl(fd, FS_IOC_GETVERSION, &n) == 0 ? (uint32_t)n : 0;
}

static tn_status map_bytes(int fd, const char *path, const tni_cut *cuts, uint32_t n, bool copy, tni_file *f,
                           tn_error *err) {
  f->data = map_aligned(f->bytes, fd, cuts, n, copy);
  if (f->data && !copy) f->watch = tni_watch_add(f->data, f->bytes, fd);
  if (f->data && (copy || f->watch)) return TN_OK;
  const int e = errno;
  if (f->data) munmap((void *)f->data, f->bytes);
  return tni_fail(err, tni_errno_status(e, TN_E_IO), path, "cannot map '%s': %s", path, strerror(e));
}

tn_status tni_file_map_fd(int fd, const char *path, tni_file *out, tn_error *err) {
  return tni_file_map_cut(fd, path, NULL, 0, false, out, err);
}

tn_status tni_file_map_cut(int fd, const char *path, const tni_cut *cuts, uint32_t n, bool copy, tni_file *out,
                           tn_error *err) {
  struct stat st;
  if (fstat(fd, &st) != 0) return tni_fail(err, TN_E_IO, path, "cannot stat '%s': %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return tni_fail(err, TN_E_INVALID, path, "'%s' is not a regular file", path);
  tni_file f = {.bytes = (uint64_t)st.st_size,
                .device = (uint64_t)st.st_dev,
                .inode = (uint64_t)st.st_ino,
                .generation = generation_of(fd),
                .mtime_ns = in_ns(st.st_mtim),
                .ctime_ns = in_ns(st.st_ctim)};
  if ((uint64_t)st.st_size > INT64_MAX / 4 || !whole_bytes(f.bytes, cuts, n, &f.bytes))
    return tni_fail(err, TN_E_CORRUPT, path, "what was cut out of '%s' does not fit its %lld bytes", path,
                    (long long)st.st_size);
  const tn_status mapped = f.bytes ? map_bytes(fd, path, cuts, n, copy, &f, err) : TN_OK;
  if (mapped == TN_OK) *out = f;
  return mapped;
}

static tn_status map_path(const char *path, bool copy, tni_file *out, tn_error *err) {
  int fd = tni_file_open(path);
  if (fd < 0)
    return tni_fail(err, tni_errno_status(errno, errno == ENOENT || errno == ENOTDIR ? TN_E_UNAVAILABLE : TN_E_IO),
                    path, "cannot open '%s': %s", path, strerror(errno));
  tn_status st = tni_file_map_cut(fd, path, NULL, 0, copy, out, err);
  close(fd);
  return st;
}

tn_status tni_file_map(const char *path, tni_file *out, tn_error *err) { return map_path(path, false, out, err); }
tn_status tni_file_read(const char *path, tni_file *out, tn_error *err) { return map_path(path, true, out, err); }

tn_status tni_file_check(const tni_file *f, const char *path, uint32_t what, tn_error *err) {
  return tni_watch_check(f->watch, path, what, err);
}

void tni_file_drop(const void *p, uint64_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, begin = (uintptr_t)p & ~page;
  if (bytes) (void)madvise((void *)begin, ((uintptr_t)p + bytes - begin + page) & ~page, MADV_DONTNEED);
}

void tni_file_unmap(tni_file *f) {
  if (f) tni_watch_remove(f->watch);
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

bool tni_stays_inside(const char *path) {
  if (!*path || *path == '/') return false;
  for (const char *p = path; *p;) {
    size_t n = strcspn(p, "/");
    if (n == 2 && p[0] == '.' && p[1] == '.') return false;
    p += n;
    p += strspn(p, "/");
  }
  return true;
}
