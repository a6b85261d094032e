/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory whose surroundings are known: a filled strip before it, a filled strip after it and then a page that may not
 * be touched. Reading past the end gives the fill (NaN as a float where it is 0xff), writing past it is seen by
 * tni_cf_block_holds, and going far is a fault, which the kit's runner reports as the case's end.
 */
#ifndef TENON_CONFORM_DRIVE_PAGES_H
#define TENON_CONFORM_DRIVE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tni_cf_block {
  uint8_t *map, *p; /* p: `bytes` of the caller's; map NULL: none */
  size_t map_bytes, bytes, before, after;
  uint8_t fill;
} tni_cf_block;

enum { TNI_CF_MOST_ALIGN = 1 << 20 }; /* that a slot may ask */

/* align: a power of two up to that. tight: nothing lies between the last byte, rounded up to align, and the page that
 * may not be touched; where it fills whole pages, the page before it may not be touched either. The content is the
 * fill. False without memory. */
bool tni_cf_block_make(tni_cf_block *b, size_t bytes, size_t align, uint8_t fill, bool tight);
bool tni_cf_block_holds(const tni_cf_block *b);
void tni_cf_block_finish(tni_cf_block *b);

#endif
