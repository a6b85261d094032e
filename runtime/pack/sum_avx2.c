/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 as its header compiles it for this file's instruction set; the library's own is built for the least of all
 * processors. A piece comes from memory: what is asked for a page ahead arrives, and 384 bytes, the header's choice, are
 * too near (6.1 and 6.8 GB/s per core on Sapphire Rapids, both cores at work).
 */
#define XXH_PREFETCH_DIST 4096
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/pack/internal.h"

uint64_t tni_pk_hash_avx2(const void *p, size_t n) { return XXH3_64bits(p, n); }
