/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/heap/heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

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

#if WATCHED
#define EXPORT __attribute__((visibility("default")))

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

static void heap_count(void) {
  if (watching) counted++;
}

void *malloc(size_t n) {
  heap_count();
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t m) {
  heap_count();
  return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n) {
  heap_count();
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t a, size_t n) {
  heap_count();
  return __libc_memalign(a, n);
}
void *memalign(size_t a, size_t n) {
  heap_count();
  return __libc_memalign(a, n);
}
int posix_memalign(void **out, size_t a, size_t n) {
  heap_count();
  void *p = __libc_memalign(a, n);
  if (p) *out = p;
  return p ? 0 : ENOMEM;
}
#endif
