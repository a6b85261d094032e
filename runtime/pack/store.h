/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights: one host-owned file per model and device, mapped on later starts.
 *
 * A segment's key is the content of its parts (hashed when packed, afterwards recognised by the source files' device,
 * inode, generation, size, mtime and ctime) + format name, version and params; never the plugin's build. File: header,
 * segment table, segments aligned to 64 KiB, a checksum per 1 MiB that is checked when a segment is first used. Written
 * to a temporary file in the same folder (space reserved before anything is mapped), fsync, rename, fsync of the
 * folder: a killed writer leaves the old file or none. Where the folder cannot be written or is full, segments are
 * packed into anonymous memory and the log says so. Bundles (runtime/bundle) are written `portable` and read `sealed`.
 */
#ifndef TENON_PACK_STORE_H
#define TENON_PACK_STORE_H

#include <stdbool.h>

#include "runtime/base/base.h"

/* One part of a matrix: where its bytes come from, for the stamp. file NULL: in memory, always hashed. */
typedef struct tni_pack_source {
  const char *file;
  uint64_t device, inode, size, offset, bytes;
  int64_t mtime_ns, ctime_ns;
  uint64_t generation;
  uint64_t others;    /* what stands for all else that decides the elements, in this file or in others; 0: nothing */
  int64_t newest_ns;  /* the latest time of a file that `others` stands for */
  const void *mapped; /* its bytes in a file mapping: dropped after use; NULL: not to be dropped */
  const uint64_t *content; /* XXH3-128 of bytes that are not here any more, low and high; NULL: they are */
} tni_pack_source;

typedef struct tni_pack_item {
  const tn_format *format;
  const int64_t *params;
  uint32_t n_params;
  const tn_weight *weight;        /* whole matrix [N,K], parts already joined; raw may be NULL */
  const tni_pack_source *sources; /* one per part */
  const tn_weight *const *parts;  /* one per part: their content is what is hashed (raw if there, else rows()) */
  uint32_t n_parts;
  const char *name; /* for messages and progress */
} tni_pack_item;

/* Called from the packing thread now and then. */
typedef void (*tni_pack_progress)(void *user, const char *name, uint64_t done_bytes, uint64_t total_bytes);

typedef struct tni_pack_opts {
  const char *dir;        /* cache folder; NULL or "": uncached */
  const char *model_name; /* base of the file name, cleaned by the store */
  const char *model_path; /* keeps the files of models of one name apart; NULL: they share one */
  const char *device_name;
  uint64_t max_bytes;  /* of all packed files in dir; oldest used are evicted; 0: no limit */
  const tn_host *host; /* for format->begin */
  tni_pool *pool;
  const tni_log *log;
  bool portable; /* what is written says nothing of this machine (stamps hold contents only): equal bytes everywhere */
  bool sealed;   /* dir is only read. A segment that its file lacks, or a damaged file, is an error; where there is no
                  * file for this device, memory takes what is packed */
  tni_pack_progress progress;
  void *progress_user;
  const volatile int32_t *cancel;
  uint32_t stall_s; /* how long a writer of the same file may give no sign of work; 0: a minute */
  bool copy;        /* files are read into memory and not mapped */
  /* Whether the sources are what they were when their stamps were taken; asked before what was packed of them is kept.
   * NULL: they are. */
  bool (*unchanged)(void *user);
  void *unchanged_user;
} tni_pack_opts;

typedef struct tni_pack_stats {
  uint64_t packed_segments, packed_bytes; /* made in this call */
  uint64_t mapped_segments, mapped_bytes; /* found in the file */
  uint64_t repaired_segments;             /* found with a wrong checksum, packed again */
  uint64_t read_parts;                    /* no stamp knew them: their elements were read to know them by */
  int64_t pack_ns;
  int cached; /* 0: the segments live in memory only */
  char path[512];
} tni_pack_stats;

typedef struct tni_pack_store tni_pack_store;

/* Makes every item available. blobs[i] (n of them, owned by the store) stay valid until close. */
TN_MUST_CHECK tn_status tni_pack_store_open(const tni_pack_opts *o, const tni_pack_item *const *items, uint32_t n,
                                            tni_pack_store **out, tn_error *err);
/* read() of a blob reads the file, where there is one. */
const tn_blob *tni_pack_store_blob(const tni_pack_store *s, uint32_t i);
const tni_pack_stats *tni_pack_store_stats(const tni_pack_store *s);
/* TN_E_IO: the file that blobs lie in was cut short, or cannot be read any more. */
TN_MUST_CHECK tn_status tni_pack_store_check(const tni_pack_store *s, tn_error *err);
void tni_pack_store_close(tni_pack_store *s);

/* Bytes that an item will take packed, without packing. */
TN_MUST_CHECK tn_status tni_pack_bytes(const tni_pack_item *it, uint64_t *bytes, tn_error *err);

#endif
