/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/blobcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct blob_header {
  char magic[8];
  uint64_t nkey, ndata, zero;
  uint64_t sum[2]; /* low, high */
  uint64_t reserved[2];
} blob_header;
_Static_assert(sizeof(blob_header) == 64, "on-disk header");

static const char blob_magic[8] = {'T', 'N', 'B', 'L', 'O', 'B', '0', '1'};
static const char tmp_prefix[] = ".tmp-";
enum { STALE_S = 3600 };

static uint64_t padded_bytes(uint64_t n) { return (n + 63) & ~UINT64_C(63); }

static void file_name(char *buf, size_t n, const void *key, uint64_t nkey) {
  XXH128_hash_t h = XXH3_128bits(key, (size_t)nkey);
  snprintf(buf, n, "%016" PRIx64 "%016" PRIx64 ".blob", (uint64_t)h.high64, (uint64_t)h.low64);
}

static blob_header header_of(uint64_t nkey, const void *data, uint64_t n) {
  XXH128_hash_t h = XXH3_128bits(data, (size_t)n);
  blob_header out = {.nkey = nkey, .ndata = n, .sum = {h.low64, h.high64}};
  memcpy(out.magic, blob_magic, sizeof blob_magic);
  return out;
}

static bool is_intact(const tni_file *f, const void *key, uint64_t nkey) {
  blob_header h;
  if (f->bytes < sizeof h) return false;
  memcpy(&h, f->data, sizeof h);
  if (memcmp(h.magic, blob_magic, sizeof blob_magic) != 0 || h.nkey != nkey || h.ndata > TNI_BLOB_MAX_BYTES)
    return false;
  if (f->bytes != sizeof h + padded_bytes(nkey) + h.ndata) return false;
  const char *body = (const char *)f->data + sizeof h;
  if (memcmp(body, key, (size_t)nkey) != 0) return false;
  blob_header want = header_of(nkey, body + padded_bytes(nkey), h.ndata);
  return memcmp(&h, &want, sizeof h) == 0;
}

tn_status tni_blob_get(const char *dir, const void *key, uint64_t nkey, const tni_log *log, tni_file *file,
                       const void **data, uint64_t *n) {
  return tni_blob_get_of(dir, 0, key, nkey, log, file, data, n);
}

tn_status tni_blob_get_of(const char *dir, uint32_t allow, const void *key, uint64_t nkey, const tni_log *log,
                          tni_file *file, const void **data, uint64_t *n) {
  char name[64], path[PATH_MAX];
  file_name(name, sizeof name, key, nkey);
  if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return TN_E_UNAVAILABLE;
  tni_file f;
  tn_error err;
  tni_error_init(&err);
  struct stat there;
  if (lstat(path, &there) != 0) return TN_E_UNAVAILABLE;
  const uint64_t most = sizeof(blob_header) + padded_bytes(nkey) + TNI_BLOB_MAX_BYTES;
  if (tni_trust_read(path, allow, most, "an entry of a cache", &f, &err) != TN_OK) {
    tni_log_line(log, TN_LOG_WARN, "a cache entry is not used: %s", err.message);
    return TN_E_UNAVAILABLE;
  }
  if (!is_intact(&f, key, nkey)) {
    tni_file_unmap(&f);
    unlink(path);
    tni_log_line(log, TN_LOG_WARN, "%s: damaged cache entry removed", path);
    return TN_E_UNAVAILABLE;
  }
  *data = (const char *)f.data + sizeof(blob_header) + padded_bytes(nkey);
  *n = f.bytes - sizeof(blob_header) - padded_bytes(nkey);
  *file = f;
  return TN_OK;
}

/* NAME, or NAME and the folder below it. */
static bool make_below(int mid, const char *name) {
  const char *slash = strchr(name, '/');
  char first[NAME_MAX + 1];
  if (slash) {
    if ((size_t)(slash - name) >= sizeof first) return false;
    memcpy(first, name, (size_t)(slash - name));
    first[slash - name] = '\0';
    if (mkdirat(mid, first, 0700) != 0 && errno != EEXIST) return false;
  }
  return mkdirat(mid, name, 0700) == 0 || errno == EEXIST;
}

/* Opens CACHE_DIR/plugins/NAME, making what is missing. A confined process may read that folder and not those above. */
static int open_dir(const char *cache_dir, const char *name) {
  int made = tni_make_folder(cache_dir);
  if (made) {
    errno = made;
    return -1;
  }
  int top = open(cache_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), mid = -1, dir = -1;
  if (top < 0) return -1;
  if (mkdirat(top, "plugins", 0700) == 0 || errno == EEXIST)
    mid = openat(top, "plugins", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (mid >= 0 && make_below(mid, name)) dir = openat(mid, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int e = errno;
  close(top);
  if (mid >= 0) close(mid);
  errno = e;
  return dir;
}

/* What killed writers left behind. */
static void remove_stale(int dir) {
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
  if (!d) {
    if (fd >= 0) close(fd);
    return;
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  for (struct dirent *e; (e = readdir(d));) {
    struct stat s;
    if (strncmp(e->d_name, tmp_prefix, sizeof tmp_prefix - 1) == 0 && fstatat(dir, e->d_name, &s, 0) == 0 &&
        now.tv_sec - s.st_mtim.tv_sec > STALE_S)
      unlinkat(dir, e->d_name, 0);
  }
  closedir(d);
}

static bool write_all(int fd, const void *data, uint64_t n) {
  for (const char *p = data; n;) {
    ssize_t w = write(fd, p, n < (1u << 30) ? (size_t)n : 1u << 30);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) {
      if (w == 0) errno = EIO;
      return false;
    }
    p += w;
    n -= (uint64_t)w;
  }
  return true;
}

static bool write_blob(int fd, const void *key, uint64_t nkey, const void *data, uint64_t n) {
  static const char zeros[64];
  blob_header h = header_of(nkey, data, n);
  return write_all(fd, &h, sizeof h) && write_all(fd, key, nkey) && write_all(fd, zeros, padded_bytes(nkey) - nkey) &&
         write_all(fd, data, n) && fsync(fd) == 0;
}

static tn_status put_in(int dir, const void *key, uint64_t nkey, const void *data, uint64_t n, tn_error *err) {
  char name[64], tmp[96];
  file_name(name, sizeof name, key, nkey);
  snprintf(tmp, sizeof tmp, "%s%ld-%ld-%.16s", tmp_prefix, (long)getpid(), (long)gettid(), name);
  unlinkat(dir, tmp, 0); /* of a dead process with the same id */
  int fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool ok = fd >= 0 && write_blob(fd, key, nkey, data, n);
  int e = errno;
  if (fd >= 0 && close(fd) != 0 && ok) {
    e = errno;
    ok = false;
  }
  if (ok && renameat(dir, tmp, dir, name) != 0) {
    e = errno;
    ok = false;
  }
  if (ok) {
    fsync(dir); /* losing the name after a crash only costs the entry */
    return TN_OK;
  }
  if (fd >= 0) unlinkat(dir, tmp, 0);
  return tni_fail(err, TN_E_IO, name, "cannot write a cache entry: %s", strerror(e));
}

tn_status tni_blob_put(const char *cache_dir, const char *name, const void *key, uint64_t nkey, const void *data,
                       uint64_t n, tn_error *err) {
  int dir = open_dir(cache_dir, name);
  if (dir < 0)
    return tni_fail(err, tni_errno_status(errno, TN_E_IO), cache_dir,
                    "cannot open the cache folder for plugin '%s': %s", name, strerror(errno));
  remove_stale(dir);
  tn_status st = put_in(dir, key, nkey, data, n, err);
  close(dir);
  return st;
}
