/* SPDX-License-Identifier: Apache-2.0
 *
 * Registered memory: the simulator's own mappings, found by handle.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/npu-int8-sim/sim/state.h"

static bool at_fault(uint64_t *count, uint64_t at) { return ++*count == at; }

int npusim_alloc(npusim *s, uint64_t bytes, int *fd) {
  if (bytes == 0 || bytes > INT64_MAX / 2) return NPUSIM_BAD;
  pthread_mutex_lock(&s->lock);
  int rc = s->lost ? NPUSIM_LOST : at_fault(&s->n.allocations, s->config.faults.alloc_at) ? NPUSIM_MEMORY : NPUSIM_OK;
  pthread_mutex_unlock(&s->lock);
  if (rc != NPUSIM_OK) return rc;
  int made = memfd_create("npusim", MFD_CLOEXEC);
  if (made < 0) return NPUSIM_MEMORY;
  if (ftruncate(made, (off_t)bytes) != 0) {
    close(made);
    return NPUSIM_MEMORY;
  }
  *fd = made;
  return NPUSIM_OK;
}

/* Page by page, since that is what a window is made of. Touching memory beyond the end of a file would be fatal. */
static int map_region(int fd, uint64_t offset, uint64_t bytes, npusim_region *r) {
  struct stat info;
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = offset % page;
  if (fstat(fd, &info) != 0 || info.st_size < 0) return NPUSIM_MEMORY;
  if (offset > (uint64_t)info.st_size || bytes > (uint64_t)info.st_size - offset) return NPUSIM_BAD;
  const uint64_t length = (before + bytes + page - 1) / page * page;
  void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - before));
  if (p == MAP_FAILED) return NPUSIM_MEMORY;
  *r = (npusim_region){.map = p, .map_bytes = length, .base = (uint8_t *)p + before, .bytes = bytes};
  return NPUSIM_OK;
}

static npusim_region *free_region(npusim *s) {
  for (uint32_t i = 0; i < s->n_regions; i++)
    if (!s->regions[i].handle) return &s->regions[i];
  if (s->n_regions == s->cap_regions) {
    const uint32_t cap = s->cap_regions ? s->cap_regions * 2 : 64;
    npusim_region *grown = realloc(s->regions, cap * sizeof *grown);
    if (!grown) return NULL;
    s->regions = grown;
    s->cap_regions = cap;
  }
  s->regions[s->n_regions] = (npusim_region){0};
  return &s->regions[s->n_regions++];
}

static int add_region(npusim *s, npusim_region *r, uint32_t *handle) {
  if (s->lost) return NPUSIM_LOST;
  if (at_fault(&s->n.registrations, s->config.faults.register_at)) return NPUSIM_MEMORY;
  if (r->map_bytes > s->window_bytes - s->n.registered_bytes) return NPUSIM_WINDOW;
  npusim_region *at = free_region(s);
  if (!at || s->next_handle == UINT32_MAX) return NPUSIM_MEMORY;
  r->handle = *handle = s->next_handle++;
  *at = *r;
  s->n.registered_bytes += r->map_bytes;
  s->n.live_registrations++;
  return NPUSIM_OK;
}

int npusim_register(npusim *s, int fd, uint64_t offset, uint64_t bytes, uint32_t *handle) {
  npusim_region r = {0};
  if (fd < 0 || bytes == 0 || bytes > INT64_MAX / 2 || offset > INT64_MAX / 2 || offset % s->config.profile->align)
    return NPUSIM_BAD;
  int rc = map_region(fd, offset, bytes, &r);
  if (rc != NPUSIM_OK) return rc;
  pthread_mutex_lock(&s->lock);
  rc = add_region(s, &r, handle);
  pthread_mutex_unlock(&s->lock);
  if (rc != NPUSIM_OK) munmap(r.map, r.map_bytes);
  return rc;
}

static npusim_region *npusim_find(npusim *s, uint32_t handle) {
  for (uint32_t i = 0; handle && i < s->n_regions; i++)
    if (s->regions[i].handle == handle) return &s->regions[i];
  return NULL;
}

int npusim_unregister(npusim *s, uint32_t handle) {
  pthread_mutex_lock(&s->lock);
  npusim_region *r = npusim_find(s, handle);
  int rc = !r ? NPUSIM_UNREGISTERED : r->users ? NPUSIM_BUSY : NPUSIM_OK;
  if (rc == NPUSIM_OK) {
    munmap(r->map, r->map_bytes);
    s->n.registered_bytes -= r->map_bytes;
    s->n.live_registrations--;
    *r = (npusim_region){0};
  }
  pthread_mutex_unlock(&s->lock);
  return rc;
}

int npusim_hold(npusim *s, uint32_t handle, uint64_t at, uint64_t bytes, uint8_t **out) {
  npusim_region *r = npusim_find(s, handle);
  if (!r || at > r->bytes || bytes > r->bytes - at) return NPUSIM_UNREGISTERED;
  r->users++;
  *out = r->base + at;
  return NPUSIM_OK;
}

void npusim_drop(npusim *s, uint32_t handle) {
  npusim_region *r = npusim_find(s, handle);
  if (r && r->users) r->users--;
}

static int transfer_bytes(npusim *s, uint32_t handle, uint64_t at, void *to, const void *from, uint64_t n) {
  uint8_t *p = NULL;
  pthread_mutex_lock(&s->lock);
  int rc = s->lost ? NPUSIM_LOST : npusim_hold(s, handle, at, n, &p);
  if (rc == NPUSIM_OK) {
    s->n.copies++;
    s->n.bytes_copied += n;
  }
  pthread_mutex_unlock(&s->lock);
  if (rc != NPUSIM_OK) return rc;
  if (n) memcpy(to ? to : p, from ? from : p, n);
  pthread_mutex_lock(&s->lock);
  npusim_drop(s, handle);
  pthread_mutex_unlock(&s->lock);
  return NPUSIM_OK;
}

int npusim_write(npusim *s, uint32_t handle, uint64_t offset, const void *src, uint64_t n) {
  return !src && n ? NPUSIM_BAD : transfer_bytes(s, handle, offset, NULL, src, n);
}

int npusim_read(npusim *s, uint32_t handle, uint64_t offset, void *dst, uint64_t n) {
  return !dst && n ? NPUSIM_BAD : transfer_bytes(s, handle, offset, dst, NULL, n);
}
