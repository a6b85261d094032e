/* SPDX-License-Identifier: Apache-2.0
 *
 * What a slot (slots.h) holds, as bytes that its owner keeps: rows of some positions, and states of fixed size.
 *
 * Bytes are those of this session with its placement: a session that went on elsewhere after a device was lost has
 * others (tni_slot_form). Callers have looked that slots and positions are there.
 */
#ifndef TENON_SESSION_SLOT_ROWS_H
#define TENON_SESSION_SLOT_ROWS_H

#include <stdint.h>
#include <tenon/tenon.h>

/* Caches that have a row for every position, caches that are rings, states of fixed size. */
typedef enum tni_slot_part { TNI_SLOT_ROWS, TNI_SLOT_RINGS, TNI_SLOT_STATES } tni_slot_part;

typedef struct tni_slot_form {
  const tn_session *of; /* changes where the session went on elsewhere */
  uint64_t row_bytes;   /* of a position in all caches without rings */
  uint64_t ring_bytes;  /* of a position in all rings; 0: there is none */
  uint64_t state_bytes; /* of a slot's states of fixed size; 0: there is none */
} tni_slot_form;

/* s keeps its caches in slots. */
void tni_slot_form_of(const tn_session *s, tni_slot_form *f);
/* First position that rings must have so that a slot goes on at position n; n where there is no ring. */
int64_t tni_slot_needs(const tn_session *s, int64_t n);
/* First position but 0 that a slot can go back to by what its rings still have; 0 where they have all. */
int64_t tni_slot_back(const tn_session *s, uint32_t slot);
/* Positions [first, first + n) of a slot to dst; cache by cache, head by head, n rows each. What a ring has
 * not any more is some other row of it. STATES: first and n are 0. */
void tni_slot_read(const tn_session *s, uint32_t slot, tni_slot_part part, int64_t first, int64_t n, void *dst);
/* The first n of such blocks of `rows` positions each, to positions [first, first + n). */
void tni_slot_write(tn_session *s, uint32_t slot, tni_slot_part part, int64_t first, int64_t n, int64_t rows,
                    const void *src);
/* A slot starts anew with n positions, which are written after this: of rings those that tni_slot_needs names. */
void tni_slot_begin(tn_session *s, uint32_t slot, int64_t n);

#endif
