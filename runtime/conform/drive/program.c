/* SPDX-License-Identifier: Apache-2.0
 *
 * Claim, lower, weights.
 */
#include "runtime/conform/drive/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/observe/observe.h"
#include "runtime/pack/pack.h"

enum { PAGE = 4096 };

static bool drive_failed(tni_cf_drive *d, const char *what, const char *detail) {
  snprintf(d->why, sizeof d->why, "%s%s%s", what, detail && *detail ? ": " : "", detail ? detail : "");
  return false;
}

/* Statistics of an activation are also those of the constants that it meets. */
static void set_statistics(tni_cf_drive *d) {
  for (tn_id i = 0; i < d->view.n_nodes; i++) {
    const tn_node *n = d->view.nodes[i];
    const tn_stats *s = n->n_in && n->in[0] != TN_NONE ? d->view.values[n->in[0]]->stats : NULL;
    for (uint32_t k = 1; s && k < n->n_in; k++) {
      tn_weight *w = n->in[k] == TN_NONE ? NULL : (tn_weight *)(uintptr_t)d->view.values[n->in[k]]->data;
      if (w) w->x = s;
    }
  }
}

bool tni_cf_drive_claim(tni_cf_drive *d, tni_cf_host *h, tni_graph *g, uint32_t phase) {
  const uint64_t flip = d->flip;
  const bool reverse = d->reverse_rows, aliased = d->aliased, sparse = d->is_sparse;
  *d = (tni_cf_drive){.h = h, .g = g, .refused = TN_NONE, .flip = flip, .reverse_rows = reverse, .aliased = aliased,
                      .is_sparse = sparse};
  d->arena = tni_arena_create();
  if (!d->arena) return drive_failed(d, "no memory", NULL);
  if (tni_graph_view(g, phase, &d->view, &h->err) != TN_OK) return drive_failed(d, "the graph", h->err.message);
  set_statistics(d);
  if (tni_claims_collect(&d->view, &d->h->dev, 1, d->arena, &d->claims, &h->err) != TN_OK)
    return drive_failed(d, "claim", h->err.message);
  if (d->claims.fault) return drive_failed(d, d->claims.fault, NULL);
  d->lengths = d->claims.fixed;
  d->chunk = tni_lengths_most(&d->lengths);
  static const uint32_t order[1] = {0};
  if (tni_partition_make(&d->view, &d->claims, order, 1, d->arena, &d->part, &h->err) != TN_OK)
    return drive_failed(d, "the claims", h->err.message);
  for (uint32_t i = 0; i < d->view.n_nodes && d->refused == TN_NONE; i++)
    if (d->part.device_of[i] == TN_NONE) d->refused = i;
  d->all_taken = d->refused == TN_NONE && d->part.n_clusters == 1;
  if (d->refused != TN_NONE) d->refusal = &d->claims.node[0][d->refused];
  return true;
}

int64_t tni_cf_drive_rows(const tni_cf_drive *d, int64_t S) {
  uint32_t i = 0;
  while (i + 1 < d->lengths.n && d->lengths.v[i] < S) i++;
  return d->lengths.n ? d->lengths.v[i] : S;
}

uint32_t tni_cf_drive_slot(const tni_cf_drive *d, tn_id v) {
  if (v != TN_NONE && d->view.values[v]->kind == TN_VALUE_STATE) v = tni_state_root(&d->view, v);
  for (uint32_t i = 0; d->info && i < d->info->n_slots; i++) {
    const tn_slot *s = d->info->slots[i];
    if (s->kind > TN_SLOT_STEP || s->value == TN_NONE) continue;
    const bool state = d->view.values[s->value]->kind == TN_VALUE_STATE;
    if ((state ? tni_state_root(&d->view, s->value) : s->value) == v) return i;
  }
  return TN_NONE;
}

/* --- weights ----------------------------------------------------------------------------------------------------- */

/* In ranges of one row unit and of several, in either order: the bytes may not depend on it. */
static tn_status pack_rows(const tni_cf_drive *d, const tn_format *f, tn_pack *p, int64_t N, uint32_t unit,
                           void *blob) {
  const int64_t step = unit ? unit : 1, parts = (N + step - 1) / step;
  int64_t range = parts > 8 ? (parts + 7) / 8 : 1;
  const int64_t n = (parts + range - 1) / range;
  tn_status st = TN_OK;
  for (int64_t k = 0; k < n && st == TN_OK; k++) {
    const int64_t i = d->reverse_rows ? n - 1 - k : k, n0 = i * range * step, n1 = (i + 1) * range * step;
    st = f->rows(p, n0, n1 < N ? n1 : N, blob);
  }
  return st;
}

/* What the real host gives a slot of the blob. */
static bool take_part(tni_cf_drive *d, uint32_t slot, const tni_need *need, uint32_t align) {
  tni_error_init(&d->h->err);
  if (tni_need_section(need->need, d->info->slots[slot]->align, &d->blob[slot], &d->section[slot], &d->h->err) != TN_OK)
    return drive_failed(d, "sections of a packed weight", d->h->err.message);
  if (d->section[slot].bytes == d->blob[slot].bytes && d->section[slot].align < align) d->section[slot].align = align;
  return true;
}

static bool need_pack(tni_cf_drive *d, uint32_t slot, const tni_need *need) {
  const tn_format *f = need->need->format;
  const tn_weight *w = &need->joined;
  tni_pack_kept kept;
  tn_pack_size size = {0};
  tn_pack *p = NULL;
  if (f->size(f, w->N, w->K, need->need->params, need->need->n_params, &size) != TN_OK)
    return drive_failed(d, "the size of a packed weight", f->name);
  uint8_t *bytes = aligned_alloc(4096, (size.bytes + 4095 + 1) / 4096 * 4096);
  if (!bytes) return drive_failed(d, "no memory", NULL);
  memset(bytes, 0, (size.bytes + 4096) / 4096 * 4096);
  d->packed[slot] = bytes;
  tn_status st = tni_pack_keep(&kept, f, need->need->params, need->need->n_params, w, NULL);
  if (st == TN_OK)
    st = f->begin(d->h->host, f, &kept.weight, need->need->params, need->need->n_params, &p, &d->h->err);
  d->h->err.code = st; /* whatever stands in what begin was lent */
  if (st != TN_OK) return drive_failed(d, "packing begins", d->h->err.message);
  st = pack_rows(d, f, p, w->N, size.row_unit, bytes);
  const tn_status end = f->end(p, st == TN_OK ? bytes : NULL);
  d->h->err.code = st != TN_OK ? st : end;
  if (st != TN_OK || end != TN_OK) return drive_failed(d, "packing", f->name);
  d->blob[slot] = (tn_blob){.h = TN_HDR(tn_blob),
                            .format = f,
                            .N = w->N,
                            .K = w->K,
                            .bytes = size.bytes,
                            .ptr = bytes,
                            .params = need->need->params,
                            .n_params = need->need->n_params};
  return take_part(d, slot, need, size.align);
}

/* --- weights that nobody has memory for --------------------------------------------------------------------------- */

enum { SPARSE_ROWS = 64 };

/* A source that gives a few rows and no more. */
typedef struct few_rows {
  tn_weight w;
  const tn_weight *of;
  int64_t given;
} few_rows;

static tn_status few_rows_give(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  few_rows *f = (few_rows *)(uintptr_t)w;
  f->given += n1 - n0;
  return f->given > 4 * SPARSE_ROWS ? TN_E_LIMIT : f->of->rows(f->of, n0, n1, dst);
}

/* The first and the last rows, in place; the rest is what address space without memory holds: zeros. */
static bool pack_sparse(tni_cf_drive *d, uint32_t slot, const tni_need *need) {
  const tn_format *f = need->need->format;
  few_rows w = {.w = need->joined, .of = &need->joined};
  tn_pack_size z = {0};
  tn_pack *p = NULL;
  w.w.rows = few_rows_give;
  w.w.raw = NULL;
  const int64_t *params = need->need->params, N = w.w.N;
  const uint32_t n = need->need->n_params;
  if (d->sparse || f->size(f, N, w.w.K, params, n, &z) != TN_OK) return drive_failed(d, "a packed weight", f->name);
  d->sparse_bytes = z.bytes + PAGE;
  d->sparse = mmap(NULL, d->sparse_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (d->sparse == MAP_FAILED) return d->sparse = NULL, drive_failed(d, "no address space", NULL);
  const int64_t unit = z.row_unit ? z.row_unit : 1, some = (SPARSE_ROWS / 4 + unit - 1) / unit * unit;
  tn_status st = f->begin(d->h->host, f, &w.w, params, n, &p, &d->h->err);
  if (st == TN_OK) st = f->rows(p, 0, some, d->sparse);
  if (st == TN_OK) st = f->rows(p, (N - some) / unit * unit, N, d->sparse);
  const tn_status end = p ? f->end(p, st == TN_OK ? d->sparse : NULL) : TN_OK;
  if (st != TN_OK || end != TN_OK) return drive_failed(d, "it packs no rows alone", f->name);
  d->blob[slot] = (tn_blob){.h = TN_HDR(tn_blob), .format = f, .N = N, .K = w.w.K, .bytes = z.bytes, .ptr = d->sparse,
                            .params = params, .n_params = n};
  return take_part(d, slot, need, z.align);
}

/* The device has it as it has a mapped file: imported, or where the CPU is. */
static bool set_sparse(tni_cf_drive *d, uint32_t slot, const tni_need *need) {
  tni_cf_memory *m = &d->fixed[slot];
  if (!pack_sparse(d, slot, need)) return false;
  const uint64_t bytes = d->section[slot].bytes;
  uint8_t *from = d->sparse + d->section[slot].offset;
  *m = (tni_cf_memory){.bytes = bytes, .fill = 0xff};
  m->view = (tn_view){.h = TN_HDR(tn_view), .bytes = bytes, .dims = m->dims, .strides = m->strides, .ptr = from};
  if (d->h->device->create && need->need->residency == TN_RESIDENCY_DEVICE) {
    const uint32_t import_align = d->h->caps->import_align;
    const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req), .bytes = bytes, .fd = -1, .kind = TN_MEM_HOST_PTR,
                               .ptr = from, .usage = 1u << TN_SLOT_WEIGHT};
    if (!(d->h->caps->import_kinds & 1u << TN_MEM_HOST_PTR)) return drive_failed(d, "it imports no memory", NULL);
    if (import_align && (uintptr_t)from % import_align) return drive_failed(d, "it imports no section so small", NULL);
    if (tni_dev_create(&d->h->dev, &req, &m->buffer, &d->h->err) != TN_OK)
      return drive_failed(d, "it imports no memory so large", d->h->err.message);
    m->view.buffer = m->buffer;
    if (!(d->info->slots[slot]->engines & 1)) m->view.ptr = NULL;
  }
  d->given[slot] = d->blob[slot];
  return tni_dev_set(&d->h->dev, d->prog.program, slot, &m->view, &d->given[slot], &d->h->err) == TN_OK ||
         drive_failed(d, "set", d->h->err.message);
}

/* --- weights, whole ----------------------------------------------------------------------------------------------- */

static tn_status read_packed(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  if (offset > b->bytes || n > b->bytes - offset) return TN_E_IO;
  memcpy(dst, (const uint8_t *)b->ctx + offset, n);
  return TN_OK;
}

/* What is mapped of private memory for the CPU stays so; of a constant it has one in the host's memory (memory.c). */
static bool stays_mapped(const tni_cf_drive *d, uint32_t slot) {
  const tn_slot *s = d->info->slots[slot];
  return s->kind != TN_SLOT_WEIGHT && s->engines & 1;
}

static bool fill_fixed(tni_cf_drive *d, uint32_t slot, const void *from, uint64_t bytes, uint8_t guard) {
  tni_cf_memory *m = &d->fixed[slot];
  uint8_t *at;
  if (!tni_cf_memory_make(d, slot, bytes, guard, m, d->why, sizeof d->why)) return false;
  if (!tni_cf_memory_look(d->h, m, TN_WRITE, &at)) return drive_failed(d, "map", d->h->err.message);
  if (from)
    memcpy(at, from, bytes);
  else
    memset(at, 0, bytes);
  if (from && m->buffer && m->host.map) memcpy(m->host.p, from, bytes);
  return tni_cf_memory_release(d->h, m, stays_mapped(d, slot)) || drive_failed(d, "unmap", d->h->err.message);
}

/* The bit of the blob that is turned, in what the slot gets of it. */
static bool flip_bit(tni_cf_drive *d, uint32_t slot) {
  tni_cf_memory *m = &d->fixed[slot];
  const uint64_t first = d->section[slot].offset, byte = d->flip / 8 - first;
  const uint8_t bit = (uint8_t)(1u << d->flip % 8);
  uint8_t *at;
  if (d->flip / 8 < first || byte >= m->bytes) return true;
  if (!tni_cf_memory_look(d->h, m, TN_READ | TN_WRITE, &at)) return drive_failed(d, "map", d->h->err.message);
  at[byte] ^= bit;
  if (m->buffer && m->host.map) m->host.p[byte] ^= bit;
  return tni_cf_memory_release(d->h, m, stays_mapped(d, slot)) || drive_failed(d, "unmap", d->h->err.message);
}

static bool status_given(tni_cf_drive *d, tn_status st, const char *what) {
  return st == TN_OK || drive_failed(d, what, d->h->err.message);
}

static bool set_packed(tni_cf_drive *d, uint32_t slot, const tni_need *need) {
  if (!need_pack(d, slot, need)) return false;
  tn_blob *b = &d->given[slot];
  *b = d->blob[slot];
  b->ctx = d->packed[slot];
  b->read = read_packed;
  if (need->need->residency == TN_RESIDENCY_DISK) {
    b->ptr = NULL;
    return status_given(d, tni_dev_set(&d->h->dev, d->prog.program, slot, NULL, b, &d->h->err), "set");
  }
  const tn_section *part = &d->section[slot];
  if (!fill_fixed(d, slot, d->packed[slot] + part->offset, part->bytes, 0xff) || !flip_bit(d, slot)) return false;
  tni_cf_memory *m = &d->fixed[slot];
  /* Where it lies, as the real host has it in a mapped file. */
  if (m->host.map && part->bytes == b->bytes) b->ptr = m->host.p;
  return status_given(d, tni_dev_set(&d->h->dev, d->prog.program, slot, &m->view, b, &d->h->err), "set");
}

static void shape_view(tni_cf_memory *m, const tni_tensor *t) {
  int64_t stride = 1;
  m->view.dtype = t->dtype;
  m->view.rank = t->rank;
  for (uint32_t i = t->rank; i-- > 0;) {
    m->dims[i] = t->dims[i];
    m->strides[i] = stride;
    stride *= t->dims[i];
  }
}

static bool set_raw(tni_cf_drive *d, uint32_t slot, const tn_need *need) {
  const tni_tensor *t = tni_graph_value(d->g, need->values[0])->tensor;
  if (!fill_fixed(d, slot, t->data, t->bytes, 0xff)) return false;
  shape_view(&d->fixed[slot], t);
  return status_given(d, tni_dev_set(&d->h->dev, d->prog.program, slot, &d->fixed[slot].view, NULL, &d->h->err), "set");
}

static bool set_private(tni_cf_drive *d, uint32_t slot) {
  uint64_t *sizes = TNI_NEW_ARRAY(d->arena, uint64_t, d->info->n_slots + 1), bytes;
  int64_t *v = TNI_NEW_ARRAY(d->arena, int64_t, d->view.n_symbols + 1);
  if (!sizes || !v) return drive_failed(d, "no memory", NULL);
  tni_private_dims(v, d->view.n_symbols, 0, d->chunk);
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = v, .n = d->view.n_symbols};
  tni_error_init(&d->h->err);
  if (tni_private_bytes(&d->prog, slot, &dims, sizes, &bytes, &d->h->err) != TN_OK)
    return drive_failed(d, "measure", d->h->err.message);
  if (!fill_fixed(d, slot, NULL, bytes, 0x5b)) return false;
  const tn_buffer *b = d->fixed[slot].buffer;
  if (b && stays_mapped(d, slot) && !(b->flags & TN_BUF_COHERENT))
    return drive_failed(d, "private memory is for the CPU and for engines, and its buffer is not COHERENT", "plugin.h, map");
  return status_given(d, tni_dev_set(&d->h->dev, d->prog.program, slot, &d->fixed[slot].view, NULL, &d->h->err), "set");
}

static bool tables_make(tni_cf_drive *d) {
  const uint32_t n = d->info->n_slots + 1;
  d->fixed = TNI_NEW_ARRAY(d->arena, tni_cf_memory, n);
  d->blob = TNI_NEW_ARRAY(d->arena, tn_blob, n);
  d->given = TNI_NEW_ARRAY(d->arena, tn_blob, n);
  d->packed = TNI_NEW_ARRAY(d->arena, uint8_t *, n);
  d->section = TNI_NEW_ARRAY(d->arena, tn_section, n);
  return d->fixed && d->blob && d->given && d->packed && d->section;
}

/* Who checks results task by task must find every node: each stands in the nodes of one task. */
static bool nodes_once(tni_cf_drive *d) {
  const tni_cluster *c = &d->part.clusters[0];
  char text[256];
  for (uint32_t i = 0; i < c->n_nodes; i++) {
    uint32_t times = 0;
    for (uint32_t t = 0; t < d->info->n_tasks; t++)
      for (uint32_t k = 0; k < d->info->tasks[t]->n_nodes; k++) times += d->info->tasks[t]->nodes[k] == c->nodes[i];
    if (times == 1) continue;
    snprintf(text, sizeof text, "node %u ('%.60s') stands in the `nodes` of %u tasks, not of one (plugin.h, tn_task)",
             c->nodes[i], d->view.nodes[c->nodes[i]]->name, times);
    return drive_failed(d, "lower", text);
  }
  return true;
}

/* Slots name engines that there are, and those of the tasks that use them. */
static bool engines_exist(tni_cf_drive *d) {
  const uint32_t n = d->h->caps->n_engines;
  char text[256];
  for (uint32_t s = 0; s < d->info->n_slots; s++) {
    const uint32_t beyond = n >= 31 ? 0 : d->info->slots[s]->engines >> (n + 1);
    snprintf(text, sizeof text, "slot %u names engine %d, and the device has %u (plugin.h, tn_slot)", s,
             beyond ? (int)n + __builtin_ffs((int)beyond) : 0, n);
    if (beyond) return drive_failed(d, "lower", text);
  }
  for (uint32_t t = 0; t < d->info->n_tasks; t++)
    for (uint32_t u = 0; u < d->info->tasks[t]->n_uses; u++) {
      const uint32_t slot = d->info->tasks[t]->uses[u].slot, engine = d->info->tasks[t]->engine;
      snprintf(text, sizeof text,
               "task %u runs on engine %u and uses slot %u, whose `engines` do not have it (plugin.h, "
               "tn_slot)",
               t, engine, slot);
      if (engine < 32 && !(d->info->slots[slot]->engines & 1u << engine)) return drive_failed(d, "lower", text);
    }
  return true;
}

bool tni_cf_drive_lower(tni_cf_drive *d) {
  if (!d->all_taken) return drive_failed(d, "not all of it was claimed", NULL);
  if (tni_program_lower(&d->view, &d->h->dev, &d->part.clusters[0], d->arena, &d->prog, &d->h->err) != TN_OK)
    return drive_failed(d, "lower", d->h->err.message);
  d->info = d->prog.info;
  if (!nodes_once(d) || !engines_exist(d)) return false;
  if (!tables_make(d)) return drive_failed(d, "no memory", NULL);
  for (uint32_t i = 0; i < d->info->n_slots; i++) {
    const tn_slot *s = d->info->slots[i];
    if (s->kind == TN_SLOT_PRIVATE && !set_private(d, i)) return false;
    if (s->kind != TN_SLOT_WEIGHT) continue;
    const tni_need *need = &d->prog.needs[s->need];
    if (d->is_sparse) {
      if (!need->need->format) return drive_failed(d, "it packs nothing", NULL);
      if (!set_sparse(d, i, need)) return false;
      continue;
    }
    if (!(need->need->format ? set_packed(d, i, need) : set_raw(d, i, need->need))) return false;
  }
  return true;
}

/* Memory of the host, whatever the residency says; of packed weights what set gets of them. */
static tn_status set_ahead(tni_cf_drive *d, const tn_offline *o, uint32_t slot) {
  const tni_need *need = &d->prog.needs[d->info->slots[slot]->need];
  tni_cf_memory m = {.view = {.h = TN_HDR(tn_view)}};
  const tn_blob *blob = NULL;
  m.view.dims = m.dims;
  m.view.strides = m.strides;
  if (need->need->format) {
    if (!need_pack(d, slot, need)) return TN_E_INTERNAL;
    blob = &d->blob[slot];
    m.view.ptr = d->packed[slot] + d->section[slot].offset;
    m.view.bytes = d->section[slot].bytes;
  } else {
    const tni_tensor *t = tni_graph_value(d->g, need->need->values[0])->tensor;
    shape_view(&m, t);
    m.view.ptr = t->data;
    m.view.bytes = t->bytes;
  }
  const char *before = tni_cf_call_begin("tn_offline.set");
  const tn_status st = o->set(d->prog.program, slot, &m.view, blob, &d->h->err);
  tni_cf_call_over(before);
  if (st != TN_OK) (void)drive_failed(d, "tn_offline.set", d->h->err.message);
  return st;
}

bool tni_cf_drive_ahead(tni_cf_drive *d, const tn_offline *o, int64_t rows) {
  if (!d->all_taken) return drive_failed(d, "not all of it was claimed", NULL);
  if (tni_program_lower(&d->view, &d->h->dev, &d->part.clusters[0], d->arena, &d->prog, &d->h->err) != TN_OK)
    return drive_failed(d, "lower", d->h->err.message);
  d->info = d->prog.info;
  int64_t *v = TNI_NEW_ARRAY(d->arena, int64_t, d->view.n_symbols + 1);
  if (!v || !tables_make(d)) return drive_failed(d, "no memory", NULL);
  for (uint32_t i = 0; i < d->view.n_symbols; i++) v[i] = 1;
  v[0] = tni_cf_drive_rows(d, rows);
  for (uint32_t i = 0; o->set && i < d->info->n_slots; i++)
    if (d->info->slots[i]->kind == TN_SLOT_WEIGHT && set_ahead(d, o, i) != TN_OK) return false;
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = v, .n = d->view.n_symbols};
  for (tn_id t = 0; t < d->info->n_tasks; t++) {
    const char *before = tni_cf_call_begin("tn_offline.compile");
    const tn_status st = o->compile(d->prog.program, t, &dims, &d->h->err);
    tni_cf_call_over(before);
    if (st != TN_OK && st != TN_E_UNSUPPORTED) return drive_failed(d, "tn_offline.compile", d->h->err.message);
  }
  return true;
}

void tni_cf_drive_finish(tni_cf_drive *d) {
  if (tni_cf_has_left()) return;
  const uint32_t n = d->info ? d->info->n_slots : 0; /* goes with the program */
  if (d->prog.program) tni_program_release(&d->prog);
  for (uint32_t i = 0; d->fixed && i < n; i++) {
    tni_cf_memory_finish(d->h, &d->fixed[i]);
    free(d->packed[i]);
  }
  if (d->sparse) (void)munmap(d->sparse, d->sparse_bytes);
  d->sparse = NULL;
  tni_arena_destroy(d->arena);
  d->arena = NULL;
  d->fixed = NULL;
  d->info = NULL;
}
