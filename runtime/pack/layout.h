/* SPDX-License-Identifier: Apache-2.0
 *
 * The packed-weight file, byte by byte. Little endian; every hash is XXH3 (64 or 128 bits, seed 0).
 *
 *   0            tni_pk_header
 *   segments_at  tni_pk_segment[n_segments]
 *   sums_at      uint64_t[n_sums]: XXH3-64 of each MiB of each segment, in the segments' order; the last piece is short
 *   stamps_at[0], [1]  two slots: tni_pk_slot, then tni_pk_stamp[n_stamps]
 *   data_at      the segments' bytes, each aligned to 64 KiB; gaps are zero
 *
 * Everything but the slots is written once, before the file gets its name. Slots are rewritten in place when a source
 * file was touched without changing: the one with the lower sequence number is overwritten, so that a torn write leaves
 * the other. A slot whose hash is wrong counts as absent; then content is hashed again, and nothing else is lost.
 */
#ifndef TENON_PACK_LAYOUT_H
#define TENON_PACK_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define TNI_PK_MAGIC "TENONPK"
enum { TNI_PK_VERSION = 2, TNI_PK_ALIGN = 64 * 1024, TNI_PK_PIECE = 1024 * 1024 };
enum { TNI_PK_MAX_SEGMENTS = 1 << 20, TNI_PK_MAX_STAMPS = 1 << 22 };

typedef struct tni_pk_header {
  uint8_t magic[8];      /*  0 "TENONPK" and a zero */
  uint32_t version;      /*  8 */
  uint32_t n_segments;   /* 12 */
  uint32_t n_stamps;     /* 16 */
  uint32_t reserved;     /* 20 zero */
  uint64_t file_bytes;   /* 24 the file has exactly this size */
  uint64_t segments_at;  /* 32 */
  uint64_t sums_at;      /* 40 */
  uint64_t n_sums;       /* 48 */
  uint64_t stamps_at[2]; /* 56 */
  uint64_t data_at;      /* 72 */
  uint64_t table_hash;   /* 80 of [segments_at, stamps_at[0]) */
  uint64_t header_hash;  /* 88 of the 88 bytes before */
} tni_pk_header;
_Static_assert(sizeof(tni_pk_header) == 96, "header");
_Static_assert(offsetof(tni_pk_header, file_bytes) == 24 && offsetof(tni_pk_header, stamps_at) == 56, "header");
_Static_assert(offsetof(tni_pk_header, table_hash) == 80 && offsetof(tni_pk_header, header_hash) == 88, "header");

/* 128 bits: the hash's low half, then the high half. */
typedef struct tni_pk_hash {
  uint64_t lo, hi;
} tni_pk_hash;

/* key: content + shape + format name, version, params (+ statistics or quantization where the format reads them).
 * content: the parts' content, dtypes and shapes. N, K and format are for people; the key decides. */
typedef struct tni_pk_segment {
  tni_pk_hash key;         /*   0 */
  tni_pk_hash content;     /*  16 */
  uint64_t offset;         /*  32 from the start of the file, a multiple of 64 KiB */
  uint64_t bytes;          /*  40 */
  uint64_t first_sum;      /*  48 index into the sums; ceil(bytes / 1 MiB) of them */
  int64_t N, K;            /*  56, 64 */
  uint32_t first_stamp;    /*  72 index into the stamps */
  uint32_t n_stamps;       /*  76 one per part */
  uint32_t format_version; /*  80 */
  uint32_t reserved;       /*  84 zero */
  char format[24];         /*  88 name, cut, terminated */
} tni_pk_segment;
_Static_assert(sizeof(tni_pk_segment) == 112, "segment");
_Static_assert(offsetof(tni_pk_segment, offset) == 32 && offsetof(tni_pk_segment, N) == 56, "segment");
_Static_assert(offsetof(tni_pk_segment, first_stamp) == 72 && offsetof(tni_pk_segment, format) == 88, "segment");

/* Where a part came from, and the hash of what was there. device = inode = 0: not from a file, or touched so recently
 * that the time does not tell; never matches. */
typedef struct tni_pk_stamp {
  uint64_t device, inode, size; /*  0, 8, 16 of the file */
  int64_t mtime_ns, ctime_ns;   /* 24, 32; the second cannot be set back */
  uint64_t generation;          /* 40 of the inode; 0: the file system does not say */
  uint64_t offset, bytes;       /* 48, 56 of the part in it */
  uint64_t reading;             /* 64 hash of how the bytes are read: dtype, flags, shape */
  tni_pk_hash content;          /* 72 */
} tni_pk_stamp;
_Static_assert(sizeof(tni_pk_stamp) == 88, "stamp");
_Static_assert(offsetof(tni_pk_stamp, mtime_ns) == 24 && offsetof(tni_pk_stamp, reading) == 64, "stamp");
_Static_assert(offsetof(tni_pk_stamp, content) == 72, "stamp");

typedef struct tni_pk_slot {
  uint64_t sequence; /* 0: never written */
  uint64_t hash;     /* of sequence, then the stamps */
} tni_pk_slot;
_Static_assert(sizeof(tni_pk_slot) == 16, "slot");

#endif
