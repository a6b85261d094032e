/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a writer: counts the calls that change files, and ends the process or fails the call at a chosen one.
 *
 *   TENON_KILL_AT=N         SIGKILL before the N-th call; TENON_KILL_TORN=1: a pwrite is half done first
 *   TENON_FAIL_ENOSPC_AT=N  the N-th call fails with ENOSPC
 *   TENON_KILL_LOG=FILE     at exit, the number of calls
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic long calls;

static long env_number(const char *name) {
  const char *v = getenv(name);
  return v ? strtol(v, NULL, 10) : 0;
}

/* True: fail this call. torn: what to do of it before dying. */
static int at_call(void (*torn)(void *), void *arg) {
  long n = atomic_fetch_add(&calls, 1) + 1;
  if (n == env_number("TENON_KILL_AT")) {
    if (torn && env_number("TENON_KILL_TORN")) torn(arg);
    raise(SIGKILL);
  }
  if (n == env_number("TENON_FAIL_ENOSPC_AT")) {
    errno = ENOSPC;
    return 1;
  }
  return 0;
}

static void *real(const char *name) {
  void *f = dlsym(RTLD_NEXT, name);
  if (!f) abort();
  return f;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int ftruncate(int fd, off_t n) {
  int (*fn)(int, off_t);
  *(void **)&fn = real("ftruncate");
  return at_call(NULL, NULL) ? -1 : fn(fd, n);
}

EXPORT int posix_fallocate(int fd, off_t at, off_t n) {
  int (*fn)(int, off_t, off_t);
  *(void **)&fn = real("posix_fallocate");
  return at_call(NULL, NULL) ? ENOSPC : fn(fd, at, n);
}

typedef struct half {
  ssize_t (*fn)(int, const void *, size_t, off_t);
  int fd;
  const void *p;
  size_t n;
  off_t at;
} half;

static void half_write(void *arg) {
  half *h = arg;
  if (h->fn(h->fd, h->p, h->n / 2, h->at) < 0) return;
}

EXPORT ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
  half h = {NULL, fd, p, n, at};
  *(void **)&h.fn = real("pwrite");
  return at_call(half_write, &h) ? -1 : h.fn(fd, p, n, at);
}

EXPORT int msync(void *p, size_t n, int flags) {
  int (*fn)(void *, size_t, int);
  *(void **)&fn = real("msync");
  return at_call(NULL, NULL) ? -1 : fn(p, n, flags);
}

EXPORT int fsync(int fd) {
  int (*fn)(int);
  *(void **)&fn = real("fsync");
  return at_call(NULL, NULL) ? -1 : fn(fd);
}

EXPORT int rename(const char *from, const char *to) {
  int (*fn)(const char *, const char *);
  *(void **)&fn = real("rename");
  return at_call(NULL, NULL) ? -1 : fn(from, to);
}

EXPORT int unlink(const char *path) {
  int (*fn)(const char *);
  *(void **)&fn = real("unlink");
  return at_call(NULL, NULL) ? -1 : fn(path);
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("TENON_KILL_LOG");
  FILE *f = path ? fopen(path, "w") : NULL;
  if (!f) return;
  fprintf(f, "%ld\n", atomic_load(&calls));
  fclose(f);
}
