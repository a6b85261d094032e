/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the host and the process that a plugin lives in.
 *
 * A message is a frame {magic, version, kind, sequence, descriptors, bytes} and a body of so many bytes, over a stream
 * socket; descriptors travel with the frame. Numbers are little endian and unpadded. Whoever reads believes nothing:
 * every length is compared with what is left, counts with what their elements take at least, and a reader that met
 * something wrong gives zeros and says so at the end (bad). The host takes every message of the child as hostile.
 *
 * No function here raises SIGPIPE; a peer that is gone is TN_E_DEVICE_LOST, a frame that is none is TN_E_CORRUPT.
 */
#ifndef TENON_PLUGIN_PROCESS_WIRE_H
#define TENON_PLUGIN_PROCESS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenon/types.h>

#include "runtime/base/base.h"

enum { TNI_WIRE_MAGIC = 0x314e4e54, TNI_WIRE_VERSION = 3, TNI_WIRE_FDS = 8, TNI_WIRE_MAX = 1 << 28 };

/* A message being made. bad: without memory, or too long. */
typedef struct tni_wire {
  uint8_t *p;
  size_t n, cap;
  int fds[TNI_WIRE_FDS]; /* not owned */
  uint32_t n_fds;
  bool bad;
} tni_wire;

void tni_wire_finish(tni_wire *w);
void tni_w_bytes(tni_wire *w, const void *p, size_t n);
void tni_w_u32(tni_wire *w, uint32_t v);
void tni_w_u64(tni_wire *w, uint64_t v);
void tni_w_i64(tni_wire *w, int64_t v);
void tni_w_f64(tni_wire *w, double v);
/* NULL is told from "". */
void tni_w_str(tni_wire *w, const char *s);
/* A count and n elements of `each` bytes. */
void tni_w_array(tni_wire *w, const void *p, uint32_t n, size_t each);
void tni_w_error(tni_wire *w, const tn_error *e);
/* The descriptor's place in the message. */
uint32_t tni_w_fd(tni_wire *w, int fd);

/* A message being read. Descriptors are the reader's until taken. */
typedef struct tni_rd {
  const uint8_t *p;
  size_t n, at;
  int fds[TNI_WIRE_FDS];
  uint32_t n_fds, kind, seq;
  uint8_t *owned;
  bool bad;
} tni_rd;

void tni_rd_finish(tni_rd *r); /* frees the body, closes what was not taken */
/* n bytes, or NULL: bad. */
const void *tni_r_bytes(tni_rd *r, size_t n);
uint32_t tni_r_u32(tni_rd *r);
uint64_t tni_r_u64(tni_rd *r);
int64_t tni_r_i64(tni_rd *r);
double tni_r_f64(tni_rd *r);
/* On a, at most max bytes, without control characters; NULL where NULL was put, or bad. */
const char *tni_r_str(tni_rd *r, tni_arena *a, size_t max);
/* A count of elements of `each` bytes on a, at most max of them; *n 0 gives a pointer that is not NULL. */
void *tni_r_array(tni_rd *r, tni_arena *a, uint32_t *n, size_t each, uint32_t max);
/* A count that is at most max, and whose elements can still be there at `least` bytes each. */
uint32_t tni_r_count(tni_rd *r, size_t least, uint32_t max);
void tni_r_error(tni_rd *r, tn_error *e);
int tni_r_fd(tni_rd *r); /* the next descriptor, now the caller's; -1: bad */
/* Nothing wrong, and nothing left. */
bool tni_rd_whole(const tni_rd *r);

/* kind and seq are the caller's. deadline: tni_now_ns's clock, negative: for ever; DEVICE_LOST where the peer has not
 * taken it all by then. */
TN_MUST_CHECK tn_status tni_wire_send(int socket, uint32_t kind, uint32_t seq, const tni_wire *w, int64_t deadline);
/* Waits until `first` for a message to begin (TN_E_CANCELLED: none did) and until `whole` for all of it (DEVICE_LOST:
 * it did not come). Both: tni_now_ns's clock; negative: for ever. */
TN_MUST_CHECK tn_status tni_wire_receive(int socket, int64_t first, int64_t whole, tni_rd *r);

#endif
