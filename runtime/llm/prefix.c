/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/prefix.h"

#include <stdlib.h>
#include <string.h>

size_t tni_prefix_common(const tni_page *page, const int32_t *ids, size_t n) {
  size_t same = 0;
  while (same < page->n && same < n && page->ids[same] == ids[same]) same++;
  return same;
}

/* --- who was looked for last: no page is newer than its parent but while it is made (tni_prefix_touch) --------------
 */

static void unlink_page(tni_prefix *p, tni_page *x) {
  *(x->newer ? &x->newer->older : &p->newest) = x->older;
  *(x->older ? &x->older->newer : &p->oldest) = x->newer;
  x->newer = x->older = NULL;
}

static void link_newest(tni_prefix *p, tni_page *x) {
  x->older = p->newest;
  *(p->newest ? &p->newest->newer : &p->oldest) = x;
  p->newest = x;
}

void tni_prefix_touch(tni_prefix *p, tni_page *page) {
  for (; page && page != &p->root; page = page->parent) {
    unlink_page(p, page);
    link_newest(p, page);
  }
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const tni_prefix *p, const tni_page *x) {
  return sizeof *x + (x->rows ? x->n * p->row_bytes : 0) + (x->rings ? x->n * p->ring_bytes : 0) +
         (x->states ? p->state_bytes : 0);
}

static void free_page(tni_page *x) {
  free(x->rows);
  free(x->rings);
  free(x->states);
  free(x);
}

void tni_prefix_drop(tni_prefix *p, tni_page *page) {
  tni_page **at = &page->parent->child;
  while (*at != page) at = &(*at)->next;
  *at = page->next;
  unlink_page(p, page);
  p->bytes -= bytes_of(p, page);
  free_page(page);
}

void tni_prefix_clear(tni_prefix *p) {
  for (tni_page *x = p->newest, *older; x; x = older) {
    older = x->older;
    free_page(x);
  }
  p->newest = p->oldest = p->root.child = NULL;
  p->bytes = 0;
}

/* keep, and all before it, stay. */
static bool make_room(tni_prefix *p, uint64_t bytes, const tni_page *keep) {
  if (bytes > p->limit) return false;
  while (p->bytes > p->limit - bytes) {
    tni_page *x = p->oldest;
    while (x && (x->child || x == keep)) x = x->newer;
    if (!x) return false;
    tni_prefix_drop(p, x);
    p->dropped++;
  }
  return true;
}

tni_page *tni_prefix_add(tni_prefix *p, tni_page *of, const int32_t *ids, uint32_t n) {
  tni_page *x = make_room(p, sizeof *x, of) ? calloc(1, sizeof *x) : NULL;
  if (!x) return NULL;
  x->parent = of;
  x->at = of->at + of->n;
  x->n = n;
  memcpy(x->ids, ids, n * sizeof *ids);
  x->next = of->child;
  of->child = x;
  link_newest(p, x);
  p->bytes += sizeof *x;
  return x;
}

bool tni_prefix_room(tni_prefix *p, tni_page *page, void **part, uint64_t bytes) {
  *part = make_room(p, bytes, page) ? malloc(bytes ? bytes : 1) : NULL;
  if (*part) p->bytes += bytes;
  return *part != NULL;
}
