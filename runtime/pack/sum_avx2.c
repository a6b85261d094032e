/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 as its header compiles it for this file's instruction set; the library's own is built for the least of all
 * processors.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/pack/internal.h"

uint64_t tni_pk_hash_avx2(const void *p, size_t n) { return XXH3_64bits(p, n); }
