/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a session for given dims. Activations, temporaries and scratch share arenas by lifetime in the order of the
 * tasks, one arena for each set of devices that touch them; outputs have memory of their own, because they outlive the
 * run; inputs are the caller's. What engines read of inputs and STEP values is one piece per device, written once per
 * step.
 *
 * Offsets are planned for the largest dims seen. Smaller ones use them as they are wherever nothing takes more than its
 * room, which is checked each time: that sizes grow with the dims is true of every model known, and not relied on.
 */
#include "runtime/memory/session_memory.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/memory/guard.h"
#include "runtime/memory/sizes.h"
#include "runtime/place/place.h"
#include "runtime/shape/shape.h"

static uint64_t align_up(uint64_t v, uint64_t align) { return (v + align - 1) & ~(align - 1); }

/* Outputs of one block, one after the other. */
static uint64_t place_outputs(tni_sizing *z, uint32_t block) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < z->x->n_regions; i++) {
    const tni_region *r = &z->x->regions[i];
    if (r->block != block) continue;
    z->regions[i].offset = align_up(end, r->align);
    end = z->regions[i].offset + z->regions[i].room + TNI_GUARD_BYTES;
  }
  return end;
}

/* The same in the copy of every device: bytes of one. */
static uint64_t place_feeds(tni_sizing *z) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < z->x->n_regions; i++) {
    const tni_region *r = &z->x->regions[i];
    if (!tni_is_fed(r)) continue;
    z->regions[i].feed_offset = align_up(end, r->align);
    end = z->regions[i].feed_offset + z->regions[i].room;
  }
  return end;
}

/* Where engines work beside the CPU or beside each other nothing waits for memory; elsewhere it is least. */
static tn_status spread_lives(const tni_sizing *z, tni_life *lives, uint32_t n, uint64_t *bytes) {
  tn_status st = tni_exec_overlaps(z->x, z->m->flags) ? tni_lives_spread(&z->x->graph, lives, n, bytes) : TN_E_LIMIT;
  return st == TN_E_LIMIT ? tni_lives_plan(lives, n, bytes) : st;
}

/* Offsets of one arena's regions and scratch. graph: gets the edges that they need, or NULL. */
static tn_status place_arena(tni_sizing *z, uint32_t block, uint64_t *bytes, tni_taskgraph *graph) {
  tni_life *lives;
  uint32_t n;
  tn_status st = tni_lives_make(z, block, &lives, &n);
  if (st == TN_OK) st = spread_lives(z, lives, n, bytes);
  n = 0;
  for (uint32_t i = 0; st == TN_OK && i < z->x->n_regions; i++)
    if (z->x->regions[i].block == block) z->regions[i].offset = lives[n++].offset;
  for (uint32_t t = 0; st == TN_OK && t < z->x->n_tasks; t++)
    if (z->x->tasks[t].block == block) z->tasks[t].scratch_offset = lives[n++].offset;
  if (st == TN_OK && graph) {
    tni_taskgraph more = {0};
    st = tni_taskgraph_share(graph->n ? graph : &z->x->graph, lives, n, &more);
    if (st == TN_E_LIMIT) st = tni_taskgraph_chain(z->x->n_tasks, &more);
    tni_taskgraph_destroy(graph);
    *graph = more;
  }
  free(lives);
  return st;
}

/* Bytes of every block. graph: the exec's with the edges that the offsets need, or NULL. */
static tn_status size_blocks(tni_sizing *z, uint64_t *bytes, tni_taskgraph *graph) {
  tn_status st = TN_OK;
  if (graph) tni_taskgraph_destroy(graph);
  for (uint32_t b = 0; st == TN_OK && b < z->x->n_blocks; b++) {
    if (z->x->blocks[b].kind == TNI_B_OUTPUT)
      bytes[b] = place_outputs(z, b);
    else
      st = place_arena(z, b, &bytes[b], graph);
  }
  return st == TN_OK ? TN_OK : tni_fail(z->err, st, NULL, "the memory plan failed");
}

static bool has_room(const tni_sizing *z) {
  for (uint32_t i = 0; i < z->x->n_regions; i++)
    if (z->regions[i].bytes > z->regions[i].room) return false;
  for (uint32_t t = 0; t < z->x->n_tasks; t++)
    if (z->tasks[t].scratch_bytes > z->tasks[t].scratch_room) return false;
  return true;
}

tn_status tni_memory_measure(tn_model *m, tni_exec *x, const int64_t *const *dims, uint32_t n, uint64_t *arena,
                             uint64_t *outputs, uint64_t *scratch, tn_error *err) {
  tni_sizing z = {.m = m, .x = x, .err = err};
  z.regions = calloc(x->n_regions + 1, sizeof *z.regions);
  z.tasks = calloc(x->n_tasks + 1, sizeof *z.tasks);
  tn_status st = z.regions && z.tasks ? TN_OK : tni_fail_memory(err, NULL);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    z.dims = dims[i];
    st = tni_sizes(&z);
    tni_sizes_room(&z, true);
  }
  uint64_t *bytes = calloc(x->n_blocks + 1, sizeof *bytes);
  if (st == TN_OK && !bytes) st = tni_fail_memory(err, NULL);
  if (st == TN_OK) st = size_blocks(&z, bytes, NULL);
  *arena = 0;
  if (st == TN_OK) *outputs = place_feeds(&z) * (uint64_t)__builtin_popcountll(x->feeds);
  for (uint32_t b = 0; st == TN_OK && b < x->n_blocks; b++)
    *(x->blocks[b].kind == TNI_B_OUTPUT ? outputs : arena) += bytes[b] * x->blocks[b].n_homes;
  *scratch = z.scratch;
  free(bytes);
  free(z.regions);
  free(z.tasks);
  return st;
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* Args must not name memory that goes. */
static void drop_args(tni_sexec *x) {
  for (uint32_t t = 0; t < x->exec->n_tasks; t++) {
    const tni_dev *d = x->exec->programs[x->exec->tasks[t].program].dev;
    tni_dev_args_free(d, x->tasks[t].args);
    x->tasks[t].args = NULL;
  }
}

static tn_status make_memory(tn_session *s, tni_mem *m, const tni_mem_spec *spec, tn_error *err) {
  tn_status st = tni_mem_create(s->model->rt->devs, spec, &s->memory, m, err);
  if (st != TN_OK) tni_mem_destroy(m);
  return st;
}

/* At least spec->bytes of memory; what it held is lost. What has grown once may grow again: it gets a quarter more where
 * there is as much. */
static tn_status grow_memory(tn_session *s, tni_sexec *x, tni_mem *m, const tni_mem_spec *spec, tn_error *err) {
  tni_mem_spec more = *spec;
  const bool grows = m->devs;
  if (grows && spec->bytes <= m->bytes) return TN_OK;
  more.bytes += more.bytes / 4;
  if (spec->users.devices) drop_args(x);
  tni_mem_destroy(m);
  return grows && make_memory(s, m, &more, NULL) == TN_OK ? TN_OK : make_memory(s, m, spec, err);
}

static tn_status grow_block(tn_session *s, tni_sexec *x, uint32_t b, uint64_t bytes, tn_error *err) {
  const tni_block *k = &x->exec->blocks[b];
  tni_mem_spec spec = {.users = k->users,
                       .bytes = bytes + 64,
                       .usage = k->kind == TNI_B_OUTPUT ? 1u << TN_SLOT_OUTPUT : 1u << TN_SLOT_TEMP,
                       .align = k->align,
                       .watched = s->model->rt->checked,
                       .shm = k->users.process || k->users.devices ? s->model->rt->shm : NULL,
                       .what = k->kind == TNI_B_OUTPUT ? "outputs" : "activations"};
  return grow_memory(s, x, &x->mems[b], &spec, err);
}

static tn_status grow_feeds(tn_session *s, tni_sexec *x, uint64_t bytes, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t d = 0; st == TN_OK && d < s->model->rt->n_devs && d < TNI_MEM_DEVICES; d++) {
    if (!(x->exec->feeds >> d & 1)) continue;
    tni_mem_spec spec = {.users = {.devices = 1ull << d, .cpu = true},
                         .bytes = bytes,
                         .usage = 1u << TN_SLOT_INPUT | 1u << TN_SLOT_STEP,
                         .align = 64,
                         .zero = true,
                         .shm = s->model->rt->shm,
                         .what = "inputs"};
    st = grow_memory(s, x, &x->feeds[d], &spec, err);
    x->feed_spans[d] = (tni_span){.mem = &x->feeds[d], .bytes = bytes};
  }
  return st;
}

/* The CPU has nothing any more: spans may get other bytes. */
static tn_status release_all(tni_sexec *x, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t b = 0; st == TN_OK && b < x->exec->n_blocks; b++)
    while (st == TN_OK && x->mems[b].mapped) st = tni_span_release(x->mems[b].mapped, err);
  return st;
}

/* Where every region lies, for the sizes of these dims. */
static void point_slots(tni_sexec *x) {
  for (uint32_t i = 0; i < x->exec->n_regions; i++) {
    const tni_region *r = &x->exec->regions[i];
    tni_sregion *q = &x->regions[i];
    if (r->block == TN_NONE) continue;
    tni_mem *m = &x->mems[r->block];
    q->own = (tni_span){.mem = m, .offset = q->offset, .bytes = q->bytes};
    q->span = &q->own;
    q->ptr = m->n_parts ? NULL : (char *)m->host[0] + q->offset;
  }
}

static tn_status write_steps(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err) {
  for (uint32_t i = 0; i < x->exec->n_regions; i++) {
    const tni_region *r = &x->exec->regions[i];
    tni_sregion *q = &x->regions[i];
    if (r->kind != TNI_R_STEP || r->value == s->model->graph->step_pos || r->value == s->model->graph->step_valid)
      continue;
    if (s->tables && r->value == s->model->graph->tables) {
      memcpy(q->ptr, s->tables, sizeof *s->tables);
      continue;
    }
    tn_status st = tni_step_write(s->model->graph, r->value, dims, x->exec->view.n_symbols, q->ptr, q->bytes);
    const char *name = tni_graph_value(s->model->graph, r->value)->pub.name;
    if (st != TN_OK) return tni_fail(err, st, name, "'%s' cannot be computed from the inputs' dims", name);
  }
  return TN_OK;
}

/* A multiple of the bucket, or a power of two below it: a batch of 2 is no reason to have room for 64. */
static int64_t round_up(int64_t d) {
  enum { BUCKET = 64 };
  int64_t p = 1;
  while (p < d && p < BUCKET) p *= 2;
  return d > BUCKET ? (d + BUCKET - 1) / BUCKET * BUCKET : d < 1 ? d : p;
}

static uint64_t largest_region(const tni_sizing *z) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < z->x->n_regions; i++)
    if (z->regions[i].bytes > most) most = z->regions[i].bytes;
  return most;
}

/* Sizes for dims rounded up, so that a context that grows step by step is placed once per bucket. Dims that cannot be
 * rounded (the model's shapes contradict them), or whose products grow out of all proportion, get exact room. */
static tn_status make_room(tni_sexec *x, tni_sizing *z) {
  enum { PROPORTION = 4, SMALL = 1 << 20 };
  const int64_t *dims = z->dims;
  const uint64_t exact = largest_region(z);
  uint32_t n = z->x->view.n_symbols;
  tn_error *err = z->err;
  tni_sizes_room(z, !x->placed); /* what was reserved stays */
  if (!x->placed) return TN_OK;  /* the first run may be the only one */
  int64_t *up = calloc(n + 1, sizeof *up);
  if (!up) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < n; i++) up[i] = round_up(dims[i]);
  z->dims = up;
  z->err = NULL;
  if (tni_sizes(z) == TN_OK && largest_region(z) / PROPORTION <= exact + SMALL) tni_sizes_room(z, true);
  z->dims = dims;
  z->err = err;
  free(up);
  return tni_sizes(z);
}

static tn_status place_all(tn_session *s, tni_sexec *x, tni_sizing *z) {
  uint64_t *bytes = calloc(x->exec->n_blocks + 1, sizeof *bytes);
  tn_status st = bytes ? make_room(x, z) : tni_fail_memory(z->err, NULL);
  if (st == TN_OK) st = size_blocks(z, bytes, x->executor ? &x->graph : NULL);
  for (uint32_t b = 0; st == TN_OK && b < x->exec->n_blocks; b++) st = grow_block(s, x, b, bytes[b], z->err);
  if (st == TN_OK) st = grow_feeds(s, x, place_feeds(z), z->err);
  x->placed = st == TN_OK;
  if (st != TN_OK) tni_sizes_no_room(z); /* the next run may be one that fits */
  free(bytes);
  return st;
}

tn_status tni_memory_plan(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err) {
  tni_sizing z = {.m = s->model, .x = x->exec, .dims = dims, .regions = x->regions, .tasks = x->tasks, .err = err};
  tn_status st = tni_sizes(&z);
  x->table_rows = tni_tables_rows(s->model, dims);
  x->ready = false; /* args and views are those of other dims until they are made anew */
  if (st == TN_OK) st = release_all(x, err);
  if (st == TN_OK && !(x->placed && has_room(&z))) st = place_all(s, x, &z);
  if (st != TN_OK) return st;
  point_slots(x);
  x->guarded = true;
  return write_steps(s, x, dims, err);
}

tn_status tni_memory_reserve(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err) {
  tni_sizing z = {.m = s->model, .x = x->exec, .dims = dims, .regions = x->regions, .tasks = x->tasks, .err = err};
  tn_status st = tni_sizes(&z);
  x->ready = false;
  if (st == TN_OK) tni_sizes_room(&z, true);
  return st;
}

bool tni_region_is_shared(const tni_sexec *x, uint32_t r, bool cpu) {
  const tni_span *span = x->regions[r].span;
  return span && span->mem && span->mem->homes.n == 1 && (!cpu || span->mem->open[0]);
}

bool tni_task_is_reachable(const tn_session *s, const tni_sexec *x, uint32_t i) {
  const tni_etask *e = &x->exec->tasks[i];
  bool all = true;
  for (uint32_t u = 0; !s->model->rt->checked && all && u < e->info->n_uses; u++) {
    const uint32_t r = e->regions[u], b = r == TN_NONE ? TN_NONE : x->exec->regions[r].block;
    if (b == TN_NONE) continue; /* inputs and caches are the host's to see */
    const tni_mem_homes *h = &x->mems[b].homes;
    all = x->exec->blocks[b].users.cpu || h->n != 1 || h->v[0].owner == TN_NONE;
  }
  return all;
}

static tn_status feed_device(tni_sexec *x, uint32_t d, tn_error *err) {
  tni_span *to = &x->feed_spans[d];
  tn_status st = tni_span_take(to, TN_NONE, TN_WRITE | TNI_SPAN_WHOLE, err);
  for (uint32_t i = 0; st == TN_OK && i < x->exec->n_regions; i++) {
    const tni_region *r = &x->exec->regions[i];
    const tni_sregion *q = &x->regions[i];
    if (tni_is_fed(r) && r->users.devices >> d & 1 && q->bytes)
      memcpy((char *)to->ptr + q->feed_offset, q->ptr, q->bytes);
  }
  return st == TN_OK ? tni_span_take(to, d, TN_READ, err) : st;
}

tn_status tni_memory_feed(tn_session *s, tni_sexec *x, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t d = 0; st == TN_OK && d < TNI_MEM_DEVICES && d < s->model->rt->n_devs; d++)
    if (x->exec->feeds >> d & 1) st = feed_device(x, d, err);
  return st;
}

/* The least of s->row_pos and pos. */
static int64_t least_rows(const tn_session *s, int64_t pos) {
  for (int64_t b = 0; b < s->n_row_pos; b++)
    if (s->row_pos[b] < pos) pos = s->row_pos[b];
  return pos;
}

tn_status tni_region_take(tn_session *s, tni_sexec *x, uint32_t i, uint32_t dev, uint32_t access, tn_error *err) {
  const tni_region *r = &x->exec->regions[i];
  tni_sregion *q = &x->regions[i];
  if (tni_region_is_plain(x->exec, i) || !q->span) return TN_OK;
  /* Several tasks may write parts of a temporary. */
  if (access == TN_WRITE && r->kind == TNI_R_TEMP) access |= TN_READ;
  if (q->span->rows) {
    q->span->rows->pos = least_rows(s, x->pos);
    q->span->rows->valid = x->valid;
  }
  tn_status st = tni_span_take(q->span, dev, access, err);
  q->ptr = q->span->ptr;
  if (st == TN_OK || r->value == TN_NONE) return st;
  tni_error_prefix(err, "'%s'", tni_graph_value(s->model->graph, r->value)->pub.name);
  return st;
}

void tni_region_view(const tn_session *s, const tni_sexec *x, uint32_t i, uint32_t dev, tn_view *v) {
  const tni_region *r = &x->exec->regions[i];
  const tni_sregion *q = &x->regions[i];
  const bool fed = dev != TN_NONE && tni_is_fed(r);
  const bool on_device = !tni_region_is_plain(x->exec, i);
  (void)s;
  *v = (tn_view){.h = TN_HDR(tn_view),
                 .ptr = fed ? NULL : q->ptr,
                 .bytes = q->bytes,
                 .dims = q->dims,
                 .strides = q->strides,
                 .dtype = q->dtype,
                 .rank = q->rank};
  if (fed) {
    v->buffer = tni_mem_buffer(&x->feeds[dev], dev);
    v->offset = q->feed_offset;
  } else if (on_device && q->span) {
    v->buffer = dev == TN_NONE ? NULL : tni_mem_buffer(q->span->mem, dev);
    v->offset = q->span->offset;
  }
}

void tni_scratch_view(const tni_sexec *x, uint32_t i, tn_view *v) {
  const tni_stask *t = &x->tasks[i];
  const tni_mem *m = &x->mems[x->exec->tasks[i].block];
  *v = (tn_view){.h = TN_HDR(tn_view), .bytes = t->scratch_bytes - t->copies, .dtype = TN_DT_U8};
  if (m->n_parts) {
    v->buffer = m->parts[0].buffer;
    v->offset = t->scratch_offset;
  } else {
    v->ptr = (char *)m->host[0] + t->scratch_offset + t->copies;
  }
}

void tni_memory_free(const tn_session *s, tni_mem *m) {
  bool given = false;
  for (uint32_t h = 0; h < m->homes.n; h++) given = given || (m->homes.v[h].owner == TN_NONE && m->homes.v[h].devices);
  if (!s->lost || !given) tni_mem_destroy(m);
}

void tni_memory_release(tn_session *s, tni_sexec *x) {
  for (uint32_t b = 0; x->mems && b < x->exec->n_blocks; b++) tni_memory_free(s, &x->mems[b]);
  for (uint32_t d = 0; x->feeds && d < s->model->rt->n_devs; d++) tni_memory_free(s, &x->feeds[d]);
  tni_taskgraph_destroy(&x->graph);
}
