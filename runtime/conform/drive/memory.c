/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of slots: pages of the host's, or a buffer of the device with a strip around the view.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "runtime/conform/drive/memory.h"

enum { STRIP = 4096, PAGE = 4096, HUGE = 1 << 26 }; /* of a huge block only what lies beside it is filled */

static uint64_t larger_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* How a memory must lie: on the device where `device` is set, and then also for the CPU where `cpu` is. constant: the CPU
 * has it in memory of the host's. */
typedef struct lie {
  bool device, cpu, constant;
  uint64_t align;
  uint32_t usage;
} lie;

static lie lie_of_slot(const tni_cf_drive *d, uint32_t slot) {
  const tn_slot *s = d->info->slots[slot];
  const bool weight = s->kind == TN_SLOT_WEIGHT;
  const bool there = weight ? d->info->needs[s->need]->residency == TN_RESIDENCY_DEVICE : (s->engines & ~1u) != 0;
  return (lie){.device = d->h->device->create && there,
               .cpu = s->engines & 1,
               .constant = weight,
               .align = larger_of(s->align, weight ? d->section[slot].align : 0),
               .usage = 1u << s->kind};
}

/* As little aligned as a view may be: an odd multiple of what the slot and the device ask for. */
static uint64_t odd_offset(const tni_cf_drive *d, uint64_t align) {
  const tn_caps *caps = d->h->caps;
  const uint64_t unit = larger_of(larger_of(align, caps->sub_align), larger_of(caps->image_base_px * 8, 16)),
                 times = (STRIP + unit - 1) / unit;
  return (times | 1) * unit;
}

/* The next free place of the large buffer. */
static bool take_far(tni_cf_drive *d, const lie *how, uint64_t bytes, tni_cf_memory *m) {
  tni_cf_far *f = &d->h->far;
  const uint64_t odd = odd_offset(d, how->align), unit = larger_of(larger_of(d->h->caps->align, how->align), PAGE);
  const uint64_t base = (f->next + unit - 1) / unit * unit;
  if (base > f->end || bytes + 2 * odd + 2 * STRIP > f->end - base) return false;
  m->buffer = f->buffer;
  m->shared = true;
  m->base = base;
  m->offset = base + odd;
  m->strip = STRIP;
  f->next = m->offset + bytes + STRIP;
  return true;
}

static bool make_buffer(tni_cf_drive *d, const lie *how, uint64_t bytes, tni_cf_memory *m) {
  const bool exact = d->h->p.host.exact;
  m->offset = exact ? 0 : odd_offset(d, how->align);
  m->strip = exact ? 0 : STRIP;
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                             .bytes = m->offset + bytes + m->strip,
                             .fd = -1,
                             .kind = TN_MEM_NEW,
                             .usage = how->usage,
                             .flags = TN_BUF_HOST,
                             .align = (uint32_t)larger_of(larger_of(d->h->caps->align, how->align), 1)};
  uint8_t *at;
  if (!(d->h->far.buffer && take_far(d, how, bytes, m)) &&
      tni_dev_create(&d->h->dev, &req, &m->buffer, &d->h->err) != TN_OK)
    return false;
  if (!tni_cf_memory_look(d->h, m, TN_WRITE, &at)) return false;
  memset(at - (m->offset - m->base), m->fill, m->offset - m->base + (bytes < HUGE ? bytes : 0));
  memset(at + bytes, m->fill, m->strip);
  m->filled = true;
  m->view.buffer = m->buffer;
  m->view.offset = m->offset;
  const bool stays = how->cpu && !how->constant;
  if (stays) m->view.ptr = at;
  return tni_cf_memory_release(d->h, m, stays);
}

/* A constant is aligned as the slot or the format asks and not more, others as the blocks of a session are. */
static bool make_block(tni_cf_drive *d, const lie *how, uint64_t bytes, uint8_t fill, tni_cf_memory *m) {
  const uint64_t align = how->constant ? larger_of(how->align, 16) : larger_of(how->align, larger_of(d->h->caps->align, 64));
  const size_t most = align < TNI_CF_MOST_ALIGN ? align : TNI_CF_MOST_ALIGN;
  if (!tni_cf_block_make(&m->host, bytes, most, fill, d->h->p.host.exact)) return false;
  m->view.ptr = m->host.p;
  return true;
}

static bool memory_make(tni_cf_drive *d, const lie *how, uint64_t bytes, uint8_t fill, tni_cf_memory *m, char *why,
                        size_t n_why) {
  *m = (tni_cf_memory){.bytes = bytes, .fill = fill};
  m->view = (tn_view){.h = TN_HDR(tn_view), .bytes = bytes, .dims = m->dims, .strides = m->strides};
  if (how->device) {
    if (make_buffer(d, how, bytes, m) && (!how->constant || !how->cpu || make_block(d, how, bytes, fill, m))) return true;
    snprintf(why, n_why, "a buffer of %llu bytes: %s", (unsigned long long)bytes, d->h->err.message);
    return false;
  }
  if (make_block(d, how, bytes, fill, m)) return true;
  snprintf(why, n_why, "no memory for %llu bytes", (unsigned long long)bytes);
  return false;
}

bool tni_cf_memory_make(tni_cf_drive *d, uint32_t slot, uint64_t bytes, uint8_t fill, tni_cf_memory *m, char *why,
                        size_t n_why) {
  const lie how = lie_of_slot(d, slot);
  return memory_make(d, &how, bytes, fill, m, why, n_why);
}

bool tni_cf_memory_scratch(tni_cf_drive *d, uint32_t task, uint64_t bytes, uint64_t align, uint8_t fill,
                           tni_cf_memory *m, char *why, size_t n_why) {
  const bool engine = d->info->tasks[task]->engine != 0;
  const lie how = {.device = engine && d->h->device->create,
                   .cpu = !engine,
                   .align = larger_of(align, 64),
                   .usage = 1u << TN_SLOT_TEMP};
  if (!memory_make(d, &how, bytes, fill, m, why, n_why)) return false;
  m->view.dims = m->view.strides = NULL;
  m->view.dtype = TN_DT_U8;
  return true;
}

bool tni_cf_host_far(tni_cf_host *h) {
  const uint64_t low = UINT64_C(1) << 32, room = UINT64_C(1) << 26;
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                             .bytes = low + room,
                             .fd = -1,
                             .kind = TN_MEM_NEW,
                             .usage = 1u << TN_SLOT_INPUT | 1u << TN_SLOT_OUTPUT | 1u << TN_SLOT_TEMP |
                                      1u << TN_SLOT_STEP | 1u << TN_SLOT_STATE | 1u << TN_SLOT_WEIGHT,
                             .flags = TN_BUF_HOST,
                             .align = (uint32_t)larger_of(h->caps->align, 1)};
#ifdef __GLIBC__
  (void)mallopt(M_PERTURB, 0); /* or MALLOC_PERTURB_ has every byte written */
#endif
  tni_error_init(&h->err);
  h->far = (tni_cf_far){.next = low, .end = low + room};
  return tni_dev_create(&h->dev, &req, &h->far.buffer, &h->err) == TN_OK;
}

void tni_cf_memory_finish(tni_cf_host *h, tni_cf_memory *m) {
  if (m->mapped && m->buffer) (void)!tni_dev_unmap(&h->dev, m->buffer, m->mapped, &h->err);
  if (!m->shared) tni_dev_destroy(&h->dev, m->buffer);
  tni_cf_block_finish(&m->host);
  *m = (tni_cf_memory){0};
}

/* A buffer is mapped whole, strips included. */
bool tni_cf_memory_look(tni_cf_host *h, tni_cf_memory *m, uint32_t access, uint8_t **at) {
  void *p = NULL;
  if (!m->buffer) return *at = m->host.p, true;
  if (!m->mapped) {
    /* The strips beside it are to stay: what only is written need not come (plugin.h, map). */
    const uint32_t how = m->filled ? access | TN_READ : access;
    const uint64_t bytes = m->offset - m->base + m->bytes + m->strip;
    if (tni_dev_map(&h->dev, m->buffer, m->base, bytes, how, &p, &h->err) != TN_OK) return false;
    m->mapped = p;
  }
  *at = m->mapped + (m->offset - m->base);
  return true;
}

bool tni_cf_memory_release(tni_cf_host *h, tni_cf_memory *m, bool keep) {
  if (!m->buffer || !m->mapped || keep) return true;
  void *p = m->mapped;
  m->mapped = NULL;
  return tni_dev_unmap(&h->dev, m->buffer, p, &h->err) == TN_OK;
}

bool tni_cf_memory_guards(tni_cf_host *h, tni_cf_memory *m, bool keep) {
  if (!m->buffer) return tni_cf_block_holds(&m->host);
  uint8_t *at;
  bool ok = tni_cf_memory_look(h, m, TN_READ, &at);
  for (uint64_t i = 0; ok && i < m->offset - m->base; i++) ok = at[-(int64_t)i - 1] == m->fill;
  for (uint64_t i = 0; ok && i < m->strip; i++) ok = at[m->bytes + i] == m->fill;
  return tni_cf_memory_release(h, m, keep) && ok && tni_cf_block_holds(&m->host);
}
