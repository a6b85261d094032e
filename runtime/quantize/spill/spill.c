/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/quantize/spill/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UNIT = 4096 }; /* of the file */

tn_status tni_spill_init(tni_spill *s, const char *path, uint64_t most, tn_error *err) {
  *s = (tni_spill){.path = strdup(path), .most = most, .fd = -1};
  return s->path ? TN_OK : tni_fail_memory(err, path);
}

void tni_spill_finish(tni_spill *s) {
  if (s->path && s->fd >= 0) close(s->fd);
  free(s->path);
  free(s->gaps);
  *s = (tni_spill){.fd = -1};
}

static tn_status fail(const tni_spill *s, const char *what, tn_error *err) {
  const int why = errno;
  return tni_fail(err, tni_errno_status(why, TN_E_IO), s->path, "cannot %s '%s': %s", what, s->path, strerror(why));
}

/* --- parts of the file --- */

static uint64_t in_units(uint64_t n) { return (n + UNIT - 1) / UNIT * UNIT; }

static void remove_gap(tni_spill *s, uint32_t i) {
  memmove(s->gaps + i, s->gaps + i + 1, (--s->n_gaps - i) * sizeof *s->gaps);
}

/* The first gap that is large enough, or the end. */
static tn_status take_part(tni_spill *s, uint64_t n, uint64_t *at, tn_error *err) {
  for (uint32_t i = 0; i < s->n_gaps; i++) {
    tni_spill_gap *g = &s->gaps[i];
    if (g->n < n) continue;
    *at = g->at;
    g->at += n;
    g->n -= n;
    if (!g->n) remove_gap(s, i);
    return TN_OK;
  }
  if (!tni_file_reserve(s->fd, s->end, n)) return fail(s, "write", err);
  *at = s->end;
  s->end += n;
  return TN_OK;
}

static void give_part(tni_spill *s, uint64_t at, uint64_t n) {
  uint32_t i = 0;
  while (i < s->n_gaps && s->gaps[i].at < at) i++;
  if (i && s->gaps[i - 1].at + s->gaps[i - 1].n == at) {
    at = s->gaps[--i].at;
    n += s->gaps[i].n;
    remove_gap(s, i);
  }
  if (i < s->n_gaps && at + n == s->gaps[i].at) {
    n += s->gaps[i].n;
    remove_gap(s, i);
  }
  if (at + n == s->end) {
    s->end = at;
    return;
  }
  if (s->n_gaps == s->room) {
    const uint32_t room = s->room ? 2 * s->room : 64;
    tni_spill_gap *grown = realloc(s->gaps, room * sizeof *grown);
    if (!grown) return; /* that part is lost: the file grows more */
    s->gaps = grown;
    s->room = room;
  }
  memmove(s->gaps + i + 1, s->gaps + i, (s->n_gaps++ - i) * sizeof *s->gaps);
  s->gaps[i] = (tni_spill_gap){at, n};
}

/* Its name goes at once. */
static tn_status open_file(tni_spill *s, tn_error *err) {
  if (s->fd >= 0) return TN_OK;
  s->fd = open(s->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (s->fd < 0) return fail(s, "make", err);
  (void)unlink(s->path);
  return TN_OK;
}

/* --- blocks --- */

tn_status tni_spill_read(const tni_spill *s, const tni_spill_block *b, void *to, tn_error *err) {
  if (b->p && b->n) memcpy(to, b->p, (size_t)b->n);
  return b->p || tni_file_get(to, b->n, s->fd, b->at) ? TN_OK : fail(s, "read", err);
}

tn_status tni_spill_copy(tni_spill *s, const tni_spill_block *b, tni_spill_block *out, tn_error *err) {
  void *p = aligned_alloc(64, ((size_t)b->n + 64) & ~(size_t)63);
  const tn_status st = p ? tni_spill_read(s, b, p, err) : tni_fail_memory(err, s->path);
  if (st != TN_OK) {
    free(p);
    return st;
  }
  *out = (tni_spill_block){p, b->n, TNI_SPILL_UNFILED};
  s->held += b->n;
  return TN_OK;
}

tn_status tni_spill_make(tni_spill *s, const void *from, uint64_t n, tni_spill_block *out, tn_error *err) {
  return tni_spill_copy(s, &(tni_spill_block){(void *)(uintptr_t)from, n, TNI_SPILL_UNFILED}, out, err);
}

tn_status tni_spill_in(tni_spill *s, tni_spill_block *b, tn_error *err) {
  tni_spill_block c;
  if (b->p) return TN_OK;
  const tn_status st = tni_spill_copy(s, b, &c, err);
  if (st == TN_OK) b->p = c.p;
  return st;
}

tn_status tni_spill_out(tni_spill *s, tni_spill_block *b, tn_error *err) {
  uint64_t at = b->at;
  if (!b->p || !b->n) return TN_OK;
  if (at == TNI_SPILL_UNFILED) {
    tn_status st = open_file(s, err);
    if (st == TN_OK) st = take_part(s, in_units(b->n), &at, err);
    if (st != TN_OK) return st;
    if (!tni_file_put(b->p, b->n, s->fd, at)) {
      st = fail(s, "write", err);
      give_part(s, at, in_units(b->n));
      return st;
    }
  }
  b->at = at;
  s->held -= b->n;
  free(b->p);
  b->p = NULL;
  return TN_OK;
}

void tni_spill_drop(tni_spill *s, tni_spill_block *b) {
  if (b->p) s->held -= b->n;
  if (b->at != TNI_SPILL_UNFILED) give_part(s, b->at, in_units(b->n));
  free(b->p);
  *b = (tni_spill_block){NULL, 0, TNI_SPILL_UNFILED};
}
