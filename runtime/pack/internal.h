/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the packed-weight store.
 *
 * Opening goes: load the file if it is there (file.c); find every part's content, by its stamp or by hashing (key.c);
 * match segments by key and check their sums (file.c, sum.c); if some are missing, take the lock, look again, and write
 * a new file that has them all (write.c, packing.c), or pack into memory (write.c). Names, lock and eviction: cache.c.
 */
#ifndef TENON_PACK_INTERNAL_H
#define TENON_PACK_INTERNAL_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/pack/layout.h"
#include "runtime/pack/store.h"

/* A file that was loaded: structure checked, sums not. */
typedef struct tni_pk_file {
  const uint8_t *data;           /* NULL: none */
  uint64_t bytes, device, inode; /* of a damaged file too, with data NULL */
  tni_file map;                  /* what data is in */
  tni_pk_header head;
  const tni_pk_segment *segments;
  const uint64_t *sums;
  tni_pk_stamp *stamps; /* own copy [head.n_stamps]; zeros where both slots are torn */
  const char *damage;   /* why a file that is there is not used, or NULL */
  uint64_t sequence;    /* of the slot that was taken */
  int slot;             /* its index; -1: none */
} tni_pk_file;

/* One distinct packed matrix. */
typedef struct tni_pk_want {
  const tni_pack_item *item; /* the first with this key */
  tni_pk_hash key, content;
  tn_pack_size size;
  uint32_t first_stamp; /* into store->stamps, item->n_parts of them */
  bool broken;          /* found, but with a wrong sum */
  bool found;           /* in the file that was there */
  const uint8_t *ptr;   /* NULL: not there yet */
} tni_pk_want;

/* A segment whose sums are checked, and where its pieces stand among those of all that are. */
typedef struct tni_pk_span {
  const tni_pk_segment *segment; /* NULL: none */
  uint64_t first_piece, n_pieces;
  bool wrong;
} tni_pk_span;

/* Where a blob's bytes are: in memory, and in an open file where fd is not -1. */
typedef struct tni_pk_bytes {
  const uint8_t *ptr;
  uint64_t at;
  int fd;
} tni_pk_bytes;

struct tni_pack_store {
  const tni_pack_opts *o; /* during open only */
  tni_pack_stats stats;
  tni_pk_want *want;
  tni_pk_span *spans; /* [n_want] */
  uint32_t n_want, n_items;
  uint32_t *want_of; /* [n_items] */
  tni_pk_stamp *stamps;
  uint32_t n_stamps;
  tn_blob *blobs; /* [n_items] */
  tni_pk_file file;
  tni_pk_bytes *bytes; /* [n_items]: what blobs read */
  int fd;              /* the file that the segments lie in; -1: none */
  bool copied;         /* blobs are read where they lie in memory */
  void *own;           /* a mapping of what was packed now, or NULL */
  tni_watch *watch;    /* of own, where it is a file's */
  uint64_t own_bytes;
  char *path, *dir; /* NULL: uncached */
  uint64_t done_bytes, total_bytes;
  int lock;          /* the writers' lock while this packs, or -1 */
  int64_t signed_at; /* when it said last that it works */
};

static inline bool tni_pk_equal(tni_pk_hash a, tni_pk_hash b) { return a.lo == b.lo && a.hi == b.hi; }
static inline uint64_t tni_pk_pieces(uint64_t bytes) { return bytes / TNI_PK_PIECE + (bytes % TNI_PK_PIECE != 0); }
static inline bool tni_pk_cancelled(const tni_pack_store *s) {
  return s->o->cancel && __atomic_load_n(s->o->cancel, __ATOMIC_RELAXED);
}

/* key.c. Fills want, want_of and stamps; contents of parts come from the file's stamps where they match. */
tn_status tni_pk_keys(tni_pack_store *s, const tni_pack_item *const *items, tn_error *err);

/* sum.c. Checksums of the 1 MiB pieces of p, over the pool. */
void tni_pk_sum(tni_pool *pool, const uint8_t *p, uint64_t bytes, uint64_t *sums);
/* Sets `wrong` of n segments of f, over the pool. */
void tni_pk_check(tni_pool *pool, const tni_pk_file *f, tni_pk_span *spans, uint32_t n);
uint64_t tni_pk_hash_avx2(const void *p, size_t n);

/* file.c. A missing, damaged or foreign file leaves *f empty; damage is logged. */
void tni_pk_load(const tni_pack_store *s, const tni_log *log, tni_pk_file *f);
void tni_pk_unload(tni_pk_file *f);
/* Points every wanted segment that is in the file, and whole, at its bytes. Returns how many are still missing. */
uint32_t tni_pk_match(tni_pack_store *s);
/* Rewrites a slot where the stamps have changed. Best effort. */
void tni_pk_restamp(tni_pack_store *s);

/* packing.c. Packs one matrix into dst (zeroed, want->size.bytes). */
tn_status tni_pk_pack(tni_pack_store *s, const tni_pk_want *w, uint8_t *dst, tn_error *err);

/* write.c. Packs what is missing into a new file that replaces the old one. *wrote false with TN_OK: the file could not
 * be written (logged); then everything still missing is to be packed into memory. */
tn_status tni_pk_write(tni_pack_store *s, bool *wrote, tn_error *err);
tn_status tni_pk_pack_memory(tni_pack_store *s, tn_error *err);

/* cache.c */
tn_status tni_pk_paths(tni_pack_store *s, tn_error *err); /* fills dir and path */
bool tni_pk_make_dir(const tni_pack_store *s);            /* false: cannot (logged) */
/* The writers' lock of this file. -1: there is none to be had, or who has it gives no sign of work any more (logged);
 * writers then only have their own temporary names. */
int tni_pk_lock(const tni_pack_store *s, tn_status *st);
/* That this writer works. As often as is convenient. */
void tni_pk_sign(tni_pack_store *s);
void tni_pk_unlock(int fd);
/* Removes temporary files whose writers are gone. own: also young ones of this file's (needs the lock). */
void tni_pk_sweep(const tni_pack_store *s, bool own);
/* Removes the packed files used longest ago, never this one, until all of them and `more` bytes fit max_bytes. */
void tni_pk_evict(const tni_pack_store *s, uint64_t own_bytes);
void tni_pk_touch(const tni_pack_store *s);

#endif
