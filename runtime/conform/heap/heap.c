/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/heap/heap.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WATCHED 0
#endif
#endif
#if !defined(WATCHED)
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WATCHED 1
#else
#define WATCHED 0
#endif
#endif

static atomic_long counted, watching;

long tni_cf_heap_watch(bool on) {
  if (on) counted = 0;
  watching = on;
  return counted;
}

bool tni_cf_heap_counts(void) { return WATCHED; }

static uintptr_t followed_from, followed_to;
static atomic_long n_mappings;

/* --- blocks that are followed: a table with open addressing ------------------------------------------------------- */

static long n_slots;
static atomic_flag slots_lock = ATOMIC_FLAG_INIT;

static void lock_slots(void) {
  while (atomic_flag_test_and_set(&slots_lock)) sched_yield();
}

#if WATCHED
enum { SLOTS = 1 << 16 };
static uintptr_t slots[SLOTS]; /* 0: free; 1: was taken */

static bool is_followed(const void *caller) { return (uintptr_t)caller - followed_from < followed_to - followed_from; }

static uint32_t slot_of(uintptr_t p) { return (uint32_t)(p >> 4) * 2654435761u % SLOTS; }

static void block_add(void *p, const void *caller) {
  if (!p || !is_followed(caller)) return;
  lock_slots();
  uint32_t i = slot_of((uintptr_t)p);
  while (slots[i] > 1 && n_slots < SLOTS / 2) i = (i + 1) % SLOTS;
  if (slots[i] <= 1) slots[i] = (uintptr_t)p, n_slots++;
  atomic_flag_clear(&slots_lock);
}

static bool block_drop(const void *p) {
  bool found = false;
  if (!p || !n_slots) return false;
  lock_slots();
  uint32_t i = slot_of((uintptr_t)p);
  for (uint32_t k = 0; slots[i] && slots[i] != (uintptr_t)p && k < SLOTS; k++) i = (i + 1) % SLOTS;
  if (slots[i] == (uintptr_t)p) slots[i] = 1, n_slots--, found = true;
  atomic_flag_clear(&slots_lock);
  return found;
}
#endif

void tni_cf_heap_follow(uintptr_t from, uintptr_t to) {
  followed_from = from;
  followed_to = to;
}

long tni_cf_heap_followed(long *mappings) {
  *mappings = atomic_load(&n_mappings);
  lock_slots();
  const long n = n_slots;
  atomic_flag_clear(&slots_lock);
  return n;
}

/* --- blocks that are kept from use -------------------------------------------------------------------------------- */

enum { MOST_KEPT = 1 << 14, MOST_BYTES = 1 << 28, POISON = 0xdb };
static struct {
  uint8_t *p;
  size_t n;
} kept[MOST_KEPT];
static uint32_t n_kept;
static atomic_bool poisons;

void tni_cf_heap_poison(bool on) { poisons = on; }

bool tni_cf_heap_spoilt(void) {
  bool spoilt = false;
  lock_slots();
  for (uint32_t i = 0; i < n_kept && !spoilt; i++)
    spoilt = kept[i].n && (kept[i].p[0] != POISON || memcmp(kept[i].p, kept[i].p + 1, kept[i].n - 1) != 0);
  atomic_flag_clear(&slots_lock);
  return spoilt;
}

#if !WATCHED
void tni_cf_heap_drop(void) {}
#else
void __libc_free(void *p);
static size_t kept_bytes;

void tni_cf_heap_drop(void) {
  for (bool more = true; more;) {
    uint8_t *p = NULL;
    lock_slots();
    if (n_kept) p = kept[--n_kept].p, kept_bytes -= kept[n_kept].n;
    more = n_kept > 0;
    atomic_flag_clear(&slots_lock);
    __libc_free(p);
  }
}

/* A followed block that was freed: false where there is no room for more. */
static bool keep_block(void *p) {
  const size_t n = malloc_usable_size(p);
  bool has = false;
  if (!poisons) return false;
  lock_slots();
  if (n_kept < MOST_KEPT && kept_bytes + n <= MOST_BYTES) {
    memset(p, POISON, n);
    kept[n_kept].p = p;
    kept[n_kept++].n = n;
    kept_bytes += n;
    has = true;
  }
  atomic_flag_clear(&slots_lock);
  return has;
}

/* --- malloc and its like ------------------------------------------------------------------------------------------ */

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);

EXPORT void *malloc(size_t n);
EXPORT void *calloc(size_t n, size_t m);
EXPORT void *realloc(void *p, size_t n);
EXPORT void *aligned_alloc(size_t a, size_t n);
EXPORT void *memalign(size_t a, size_t n);
EXPORT int posix_memalign(void **out, size_t a, size_t n);
EXPORT void free(void *p);

static void *counted_block(void *p, const void *caller) {
  if (watching) counted++;
  if (followed_from) block_add(p, caller);
  return p;
}

void *malloc(size_t n) { return counted_block(__libc_malloc(n), CALLER); }
void *calloc(size_t n, size_t m) { return counted_block(__libc_calloc(n, m), CALLER); }
void *realloc(void *p, size_t n) {
  const bool theirs = followed_from && block_drop(p);
  if (theirs && poisons && n) {
    void *moved = __libc_malloc(n);
    const size_t had = malloc_usable_size(p);
    if (!moved) return block_add(p, (void *)followed_from), NULL;
    memcpy(moved, p, had < n ? had : n);
    if (!keep_block(p)) __libc_free(p);
    return counted_block(moved, (void *)followed_from);
  }
  void *q = __libc_realloc(p, n);
  return counted_block(q, theirs ? (void *)followed_from : CALLER);
}
void *aligned_alloc(size_t a, size_t n) { return counted_block(__libc_memalign(a, n), CALLER); }
void *memalign(size_t a, size_t n) { return counted_block(__libc_memalign(a, n), CALLER); }
int posix_memalign(void **out, size_t a, size_t n) {
  void *p = counted_block(__libc_memalign(a, n), CALLER);
  if (p) *out = p;
  return p ? 0 : ENOMEM;
}
void free(void *p) {
  if (followed_from && block_drop(p) && keep_block(p)) return;
  __libc_free(p);
}

/* --- mappings: glibc's own calls of mmap do not come here --------------------------------------------------------- */

/* Two names of one function; headers may turn the one into the other. */
EXPORT void *map_pages(void *at, size_t n, int prot, int flags, int fd, off_t offset) __asm__("mmap");
EXPORT void *map_pages64(void *at, size_t n, int prot, int flags, int fd, off_t offset) __asm__("mmap64");
EXPORT int munmap(void *at, size_t n);

static void *mapped(void *at, size_t n, int prot, int flags, int fd, off_t offset, const void *caller) {
  void *p = (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
  if (p != MAP_FAILED && followed_from && is_followed(caller)) n_mappings++;
  return p;
}

void *map_pages(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  return mapped(at, n, prot, flags, fd, offset, CALLER);
}
void *map_pages64(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  return mapped(at, n, prot, flags, fd, offset, CALLER);
}
int munmap(void *at, size_t n) {
  const int rc = (int)syscall(SYS_munmap, at, n);
  if (rc == 0 && followed_from && is_followed(CALLER)) n_mappings--;
  return rc;
}
#endif
