/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache folder: names, the writers' lock, files of killed writers, and eviction.
 *
 * MODEL-DEVICE-HASH.tnpack            a packed file
 * MODEL-DEVICE-HASH.tnpack.lock       empty; flock'ed by whoever writes that file, who touches it as the work goes on;
 * never removed (that would race)
 * MODEL-DEVICE-HASH.tnpack.tmp.PID.TIME  being written; flock'ed by its writer, so that one whose lock is free is a
 * leftover
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/base.h"
#include "runtime/pack/internal.h"

enum { NAME_MAX_PART = 64, LOCK_POLL_MS = 20, SAY_AFTER = 100 /* polls */, STALL_S = 60, YOUNG_S = 60, SIGN_NS = 1000000000 };

static void clean_name(const char *from, char *to) {
  size_t n = 0;
  for (; from && *from && n < NAME_MAX_PART; from++, n++)
    to[n] = isalnum((unsigned char)*from) || *from == '-' || *from == '_' || (*from == '.' && n) ? *from : '_';
  to[n] = '\0';
}

/* What cleaning and cutting lose, and folders of one name, the hash keeps apart. */
static uint64_t name_hash(const tni_pack_opts *o) {
  const char *m = o->model_name ? o->model_name : "", *d = o->device_name ? o->device_name : "";
  const uint64_t h = XXH3_64bits_withSeed(d, strlen(d), XXH3_64bits(m, strlen(m)));
  return o->model_path ? XXH3_64bits_withSeed(o->model_path, strlen(o->model_path), h) : h;
}

tn_status tni_pk_paths(tni_pack_store *s, tn_error *err) {
  char model[NAME_MAX_PART + 1], device[NAME_MAX_PART + 1];
  if (!s->o->dir || !*s->o->dir) return TN_OK;
  clean_name(s->o->model_name ? s->o->model_name : "model", model);
  clean_name(s->o->device_name ? s->o->device_name : "device", device);
  size_t n = strlen(s->o->dir) + strlen(model) + strlen(device) + 32;
  s->dir = strdup(s->o->dir);
  s->path = malloc(n);
  if (!s->dir || !s->path) return tni_fail_memory(err, s->o->dir);
  snprintf(s->path, n, "%s/%s-%s-%08x.tnpack", s->dir, model, device, (unsigned)name_hash(s->o));
  return TN_OK;
}

bool tni_pk_make_dir(const tni_pack_store *s) {
  int e = tni_make_folder(s->dir);
  if (!e) return true;
  tni_log_line(s->o->log, TN_LOG_WARN, "packed weights are not kept: cannot use the cache folder '%s': %s", s->dir,
               strerror(e));
  return false;
}

static char *suffixed_path(const tni_pack_store *s, const char *suffix) {
  size_t n = strlen(s->path) + strlen(suffix) + 1;
  char *p = malloc(n);
  if (p) snprintf(p, n, "%s%s", s->path, suffix);
  return p;
}

/* Seconds that a holder that works may go without a sign of it. */
static int64_t patience(const tni_pack_store *s) { return (s->o->stall_s ? s->o->stall_s : STALL_S) * INT64_C(1000000000); }

/* When the lock was last touched, as the file system says it: only compared. */
static int64_t last_sign(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : 0;
}

void tni_pk_sign(tni_pack_store *s) {
  const int64_t now = tni_now_ns();
  if (s->lock < 0 || now - s->signed_at < SIGN_NS) return;
  s->signed_at = now;
  (void)futimens(s->lock, NULL);
}

/* A holder that was stopped, or hangs, gives no sign: others go on without the lock. */
int tni_pk_lock(const tni_pack_store *s, tn_status *st) {
  const struct timespec nap = {.tv_nsec = LOCK_POLL_MS * 1000000L};
  char *path = suffixed_path(s, ".lock");
  int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  free(path);
  *st = TN_OK;
  int64_t sign = 0, since = tni_now_ns();
  for (int i = 0; fd >= 0; i++) {
    const bool mine = flock(fd, LOCK_EX | LOCK_NB) == 0, busy = !mine && (errno == EWOULDBLOCK || errno == EINTR);
    if (mine) {
      (void)futimens(fd, NULL);
      return fd;
    }
    if (tni_pk_cancelled(s)) *st = TN_E_CANCELLED;
    if (!busy || *st != TN_OK) break;
    const int64_t now = tni_now_ns(), seen = last_sign(fd);
    if (seen != sign) since = now;
    sign = seen;
    if (i == 0 || i == SAY_AFTER)
      tni_log_line(s->o->log, i ? TN_LOG_WARN : TN_LOG_INFO, "another process writes '%s': waiting", s->path);
    if (now - since >= patience(s)) {
      tni_log_line(s->o->log, TN_LOG_WARN, "the process that writes '%s' has done nothing for %lld s: going on without it",
                   s->path, (long long)(patience(s) / 1000000000));
      break;
    }
    nanosleep(&nap, NULL);
  }
  if (fd >= 0) close(fd);
  return -1;
}

void tni_pk_unlock(int fd) {
  if (fd >= 0) close(fd);
}

static const char *base_name(const tni_pack_store *s) { return strrchr(s->path, '/') + 1; }

/* Nobody holds its lock: its writer is gone. */
static bool is_abandoned(int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  bool free_lock = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return free_lock;
}

static void remove_at(const tni_pack_store *s, const char *name) {
  size_t n = strlen(s->dir) + strlen(name) + 2;
  char *path = malloc(n);
  if (!path) return;
  snprintf(path, n, "%s/%s", s->dir, name);
  (void)unlink(path);
  free(path);
}

void tni_pk_sweep(const tni_pack_store *s, bool own) {
  DIR *d = opendir(s->dir);
  const char *base = base_name(s);
  struct stat st;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strstr(e->d_name, ".tnpack.tmp.") || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    bool mine = strncmp(e->d_name, base, strlen(base)) == 0 && e->d_name[strlen(base)] == '.';
    /* A young one of another model may not have taken its lock yet. */
    if (!(mine && own) && time(NULL) - st.st_mtime < YOUNG_S) continue;
    if (is_abandoned(dirfd(d), e->d_name)) remove_at(s, e->d_name);
  }
  if (d) closedir(d);
}

typedef struct cache_entry {
  char *name;
  uint64_t bytes;
  struct timespec used;
} cache_entry;

static int by_use(const void *pa, const void *pb) {
  const cache_entry *a = pa, *b = pb;
  if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
  return (a->used.tv_nsec > b->used.tv_nsec) - (a->used.tv_nsec < b->used.tv_nsec);
}

/* All packed files but ours. */
static cache_entry *list_files(const tni_pack_store *s, size_t *count) {
  DIR *d = opendir(s->dir);
  cache_entry *list = NULL;
  size_t n = 0, cap = 0;
  struct stat st;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!tni_ends_with(e->d_name, ".tnpack") || strcmp(e->d_name, base_name(s)) == 0) continue;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) continue;
    if (n == cap) {
      cap = cap ? cap * 2 : 16;
      cache_entry *more = realloc(list, cap * sizeof *list);
      if (!more) break;
      list = more;
    }
    list[n] = (cache_entry){strdup(e->d_name), (uint64_t)st.st_size, st.st_mtim};
    if (!list[n].name) break;
    n++;
  }
  if (d) closedir(d);
  *count = n;
  return list;
}

void tni_pk_evict(const tni_pack_store *s, uint64_t own_bytes) {
  if (!s->o->max_bytes) return;
  size_t n = 0;
  cache_entry *list = list_files(s, &n);
  uint64_t total = own_bytes;
  for (size_t i = 0; i < n; i++) total += list[i].bytes;
  if (n) qsort(list, n, sizeof *list, by_use);
  for (size_t i = 0; i < n; i++) {
    if (total > s->o->max_bytes) {
      remove_at(s, list[i].name);
      total -= list[i].bytes;
      tni_log_line(s->o->log, TN_LOG_INFO, "packed weights: removed '%s' (%llu bytes) to stay within %llu",
                   list[i].name, (unsigned long long)list[i].bytes, (unsigned long long)s->o->max_bytes);
    }
    free(list[i].name);
  }
  free(list);
}

void tni_pk_touch(const tni_pack_store *s) {
  const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
  (void)utimensat(AT_FDCWD, s->path, now, 0); /* only orders evictions */
}
