/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/drive/pages.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/base.h"

enum { STRIP = 256, HUGE = 1 << 26 };

/* `total` bytes that end at `page` bytes after a multiple of align. */
static uint8_t *map_before(size_t total, size_t align, size_t page, int flags) {
  const size_t more = align > page ? align - page : 0;
  uint8_t *map = mmap(NULL, total + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (map == MAP_FAILED || !more) return map == MAP_FAILED ? NULL : map;
  const size_t tail = (size_t)((uintptr_t)(map + total + more - page) % align);
  if (tail) munmap(map + total + more - tail, tail);
  if (tail < more) munmap(map, more - tail);
  return map + more - tail;
}

bool tni_cf_block_make(tni_cf_block *b, size_t bytes, size_t align, uint8_t fill, bool tight) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t body, total;
  *b = (tni_cf_block){.bytes = bytes, .fill = fill};
  if (!align || align & (align - 1) || align > TNI_CF_MOST_ALIGN) return false;
  const size_t strip = tight ? 0 : STRIP;
  if (!tni_add_size(bytes, strip + align - 1, &body)) return false;
  body &= ~(align - 1);
  if (!tni_add_size(body, STRIP + 2 * page - 1, &total)) return false;
  total = total / page * page;
  /* Nobody has memory for a huge one: address space, of which only what lies beside the block is filled. */
  const int spare = bytes >= HUGE ? MAP_NORESERVE : 0;
  uint8_t *map = map_before(total, align, page, spare);
  if (!map) return false;
  if (!spare)
    memset(map, fill, total - page);
  else {
    (void)madvise(map, total, MADV_NOHUGEPAGE); /* what is touched takes a page, not 2 MiB */
    memset(map, fill, total - page - body);
    memset(map + total - page - body + bytes, fill, body - bytes);
  }
  if (mprotect(map + total - page, page, PROT_NONE) != 0) {
    munmap(map, total);
    return false;
  }
  if (tight && body % page == 0 && total > body + page) (void)mprotect(map, total - page - body, PROT_NONE);
  b->map = map;
  b->map_bytes = total;
  b->p = map + total - page - body;
  b->before = tight && body % page == 0 ? 0 : (size_t)(b->p - map);
  b->after = body - bytes;
  return true;
}

static bool all_bytes_are(const uint8_t *p, size_t n, uint8_t fill) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != fill) return false;
  return true;
}

bool tni_cf_block_holds(const tni_cf_block *b) {
  return !b->map ||
         (all_bytes_are(b->p - b->before, b->before, b->fill) && all_bytes_are(b->p + b->bytes, b->after, b->fill));
}

void tni_cf_block_finish(tni_cf_block *b) {
  if (b->map) munmap(b->map, b->map_bytes);
  *b = (tni_cf_block){0};
}
