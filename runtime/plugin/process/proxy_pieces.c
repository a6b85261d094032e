/* SPDX-License-Identifier: Apache-2.0
 *
 * Which shared memory the child has: pieces of ours, files that are mapped there too, copies.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/plugin/process/proxy.h"

static bool is_sent(const tni_iso *p, uint32_t id) {
  for (uint32_t i = 0; i < p->n_sent; i++)
    if (p->sent[i] == id) return true;
  return false;
}

static bool note_sent(tni_iso *p, uint32_t id) {
  if (p->n_sent == p->cap_sent) {
    const uint32_t cap = p->cap_sent ? p->cap_sent * 2 : 64;
    uint32_t *grown = realloc(p->sent, cap * sizeof *grown);
    if (!grown) return false;
    p->sent = grown;
    p->cap_sent = cap;
  }
  p->sent[p->n_sent++] = id;
  return true;
}

static tn_status send_map(tni_iso *p, uint32_t id, int fd, uint64_t offset, uint64_t bytes, bool writable,
                          tn_error *err) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, id);
  tni_w_u64(&w, offset);
  tni_w_u64(&w, bytes);
  tni_w_u32(&w, writable);
  tni_w_fd(&w, fd);
  tn_status st = tni_conn_tell(p->c, TNI_ISO_MAP, "map", &w, err);
  tni_wire_finish(&w);
  return st;
}

static void send_unmap(tni_iso *p, uint32_t id) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, id);
  (void)!tni_conn_tell(p->c, TNI_ISO_UNMAP, "unmap", &w, NULL);
  tni_wire_finish(&w);
}

tn_status tni_iso_send_piece(tni_iso *p, const tni_shm_at *at, tn_error *err) {
  pthread_mutex_lock(&p->lock);
  tn_status st = TN_OK;
  if (!is_sent(p, at->id)) {
    st = send_map(p, at->id, at->fd, 0, at->bytes, true, err);
    if (st == TN_OK && !note_sent(p, at->id)) st = tni_fail_memory(err, p->o.name);
  }
  pthread_mutex_unlock(&p->lock);
  return st;
}

void tni_iso_sweep(tni_iso *p) {
  pthread_mutex_lock(&p->lock);
  for (uint32_t i = 0; i < p->n_sent;) {
    if (tni_shm_alive(p->o.shm, p->sent[i])) {
      i++;
      continue;
    }
    send_unmap(p, p->sent[i]);
    p->sent[i] = p->sent[--p->n_sent];
  }
  pthread_mutex_unlock(&p->lock);
}

void *tni_iso_alloc(tni_iso *p, uint64_t bytes, tni_shm_at *at, tn_error *err) {
  void *m = tni_shm_alloc(p->o.shm, bytes ? bytes : 1);
  if (m && tni_shm_find(p->o.shm, m, bytes, at) && tni_iso_send_piece(p, at, err) == TN_OK) return m;
  tni_shm_free(p->o.shm, m);
  tni_fail_memory(err, p->o.name);
  return NULL;
}

tn_status tni_iso_const_get(tni_iso *p, const void *ptr, uint64_t bytes, tni_iso_const *out, tn_error *err) {
  const uint64_t page = 4096;
  tni_shm_at at;
  uint64_t offset;
  *out = (tni_iso_const){.piece = 0};
  if (!bytes || !ptr) return TN_OK;
  if (tni_shm_find(p->o.shm, ptr, bytes, &at)) {
    *out = (tni_iso_const){.piece = at.id, .offset = at.offset};
    return tni_iso_send_piece(p, &at, err);
  }
  const int fd = tni_shm_file(ptr, bytes, &offset);
  if (fd >= 0) {
    *out = (tni_iso_const){.piece = tni_shm_id(p->o.shm), .offset = offset % page, .mapped = true};
    tn_status st = send_map(p, out->piece, fd, offset - out->offset, bytes + out->offset, false, err);
    close(fd);
    if (st != TN_OK) out->mapped = false;
    return st;
  }
  out->copy = tni_iso_alloc(p, bytes, &at, err);
  if (!out->copy) return TN_E_NO_MEMORY;
  memcpy(out->copy, ptr, bytes);
  out->piece = at.id;
  return TN_OK;
}

void tni_iso_const_drop(tni_iso *p, tni_iso_const *k) {
  if (k->mapped) send_unmap(p, k->piece);
  tni_shm_free(p->o.shm, k->copy);
  *k = (tni_iso_const){.piece = 0};
}
