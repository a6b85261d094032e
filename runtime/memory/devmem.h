/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that engines of devices and the CPU touch.
 *
 * A tni_mem lies in one home wherever that can be: made by the device that can import nothing, else by one with
 * engines, else by the host; all other devices import what the home shares. Devices that have no way to one memory get
 * homes of their own, and what one wrote is copied when another is next: each such copy is counted.
 *
 * A tni_span is a part of a tni_mem. It belongs to the CPU (mapped) or to devices (not mapped); tni_span_take hands it
 * over. Spans of one memory may share bytes when no task needs both at once: handing over one gives back those that
 * share with it. Buffers that are COHERENT stay mapped. Of a cache that lies in several homes only the rows are copied
 * that the taker has not got yet (tni_rows).
 *
 * Threads: calls for the spans of one session one at a time. Device calls are made under the device's lock.
 */
#ifndef TENON_MEMORY_DEVMEM_H
#define TENON_MEMORY_DEVMEM_H

#include <stdbool.h>
#include <tenon/plugin.h>

#include "runtime/base/base.h"
#include "runtime/place/place.h"

/* Devices that touch one memory. */
enum { TNI_MEM_PARTS = 4 };

/* Where copies of it lie. owner: who makes it, TN_NONE the host. devices: who has access, owner included. */
typedef struct tni_mem_home {
  uint64_t devices;
  uint32_t owner, reserved;
} tni_mem_home;
typedef struct tni_mem_homes {
  tni_mem_home v[TNI_MEM_PARTS];
  uint32_t n, reserved; /* 1 is what it should be: more cost copies */
} tni_mem_homes;

/* From what the devices' caps say. TN_E_UNSUPPORTED: more devices than TNI_MEM_PARTS. */
TN_MUST_CHECK tn_status tni_mem_place(const tni_dev *devs, tni_mem_users users, tni_mem_homes *out, tn_error *err);

/* What a session made and moved; only grows. */
typedef struct tni_mem_counts {
  uint64_t buffers, bytes;       /* create calls that made memory, and its bytes */
  uint64_t imports, maps;        /* create calls that made none; map calls */
  uint64_t copies, copied_bytes; /* from home to home */
} tni_mem_counts;

/* The host's memory for what is made together, in one piece: memory of a few MiB each gets large pages only as part of
 * something larger. Lives until the last tni_mem in it goes. */
typedef struct tni_slab {
  char *base;
  uint64_t bytes, used;
  uint32_t users, reserved; /* whoever made it is one */
} tni_slab;

/* Room for `bytes`, zeroed by the pool's threads; NULL: none, which costs speed alone. */
tni_slab *tni_slab_create(uint64_t bytes, tni_pool *pool);
void tni_slab_drop(tni_slab *s); /* NULL is fine */
/* What one memory of so many bytes takes there. */
uint64_t tni_slab_bytes(uint64_t bytes);

typedef struct tni_mem_spec {
  tni_mem_users users;
  uint64_t bytes;
  uint32_t usage, align; /* bits of TN_SLOT_*; of its beginning: a power of two or 0 */
  bool zero;             /* zeroed, and made to be read from end to end */
  bool watched;          /* the CPU looks at guards in it (guard.h), whoever else uses it */
  const char *what;      /* for messages */
  struct tni_shm *shm;   /* the host's own memory is a piece of this, which takes precedence; or NULL */
  tni_slab *slab;        /* where the host's own private memory comes from while there is room; or NULL */
} tni_mem_spec;

/* A device's share in a home. */
typedef struct tni_mem_part {
  tn_buffer *buffer;
  uint32_t dev, home;
} tni_mem_part;

typedef struct tni_mem {
  const tni_dev *devs;
  tni_mem_counts *counts;
  uint64_t bytes;
  tni_mem_homes homes;
  tni_mem_part parts[TNI_MEM_PARTS]; /* of a home the owner's first */
  void *host[TNI_MEM_PARTS];         /* by home: the host's address of it, or NULL */
  uint64_t host_bytes[TNI_MEM_PARTS];
  bool open[TNI_MEM_PARTS]; /* by home: the CPU may use host[] at any time */
  uint8_t host_kind[TNI_MEM_PARTS];
  uint32_t n_parts;
  struct tni_span *mapped; /* spans that the CPU has */
  tni_slab *slab;          /* that host memory of this lies in, or NULL */
  struct tni_shm *shm;     /* of the spec */
} tni_mem;

/* TN_E_NO_MEMORY with bytes and device. *out is right, and to be destroyed, also on failure. */
TN_MUST_CHECK tn_status tni_mem_create(const tni_dev *devs, const tni_mem_spec *spec, tni_mem_counts *counts,
                                       tni_mem *out, tn_error *err);
/* Unmaps and frees; a zeroed tni_mem is fine. No args may name it any more. */
void tni_mem_destroy(tni_mem *m);
/* The buffer that device dev knows it by; NULL: none. */
tn_buffer *tni_mem_buffer(const tni_mem *m, uint32_t dev);

/* What devmem.c and devspan.c stand on (devmap.c): [offset, offset + n) of a device's share for the CPU, and back. */
TN_MUST_CHECK tn_status tni_mem_map(tni_mem *m, const tni_mem_part *p, uint64_t offset, uint64_t n, uint32_t access,
                                    void **ptr, tn_error *err);
TN_MUST_CHECK tn_status tni_mem_unmap(const tni_mem *m, const tni_mem_part *p, void *ptr, tn_error *err);

/* What a span holds, where it is a cache: rows that are written once each, in the order of positions. Position p lies
 * in row p, or p % ring. Axes 0 and 1 are batch and heads, 2 the rows; strides in bytes. */
typedef struct tni_rows {
  int64_t pos, valid;          /* of the run: TN_APPEND writes positions [pos, valid) */
  int64_t ring;                /* 0: none */
  int64_t have[TNI_MEM_PARTS]; /* by home: positions [0, have) are right there, of a ring the last of them */
  int64_t dims[3], strides[3];
  uint64_t row_bytes;
} tni_rows;

/* A part of a memory. What is mapped is the CPU's. */
typedef struct tni_span {
  tni_mem *mem; /* NULL: no memory yet */
  uint64_t offset, bytes;
  void *ptr;                 /* while the CPU may use it, else NULL */
  void *maps[TNI_MEM_PARTS]; /* by part */
  uint32_t access;           /* what it is mapped for; 0: not mapped */
  uint32_t home;             /* that the CPU had last */
  uint32_t valid, reserved;  /* bit per home that has the last content; 0: there is none */
  tni_rows *rows;            /* of a cache, instead of `valid` where there are several homes; else NULL */
  struct tni_span *next;
} tni_span;

enum { TNI_SPAN_WHOLE = 1 << 16 }; /* beside TN_WRITE: the CPU writes all that is read of it, nothing is fetched */

/* Hands the span to the CPU (dev TN_NONE: s->ptr is set) or to a device (s->ptr becomes NULL, unless the CPU may use it
 * at any time). access: TN_READ, TN_WRITE, TN_APPEND, what the taker is going to do; TN_WRITE alone: all of it is
 * written. 0: an address is wanted and no content. */
TN_MUST_CHECK tn_status tni_span_take(tni_span *s, uint32_t dev, uint32_t access, tn_error *err);
/* The CPU, which has a cache's span for TN_WRITE, has filled it: positions [0, end) are there and nothing else. */
void tni_span_wrote(tni_span *s, int64_t end);
/* Gives back what the CPU has. */
TN_MUST_CHECK tn_status tni_span_release(tni_span *s, tn_error *err);

#endif
