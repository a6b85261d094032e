/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs, plans and arguments: the built-in device's, whose tasks run on the engine.
 */
#include <stdlib.h>
#include <string.h>

#include "fixed.h"

struct tn_program {
  fixed_device *device;
  tn_program *inner;
  tn_program_info info;
  tn_need *needs;
  tn_slot *slots;
  tn_task *tasks;
  tn_use *uses; /* of tasks with private memory */
  const tn_need **need_ptrs;
  const tn_slot **slot_ptrs;
  const tn_task **task_ptrs;
  uint32_t phase;
  tn_id query, keys; /* whose codes attention reads, and what it multiplies them with */
  tn_plan *latest; /* of the mistake plan_kept */
  uint32_t n_nodes;
  bool attends;
  bool borrowed; /* of program_kept: inner is another's */
  tn_id private_slot; /* its last slot, or TN_NONE */
  tn_expr rows;       /* of the run, where they are no constant */
  bool has_rows;
  void *graph; /* tn_graph.ctx */
};

struct tn_plan {
  tn_program *program;
  tn_plan *inner;
  tn_id task;
  bool one_row, borrowed; /* of plan_kept: inner is another's */
  int64_t rows;
  tn_args *first; /* of args_moved */
};

struct tn_args {
  fixed_item item;
  tn_plan *plan;
  tn_args *inner;
  float *result; /* the first that is written */
  uint64_t bytes;
  fixed_codes codes;
};

fixed_item *fixed_item_of(tn_args *a) { return &a->item; }

static void release(tn_program *p) {
  if (fixed_hangs(p->device)) return;
  if (p->device->latest == p) p->device->latest = NULL;
  if (p->inner && !p->borrowed) p->device->inner->release(p->inner);
  free(p->needs);
  free(p->slots);
  free(p->tasks);
  free(p->uses);
  free(p->need_ptrs);
  free(p->slot_ptrs);
  free(p->task_ptrs);
  free(p);
}

/* Products run on engine 1 (ok_cpu_need, ok_private: on the CPU), all else on engine 2. */
static bool products_on_cpu(const fixed_device *d) { return d->wrong == FIXED_ok_cpu_need || d->wrong == FIXED_ok_private; }

static uint32_t engine_of(const tn_program *p, const tn_graph *g, const tn_task *t) {
  const bool cpu = products_on_cpu(p->device);
  for (uint32_t i = 0; i < t->n_nodes; i++)
    if (g->nodes[t->nodes[i]]->op == TN_OP_MATMUL || g->nodes[t->nodes[i]]->op == TN_OP_FUSED_MATMUL) return cpu ? 0 : 1;
  return 2;
}

enum { PRIVATE_LESS = 64, PRIVATE_BYTES = 4096, PRIVATE_ALIGN = 1024 };

static bool has_private(const fixed_device *d) { return d->wrong == FIXED_ok_private || d->wrong == FIXED_private_grows; }

/* A slot after the others, which every task reads. */
static bool add_private(tn_program *p, const tn_program_info *in) {
  uint32_t n = 0;
  p->private_slot = TN_NONE;
  if (!has_private(p->device)) return true;
  for (uint32_t i = 0; i < in->n_tasks; i++) n += in->tasks[i]->n_uses + 1;
  tn_use *u = p->uses = calloc(n + 1, sizeof *p->uses);
  if (!u) return false;
  p->private_slot = p->info.n_slots++;
  p->slots[p->private_slot] = (tn_slot){.h = TN_HDR(tn_slot), .name = "tables", .kind = TN_SLOT_PRIVATE,
                                        .align = PRIVATE_ALIGN, .value = TN_NONE, .need = TN_NONE, .alias = TN_NONE};
  p->slot_ptrs[p->private_slot] = &p->slots[p->private_slot];
  for (uint32_t i = 0; i < in->n_tasks; u += p->tasks[i++].n_uses) {
    memcpy(u, in->tasks[i]->uses, in->tasks[i]->n_uses * sizeof *u);
    u[p->tasks[i].n_uses++] = (tn_use){p->private_slot, TN_READ};
    p->tasks[i].uses = u;
    p->slots[p->private_slot].engines |= 1u << p->tasks[i].engine;
  }
  return true;
}

/* The uses of a task that are the built-in device's. */
static uint32_t inner_uses(const tn_program *p, tn_id task) {
  return p->info.tasks[task]->n_uses - (p->private_slot != TN_NONE);
}

static tn_need need_of(const tn_program *p, const tn_graph *g, const tn_need *in) {
  const uint32_t wrong = p->device->wrong;
  tn_need n = *in;
  n.residency = wrong == FIXED_ok_host_need || wrong == FIXED_host_buffer ? TN_RESIDENCY_HOST : TN_RESIDENCY_DEVICE;
  if (!fixed_packs(p->device, g, in->values[0])) return n;
  n.format = p->device->format;
  n.flags = TN_NEED_KN;
  n.section = FIXED_ROWS_SECTION;
  return n;
}

static void note_rows(tn_program *p, const tn_subgraph *s) {
  int64_t lo, hi;
  p->graph = s->graph->ctx;
  for (uint32_t i = 0; i < s->n_nodes && !p->has_rows; i++) {
    const tn_value *v = fixed_rows_of(s->graph, s->graph->nodes[s->nodes[i]]);
    if (!v || v->rank < 2) continue;
    p->rows = v->dims[v->rank - 2];
    p->has_rows = p->device->host->range(s->graph, p->rows, &lo, &hi) == TN_OK && lo != hi;
  }
}

static bool copy_info(tn_program *p, const tn_graph *g, const tn_program_info *in) {
  p->info = *in;
  p->needs = calloc(in->n_needs + 1, sizeof *p->needs);
  p->slots = calloc(in->n_slots + 2, sizeof *p->slots);
  p->tasks = calloc(in->n_tasks + 1, sizeof *p->tasks);
  p->need_ptrs = calloc(in->n_needs + 1, sizeof *p->need_ptrs);
  p->slot_ptrs = calloc(in->n_slots + 2, sizeof *p->slot_ptrs);
  p->task_ptrs = calloc(in->n_tasks + 1, sizeof *p->task_ptrs);
  if (!p->needs || !p->slots || !p->tasks || !p->need_ptrs || !p->slot_ptrs || !p->task_ptrs) return false;
  for (uint32_t i = 0; i < in->n_needs; i++) {
    p->needs[i] = need_of(p, g, in->needs[i]);
    p->need_ptrs[i] = &p->needs[i];
  }
  for (uint32_t i = 0; i < in->n_slots; i++) {
    p->slots[i] = *in->slots[i];
    p->slots[i].engines = 0;
    const bool packed = p->slots[i].kind == TN_SLOT_WEIGHT && p->needs[p->slots[i].need].format;
    const bool of_host = p->slots[i].kind == TN_SLOT_WEIGHT && p->device->wrong == FIXED_ok_host_need;
    if (of_host || (packed && p->device->wrong == FIXED_sect_slot)) p->slots[i].align = 4096;
    p->slot_ptrs[i] = &p->slots[i];
  }
  for (uint32_t i = 0; i < in->n_tasks; i++) {
    p->tasks[i] = *in->tasks[i];
    p->tasks[i].engine = engine_of(p, g, in->tasks[i]);
    for (uint32_t u = 0; u < in->tasks[i]->n_uses; u++)
      p->slots[in->tasks[i]->uses[u].slot].engines |= 1u << p->tasks[i].engine;
    if (p->device->wrong == FIXED_symbols) p->tasks[i].symbols = 0;
    const tn_node *n = in->tasks[i]->n_nodes ? g->nodes[in->tasks[i]->nodes[0]] : NULL;
    if (p->device->wrong == FIXED_name_lent && n) p->tasks[i].name = n->name;
    if (p->device->wrong == FIXED_appends_unnamed && n && n->op == TN_OP_ATTENTION) p->tasks[i].n_deps = 0;
    p->task_ptrs[i] = &p->tasks[i];
  }
  p->info.needs = p->need_ptrs;
  p->info.slots = p->slot_ptrs;
  p->info.tasks = p->task_ptrs;
  return add_private(p, in);
}

static bool has_op(const tn_subgraph *s, uint32_t op) {
  for (uint32_t i = 0; i < s->n_nodes; i++)
    if (s->graph->nodes[s->nodes[i]]->op == op) return true;
  return false;
}

tn_status fixed_lower(tn_device *pub, const tn_subgraph *s, tn_program **out, tn_error *err) {
  fixed_device *d = (fixed_device *)pub;
  tn_subgraph mine;
  if (d->wrong == FIXED_decode && s->graph->phase == TN_PHASE_DECODE && has_op(s, TN_OP_SOFTMAX))
    return fixed_fail(err, TN_E_UNSUPPORTED, "no Softmax while tokens are decoded");
  tn_program *p = calloc(1, sizeof *p);
  if (!p) return fixed_fail(err, TN_E_NO_MEMORY, "no memory for a program");
  p->device = d;
  p->phase = s->graph->phase;
  p->query = fixed_codes_query(d, s, &p->keys);
  p->n_nodes = s->n_nodes;
  p->attends = has_op(s, TN_OP_ATTENTION);
  p->private_slot = TN_NONE;
  note_rows(p, s);
  p->borrowed = d->wrong == FIXED_program_kept && d->latest && d->latest->n_nodes == p->n_nodes;
  if (p->borrowed) p->inner = d->latest->inner;
  fixed_misread *misread = fixed_misread_make(d, s, &mine);
  tn_status st = p->borrowed ? TN_OK
                 : misread   ? d->inner->lower(d->inner, &mine, &p->inner, err) : TN_E_NO_MEMORY;
  fixed_misread_free(misread);
  if (st == TN_OK && !copy_info(p, s->graph, d->inner->info(p->inner))) st = fixed_fail(err, TN_E_NO_MEMORY, "no memory");
  if (st == TN_OK && !p->borrowed) d->latest = p;
  if (st == TN_OK)
    *out = p;
  else
    release(p);
  return st;
}

static const tn_program_info *info(const tn_program *p) { return &p->info; }

/* What the slots of a task take in the ways that ask for more than the built-in device's do. */
static tn_status measure_slots(const tn_program *p, tn_id task, const tn_dims *dims, uint64_t *bytes) {
  const tn_task *t = p->info.tasks[task];
  const tn_graph g = {.h = TN_HDR(tn_graph), .ctx = p->graph};
  int64_t rows = 1;
  if (p->has_rows && p->device->host->eval(&g, p->rows, dims, &rows) != TN_OK) return TN_E_INVALID;
  const bool once = p->device->wrong == FIXED_ok_private && p->has_rows;
  if (once && rows != (p->phase == TN_PHASE_DECODE ? 1 : 16)) return TN_E_INVALID; /* no other was claimed */
  for (uint32_t u = 0; bytes && u < t->n_uses; u++) {
    const tn_slot *s = p->info.slots[t->uses[u].slot];
    const bool reads = s->kind == TN_SLOT_TEMP && t->uses[u].access == TN_READ;
    if (reads && p->device->wrong == FIXED_ok_temp_less) bytes[t->uses[u].slot] = 16; /* of the first values, say */
  }
  if (bytes && p->private_slot != TN_NONE) bytes[p->private_slot] = task || p->info.n_tasks < 2 ? PRIVATE_BYTES : PRIVATE_LESS;
  if (bytes && p->device->wrong == FIXED_private_grows) bytes[p->private_slot] = PRIVATE_BYTES + 64 * (uint64_t)rows;
  return TN_OK;
}

static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  const tn_status st = p->device->inner->measure(p->inner, task, dims, out);
  return st == TN_OK && task < p->info.n_tasks ? measure_slots(p, task, dims, out->slot_bytes) : st;
}

/* Memory of the device is the host's: every view has an address. */
static tn_view located(const tn_view *v) {
  tn_view at = *v;
  if (v->buffer && !v->ptr) {
    void *p;
    tn_error e = {.h = TN_HDR(tn_error)};
    if (v->buffer->device->map(v->buffer, v->offset, v->bytes, TN_READ | TN_WRITE, &p, &e) == TN_OK) at.ptr = p;
  }
  return at;
}

static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  const uint32_t wrong = p->device->wrong;
  const tn_slot *s = slot < p->info.n_slots ? p->info.slots[slot] : NULL;
  const tn_need *need = s && s->kind == TN_SLOT_WEIGHT ? p->info.needs[s->need] : NULL;
  if (view && products_on_cpu(p->device) && s && s->engines & 1 && !view->ptr)
    return fixed_fail(err, TN_E_INVALID, "what the CPU reads has no address");
  if (s && slot == p->private_slot && view->ptr && (uintptr_t)view->ptr % PRIVATE_ALIGN)
    return fixed_fail(err, TN_E_INVALID, "private memory that is not aligned as its slot asks");
  if (s && slot == p->private_slot)
    return view->bytes >= PRIVATE_BYTES ? TN_OK : fixed_fail(err, TN_E_INVALID, "private memory of %llu bytes",
                                                             (unsigned long long)view->bytes);
  if (view && wrong == FIXED_ok_host_need && (view->buffer || !view->ptr))
    return fixed_fail(err, TN_E_INVALID, "a need of the host's memory came in a buffer");
  if (view && wrong == FIXED_ok_host_need && s && (uintptr_t)view->ptr % s->align)
    return fixed_fail(err, TN_E_INVALID, "a constant that is not aligned as its slot asks");
  if (view && wrong == FIXED_host_buffer && !view->buffer)
    return fixed_fail(err, TN_E_INVALID, "a constant that an engine reads came without a buffer");
  tn_view at = located(view);
  if (!need || !need->format) return p->device->inner->set(p->inner, slot, &at, blob, err);
  const uint64_t rows = (uint64_t)(blob ? blob->N * blob->K : 0) * sizeof(float);
  if (!blob || !blob->format || blob->bytes != rows + FIXED_HEAD || view->bytes != rows)
    return fixed_fail(err, TN_E_INVALID, "a section of %llu bytes, and not %llu", (unsigned long long)view->bytes,
                      (unsigned long long)rows);
  if (wrong == FIXED_sect_whole) at.ptr = (char *)at.ptr + FIXED_HEAD; /* as if it were the whole blob */
  return p->device->inner->set(p->inner, slot, &at, NULL, err);
}

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tn_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return fixed_fail(err, TN_E_NO_MEMORY, "no memory for a plan");
  *plan = (tn_plan){.program = p, .task = task};
  plan->one_row = p->phase == TN_PHASE_PREFILL && dims->n && dims->v[0] == 1;
  plan->rows = dims->n ? dims->v[0] : 0;
  plan->borrowed = p->device->wrong == FIXED_plan_kept && p->latest && p->latest->task == task && p->latest->rows == plan->rows;
  if (plan->borrowed) plan->inner = p->latest->inner;
  const tn_status st = plan->borrowed ? TN_OK : p->device->inner->bind(p->inner, task, dims, &plan->inner, err);
  if (st == TN_OK && !plan->borrowed) p->latest = plan;
  if (st == TN_OK)
    *out = plan;
  else
    free(plan);
  return st;
}

static void unbind(tn_plan *plan) {
  if (fixed_hangs(plan->program->device)) return;
  if (plan->program->latest == plan) plan->program->latest = NULL;
  if (!plan->borrowed) plan->program->device->inner->unbind(plan->inner);
  free(plan);
}

/* false: no memory. */
static bool note_use(tn_args *a, uint32_t use, tn_view *v) {
  const tn_program *p = a->plan->program;
  const tn_task *t = p->info.tasks[a->plan->task];
  const tn_slot *s = use < t->n_uses ? p->info.slots[t->uses[use].slot] : NULL;
  if (use < t->n_uses && t->uses[use].access == TN_WRITE) a->result = v->ptr, a->bytes = v->bytes;
  if (s && s->kind == TN_SLOT_STATE && s->value == p->keys) a->codes.size = (uint64_t)v->dims[3];
  const bool reads = s && p->query != TN_NONE && s->value == p->query && !(t->uses[use].access & TN_WRITE);
  return !reads || fixed_codes_attach(&a->codes, v);
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  tn_view at = located(view);
  const uint32_t own = inner_uses(a->plan->program, a->plan->task);
  if (use > own + (a->plan->program->private_slot != TN_NONE)) return fixed_fail(err, TN_E_INVALID, "there is no such use");
  if (!note_use(a, use, &at)) return fixed_fail(err, TN_E_NO_MEMORY, "no memory for codes");
  if (a->plan->program->private_slot != TN_NONE && use == own) return TN_OK;
  if (use > own) use = own; /* the scratch */
  if (a->plan->program->device->wrong == FIXED_args_moved && a->plan->first && a->plan->first != a)
    (void)a->plan->program->device->inner->args_set(a->plan->first->inner, use, &at, err);
  return a->plan->program->device->inner->args_set(a->inner, use, &at, err);
}

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  tn_args *a = calloc(1, sizeof *a);
  tn_view *views = calloc(n + 1, sizeof *views);
  const tn_view **ptrs = calloc(n + 1, sizeof *ptrs);
  tn_status st = a && views && ptrs ? TN_OK : fixed_fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  if (st == TN_OK) a->plan = plan;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    views[i] = located(uses[i]);
    ptrs[i] = &views[i];
    if (!note_use(a, i, &views[i])) st = fixed_fail(err, TN_E_NO_MEMORY, "no memory for codes");
  }
  const uint32_t own = inner_uses(plan->program, plan->task);
  if (st == TN_OK && n == own + 2) ptrs[own] = ptrs[n - 1], n--; /* private memory is not the built-in device's */
  if (st == TN_OK) st = plan->program->device->inner->args(plan->inner, ptrs, n, &a->inner, err);
  free(views);
  free(ptrs);
  if (st == TN_OK && !plan->first) plan->first = a;
  if (st == TN_OK)
    *out = a;
  else if (a)
    free(a->codes.room), free(a);
  return st;
}

static void args_free(tn_args *a) {
  if (!fixed_let_go(a->plan->program->device, a)) return;
  if (a->plan->first == a) a->plan->first = NULL;
  a->plan->program->device->inner->args_free(a->inner);
  free(a->codes.room);
  free(a->item.waits);
  free(a);
}

static void run_whole(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  (void)run, (void)grain;
  if (n > 0) body(arg, 0, n, 0);
}

/* Of the mistake blind_kept: what is zero after a run is what it was before, where not all of it is zero. */
static tn_status run_and_keep(tn_args *a, tn_run *run, tn_error *err) {
  const uint64_t n = a->bytes / sizeof(float);
  float *old = malloc(a->bytes + 1);
  if (!old) return fixed_fail(err, TN_E_NO_MEMORY, "no memory");
  memcpy(old, a->result, n * sizeof *old);
  const tn_status st = a->plan->program->device->inner->run(a->plan->inner, a->inner, run, err);
  bool any = false;
  for (uint64_t i = 0; i < n; i++) any = any || a->result[i] != 0;
  for (uint64_t i = 0; any && i < n; i++)
    if (a->result[i] == 0) a->result[i] = old[i];
  free(old);
  return st;
}

tn_status fixed_compute(tn_args *a, tn_error *err) {
  tn_run run = {.h = TN_HDR(tn_run), .n_workers = 1, .parallel_for = run_whole};
  const fixed_device *d = a->plan->program->device;
  fixed_codes_make(&a->codes);
  const bool keeps = d->wrong == FIXED_blind_kept && a->plan->program->attends && a->result;
  const tn_status st = keeps ? run_and_keep(a, &run, err) : d->inner->run(a->plan->inner, a->inner, &run, err);
  const bool is_long = a->plan->program->attends && a->plan->rows > 1;
  if ((d->wrong == FIXED_one_row && a->plan->one_row) || (d->wrong == FIXED_long_run && is_long))
    for (uint64_t i = 0; a->result && i < a->bytes / sizeof(float); i++) a->result[i] *= 1.01f;
  return st;
}

static tn_status run_task(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  const fixed_device *d = plan->program->device;
  if (products_on_cpu(d)) return d->inner->run(plan->inner, a->inner, run, err);
  return fixed_fail(err, TN_E_UNSUPPORTED, "fixed has no tasks for the CPU");
}

void fixed_program_fill(tn_device *d) {
  d->lower = fixed_lower;
  d->info = info;
  d->measure = measure;
  d->set = set;
  d->release = release;
  d->bind = bind;
  d->unbind = unbind;
  d->args = args;
  d->args_set = args_set;
  d->args_free = args_free;
  d->run = run_task;
}
