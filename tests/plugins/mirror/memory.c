/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mirror.h"

static uint64_t pages(uint64_t n) { return ((n ? n : 1) + 4095) & ~(uint64_t)4095; }

static mirror_device *device_of(const tn_buffer *b) { return (mirror_device *)b->device; }

static void protect(const mirror_buffer *b, bool open) {
  if (b->room && !b->weights && !(b->pub.flags & TN_BUF_COHERENT))
    (void)!mprotect(b->bytes, b->room, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void mirror_open(const mirror_device *d, bool open) {
  for (const mirror_buffer *b = d->buffers; b; b = b->next) protect(b, open);
}

static tn_status make_pages(mirror_buffer *b, const tn_buffer_req *req, tn_error *err) {
  off_t at = 0;
  b->room = pages(req->bytes);
  if (req->kind == TN_MEM_AHB) {
    b->fd = dup(((const mirror_buffer *)req->ptr)->fd); /* the object that stands for an AHardwareBuffer */
  } else if (req->kind == TN_MEM_FD || req->kind == TN_MEM_DMABUF) {
    if (req->kind == TN_MEM_DMABUF && req->modifier != MIRROR_TILED)
      return mirror_fail(err, TN_E_INVALID, "modifier %llu is not its own", (unsigned long long)req->modifier);
    if (req->fd < 0 || req->offset % 4096)
      return mirror_fail(err, TN_E_INVALID, "no descriptor, or at offset %llu", (unsigned long long)req->offset);
    b->fd = dup(req->fd);
    at = (off_t)req->offset;
  } else {
    b->fd = memfd_create("mirror", MFD_CLOEXEC);
    if (b->fd >= 0 && ftruncate(b->fd, (off_t)b->room) != 0) return mirror_fail(err, TN_E_NO_MEMORY, "no pages");
  }
  void *p = b->fd < 0 ? MAP_FAILED : mmap(NULL, b->room, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, at);
  if (p == MAP_FAILED) return mirror_fail(err, TN_E_NO_MEMORY, "no %llu bytes", (unsigned long long)req->bytes);
  b->bytes = p;
  if (req->kind == TN_MEM_NEW && !(req->flags & TN_BUF_ZERO)) memset(p, 0xee, b->room);
  return TN_OK;
}

tn_status mirror_create(tn_device *pub, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  mirror_device *d = (mirror_device *)pub;
  if (req->kind != TN_MEM_NEW && !(d->pub.caps->import_kinds >> req->kind & 1))
    return mirror_fail(err, TN_E_UNSUPPORTED, "it imports no memory of kind %u", req->kind);
  if (d->plugin->fail_create && ++d->created >= d->plugin->fail_create)
    return mirror_fail(err, TN_E_NO_MEMORY, "it was told to have no memory for buffer %lld", (long long)d->created);
  mirror_buffer *b = calloc(1, sizeof *b);
  if (!b) return TN_E_NO_MEMORY;
  b->pub = (tn_buffer){.h = TN_HDR(tn_buffer), .device = pub, .bytes = req->bytes};
  b->fd = -1;
  b->host = req->flags & TN_BUF_HOST;
  b->cache = req->usage == 1u << TN_SLOT_STATE;
  b->weights = req->usage == 1u << TN_SLOT_WEIGHT;
  if (d->plugin->coherent) b->pub.flags = TN_BUF_COHERENT;
  tn_status st = TN_OK;
  if (req->kind == TN_MEM_HOST_PTR)
    b->bytes = req->ptr;
  else
    st = make_pages(b, req, err);
  if (st != TN_OK) {
    if (b->fd >= 0) close(b->fd);
    free(b);
    return st;
  }
  pthread_mutex_lock(&d->lock);
  b->next = d->buffers;
  d->buffers = b;
  protect(b, false);
  pthread_mutex_unlock(&d->lock);
  *out = &b->pub;
  return TN_OK;
}

tn_status mirror_share(tn_buffer *pub, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  mirror_buffer *b = (mirror_buffer *)pub;
  if (!(device_of(pub)->pub.caps->export_kinds >> kind & 1))
    return mirror_fail(err, TN_E_UNSUPPORTED, "it shares no memory of kind %u", kind);
  out->bytes = pub->bytes;
  out->offset = 0;
  if (kind == TN_MEM_DMABUF) out->modifier = MIRROR_TILED;
  if (kind == TN_MEM_HOST_PTR)
    out->ptr = b->bytes;
  else if (kind == TN_MEM_AHB)
    out->ptr = b;
  else
    out->fd = dup(b->fd);
  return TN_OK;
}

static void drop(mirror_map *m) {
  memset(m->shadow, 0xdd, pages(m->bytes));
  munmap(m->shadow, pages(m->bytes));
  free(m);
}

void mirror_destroy(tn_buffer *pub) {
  if (!pub) return;
  mirror_buffer *b = (mirror_buffer *)pub;
  mirror_device *d = device_of(pub);
  pthread_mutex_lock(&d->lock);
  mirror_buffer **at = &d->buffers;
  while (*at != b) at = &(*at)->next;
  *at = b->next;
  pthread_mutex_unlock(&d->lock);
  for (mirror_map *m = b->maps, *next; m; m = next) {
    next = m->next;
    drop(m);
  }
  if (b->room) munmap(b->bytes, b->room);
  if (b->fd >= 0) close(b->fd);
  free(b);
}

static bool meets(const mirror_buffer *b, uint64_t offset, uint64_t n) {
  for (const mirror_map *m = b->maps; m; m = m->next)
    if (m->offset < offset + n && offset < m->offset + m->bytes) return true;
  return false;
}

bool mirror_is_mapped(const tn_view *v) {
  return v->buffer && !(v->buffer->flags & TN_BUF_COHERENT) &&
         meets((const mirror_buffer *)v->buffer, v->offset, v->bytes);
}

static tn_status map_shadow(mirror_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  mirror_map *m = calloc(1, sizeof *m);
  void *p = m ? mmap(NULL, pages(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (p == MAP_FAILED) {
    free(m);
    return mirror_fail(err, TN_E_NO_MEMORY, "no memory to map");
  }
  *m = (mirror_map){b->maps, p, offset, n, access};
  if (b->cache && access & TN_READ) device_of(&b->pub)->fetched += n;
  if (b->cache && access & (TN_WRITE | TN_APPEND)) device_of(&b->pub)->sent += n;
  if (access & TN_READ)
    memcpy(p, b->bytes + offset, n);
  else
    memset(p, 0xdd, n);
  b->maps = m;
  *ptr = p;
  return TN_OK;
}

tn_status mirror_map_range(tn_buffer *pub, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  mirror_buffer *b = (mirror_buffer *)pub;
  mirror_device *d = device_of(pub);
  if (!b->host) return mirror_fail(err, TN_E_INVALID, "the buffer was made without TN_BUF_HOST");
  if (offset > pub->bytes || n > pub->bytes - offset)
    return mirror_fail(err, TN_E_INVALID, "map of %llu bytes at %llu in a buffer of %llu", (unsigned long long)n,
                       (unsigned long long)offset, (unsigned long long)pub->bytes);
  if (pub->flags & TN_BUF_COHERENT || !b->room) {
    *ptr = b->bytes + offset;
    return TN_OK;
  }
  pthread_mutex_lock(&d->lock);
  tn_status st = meets(b, offset, n) ? mirror_fail(err, TN_E_INVALID, "the range is mapped already") : TN_OK;
  protect(b, true);
  if (st == TN_OK) st = map_shadow(b, offset, n, access, ptr, err);
  protect(b, false);
  pthread_mutex_unlock(&d->lock);
  return st;
}

tn_status mirror_unmap(tn_buffer *pub, void *ptr, tn_error *err) {
  mirror_buffer *b = (mirror_buffer *)pub;
  mirror_device *d = device_of(pub);
  if (pub->flags & TN_BUF_COHERENT || !b->room) return TN_OK;
  pthread_mutex_lock(&d->lock);
  mirror_map **at = &b->maps;
  while (*at && (*at)->shadow != ptr) at = &(*at)->next;
  mirror_map *m = *at;
  if (m) {
    *at = m->next;
    protect(b, true);
    if (m->access & (TN_WRITE | TN_APPEND)) memcpy(b->bytes + m->offset, m->shadow, m->bytes);
    protect(b, false);
    drop(m);
  }
  pthread_mutex_unlock(&d->lock);
  return m ? TN_OK : mirror_fail(err, TN_E_INVALID, "unmap of a pointer that map did not give");
}

tn_status mirror_locate(const mirror_device *d, const tn_view *v, void **at, tn_error *err) {
  const mirror_buffer *b = (const mirror_buffer *)v->buffer;
  *at = NULL;
  if (!b || b->pub.device != &d->pub) return mirror_fail(err, TN_E_INVALID, "a view names no buffer of this device");
  if (v->offset > b->pub.bytes || v->bytes > b->pub.bytes - v->offset)
    return mirror_fail(err, TN_E_INVALID, "a view of %llu bytes at %llu leaves its buffer of %llu",
                       (unsigned long long)v->bytes, (unsigned long long)v->offset, (unsigned long long)b->pub.bytes);
  if (v->offset % MIRROR_ALIGN)
    return mirror_fail(err, TN_E_INVALID, "a view begins at %llu", (unsigned long long)v->offset);
  *at = b->bytes + v->offset;
  return TN_OK;
}
