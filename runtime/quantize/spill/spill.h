/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/quantize/spill: blocks of bytes that memory holds, up to a limit, or a file does. Blocks do not
 * change: one that was read back is still in the file, and leaves memory without being written again. One thread.
 */
#ifndef TENON_QUANTIZE_SPILL_H
#define TENON_QUANTIZE_SPILL_H

#include "runtime/base/base.h"

/* A part of the file that no block has. */
typedef struct tni_spill_gap {
  uint64_t at, n;
} tni_spill_gap;

typedef struct tni_spill {
  char *path;
  uint64_t most, held; /* bytes in memory: what is meant, what is there */
  uint64_t end;        /* of what blocks have of the file */
  tni_spill_gap *gaps; /* ascending; none touches another, or the end */
  uint32_t n_gaps, room;
  int fd; /* -1: there is no file yet */
} tni_spill;

typedef struct tni_spill_block {
  void *p; /* 64-byte aligned; NULL: in the file alone */
  uint64_t n, at;
} tni_spill_block;
#define TNI_SPILL_UNFILED UINT64_MAX

/* Nothing is made yet. path: of the file; finish also after a failure, and of zeros. */
TN_MUST_CHECK tn_status tni_spill_init(tni_spill *s, const char *path, uint64_t most, tn_error *err);
void tni_spill_finish(tni_spill *s);
static inline bool tni_spill_is_full(const tni_spill *s) { return s->held > s->most; }

/* A copy of n bytes, in memory. TN_E_NO_MEMORY. */
TN_MUST_CHECK tn_status tni_spill_make(tni_spill *s, const void *from, uint64_t n, tni_spill_block *out, tn_error *err);
/* Another block of the same bytes, in memory. */
TN_MUST_CHECK tn_status tni_spill_copy(tni_spill *s, const tni_spill_block *b, tni_spill_block *out, tn_error *err);
/* Out of memory, into the file where it is not there yet. TN_E_IO with the file's path: it cannot be made, or the disk
 * is full; the block stays in memory then. */
TN_MUST_CHECK tn_status tni_spill_out(tni_spill *s, tni_spill_block *b, tn_error *err);
/* Into memory. */
TN_MUST_CHECK tn_status tni_spill_in(tni_spill *s, tni_spill_block *b, tn_error *err);
/* Its bytes, wherever it lies. */
TN_MUST_CHECK tn_status tni_spill_read(const tni_spill *s, const tni_spill_block *b, void *to, tn_error *err);
void tni_spill_drop(tni_spill *s, tni_spill_block *b);

#endif
