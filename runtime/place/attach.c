/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants and private memory -> slots of programs: host memory as it lies, or a buffer of the device (imported where
 * the device can import host memory, else copied once).
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/expr/expr.h"
#include "runtime/place/calls.h"
#include "runtime/place/devconst.h"
#include "runtime/place/embeddings.h"
#include "runtime/place/exec.h"
#include "runtime/place/program_check.h"
#include "runtime/place/tables.h"
#include "runtime/plugin/plugin.h"

typedef struct source {
  const void *ptr;
  uint64_t bytes;
  const tn_blob *blob;
  const tni_tensor *tensor;
  bool from_file; /* in a shared mapping */
} source;

/* cpu: tasks of the CPU use it too. What a buffer has of a constant is what the host has, which stays. */
static void fill_view(tni_attached *a, const source *s, bool cpu) {
  if (a->buffer) a->view.buffer = a->buffer;
  a->view.h = (tn_hdr)TN_HDR(tn_view);
  a->view.bytes = s->bytes;
  a->view.dims = a->dims;
  a->view.strides = a->strides;
  if (s->ptr && (!a->view.buffer || cpu)) a->view.ptr = (void *)(uintptr_t)s->ptr;
  if (!s->tensor) return;
  a->view.dtype = s->tensor->dtype;
  a->view.rank = s->tensor->rank;
  int64_t stride = 1;
  for (uint32_t i = s->tensor->rank; i-- > 0;) {
    a->dims[i] = s->tensor->dims[i];
    a->strides[i] = stride;
    stride *= s->tensor->dims[i];
  }
}

/* Other plugins may read raw constants through typed pointers, or as their slot asks; the host's kernels take them as they
 * lie. Packed ones begin at multiples of 64 KiB. */
static tn_status align_source(const tni_dev *d, const tn_slot *slot, source *s, tni_attached *a, tn_error *err) {
  const uint64_t align = slot->align > 64 ? slot->align : 64;
  if (d->is_host || s->blob || (uintptr_t)s->ptr % tni_constant_align(slot) == 0 || !s->bytes) return TN_OK;
  a->memory = aligned_alloc(align, (s->bytes + align - 1) & ~(align - 1));
  if (!a->memory) return tni_fail_memory(err, d->name);
  memcpy(a->memory, s->ptr, s->bytes);
  s->ptr = a->memory;
  return TN_OK;
}

static tn_status set_slot(const tni_program *prog, uint32_t slot, const tn_view *view, const tn_blob *blob,
                          tn_error *err) {
  tn_error why;
  tni_error_init(&why);
  const tn_status st = tni_dev_set(prog->dev, prog->program, slot, view, blob, &why);
  return tni_plugin_result(prog->dev->name, "set", st, &why, err);
}

/* The plugin gets the blob's read() and no pointer; what checking the file brought into memory leaves it. */
static tn_status set_on_disk(tn_model *m, const tni_program *prog, uint32_t slot, const tni_need *need, tn_error *err) {
  const tni_pack_store *store = m->packed[prog->cluster->device].store;
  const tn_blob *whole = tni_pack_store_blob(store, need->blob);
  tn_blob *blob = TNI_NEW(m->arena, tn_blob);
  if (!blob) return tni_fail_memory(err, prog->dev->name);
  if (tni_pack_store_stats(store)->cached) tni_file_drop(whole->ptr, whole->bytes);
  *blob = *whole;
  blob->ptr = NULL;
  return set_slot(prog, slot, NULL, blob, err);
}

/* The part of the packed matrix that the need names; all of it where it names none. */
static tn_status take_section(const tn_slot *slot, const tn_need *need, source *s, tn_error *err) {
  tn_section part;
  const tn_status st = tni_need_section(need, slot->align, s->blob, &part, err);
  if (st != TN_OK) return st;
  if (s->ptr) s->ptr = (const char *)s->ptr + part.offset;
  s->bytes = part.bytes;
  return TN_OK;
}

static tn_status attach_weight(tn_model *m, tni_exec *x, uint32_t p, uint32_t slot, tn_error *err) {
  tni_program *prog = &x->programs[p];
  const tn_slot *s = prog->info->slots[slot];
  const tni_need *need = &prog->needs[s->need];
  tni_attached *a = &x->attached[p][slot];
  source src = {0};
  if (need->need->format) {
    src.blob = tni_pack_store_blob(m->packed[prog->cluster->device].store, need->blob);
    src.ptr = src.blob->ptr;
    src.bytes = src.blob->bytes;
    src.from_file = tni_pack_store_stats(m->packed[prog->cluster->device].store)->cached;
    const tn_status st = take_section(s, need->need, &src, err);
    if (st != TN_OK) return st;
  } else {
    src.tensor = tni_graph_value(m->graph, need->need->values[0])->tensor;
    src.ptr = src.tensor->data;
    src.bytes = src.tensor->bytes;
    src.from_file = tni_is_mapped(m, src.tensor);
    const tn_id v = need->need->values[0];
    if (!tni_embedding_is_packed(m, v) && tni_is_table(m, v) && tni_table_add(m, v) != TN_OK)
      return tni_fail_memory(err, prog->dev->name);
  }
  const bool on_device = need->need->residency == TN_RESIDENCY_DEVICE && prog->dev->device->create && src.ptr;
  tn_status st = on_device ? tni_devconst_get(m, prog->dev, src.ptr, src.bytes, src.from_file, &a->view.buffer, err)
                           : align_source(prog->dev, s, &src, a, err);
  if (st != TN_OK) return st;
  if (need->need->format && need->need->residency == TN_RESIDENCY_DISK) return set_on_disk(m, prog, slot, need, err);
  fill_view(a, &src, s->engines & 1);
  return set_slot(prog, slot, &a->view, src.blob, err);
}

/* Private memory does not depend on dims (tn_measure): it is asked for at some that the claims allow. */
static tn_status private_bytes(tn_model *m, tni_exec *x, uint32_t p, uint32_t slot, uint64_t *bytes, tn_error *err) {
  tni_program *prog = &x->programs[p];
  const uint32_t n = x->view.n_symbols;
  uint64_t *sizes = calloc((size_t)prog->info->n_slots + 1, sizeof *sizes);
  int64_t *v = calloc((size_t)n + 1, sizeof *v);
  tn_dims dims = {.h = TN_HDR(tn_dims), .v = v, .n = n};
  tn_id run = TN_NONE;
  tn_status st = sizes && v ? TN_OK : tni_fail_memory(err, prog->dev->name);
  if (m->roles.step == TNI_EXPR_NONE || !tni_ex_is_sym(m->graph->exprs, m->roles.step, &run)) run = TN_NONE;
  if (st == TN_OK) tni_private_dims(v, n, run, x->chunk);
  if (st == TN_OK) st = tni_private_bytes(prog, slot, &dims, sizes, bytes, err);
  free(sizes);
  free(v);
  return st;
}

/* Tasks of the CPU have its address at any time, which a buffer has that stays mapped while items use it. */
static tn_status map_private(const tni_dev *d, tni_attached *a, uint64_t bytes, tn_error *err) {
  if (!bytes) return TN_OK;
  if (!(a->buffer->flags & TN_BUF_COHERENT))
    return tni_fail(err, TN_E_UNSUPPORTED, d->name,
                    "private memory of plugin '%s' is for the CPU and for engines, and its buffer is not COHERENT", d->name);
  const tn_status st = tni_dev_map(d, a->buffer, 0, bytes, TN_READ | TN_WRITE, &a->mapped, err);
  a->view.ptr = a->mapped;
  return st;
}

static tn_status attach_private(tn_model *m, tni_exec *x, uint32_t p, uint32_t slot, tn_error *err) {
  tni_program *prog = &x->programs[p];
  const tn_slot *s = prog->info->slots[slot];
  tni_attached *a = &x->attached[p][slot];
  const uint64_t align = s->align > 64 ? s->align : 64;
  uint64_t bytes = 0;
  tn_status st = private_bytes(m, x, p, slot, &bytes, err);
  if (st != TN_OK) return st;
  source src = {.bytes = bytes};
  if ((s->engines & ~1u) && prog->dev->device->create) {
    tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                         .bytes = bytes,
                         .usage = 1u << TN_SLOT_PRIVATE,
                         .fd = -1,
                         .flags = TN_BUF_ZERO | (s->engines & 1 ? TN_BUF_HOST : 0),
                         .align = (uint32_t)align};
    st = tni_dev_create(prog->dev, &req, &a->buffer, err);
    if (st == TN_OK && s->engines & 1) st = map_private(prog->dev, a, bytes, err);
  } else {
    a->memory = aligned_alloc(align, (bytes + align) & ~(align - 1));
    if (!a->memory) return tni_fail_memory(err, prog->dev->name);
    memset(a->memory, 0, bytes);
    src.ptr = a->memory;
  }
  if (st != TN_OK) return st;
  fill_view(a, &src, false);
  return set_slot(prog, slot, &a->view, NULL, err);
}

tn_status tni_exec_attach(tn_model *m, tni_exec *x, tn_error *err) {
  for (uint32_t p = 0; p < x->n_programs; p++) {
    const tn_program_info *info = x->programs[p].info;
    x->attached[p] = TNI_NEW_ARRAY(m->arena, tni_attached, info->n_slots);
    if (!x->attached[p]) return tni_fail_memory(err, NULL);
    for (uint32_t s = 0; s < info->n_slots; s++) {
      tn_status st = TN_OK;
      if (info->slots[s]->kind == TN_SLOT_WEIGHT) st = attach_weight(m, x, p, s, err);
      if (info->slots[s]->kind == TN_SLOT_PRIVATE) st = attach_private(m, x, p, s, err);
      if (st == TN_OK) continue;
      tni_fail(err, st, x->programs[p].dev->name, "attaching memory failed");
      tni_error_prefix(err, "plugin '%s', slot %u", x->programs[p].dev->name, s);
      return st;
    }
  }
  return TN_OK;
}

void tni_exec_finish(tn_model *m, tni_exec *x) {
  for (uint32_t p = 0; p < x->n_programs; p++) {
    tni_program *prog = &x->programs[p];
    uint32_t n_slots = prog->info ? prog->info->n_slots : 0;
    tni_program_release(prog);
    for (uint32_t s = 0; x->attached && x->attached[p] && s < n_slots; s++) {
      tni_attached *a = &x->attached[p][s];
      if (a->mapped) (void)!tni_dev_unmap(prog->dev, a->buffer, a->mapped, NULL);
      tni_dev_destroy(prog->dev, a->buffer);
      free(a->memory);
    }
  }
  tni_taskgraph_destroy(&x->graph);
  (void)m;
}
