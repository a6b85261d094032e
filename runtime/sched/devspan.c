/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose turn it is: spans of memory handed from the CPU to devices and back.
 */
#include <string.h>

#include "runtime/sched/devmem.h"

tn_status tni_span_release(tni_span *s, tn_error *err) {
  tn_status st = TN_OK;
  if (!s->access) return TN_OK;
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
static tn_status carry(tni_span *s, uint32_t h, tn_error *err) {
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

tn_status tni_span_take(tni_span *s, uint32_t dev, uint32_t access, tn_error *err) {
  tni_mem *m = s->mem;
  const bool whole = access & TNI_SPAN_WHOLE;
  tn_status st = TN_OK;
  uint32_t h = 0;
  if (!m) return TN_OK;
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
    if (st == TN_OK && access && access != TN_WRITE && s->valid && !(s->valid >> h & 1)) st = carry(s, h, err);
    s->ptr = m->open[h] ? (char *)m->host[h] + s->offset : NULL;
  }
  if (st != TN_OK) return st;
  if (writes)
    s->valid = 1u << h;
  else if (access && s->valid)
    s->valid |= 1u << h;
  return TN_OK;
}
