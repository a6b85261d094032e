/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/observe/loan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, KEPT = 1024, PIECES = 16 * 160, MOST_GONE = 1 << 14 };

/* The last loans that are over: their pages stay, closed. */
static struct {
  uint8_t *map;
  size_t bytes;
  const char *call;
} over[KEPT];
static uint32_t next_over;
static pthread_mutex_t over_lock = PTHREAD_MUTEX_INITIALIZER;

bool tni_cf_loan_begin(tni_cf_loan *l, const char *call, size_t bytes) {
  const size_t room = (bytes + PIECES + PAGE - 1) / PAGE * PAGE;
  *l = (tni_cf_loan){.call = call};
  uint8_t *map = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return false;
  (void)mprotect(map + room, PAGE, PROT_NONE);
  l->map = l->at = map;
  l->end = map + room;
  return true;
}

void *tni_cf_loan_copy(tni_cf_loan *l, const void *p, size_t n) {
  if (!p || !l->map || (size_t)(l->end - l->at) < n + 16) return NULL;
  uint8_t *to = l->at;
  memcpy(to, p, n);
  l->at += (n + 15) / 16 * 16;
  return to;
}

void tni_cf_loan_end(tni_cf_loan *l) {
  if (!l->map) return;
  const size_t bytes = (size_t)(l->end - l->map) + PAGE;
  (void)mprotect(l->map, bytes, PROT_NONE);
  (void)madvise(l->map, bytes, MADV_DONTNEED); /* the addresses are kept, not the memory */
  pthread_mutex_lock(&over_lock);
  const uint32_t i = next_over++ % KEPT;
  if (over[i].map) (void)munmap(over[i].map, over[i].bytes);
  over[i].map = l->map;
  over[i].bytes = bytes;
  over[i].call = l->call;
  pthread_mutex_unlock(&over_lock);
  l->map = NULL;
}

const char *tni_cf_loan_at(const void *p) {
  const uint8_t *at = p;
  for (uint32_t i = 0; i < KEPT; i++)
    if (over[i].map && at >= over[i].map && at < over[i].map + over[i].bytes) return over[i].call;
  return NULL;
}

static struct {
  const uint8_t *p;
  size_t bytes;
  const char *what;
} gone[MOST_GONE];
static atomic_uint n_gone;

void tni_cf_loan_gone(const void *p, size_t bytes, const char *what) {
  const unsigned i = atomic_fetch_add(&n_gone, 1);
  if (i >= MOST_GONE) return;
  gone[i].bytes = bytes;
  gone[i].what = what;
  gone[i].p = p;
}

const char *tni_cf_loan_gone_at(const void *p) {
  const uint8_t *at = p;
  for (unsigned i = 0; i < MOST_GONE && i < atomic_load(&n_gone); i++)
    if (gone[i].p && at >= gone[i].p && at < gone[i].p + gone[i].bytes) return gone[i].what;
  return NULL;
}
