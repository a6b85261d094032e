/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of an isolated device. Where it imports descriptors its memory is a piece that host and child both have; else
 * the memory is the child's, and what the CPU maps is copied through a piece.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/plugin/process/proxy.h"

static tni_iso_device *device_of(const tn_buffer *b) { return (tni_iso_device *)b->device; }

static tn_status ask_buffer(tni_iso_device *d, const tn_buffer_req *q, uint32_t kind, int fd, tni_iso_buffer *b,
                            tn_error *err) {
  tni_wire w = {.n = 0};
  tni_rd r;
  tni_w_u32(&w, d->index);
  tni_w_u32(&w, kind);
  tni_w_u64(&w, q->bytes);
  tni_w_u64(&w, kind == TN_MEM_NEW || b->mem ? 0 : q->offset);
  tni_w_u32(&w, q->usage);
  tni_w_u32(&w, q->flags);
  tni_w_u32(&w, q->align);
  if (fd >= 0) tni_w_fd(&w, fd);
  tn_status st = tni_conn_call(d->p->c, TNI_ISO_CREATE, "create", &w, &r, err);
  tni_wire_finish(&w);
  if (st != TN_OK) return st;
  const uint32_t flags = tni_r_u32(&r);
  b->id = tni_r_u32(&r);
  const bool ok = tni_rd_whole(&r);
  tni_rd_finish(&r);
  b->pub.flags = d->shares ? flags & TN_BUF_COHERENT : 0;
  return ok ? TN_OK : tni_conn_wrong(d->p->c, "create", err);
}

tn_status tni_iso_create(tn_device *pub, const tn_buffer_req *q, tn_buffer **out, tn_error *err) {
  tni_iso_device *d = (tni_iso_device *)pub;
  tni_iso *p = d->p;
  if (q->kind != TN_MEM_NEW && !(q->kind == TN_MEM_FD && d->shares))
    return tni_fail(err, TN_E_UNSUPPORTED, p->o.name, "memory of kind %u does not reach the plugin's process", q->kind);
  tni_iso_buffer *b = calloc(1, sizeof *b);
  if (!b) return tni_fail_memory(err, p->o.name);
  b->pub = (tn_buffer){.h = TN_HDR(tn_buffer), .device = pub, .bytes = q->bytes};
  tn_status st = TN_OK;
  int fd = q->kind == TN_MEM_FD ? q->fd : -1;
  if (q->kind == TN_MEM_NEW && d->shares) {
    b->mem = tni_shm_alloc(p->o.shm, q->bytes);
    if (!b->mem || !tni_shm_find(p->o.shm, b->mem, q->bytes, &b->at))
      st = tni_fail(err, TN_E_NO_MEMORY, p->o.name, "no shared memory");
    fd = b->at.fd;
  }
  if (st == TN_OK) st = ask_buffer(d, q, fd >= 0 ? TN_MEM_FD : TN_MEM_NEW, fd, b, err);
  if (st == TN_OK) {
    *out = &b->pub;
    return TN_OK;
  }
  tni_shm_free(p->o.shm, b->mem);
  free(b);
  return st;
}

tn_status tni_iso_share(tn_buffer *pub, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  const tni_iso_buffer *b = (const tni_iso_buffer *)pub;
  const tni_iso_device *d = device_of(pub);
  if (kind != TN_MEM_FD || !d->shares || !b->mem)
    return tni_fail(err, TN_E_UNSUPPORTED, d->p->o.name, "memory of kind %u is not shared", kind);
  out->fd = fcntl(b->at.fd, F_DUPFD_CLOEXEC, 0);
  out->offset = 0;
  out->bytes = pub->bytes;
  out->kind = kind;
  return out->fd >= 0 ? TN_OK : tni_fail(err, TN_E_NO_MEMORY, d->p->o.name, "no descriptor");
}

void tni_iso_destroy(tn_buffer *pub) {
  tni_iso_buffer *b = (tni_iso_buffer *)pub;
  tni_iso *p = device_of(pub)->p;
  tni_wire w = {.n = 0};
  tni_w_u32(&w, b->id);
  (void)!tni_conn_tell(p->c, TNI_ISO_DESTROY, "destroy", &w, NULL);
  tni_wire_finish(&w);
  tni_shm_free(p->o.shm, b->mem);
  tni_iso_sweep(p);
  free(b);
}

static tn_status tell_map(tni_iso_device *d, const tni_iso_buffer *b, uint64_t offset, uint64_t n, uint32_t access,
                          tn_error *err) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, b->id);
  tni_w_u64(&w, offset);
  tni_w_u64(&w, n);
  tni_w_u32(&w, access);
  tni_w_u32(&w, d->shares ? 0 : b->at.id);
  tn_status st = tni_conn_tell(d->p->c, TNI_ISO_BUF_MAP, "map", &w, err);
  tni_wire_finish(&w);
  return st;
}

tn_status tni_iso_map(tn_buffer *pub, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  tni_iso_buffer *b = (tni_iso_buffer *)pub;
  tni_iso_device *d = device_of(pub);
  const uint32_t cap = sizeof b->maps / sizeof *b->maps;
  if (offset > pub->bytes || n > pub->bytes - offset || b->n_maps == cap)
    return tni_fail(err, TN_E_INVALID, d->p->o.name, "a range that cannot be mapped");
  if (!b->mem && d->shares)
    return tni_fail(err, TN_E_UNSUPPORTED, d->p->o.name, "imported memory is its owner's to map");
  if (!b->mem && !(b->mem = tni_iso_alloc(d->p, pub->bytes, &b->at, err))) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  if (access & TN_READ || d->shares) st = tell_map(d, b, offset, n, d->shares ? access : TN_READ, err);
  if (st != TN_OK) return st;
  if (!d->shares && access & TN_READ) atomic_fetch_add(&d->p->copied, n);
  b->maps[b->n_maps].ptr = *ptr = b->mem + offset;
  b->maps[b->n_maps].offset = offset;
  b->maps[b->n_maps].n = n;
  b->maps[b->n_maps++].access = access;
  return TN_OK;
}

tn_status tni_iso_unmap(tn_buffer *pub, void *ptr, tn_error *err) {
  tni_iso_buffer *b = (tni_iso_buffer *)pub;
  tni_iso_device *d = device_of(pub);
  uint32_t i = 0;
  while (i < b->n_maps && b->maps[i].ptr != ptr) i++;
  if (i == b->n_maps) return tni_fail(err, TN_E_INVALID, d->p->o.name, "nothing is mapped there");
  const uint64_t offset = b->maps[i].offset, n = b->maps[i].n;
  const uint32_t access = b->maps[i].access;
  b->maps[i] = b->maps[--b->n_maps];
  if (!(access & TN_WRITE)) return TN_OK;
  if (!d->shares) atomic_fetch_add(&d->p->copied, n);
  return tell_map(d, b, offset, n, TN_WRITE, err);
}

void *tni_isolate_memory(const tn_buffer *pub) {
  const tni_iso_buffer *b = (const tni_iso_buffer *)pub;
  return device_of(pub)->shares ? b->mem : NULL;
}
