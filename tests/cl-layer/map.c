/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps. In discrete mode a map is a copy: filled from the device when the program maps for reading or keeps what it
 * does not write, brought back at unmap when it mapped for writing, and poisoned then (0xFF: NaN, -1). Each map of an
 * object without a host pointer lies elsewhere; an unmapped one stays poisoned until the object goes. Where the object
 * has a host pointer the standard wants the map there; what lies there after unmap is poison too, if it was writable.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

enum { POISON = 0xFF, GUARD = 64, MAX_DEAD = 64 };

void layer_free_maps(layer_object *o) {
  while (o->maps) {
    layer_map *m = o->maps;
    o->maps = m->next;
    if (m->shadow) free(m->ptr);
    free(m);
  }
}

/* Keeps the newest shadows only. */
static void bury(layer_object *o) {
  uint32_t n = 0;
  for (layer_map **at = &o->maps; *at;) {
    layer_map *m = *at;
    if (m->live || ++n <= MAX_DEAD) {
      at = &m->next;
      continue;
    }
    *at = m->next;
    if (m->shadow) free(m->ptr);
    free(m);
  }
}

static layer_map *new_map(layer_object *o, cl_map_flags flags, size_t offset, size_t bytes) {
  layer_map *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  *m = (layer_map){.offset = offset, .bytes = bytes, .flags = flags, .live = true, .shadow = !o->host_ptr};
  m->ptr = o->host_ptr ? o->host_ptr + offset : aligned_alloc(4096, (bytes + GUARD + 4095) / 4096 * 4096);
  if (!m->ptr) {
    free(m);
    return NULL;
  }
  if (m->shadow) memset(m->ptr, POISON, bytes + GUARD);
  m->next = o->maps;
  o->maps = m;
  bury(o);
  return m;
}

static void *shadow(cl_command_queue q, cl_mem mem, cl_map_flags flags, size_t offset, size_t bytes, cl_uint n,
                    const cl_event *wait, cl_event *event, cl_int *err) {
  cl_int st = CL_SUCCESS;
  pthread_mutex_lock(&L.lock);
  layer_object *o = layer_find(mem);
  bool host = o && o->host_ptr, constant = o && (o->flags & CL_MEM_READ_ONLY);
  layer_map *m = o ? new_map(o, flags, offset, bytes) : NULL;
  pthread_mutex_unlock(&L.lock);
  if (!m) st = o ? CL_MAP_FAILURE : CL_INVALID_MEM_OBJECT;
  /* What the device cannot have changed is still there, and may lie in memory that cannot be written. */
  bool fill = !(flags & CL_MAP_WRITE_INVALIDATE_REGION) && !(host && constant);
  if (st == CL_SUCCESS && fill) {
    COUNT(bytes_shadow, bytes);
    st = L.next.clEnqueueReadBuffer(q, mem, CL_TRUE, offset, bytes, m->ptr, n, wait, event);
  } else if (st == CL_SUCCESS) {
    st = L.next.clEnqueueMarkerWithWaitList(q, n, wait, event);
  }
  if (err) *err = st;
  return st == CL_SUCCESS ? m->ptr : NULL;
}

static void *CL_API_CALL map_buffer(cl_command_queue q, cl_mem mem, cl_bool blocking, cl_map_flags flags, size_t offset,
                                    size_t bytes, cl_uint n, const cl_event *wait, cl_event *event, cl_int *err) {
  if (layer_lost()) {
    if (err) *err = LAYER_LOST;
    return NULL;
  }
  COUNT(maps, 1);
  if (flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) COUNT(bytes_map_write, bytes);
  if (flags & CL_MAP_READ) {
    COUNT(map_reads, 1);
    COUNT(reads, 1);
  } else {
    COUNT(map_writes, 1);
  }
  atomic_fetch_add(&L.since_wait, 1);
  if (blocking) layer_waited();
  if (L.set.discrete) return shadow(q, mem, flags, offset, bytes, n, wait, event, err);
  return L.next.clEnqueueMapBuffer(q, mem, blocking, flags, offset, bytes, n, wait, event, err);
}

static cl_int unmap_shadow(cl_command_queue q, cl_mem mem, void *ptr, cl_uint n, const cl_event *wait,
                           cl_event *event) {
  pthread_mutex_lock(&L.lock);
  layer_object *o = layer_find(mem);
  layer_map *m = o ? o->maps : NULL;
  while (m && !(m->live && m->ptr == ptr)) m = m->next;
  layer_map copy = m ? *m : (layer_map){.live = false};
  if (m) m->live = false;
  bool constant = o && (o->flags & CL_MEM_READ_ONLY);
  pthread_mutex_unlock(&L.lock);
  if (!copy.live) return CL_INVALID_VALUE;
  cl_int st;
  if (copy.flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) {
    COUNT(bytes_shadow, copy.bytes);
    st = L.next.clEnqueueWriteBuffer(q, mem, CL_TRUE, copy.offset, copy.bytes, copy.ptr, n, wait, event);
  } else {
    st = L.next.clEnqueueMarkerWithWaitList(q, n, wait, event);
  }
  bool writable = copy.shadow || !constant || (copy.flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION));
  if (writable) memset(copy.ptr, POISON, copy.bytes);
  return st;
}

static cl_int CL_API_CALL unmap(cl_command_queue q, cl_mem mem, void *ptr, cl_uint n, const cl_event *wait,
                                cl_event *event) {
  if (layer_lost()) return LAYER_LOST;
  COUNT(unmaps, 1);
  atomic_fetch_add(&L.since_wait, 1);
  if (L.set.discrete) return unmap_shadow(q, mem, ptr, n, wait, event);
  return L.next.clEnqueueUnmapMemObject(q, mem, ptr, n, wait, event);
}

static void *CL_API_CALL map_image(cl_command_queue q, cl_mem image, cl_bool blocking, cl_map_flags flags,
                                   const size_t *origin, const size_t *region, size_t *row_pitch, size_t *slice_pitch,
                                   cl_uint n, const cl_event *wait, cl_event *event, cl_int *err) {
  /* Nobody here maps images; a device of its own memory would need a shadow of them. */
  if (L.set.discrete || layer_lost()) {
    if (err) *err = CL_MAP_FAILURE;
    return NULL;
  }
  COUNT(maps, 1);
  return L.next.clEnqueueMapImage(q, image, blocking, flags, origin, region, row_pitch, slice_pitch, n, wait, event,
                                  err);
}

void layer_hook_map(cl_icd_dispatch *t) {
  t->clEnqueueMapBuffer = map_buffer;
  t->clEnqueueMapImage = map_image;
  t->clEnqueueUnmapMemObject = unmap;
}
