/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Entries are reused and never freed: the handler may walk the list at any time. */
struct tni_watch {
  _Atomic uintptr_t at; /* 0: free */
  _Atomic uint64_t bytes;
  _Atomic int lost; /* zeros stand where the file should be */
  atomic_flag taken;
  int fd;
  struct stat was;
  tni_watch *next;
};

/* The process's, as its handlers of signals are. */
static _Atomic(tni_watch *) watched;
static atomic_int guarded;
static struct sigaction before;
static uintptr_t page_bytes;

static tni_watch *take_entry(void) {
  for (tni_watch *w = atomic_load(&watched); w; w = w->next)
    if (!atomic_flag_test_and_set(&w->taken)) return w;
  tni_watch *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  atomic_flag_test_and_set(&w->taken);
  w->next = atomic_load(&watched);
  while (!atomic_compare_exchange_weak(&watched, &w->next, w)) continue;
  return w;
}

tni_watch *tni_watch_add(const void *at, uint64_t bytes, int fd) {
  tni_watch *w = take_entry();
  if (!w) return NULL;
  w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (w->fd < 0 || fstat(w->fd, &w->was) != 0) {
    const int e = errno;
    if (w->fd >= 0) close(w->fd);
    atomic_flag_clear(&w->taken);
    errno = e;
    return NULL;
  }
  atomic_store(&w->lost, 0);
  atomic_store(&w->bytes, bytes);
  atomic_store(&w->at, (uintptr_t)at);
  return w;
}

void tni_watch_remove(tni_watch *w) {
  if (!w) return;
  atomic_store(&w->at, 0);
  close(w->fd);
  atomic_flag_clear(&w->taken);
}

static bool same_time(struct timespec a, struct timespec b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

tn_status tni_watch_check(const tni_watch *w, const char *path, uint32_t what, tn_error *err) {
  static const char advice[] =
      "load it again; write a new file and rename it over the old one, or set `map: copy` in the profile";
  struct stat now;
  if (!w) return TN_OK;
  if (fstat(w->fd, &now) != 0) return tni_fail(err, TN_E_IO, path, "cannot stat '%s': %s", path, strerror(errno));
  if (now.st_size != w->was.st_size)
    return tni_fail(err, TN_E_IO, path, "'%s' was %lld bytes long and is %lld while it is in use: %s", path,
                    (long long)w->was.st_size, (long long)now.st_size, advice);
  if (atomic_load(&w->lost)) return tni_fail(err, TN_E_IO, path, "'%s' cannot be read any more: the disk failed", path);
  if (what >= TNI_WATCH_CONTENT && !same_time(now.st_mtim, w->was.st_mtim))
    return tni_fail(err, TN_E_IO, path, "'%s' was written to while it is in use: %s", path, advice);
  /* A name that is taken away, or given, moves the time of the last change and nothing else. */
  if (what >= TNI_WATCH_ALL && !same_time(now.st_ctim, w->was.st_ctim) && now.st_nlink == w->was.st_nlink)
    return tni_fail(err, TN_E_IO, path, "'%s' was changed while it is in use: %s", path, advice);
  return TN_OK;
}

/* --- the handler ------------------------------------------------------------------------------------------------- */

static tni_watch *find_watched(uintptr_t at) {
  for (tni_watch *w = atomic_load(&watched); w; w = w->next) {
    const uintptr_t from = atomic_load(&w->at);
    if (from && at >= from && at - from < atomic_load(&w->bytes)) return w;
  }
  return NULL;
}

/* Zeros from the page that faulted to the end, which is gone too; or that page alone, where the disk failed. */
static bool put_zeros(tni_watch *w, uintptr_t at) {
  struct stat now;
  const uintptr_t page = at & ~(page_bytes - 1), end = atomic_load(&w->at) + atomic_load(&w->bytes);
  const bool shrank = fstat(w->fd, &now) == 0 && now.st_size < w->was.st_size;
  const uintptr_t to = shrank ? (end + page_bytes - 1) & ~(page_bytes - 1) : page + page_bytes;
  atomic_store(&w->lost, 1);
  return mmap((void *)page, to - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
         MAP_FAILED;
}

static void on_bus(int sig, siginfo_t *info, void *context) {
  const int e = errno;
  tni_watch *w = find_watched((uintptr_t)info->si_addr);
  if (w && put_zeros(w, (uintptr_t)info->si_addr)) {
    errno = e;
    return;
  }
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(sig, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(sig);
  else
    signal(sig, SIG_DFL); /* it comes again, and ends the process */
  errno = e;
}

bool tni_watch_guard(void) {
  struct sigaction ours = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  if (atomic_exchange(&guarded, 1)) return true;
  page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  sigemptyset(&ours.sa_mask);
  if (sigaction(SIGBUS, NULL, &before) == 0 && sigaction(SIGBUS, &ours, NULL) == 0) return true;
  atomic_store(&guarded, 0);
  return false;
}
