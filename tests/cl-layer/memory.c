/* SPDX-License-Identifier: Apache-2.0
 *
 * Creation of memory objects: limits, failures, host pointers, counts.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer.h"

layer_object *layer_find(cl_mem m) {
  layer_object *o = L.objects;
  while (o && o->mem != m) o = o->next;
  return o;
}

static void CL_CALLBACK gone(cl_mem m, void *user) {
  layer_object *dead = user;
  (void)m;
  pthread_mutex_lock(&L.lock);
  layer_object **at = &L.objects;
  while (*at && *at != dead) at = &(*at)->next;
  if (*at) *at = dead->next;
  pthread_mutex_unlock(&L.lock);
  atomic_fetch_sub(&L.count.live_objects, 1);
  layer_free_maps(dead);
  free(dead);
}

/* --- memory of a device that is lost ------------------------------------------------------------------------------ */

/* Fills memory that may be read-only, or gone: the system is asked, and says so instead of a fault. */
static bool fill(char *to, size_t bytes, bool keep) {
  int ends[2];
  char chunk[4096];
  bool ok = pipe(ends) == 0;
  memset(chunk, 0xFF, sizeof chunk);
  for (size_t at = 0; ok && at < bytes; at += sizeof chunk) {
    const size_t n = bytes - at < sizeof chunk ? bytes - at : sizeof chunk;
    ok = write(ends[1], keep ? to + at : chunk, n) == (ssize_t)n && read(ends[0], to + at, n) == (ssize_t)n;
  }
  close(ends[0]);
  close(ends[1]);
  return ok;
}

void layer_spoil(void) {
  const cl_uchar poison = 0xFF;
  cl_command_queue q = atomic_load(&L.queue);
  if (!L.set.late || !q || atomic_exchange(&L.spoilt, true)) return;
  L.next.clFinish(q);
  pthread_mutex_lock(&L.lock);
  for (layer_object *o = L.objects; o; o = o->next) {
    if (o->lent)
      (void)!fill(o->lent, o->bytes, false);
    else if (o->bytes && !o->host_ptr && !o->imported && !(o->flags & CL_MEM_READ_ONLY))
      L.next.clEnqueueFillBuffer(q, o->mem, &poison, 1, 0, o->bytes, 0, NULL, NULL);
  }
  pthread_mutex_unlock(&L.lock);
  L.next.clFinish(q);
}

void layer_spoil_lent(cl_mem m) {
  pthread_mutex_lock(&L.lock);
  const layer_object *o = layer_find(m);
  const bool gone = o && o->lent && !fill(o->lent, o->bytes, false);
  pthread_mutex_unlock(&L.lock);
  if (!gone) return;
  fprintf(stderr, "layer: memory that was lent to the device went before its object\n");
  _exit(98);
}

/* Whether the program could write there itself: a packed file's mapping is read-only. */
static char *lent(cl_mem_flags flags, void *ptr, size_t bytes) {
  return L.set.late && ptr && !(flags & CL_MEM_READ_ONLY) && fill(ptr, bytes, true) ? ptr : NULL;
}

static void watch(cl_mem m, cl_mem_flags flags, size_t bytes, void *host_ptr, void *imported) {
  layer_object *o = calloc(1, sizeof *o);
  if (!o) abort();
  *o = (layer_object){.mem = m,
                      .flags = flags,
                      .bytes = bytes,
                      .host_ptr = host_ptr,
                      .imported = imported != NULL,
                      .lent = lent(flags, imported, bytes)};
  pthread_mutex_lock(&L.lock);
  o->next = L.objects;
  L.objects = o;
  pthread_mutex_unlock(&L.lock);
  COUNT(live_objects, 1);
  L.next.clSetMemObjectDestructorCallback(m, gone, o);
}

/* Whether one more object may be made: CL_SUCCESS or why not. */
static cl_int admit(size_t bytes) {
  uint64_t n = COUNT(objects, 1) + 1;
  if (layer_lost()) return LAYER_LOST;
  if (n == L.set.fail_alloc || (L.set.fail_alloc_from && n >= L.set.fail_alloc_from))
    return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return L.set.as.max_alloc && bytes > L.set.as.max_alloc ? CL_INVALID_BUFFER_SIZE : CL_SUCCESS;
}

static cl_mem refuse(cl_int st, cl_int *err) {
  if (err) *err = st;
  return NULL;
}

/* A device with its own memory copies what the host points at, once; the mapping goes through a shadow (map.c). */
static cl_mem_flags host_pointer(cl_mem_flags flags, size_t bytes) {
  if (flags & CL_MEM_COPY_HOST_PTR) COUNT(bytes_in, bytes);
  if (!(flags & CL_MEM_USE_HOST_PTR)) return flags;
  if (L.set.discrete || L.set.as.host_ptr_copies)
    COUNT(bytes_shadow, bytes);
  else
    COUNT(bytes_imported, bytes);
  return L.set.discrete ? (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR : flags;
}

static cl_mem CL_API_CALL create_buffer(cl_context c, cl_mem_flags flags, size_t bytes, void *ptr, cl_int *err) {
  cl_int st = admit(bytes);
  if (st != CL_SUCCESS) return refuse(st, err);
  cl_mem m = L.next.clCreateBuffer(c, host_pointer(flags, bytes), bytes, ptr, err);
  if (!m) return NULL;
  COUNT(buffers, 1);
  void *used = flags & CL_MEM_USE_HOST_PTR ? ptr : NULL;
  watch(m, flags, bytes, used, L.set.discrete ? NULL : used);
  return m;
}

static cl_mem CL_API_CALL create_buffer_with(cl_context c, const cl_mem_properties *props, cl_mem_flags flags,
                                             size_t bytes, void *ptr, cl_int *err) {
  return props && *props ? refuse(CL_INVALID_PROPERTY, err) : create_buffer(c, flags, bytes, ptr, err);
}

static cl_mem CL_API_CALL create_sub_buffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type,
                                            const void *info, cl_int *err) {
  const cl_buffer_region *r = info;
  cl_int st = admit(r ? r->size : 0);
  if (st == CL_SUCCESS && r && L.set.as.align && r->origin % L.set.as.align) st = CL_MISALIGNED_SUB_BUFFER_OFFSET;
  if (st != CL_SUCCESS) return refuse(st, err);
  pthread_mutex_lock(&L.lock);
  layer_object *o = layer_find(parent);
  char *host_ptr = o && o->host_ptr && r ? o->host_ptr + r->origin : NULL;
  cl_mem_flags inherited = o ? o->flags : 0;
  pthread_mutex_unlock(&L.lock);
  cl_mem m = L.next.clCreateSubBuffer(parent, flags, type, info, err);
  if (!m) return NULL;
  COUNT(sub_buffers, 1);
  watch(m, flags | inherited, r ? r->size : 0, host_ptr, NULL);
  return m;
}

static size_t texel_bytes(const cl_image_format *f) {
  size_t channels = f->image_channel_order == CL_RGBA                                    ? 4
                    : f->image_channel_order == CL_RG || f->image_channel_order == CL_RA ? 2
                                                                                         : 1;
  switch (f->image_channel_data_type) {
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8:
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
      return channels;
    case CL_SIGNED_INT32:
    case CL_UNSIGNED_INT32:
    case CL_FLOAT:
      return 4 * channels;
    default:
      return 2 * channels;
  }
}

/* Rows of an image over a buffer begin at multiples of the pitch, its base where the device says. */
static cl_int fits(const cl_image_format *f, const cl_image_desc *d) {
  if (L.set.no_images) return CL_INVALID_OPERATION;
  if (!f || !d || !L.set.as.pitch || !d->buffer || d->image_type != CL_MEM_OBJECT_IMAGE2D) return CL_SUCCESS;
  return d->image_row_pitch % (L.set.as.pitch * texel_bytes(f)) ? CL_INVALID_IMAGE_FORMAT_DESCRIPTOR : CL_SUCCESS;
}

static cl_mem CL_API_CALL create_image(cl_context c, cl_mem_flags flags, const cl_image_format *f,
                                       const cl_image_desc *d, void *ptr, cl_int *err) {
  cl_int st = admit(0);
  if (st == CL_SUCCESS) st = fits(f, d);
  if (st != CL_SUCCESS) return refuse(st, err);
  cl_mem m = L.next.clCreateImage(c, flags, f, d, ptr, err);
  if (!m) return NULL;
  COUNT(images, 1);
  watch(m, flags, 0, NULL, NULL);
  return m;
}

static cl_mem CL_API_CALL create_image_with(cl_context c, const cl_mem_properties *props, cl_mem_flags flags,
                                            const cl_image_format *f, const cl_image_desc *d, void *ptr, cl_int *err) {
  return props && *props ? refuse(CL_INVALID_PROPERTY, err) : create_image(c, flags, f, d, ptr, err);
}

/* cl_arm_import_memory: memory of this process becomes a buffer without a copy; base a multiple of a cache line. */
cl_mem CL_API_CALL layer_import(cl_context c, cl_mem_flags flags, const cl_import_properties_arm *props, void *memory,
                                size_t bytes, cl_int *err) {
  cl_int st = admit(bytes);
  bool host = !props || !props[0] || (props[0] == CL_IMPORT_TYPE_ARM && props[1] == CL_IMPORT_TYPE_HOST_ARM);
  if (st == CL_SUCCESS && (!memory || !bytes)) st = CL_INVALID_VALUE;
  if (st == CL_SUCCESS && !host) st = CL_INVALID_PROPERTY;
  if (st == CL_SUCCESS && (uintptr_t)memory % 64) st = CL_INVALID_OPERATION;
  if (st == CL_SUCCESS && flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR))
    st = CL_INVALID_VALUE;
  /* A device behind a bus cannot: what the driver would have to say. */
  if (st == CL_SUCCESS && L.set.discrete) st = CL_INVALID_OPERATION;
  if (st != CL_SUCCESS) return refuse(st, err);
  cl_mem m = L.next.clCreateBuffer(c, flags | CL_MEM_USE_HOST_PTR, bytes, memory, err);
  if (!m) return NULL;
  COUNT(imports, 1);
  COUNT(bytes_imported, bytes);
  watch(m, flags, bytes, NULL, memory);
  return m;
}

void layer_hook_memory(cl_icd_dispatch *t) {
  t->clCreateBuffer = create_buffer;
  t->clCreateBufferWithProperties = create_buffer_with;
  t->clCreateSubBuffer = create_sub_buffer;
  t->clCreateImage = create_image;
  t->clCreateImageWithProperties = create_image_with;
}
