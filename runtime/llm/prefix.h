/* SPDX-License-Identifier: Apache-2.0
 *
 * Beginnings of texts and what the caches had of them, bounded in bytes (docs/batching.md says why in pages).
 *
 * A tree of pages: a page has up to TNI_PAGE tokens, and follows the page that its parent is. Only pages that are full
 * have children. The page that was looked for longest ago, of those without children, makes room for others. Knows
 * bytes only: batch_prefix.c copies them. One thread at a time.
 */
#ifndef TENON_LLM_PREFIX_H
#define TENON_LLM_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TNI_PAGE = 32 };

typedef struct tni_page {
  struct tni_page *parent, *child, *next; /* next: of the parent's children */
  struct tni_page *newer, *older;
  size_t at;  /* tokens before it */
  uint32_t n; /* tokens */
  int32_t ids[TNI_PAGE];
  void *rows;   /* of n positions, caches without rings */
  void *rings;  /* of n positions, or NULL */
  size_t back;  /* of rings: first position that a text can go on at with them */
  void *states; /* of fixed size, after its last token, or NULL */
} tni_page;

typedef struct tni_prefix {
  tni_page root; /* no tokens */
  tni_page *newest, *oldest;
  uint64_t row_bytes, ring_bytes; /* of a position */
  uint64_t state_bytes;
  uint64_t bytes, limit, dropped;
} tni_prefix;

/* Zeroes in p are a store without room. */
void tni_prefix_clear(tni_prefix *p);
/* How many tokens of ids [0, n) the page begins with. */
size_t tni_prefix_common(const tni_page *page, const int32_t *ids, size_t n);
/* A page without anything but tokens after `of`, n of them; NULL: it does not fit, or memory is short. */
tni_page *tni_prefix_add(tni_prefix *p, tni_page *of, const int32_t *ids, uint32_t n);
/* *part of page's, which is NULL, becomes memory of so many bytes. False: there is none; NULL. */
bool tni_prefix_room(tni_prefix *p, tni_page *page, void **part, uint64_t bytes);
/* A page without children goes. */
void tni_prefix_drop(tni_prefix *p, tni_page *page);
/* page and all before it were looked for. */
void tni_prefix_touch(tni_prefix *p, tni_page *page);

#endif
