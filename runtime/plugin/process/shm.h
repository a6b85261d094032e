/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a runtime that plugins in processes of their own see too.
 *
 * One memfd per piece, sealed against shrinking and growing, so that nobody who has it can make the host's mapping
 * fault. Pieces have ids that are never used twice. Any thread.
 */
#ifndef TENON_PLUGIN_PROCESS_SHM_H
#define TENON_PLUGIN_PROCESS_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenon/types.h>

typedef struct tni_shm tni_shm;

tni_shm *tni_shm_create(void);    /* NULL without memory */
void tni_shm_destroy(tni_shm *s); /* what is left is unmapped; NULL is fine */
/* Zeroed, on a page; NULL without memory. */
void *tni_shm_alloc(tni_shm *s, uint64_t bytes);
void tni_shm_free(tni_shm *s, void *p); /* NULL is fine */

typedef struct tni_shm_at {
  uint32_t id;
  uint64_t offset, bytes; /* of the piece */
  int fd;                 /* the piece's: lives as long as it */
} tni_shm_at;
/* The piece that [p, p + bytes) lies in as a whole. */
bool tni_shm_find(tni_shm *s, const void *p, uint64_t bytes, tni_shm_at *out);
bool tni_shm_alive(tni_shm *s, uint32_t id);
/* An id for memory that is none of ours. */
uint32_t tni_shm_id(tni_shm *s);

/* A sealed memfd of so many bytes, mapped; -1: none. */
int tni_shm_map(uint64_t bytes, void **p);

/* The file that [p, p + bytes) is a read-only mapping of, by what the system says of this process: a descriptor (the
 * caller's), and where the range begins in it. -1: it is no such mapping, or the file is not there any more. */
int tni_shm_file(const void *p, uint64_t bytes, uint64_t *offset);

#endif
