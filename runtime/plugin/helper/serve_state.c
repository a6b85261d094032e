/* SPDX-License-Identifier: Apache-2.0
 *
 * What the child keeps for the host: objects by number, pieces of shared memory, and the way to ask or tell.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/plugin/helper/serve.h"

static tni_srv server; /* of the whole process: plugins call back with nothing of ours in hand */

tni_srv *tni_srv_self(void) { return &server; }

void *tni_srv_get(tni_srv *s, uint32_t table, uint32_t id) {
  pthread_mutex_lock(&s->lock);
  void *p = id < s->tables[table].n ? s->tables[table].v[id] : NULL;
  pthread_mutex_unlock(&s->lock);
  return p;
}

bool tni_srv_add(tni_srv *s, uint32_t table, void *p, uint32_t *id) {
  tni_srv_table *t = &s->tables[table];
  bool ok = true;
  pthread_mutex_lock(&s->lock);
  uint32_t i = t->free ? 0 : t->n;
  while (i < t->n && t->v[i]) i++;
  if (i == t->n) {
    const uint32_t n = t->n ? t->n * 2 : 64;
    void **grown = n <= TNI_ISO_MAX_OBJECTS ? realloc(t->v, n * sizeof *grown) : NULL;
    ok = grown != NULL;
    if (ok) {
      memset(grown + t->n, 0, (n - t->n) * sizeof *grown);
      t->v = grown;
      t->free += n - t->n;
      t->n = n;
    }
  }
  if (ok) {
    t->v[i] = p;
    t->free--;
    *id = i;
  }
  pthread_mutex_unlock(&s->lock);
  return ok;
}

void *tni_srv_take(tni_srv *s, uint32_t table, uint32_t id) {
  tni_srv_table *t = &s->tables[table];
  void *p = NULL;
  pthread_mutex_lock(&s->lock);
  if (id < t->n && t->v[id]) {
    p = t->v[id];
    t->v[id] = NULL;
    t->free++;
  }
  pthread_mutex_unlock(&s->lock);
  return p;
}

tn_device *tni_srv_device(tni_srv *s, uint32_t index) {
  return index < s->l->info.n_devices ? s->l->devices[index] : NULL;
}

const tn_format *tni_srv_format(tni_srv *s, uint32_t index) {
  return index < s->l->plugin->n_formats ? s->l->plugin->formats[index] : NULL;
}

void *tni_srv_at(tni_srv *s, uint32_t piece, uint64_t offset, uint64_t bytes) {
  for (uint32_t i = 0; i < s->n_pieces; i++) {
    const tni_srv_piece *p = &s->pieces[i];
    if (p->id == piece) return offset <= p->bytes && bytes <= p->bytes - offset ? p->base + offset : NULL;
  }
  return NULL;
}

/* piece, offset in the file, bytes, whether it is written; the descriptor. */
tn_status tni_srv_map(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_piece p = {.id = tni_r_u32(r)};
  const uint64_t offset = tni_r_u64(r);
  p.bytes = tni_r_u64(r);
  const bool writable = tni_r_u32(r) != 0;
  const int fd = tni_r_fd(r);
  (void)w;
  tni_srv_piece *grown = realloc(s->pieces, (s->n_pieces + 1) * sizeof *grown);
  if (!grown || fd < 0 || r->bad) {
    if (fd >= 0) close(fd);
    return tni_fail(err, TN_E_NO_MEMORY, NULL, "no piece of shared memory");
  }
  s->pieces = grown;
  p.base = mmap(NULL, p.bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)offset);
  close(fd);
  if (p.base == MAP_FAILED)
    return tni_fail(err, TN_E_NO_MEMORY, NULL, "cannot map %llu shared bytes", (unsigned long long)p.bytes);
  if (writable && p.bytes >= 2 << 20) (void)!madvise(p.base, p.bytes, MADV_HUGEPAGE);
  s->pieces[s->n_pieces++] = p;
  return TN_OK;
}

tn_status tni_srv_unmap(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  const uint32_t id = tni_r_u32(r);
  (void)w;
  (void)err;
  for (uint32_t i = 0; i < s->n_pieces; i++) {
    if (s->pieces[i].id != id) continue;
    munmap(s->pieces[i].base, s->pieces[i].bytes);
    s->pieces[i] = s->pieces[--s->n_pieces];
    break;
  }
  return TN_OK;
}

void tni_srv_event(tni_srv *s, uint32_t kind, const tni_wire *w) {
  pthread_mutex_lock(&s->send);
  atomic_fetch_add(&s->events, 1); /* an answer given from now on counts it */
  if (tni_wire_send(s->channel, kind, 0, w, -1) != TN_OK) _exit(TNI_SRV_BROKEN);
  pthread_mutex_unlock(&s->send);
}

tn_status tni_srv_ask(tni_srv *s, uint32_t kind, const tni_wire *w, uint64_t n, const void **out) {
  tni_rd r;
  if (n > TNI_ISO_WINDOW || w->bad) return TN_E_NO_MEMORY;
  pthread_mutex_lock(&s->ask);
  tni_srv_event(s, kind, w);
  tn_status st = tni_wire_receive(s->channel, -1, -1, &r);
  if (st != TN_OK) _exit(TNI_SRV_BROKEN);
  st = (tn_status)tni_r_u32(&r);
  tni_rd_finish(&r);
  *out = s->window;
  if (st != TN_OK) pthread_mutex_unlock(&s->ask);
  return st;
}

void tni_srv_answered(tni_srv *s) { pthread_mutex_unlock(&s->ask); }
