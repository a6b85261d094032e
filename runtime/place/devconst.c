/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/devconst.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/place/calls.h"

bool tni_devconst_imports(const tni_dev *d, const void *ptr) {
  const tn_caps *caps = d->device->caps;
  const uint64_t align = caps->import_align ? caps->import_align : 1;
  return caps->import_kinds & (1u << TN_MEM_HOST_PTR) && (uintptr_t)ptr % align == 0;
}

static tn_status copy_in(const tni_dev *d, tn_buffer *b, const void *src, uint64_t bytes, tn_error *err) {
  void *p = NULL;
  if (!bytes) return TN_OK;
  const tn_status st = tni_dev_map(d, b, 0, bytes, TN_WRITE, &p, err);
  if (st != TN_OK) return st;
  memcpy(p, src, bytes);
  return tni_dev_unmap(d, b, p, err);
}

/* A device that refuses to import what its caps say gets a copy. */
static tn_status make_devconst(tn_model *m, tni_devconst *c, bool from_file, tn_error *err) {
  const tni_dev *d = c->dev;
  tn_buffer_req req = {.h = TN_HDR(tn_buffer_req), .bytes = c->bytes, .usage = 1u << TN_SLOT_WEIGHT, .fd = -1};
  if (tni_devconst_imports(d, c->ptr)) {
    req.kind = TN_MEM_HOST_PTR;
    req.ptr = (void *)(uintptr_t)c->ptr;
    if (tni_dev_create(d, &req, &c->buffer, NULL) == TN_OK) {
      m->consts->imported_bytes += c->bytes;
      return TN_OK;
    }
  }
  req.kind = TN_MEM_NEW;
  req.ptr = NULL;
  req.flags = TN_BUF_HOST;
  tn_status st = tni_dev_create(d, &req, &c->buffer, err);
  if (st != TN_OK) {
    tni_fail(err, st, d->name, "no reason given");
    tni_error_prefix(err, "plugin '%s' has no memory for %llu bytes of weights", d->name, (unsigned long long)c->bytes);
    return st;
  }
  st = copy_in(d, c->buffer, c->ptr, c->bytes, err);
  m->consts->copied_bytes += c->bytes;
  if (from_file) tni_file_drop(c->ptr, c->bytes);
  return st;
}

static tni_devconst *add_devconst(struct tni_devconsts *k) {
  if (k->n == k->cap) {
    const uint32_t cap = k->cap ? 2 * k->cap : 64;
    tni_devconst *v = realloc(k->v, cap * sizeof *v);
    if (!v) return NULL;
    k->v = v;
    k->cap = cap;
  }
  return &k->v[k->n];
}

tn_status tni_devconst_get(tn_model *m, const tni_dev *d, const void *ptr, uint64_t bytes, bool from_file,
                           tn_buffer **out, tn_error *err) {
  if (!m->consts && !(m->consts = calloc(1, sizeof *m->consts))) return tni_fail_memory(err, d->name);
  for (uint32_t i = 0; i < m->consts->n; i++) {
    const tni_devconst *c = &m->consts->v[i];
    if (c->dev != d || c->ptr != ptr || c->bytes != bytes) continue;
    *out = c->buffer;
    return TN_OK;
  }
  tni_devconst *c = add_devconst(m->consts);
  if (!c) return tni_fail_memory(err, d->name);
  *c = (tni_devconst){.dev = d, .ptr = ptr, .bytes = bytes};
  tn_status st = make_devconst(m, c, from_file, err);
  if (c->buffer) m->consts->n++;
  *out = c->buffer;
  return st;
}

void tni_devconst_release(tn_model *m) {
  for (uint32_t i = 0; m->consts && i < m->consts->n; i++) {
    tni_dev_destroy(m->consts->v[i].dev, m->consts->v[i].buffer);
  }
  if (m->consts) free(m->consts->v);
  free(m->consts);
  m->consts = NULL;
}
