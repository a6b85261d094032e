/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose turn it is: spans of memory handed from the CPU to devices and back.
 */
#include <stdbool.h>
#include <string.h>

#include "runtime/memory/devmem.h"

tn_status tni_span_release(tni_span *s, tn_error *err) {
  tn_status st = TN_OK;
  if (!s->access) return TN_OK;
  /* A map may be a copy of its own that comes back as it is: the last one must not undo what was written. */
  for (uint32_t i = 0; s->ptr && s->access & ~(uint32_t)TN_READ && i < s->mem->n_parts; i++)
    if (s->maps[i] && s->maps[i] != s->ptr) memcpy(s->maps[i], s->ptr, s->bytes);
  for (uint32_t i = 0; i < s->mem->n_parts; i++) {
    if (!s->maps[i]) continue;
    tn_status one = tni_mem_unmap(s->mem, &s->mem->parts[i], s->maps[i], err);
    s->maps[i] = NULL;
    if (st == TN_OK) st = one;
  }
  tni_span **at = &s->mem->mapped;
  while (*at && *at != s) at = &(*at)->next;
  if (*at) *at = s->next;
  s->next = NULL;
  s->ptr = NULL;
  s->access = 0;
  return st;
}

/* No two mapped spans share bytes, and a device gets nothing that is mapped. */
static tn_status release_sharing(const tni_span *s, tn_error *err) {
  for (tni_span *o = s->mem->mapped, *next; o; o = next) {
    next = o->next;
    if (o == s || o->offset >= s->offset + s->bytes || s->offset >= o->offset + o->bytes) continue;
    tn_status st = tni_span_release(o, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static uint32_t home_of(const tni_mem *m, uint32_t dev) {
  for (uint32_t i = 0; i < m->n_parts; i++)
    if (m->parts[i].dev == dev) return m->parts[i].home;
  return 0;
}

/* Every part is mapped, so that each device knows; the address is the host's own, or the owner's. */
static tn_status map_home(tni_span *s, uint32_t h, uint32_t access, tn_error *err) {
  tni_mem *m = s->mem;
  tn_status st = TN_OK;
  void *ptr = m->host[h] ? (char *)m->host[h] + s->offset : NULL;
  s->access = access;
  s->home = h;
  s->next = m->mapped;
  m->mapped = s;
  for (uint32_t i = 0; st == TN_OK && i < m->n_parts; i++) {
    if (m->parts[i].home != h) continue;
    st = tni_mem_map(m, &m->parts[i], s->offset, s->bytes, access, &s->maps[i], err);
    if (!ptr) ptr = s->maps[i];
  }
  s->ptr = ptr;
  if (st != TN_OK) (void)!tni_span_release(s, NULL);
  return st;
}

static tn_status take_cpu(tni_span *s, uint32_t h, uint32_t access, tn_error *err) {
  if (s->mem->open[h]) {
    s->ptr = (char *)s->mem->host[h] + s->offset;
    return TN_OK;
  }
  if (s->access && s->home == h && !(access & ~s->access)) return TN_OK;
  tn_status st = tni_span_release(s, err);
  if (st == TN_OK) st = release_sharing(s, err);
  return st == TN_OK && s->bytes ? map_home(s, h, access, err) : st;
}

/* From a home that has the last content to h. */
static tn_status carry_span(tni_span *s, uint32_t h, tn_error *err) {
  tni_span to = {.mem = s->mem, .offset = s->offset, .bytes = s->bytes};
  tn_status st = take_cpu(s, (uint32_t)__builtin_ctz(s->valid), TN_READ, err);
  const void *from = s->ptr;
  if (st != TN_OK || !s->bytes) return st;
  if (s->mem->open[h])
    to.ptr = (char *)s->mem->host[h] + s->offset;
  else
    st = map_home(&to, h, TN_WRITE, err);
  if (st == TN_OK) memcpy(to.ptr, from, s->bytes);
  s->mem->counts->copies++;
  s->mem->counts->copied_bytes += s->bytes;
  if (st == TN_OK) st = tni_span_release(&to, err);
  tn_status last = tni_span_release(s, err);
  return st == TN_OK ? last : st;
}

/* --- rows of caches ---------------------------------------------------------------------------------------------- */

/* [offset, offset + bytes) of s from one home to another. */
static tn_status carry_piece(const tni_span *s, uint32_t from, uint32_t to, uint64_t offset, uint64_t bytes,
                             tn_error *err) {
  tni_mem *m = s->mem;
  tni_span a = {.mem = m, .offset = s->offset + offset, .bytes = bytes}, b = a;
  tn_status st = TN_OK;
  if (m->open[from])
    a.ptr = (char *)m->host[from] + a.offset;
  else
    st = map_home(&a, from, TN_READ, err);
  if (st == TN_OK && m->open[to])
    b.ptr = (char *)m->host[to] + b.offset;
  else if (st == TN_OK)
    st = map_home(&b, to, TN_WRITE, err);
  if (st == TN_OK) memcpy(b.ptr, a.ptr, bytes);
  m->counts->copied_bytes += bytes;
  const tn_status one = tni_span_release(&b, err), other = tni_span_release(&a, err);
  return st != TN_OK ? st : one != TN_OK ? one : other;
}

/* Memory rows [first, first + n): axes that lie close are one piece, those that do not are walked. */
static tn_status carry_rows(const tni_span *s, uint32_t from, uint32_t to, int64_t first, int64_t n, tn_error *err) {
  const tni_rows *r = s->rows;
  const int64_t count[3] = {r->dims[0], r->dims[1], n};
  uint64_t piece = r->row_bytes;
  bool inside[3] = {false}, whole = true;
  if (!count[0] || !count[1] || !n) return TN_OK;
  for (uint32_t k = 0; k < 3 && whole; k++) {
    uint32_t a = 3; /* the axis with the smallest stride that is left */
    for (uint32_t i = 0; i < 3; i++)
      if (!inside[i] && (a == 3 || r->strides[i] < r->strides[a])) a = i;
    if ((uint64_t)r->strides[a] > 2 * piece && count[a] > 1) break; /* more than padding lies between */
    piece += (uint64_t)(count[a] - 1) * (uint64_t)r->strides[a];
    inside[a] = true;
    whole = a != 2 || n == r->dims[2];
  }
  tn_status st = TN_OK;
  const int64_t walk[3] = {inside[0] ? 1 : count[0], inside[1] ? 1 : count[1], inside[2] ? 1 : count[2]};
  for (int64_t i = 0; st == TN_OK && i < walk[0] * walk[1] * walk[2]; i++) {
    const int64_t row = first + i % walk[2], head = i / walk[2] % walk[1], batch = i / walk[2] / walk[1];
    const int64_t at = batch * r->strides[0] + head * r->strides[1] + row * r->strides[2];
    st = carry_piece(s, from, to, (uint64_t)at, piece, err);
  }
  return st;
}

/* Positions [first, end) from the home that has them. */
static tn_status carry_positions(tni_span *s, uint32_t h, int64_t first, int64_t end, tn_error *err) {
  const tni_rows *r = s->rows;
  uint32_t from = 0;
  for (uint32_t k = 1; k < s->mem->homes.n; k++)
    if (r->have[k] > r->have[from]) from = k;
  tn_status st = tni_span_release(s, err);
  if (st == TN_OK) st = release_sharing(s, err);
  if (r->ring && end - first > r->ring) first = end - r->ring;
  s->mem->counts->copies++;
  for (int64_t p = first; st == TN_OK && p < end;) {
    const int64_t row = r->ring ? p % r->ring : p, left = r->ring ? r->ring - row : end - p;
    const int64_t n = end - p < left ? end - p : left;
    st = carry_rows(s, from, h, row, n, err);
    p += n;
  }
  return st;
}

static tn_status take_rows(tni_span *s, uint32_t dev, uint32_t access, tn_error *err) {
  tni_mem *m = s->mem;
  tni_rows *r = s->rows;
  const bool appends = access & TN_APPEND, writes = access & TN_WRITE;
  tn_status st = TN_OK;
  uint32_t most = 0, h;
  for (uint32_t k = 1; k < m->homes.n; k++)
    if (r->have[k] > r->have[most]) most = k;
  h = dev == TN_NONE ? most : home_of(m, dev);
  const int64_t need = appends && r->pos < r->have[most] ? r->pos : r->have[most];
  if (access && r->have[h] < need) {
    st = carry_positions(s, h, r->have[h], need, err);
    if (st == TN_OK) r->have[h] = need;
  }
  if (st == TN_OK && dev == TN_NONE) st = take_cpu(s, h, appends || writes ? TN_READ | TN_WRITE : TN_READ, err);
  if (st == TN_OK && dev != TN_NONE) {
    st = tni_span_release(s, err);
    if (st == TN_OK && !m->open[h]) st = release_sharing(s, err);
    s->ptr = m->open[h] ? (char *)m->host[h] + s->offset : NULL;
  }
  if (st != TN_OK) return st;
  if (dev == TN_NONE) s->home = h;
  for (uint32_t k = 0; k < m->homes.n; k++)
    if (k != h && appends && r->have[k] > r->pos)
      r->have[k] = r->pos;
    else if (k != h && writes)
      r->have[k] = 0; /* who writes anywhere says afterwards what there is: tni_span_wrote */
  if (appends) r->have[h] = r->valid;
  return TN_OK;
}

void tni_span_wrote(tni_span *s, int64_t end) {
  if (s->mem && s->rows) s->rows->have[s->mem->homes.n > 1 ? s->home : 0] = end;
}

/* --- taking ------------------------------------------------------------------------------------------------------ */

tn_status tni_span_take(tni_span *s, uint32_t dev, uint32_t access, tn_error *err) {
  tni_mem *m = s->mem;
  const bool whole = access & TNI_SPAN_WHOLE;
  tn_status st = TN_OK;
  uint32_t h = 0;
  if (!m) return TN_OK;
  if (s->rows && m->homes.n > 1) return take_rows(s, dev, access & ~(uint32_t)TNI_SPAN_WHOLE, err);
  if (dev != TN_NONE)
    h = home_of(m, dev);
  else if (s->valid)
    h = (uint32_t)__builtin_ctz(s->valid);
  access &= ~(uint32_t)TNI_SPAN_WHOLE;
  const bool writes = access & (TN_WRITE | TN_APPEND);
  if (dev == TN_NONE) {
    /* The rest of what is only partly written stays. */
    st = take_cpu(s, h, whole ? TN_WRITE : writes ? TN_READ | TN_WRITE : TN_READ, err);
  } else {
    st = tni_span_release(s, err);
    if (st == TN_OK && !m->open[h]) st = release_sharing(s, err);
    if (st == TN_OK && access && access != TN_WRITE && s->valid && !(s->valid >> h & 1)) st = carry_span(s, h, err);
    s->ptr = m->open[h] ? (char *)m->host[h] + s->offset : NULL;
  }
  if (st != TN_OK) return st;
  if (writes)
    s->valid = 1u << h;
  else if (access && s->valid)
    s->valid |= 1u << h;
  return TN_OK;
}
