/* SPDX-License-Identifier: Apache-2.0
 *
 * What a keeping session has of its positions, as one file: tn_session_save and tn_session_load.
 *
 * All in the byte order of the machine, which `order` tells:
 *
 *   tni_saved_head   names model and placement, counts, and has a checksum of the body and of itself
 *   note             the caller's, up to a multiple of 8
 *   records          one per cache, then one per input that holds something (saved.c): a head, and bytes up to a multiple
 *                    of 8. Cache: rows [first, positions) of each sequence and head, one after the other, as they lie
 *                    in memory. Input: a state of fixed size, what was given for all steps, or the entries of an input over
 *                    the whole context.
 *
 * A record's head follows from the session and the number of positions, but for `first` of a ring: who loads compares
 * and believes nothing.
 */
#ifndef TENON_SESSION_SAVED_H
#define TENON_SESSION_SAVED_H

#include <stdint.h>

typedef struct tni_saved_head {
  char magic[8]; /* "TENONKV1" */
  uint32_t order, n_records; /* order: 0x01020304 */
  uint8_t model[16], placement[16];
  int64_t batch, positions;
  uint64_t note_bytes, body_bytes; /* body: note and records */
  uint64_t body_hash, head_hash;   /* XXH3; head_hash of what stands before it */
} tni_saved_head;
_Static_assert(sizeof(tni_saved_head) == 96, "a file's head");

typedef struct tni_saved_record {
  uint32_t kind, index; /* TNI_SAVED_*; of the cache or input */
  uint32_t dtype, rank;
  int64_t first, dims[8];
  uint64_t bytes;
} tni_saved_record;
_Static_assert(sizeof(tni_saved_record) == 96, "a record's head");

enum { TNI_SAVED_CACHE = 1, TNI_SAVED_INPUT = 2 };

#endif
