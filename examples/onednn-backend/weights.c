/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants, once: reordered slice by slice into private memory, channels filled up with zeros to whole blocks. */
#include <string.h>

#include "backend.h"

static const constant *find(const tn_program *p, tn_id v) {
  for (uint32_t i = 0; i < p->n_constants; i++)
    if (p->constants[i].value == v) return &p->constants[i];
  return NULL;
}

/* A slice of a convolution's weight [OC, C / groups, kh, kw] in plain layout, with zeros where channels were added. */
static void gather_conv(const step *s, const float *w, uint32_t slice, const int64_t dims[4], float *dst) {
  const int64_t pixels = s->kernel[0] * s->kernel[1], wi = s->C / s->groups;
  for (int64_t o = 0; o < dims[0]; o++)
    for (int64_t i = 0; i < dims[1]; i++) {
      const int64_t row = slice * dims[0] + o;
      float *to = dst + (o * dims[1] + i) * pixels;
      if (row < s->OC && i < wi)
        memcpy(to, w + (row * wi + i) * pixels, (size_t)pixels * 4);
      else
        memset(to, 0, (size_t)pixels * 4);
    }
}

static tn_status reorder(const device *d, const dnnl_memory_desc_t *from, float *src, const dnnl_memory_desc_t *to,
                         void *dst) {
  dnnl_primitive_desc_t pd = NULL;
  dnnl_primitive_t primitive = NULL;
  dnnl_memory_t memory[2] = {NULL, NULL};
  int bad = dnnl_reorder_primitive_desc_create(&pd, from, d->engine, to, d->engine, NULL) ||
            dnnl_primitive_create(&primitive, pd) || dnnl_memory_create(&memory[0], from, d->engine, src) ||
            dnnl_memory_create(&memory[1], to, d->engine, dst);
  const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, memory[0]}, {DNNL_ARG_TO, memory[1]}};
  bad = bad || dnnl_primitive_execute(primitive, d->stream, 2, args) || dnnl_stream_wait(d->stream);
  for (int i = 0; i < 2; i++)
    if (memory[i]) bad |= dnnl_memory_destroy(memory[i]) != dnnl_success;
  if (primitive) bad |= dnnl_primitive_destroy(primitive) != dnnl_success;
  if (pd) bad |= dnnl_primitive_desc_destroy(pd) != dnnl_success;
  return bad ? TN_E_INTERNAL : TN_OK;
}

static tn_status pack_conv(tn_program *p, const step *s, const float *w) {
  const tn_host *h = p->device->host;
  const int grouped = s->packed.ndims == 5;
  dnnl_memory_desc_t plain;
  int64_t dims[4] = {grouped ? s->packed.dims[0] * s->packed.dims[1] : s->packed.dims[0],
      s->packed.dims[1 + grouped], s->kernel[0], s->kernel[1]};
  const size_t bytes = (size_t)(dims[0] * dims[1] * dims[2] * dims[3]) * 4;
  if (dnnl_memory_desc_init_by_tag(&plain, s->packed.ndims, s->packed.dims, dnnl_f32,
          grouped ? dnnl_abcde : dnnl_abcd))
    return TN_E_INTERNAL;
  float *room = h->alloc(h->ctx, bytes, 64, TN_TAG_PACK);
  if (!room) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (uint32_t k = 0; st == TN_OK && k < s->slices; k++) {
    gather_conv(s, w, k, dims, room);
    st = reorder(p->device, &plain, room, &s->packed, p->memory + s->packed_at + k * s->packed_bytes);
  }
  h->free(h->ctx, room);
  return st;
}

static tn_status pack_product(tn_program *p, const step *s, const float *w) {
  const int64_t n = s->N / s->slices, from = s->transposed ? s->K : 1;
  const dnnl_dims_t dims = {s->K, n}, strides = {s->transposed ? 1 : s->N, s->transposed ? s->K : 1};
  dnnl_memory_desc_t plain;
  if (dnnl_memory_desc_init_by_strides(&plain, 2, dims, dnnl_f32, strides)) return TN_E_INTERNAL;
  tn_status st = TN_OK;
  for (uint32_t k = 0; st == TN_OK && k < s->slices; k++)
    st = reorder(p->device, &plain, (float *)(uintptr_t)(w + k * n * from), &s->packed,
        p->memory + s->packed_at + k * s->packed_bytes);
  return st;
}

static tn_status pack(tn_program *p) {
  tn_status st = TN_OK;
  const int threads = one_thread();
  for (uint32_t i = 0; st == TN_OK && i < p->n_steps; i++) {
    const step *s = &p->steps[i];
    if (s->kind == CONV) st = pack_conv(p, s, find(p, s->w)->ptr);
    if (s->kind == PRODUCT) st = pack_product(p, s, find(p, s->w)->ptr);
    if (s->bias != TN_NONE) {
      memset(p->memory + s->bias_at, 0, (size_t)up(s->OC, p->device->block) * 4);
      memcpy(p->memory + s->bias_at, find(p, s->bias)->ptr, (size_t)s->OC * 4);
    }
    for (uint32_t k = 0; k < s->n_posts; k++) {
      const constant *c = s->posts[k].other == TN_NONE ? NULL : find(p, s->posts[k].other);
      if (c) memcpy(p->memory + s->posts[k].constant_at, c->ptr, c->bytes);
    }
  }
  as_before(threads);
  return st;
}

/* The last of them packs: private memory may come before or after the constants. */
tn_status set_memory(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  unsigned char *memory = view ? at(view) : NULL;
  if (!memory || blob || slot > p->n_constants)
    return fail(err, TN_E_INVALID, "slot %u takes plain constants, or is none to be set", slot);
  const uint64_t want = slot ? p->constants[slot - 1].bytes : p->private_bytes;
  if (view->bytes < want)
    return fail(err, TN_E_INVALID, "slot %u has %llu bytes, not %llu", slot, (unsigned long long)view->bytes,
        (unsigned long long)want);
  if (slot)
    p->constants[slot - 1].ptr = memory;
  else
    p->memory = memory;
  if (!p->memory) return TN_OK;
  for (uint32_t i = 0; i < p->n_constants; i++)
    if (!p->constants[i].ptr) return TN_OK;
  const tn_status st = pack(p);
  return st == TN_OK ? st : fail(err, st, "the weights cannot be reordered");
}
