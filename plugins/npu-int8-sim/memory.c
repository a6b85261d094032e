/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers: files in memory that the simulator registers and the CPU maps where it pleases.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugins/npu-int8-sim/device.h"

static const tni_npu_device *device_of(const tn_buffer *b) { return (const tni_npu_device *)b->device; }

tn_status tni_npu_fail(tn_error *err, int rc, const char *where, const char *what) {
  static const tn_status status[] = {
      [NPUSIM_OK] = TN_OK,
      [NPUSIM_BAD] = TN_E_INVALID,
      [NPUSIM_SHAPE] = TN_E_UNSUPPORTED,
      [NPUSIM_MEMORY] = TN_E_NO_MEMORY,
      [NPUSIM_WINDOW] = TN_E_NO_MEMORY,
      [NPUSIM_UNREGISTERED] = TN_E_INVALID,
      [NPUSIM_BUSY] = TN_E_INTERNAL,
      [NPUSIM_LOST] = TN_E_DEVICE_LOST,
      [NPUSIM_HUNG] = TN_E_DEVICE_LOST,
      [NPUSIM_STOPPED] = TN_E_CANCELLED,
      [NPUSIM_STALE] = TN_E_INVALID,
  };
  const tn_status st = rc >= 0 && (size_t)rc < sizeof status / sizeof *status ? status[rc] : TN_E_INTERNAL;
  tni_cm_fail(err, st, where, "%s: %s", what, npusim_text(rc));
  if (err && err->code == st) err->vendor_code = rc;
  return st;
}

/* The CPU's own mapping; whole pages, made once. */
static tn_status map_host(tni_npu_buffer *b, tn_error *err) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = b->offset % page;
  if (b->base) return TN_OK;
  b->map_bytes = (before + b->pub.bytes + page - 1) / page * page;
  void *p = mmap(NULL, b->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, (off_t)(b->offset - before));
  if (p == MAP_FAILED)
    return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "a buffer of %llu bytes cannot be mapped",
                       (unsigned long long)b->pub.bytes);
  b->map = p;
  b->base = (uint8_t *)p + before;
  return TN_OK;
}

static tn_status get_file(const tni_npu_device *d, const tn_buffer_req *req, tni_npu_buffer *b, tn_error *err) {
  if (req->kind == TN_MEM_FD) {
    b->fd = fcntl(req->fd, F_DUPFD_CLOEXEC, 0);
    b->offset = req->offset;
    return b->fd >= 0 ? TN_OK : tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "descriptor %d is not open", req->fd);
  }
  if (req->kind != TN_MEM_NEW)
    return tni_cm_fail(err, TN_E_UNSUPPORTED, TNI_NPU_NAME, "memory of kind %u cannot be imported", req->kind);
  int rc = npusim_alloc(d->sim, req->bytes ? req->bytes : 1, &b->fd);
  return rc == NPUSIM_OK ? TN_OK : tni_npu_fail(err, rc, TNI_NPU_NAME, "a buffer cannot be made");
}

tn_status tni_npu_create(tn_device *pub, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  tni_npu_device *d = (tni_npu_device *)pub;
  const tn_host *h = d->host;
  tni_npu_buffer *b = h->alloc(h->ctx, sizeof *b, 16, TN_TAG_PLUGIN);
  if (!b) return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "out of memory");
  *b = (tni_npu_buffer){.pub = {.h = TN_HDR(tn_buffer), .device = pub, .bytes = req->bytes, .flags = TN_BUF_COHERENT},
                        .fd = -1};
  tn_status st = get_file(d, req, b, err);
  if (st == TN_OK) {
    int rc = npusim_register(d->sim, b->fd, b->offset, req->bytes ? req->bytes : 1, &b->handle);
    if (rc != NPUSIM_OK) st = tni_npu_fail(err, rc, TNI_NPU_NAME, "memory cannot be registered");
  }
  if (st == TN_OK && req->kind == TN_MEM_FD && (req->flags & TN_BUF_ZERO)) {
    st = map_host(b, err);
    if (st == TN_OK) memset(b->base, 0, req->bytes);
  }
  if (st != TN_OK) {
    tni_npu_destroy(&b->pub);
    return st;
  }
  *out = &b->pub;
  return TN_OK;
}

tn_status tni_npu_share(tn_buffer *pub, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  const tni_npu_buffer *b = (const tni_npu_buffer *)pub;
  if (kind != TN_MEM_FD)
    return tni_cm_fail(err, TN_E_UNSUPPORTED, TNI_NPU_NAME, "memory is shared as a descriptor only");
  const int fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "there is no free descriptor");
  out->kind = TN_MEM_FD;
  out->fd = fd;
  out->offset = b->offset;
  out->bytes = pub->bytes;
  out->ptr = NULL;
  return TN_OK;
}

void tni_npu_destroy(tn_buffer *pub) {
  if (!pub) return;
  tni_npu_buffer *b = (tni_npu_buffer *)pub;
  const tni_npu_device *d = device_of(pub);
  if (b->handle) npusim_unregister(d->sim, b->handle);
  if (b->map) munmap(b->map, b->map_bytes);
  if (b->fd >= 0) close(b->fd);
  d->host->free(d->host->ctx, b);
}

tn_status tni_npu_map(tn_buffer *pub, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  tni_npu_buffer *b = (tni_npu_buffer *)pub;
  (void)access;
  if (offset > pub->bytes || n > pub->bytes - offset)
    return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "map of %llu bytes at %llu in a buffer of %llu",
                       (unsigned long long)n, (unsigned long long)offset, (unsigned long long)pub->bytes);
  tn_status st = map_host(b, err);
  if (st == TN_OK) *ptr = b->base + offset;
  return st;
}

/* Both sides see one memory: there is nothing to write back. */
tn_status tni_npu_unmap(tn_buffer *pub, void *ptr, tn_error *err) {
  const tni_npu_buffer *b = (const tni_npu_buffer *)pub;
  const uint8_t *p = ptr;
  if (!b->base || p < b->base || p > b->base + pub->bytes)
    return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "unmap of a pointer that map did not give");
  return TN_OK;
}
