/* SPDX-License-Identifier: Apache-2.0
 *
 * The task graph of a placement: what plugins declare inside their programs, and reads and writes of one region in the
 * order of the list, which is that of clusters and of tasks within them.
 */
#include "runtime/memory/task_order.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/memory/blocks.h"
#include "runtime/memory/choose_order.h"
#include "runtime/memory/limits.h"
#include "runtime/memory/sizes.h"

/* Private memory carries data from task to task like a region: object n_regions + slots of earlier programs + slot. */
static uint32_t object_of(const tni_exec *x, const tni_etask *e, uint32_t use, const uint32_t *first_slot) {
  const uint32_t slot = e->info->uses[use].slot;
  if (e->regions[use] != TN_NONE) return e->regions[use];
  if (x->programs[e->program].info->slots[slot]->kind != TN_SLOT_PRIVATE) return TN_NONE;
  return x->n_regions + first_slot[e->program] + slot;
}

/* [n_programs + 1]; malloc'd. NULL: no memory. */
static uint32_t *first_slots(const tni_exec *x) {
  uint32_t *first_slot = calloc((size_t)x->n_programs + 1, sizeof *first_slot);
  for (uint32_t p = 0; first_slot && p < x->n_programs; p++)
    first_slot[p + 1] = first_slot[p] + x->programs[p].info->n_slots;
  return first_slot;
}

/* Reads and writes in the order of the list. */
static tn_status add_hazards(const tni_exec *x, const uint32_t *first_slot, tni_edges *edges) {
  size_t total = 0;
  uint32_t n = 0;
  for (uint32_t t = 0; t < x->n_tasks; t++) total += x->tasks[t].info->n_uses;
  tni_access *a = calloc(total + 1, sizeof *a);
  if (!a) return TN_E_NO_MEMORY;
  for (uint32_t t = 0; t < x->n_tasks; t++)
    for (uint32_t u = 0; u < x->tasks[t].info->n_uses; u++) {
      const uint32_t o = object_of(x, &x->tasks[t], u, first_slot);
      if (o != TN_NONE) a[n++] = (tni_access){t, o, x->tasks[t].info->uses[u].access};
    }
  tn_status st = tni_taskgraph_hazards(a, n, x->n_regions + first_slot[x->n_programs], edges);
  free(a);
  return st;
}

/* What a task of one piece of a prompt may meet in the next: caches and private memory. */
static bool is_kept(const tni_exec *x, uint32_t object) {
  return object >= x->n_regions || x->regions[object].kind == TNI_R_STATE;
}

/* Pairs of accesses to one such object, of which one writes. All pieces have the same writers: each waits for the last
 * piece's, so nothing needs an edge to an earlier one. */
static tn_status carry_edges(const tn_model *m, tni_exec *x, const tni_access *a, uint32_t n, tn_status st) {
  tni_edges e = {0};
  for (uint32_t i = 0; st == TN_OK && i < n; i++)
    for (uint32_t k = 0; st == TN_OK && k < n; k++)
      if (a[i].object == a[k].object && (a[i].access | a[k].access) & (TN_WRITE | TN_APPEND) &&
          !tni_edges_add(&e, a[i].task, a[k].task))
        st = TN_E_NO_MEMORY;
  x->carried = st == TN_OK ? TNI_NEW_ARRAY(m->arena, tni_edge, e.n + 1) : NULL;
  if (x->carried) memcpy(x->carried, e.v, e.n * sizeof *e.v);
  x->n_carried = x->carried ? e.n : 0;
  free(e.v);
  return x->carried ? TN_OK : TN_E_NO_MEMORY;
}

static tn_status add_carried(const tn_model *m, tni_exec *x) {
  size_t total = 0;
  uint32_t n = 0;
  uint32_t *first_slot = first_slots(x);
  for (uint32_t t = 0; t < x->n_tasks; t++) total += x->tasks[t].info->n_uses;
  tni_access *a = calloc(total + 1, sizeof *a);
  for (uint32_t t = 0; a && first_slot && t < x->n_tasks; t++)
    for (uint32_t u = 0; u < x->tasks[t].info->n_uses; u++) {
      const uint32_t o = object_of(x, &x->tasks[t], u, first_slot);
      if (o != TN_NONE && is_kept(x, o)) a[n++] = (tni_access){t, o, x->tasks[t].info->uses[u].access};
    }
  tn_status st = carry_edges(m, x, a, n, a && first_slot ? TN_OK : TN_E_NO_MEMORY);
  free(first_slot);
  free(a);
  return st;
}

/* Edges that plugins declare; first: where their tasks stand in the list. */
static bool add_declared(const tni_exec *x, tni_edges *edges) {
  for (uint32_t t = 0; t < x->n_tasks; t++) {
    const tni_etask *e = &x->tasks[t];
    for (uint32_t d = 0; d < e->info->n_deps; d++)
      if (!tni_edges_add(edges, t - e->task + e->info->deps[d], t)) return false;
  }
  return true;
}

static tn_status make_graph(tni_exec *x) {
  tni_edges edges = {0};
  uint32_t *first_slot = first_slots(x);
  tn_status st = first_slot ? TN_OK : TN_E_NO_MEMORY;
  if (st == TN_OK && !add_declared(x, &edges)) st = TN_E_NO_MEMORY;
  if (st == TN_OK) st = add_hazards(x, first_slot, &edges);
  if (st == TN_OK) st = tni_taskgraph_make(x->n_tasks, edges.v, edges.n, &x->graph);
  free(first_slot);
  free(edges.v);
  return st;
}

/* Tasks by the regions they use, each once; after them 0, 1, 2, ... for scratch. */
static void index_users(tni_exec *x) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->n_regions; i++) x->regions[i].first = TN_NONE;
  memset(x->first_user, 0, ((size_t)x->n_regions + 2) * sizeof *x->first_user);
  for (int fill = 0; fill < 2; fill++) {
    for (uint32_t i = 0; i < x->n_regions; i++) x->regions[i].last = TN_NONE;
    for (uint32_t t = 0; t < x->n_tasks; t++)
      for (uint32_t u = 0; u < x->tasks[t].info->n_uses; u++) {
        const uint32_t i = x->tasks[t].regions[u];
        if (i == TN_NONE || x->regions[i].last == t) continue;
        if (x->regions[i].first == TN_NONE) x->regions[i].first = t;
        x->regions[i].last = t;
        if (fill)
          x->users[x->first_user[i + 1]++] = t;
        else
          x->first_user[i + 2]++;
      }
    for (uint32_t i = 2; !fill && i < x->n_regions + 2; i++) x->first_user[i] += x->first_user[i - 1];
  }
  n = x->first_user[x->n_regions];
  for (uint32_t t = 0; t < x->n_tasks; t++) x->users[n + t] = t;
}

static tn_status make_users(tn_model *m, tni_exec *x) {
  size_t total = x->n_tasks;
  for (uint32_t t = 0; t < x->n_tasks; t++) total += x->tasks[t].info->n_uses;
  x->first_user = TNI_NEW_ARRAY(m->arena, uint32_t, x->n_regions + 2);
  x->users = TNI_NEW_ARRAY(m->arena, uint32_t, total + 1);
  if (!x->first_user || !x->users) return TN_E_NO_MEMORY;
  index_users(x);
  return TN_OK;
}

/* The best order at dims; order->task NULL: dims that the model's shapes contradict. */
static tn_status choose_task_order(tn_model *m, tni_exec *x, const int64_t *dims, tni_order *order) {
  tni_life *lives = NULL;
  uint32_t n = 0;
  tn_error why;
  tni_error_init(&why);
  *order = (tni_order){0};
  tni_sizing z = {.m = m, .x = x, .dims = dims, .err = &why};
  z.regions = calloc((size_t)x->n_regions + 1, sizeof *z.regions);
  z.tasks = calloc((size_t)x->n_tasks + 1, sizeof *z.tasks);
  tn_status st = z.regions && z.tasks ? tni_sizes(&z) : TN_E_NO_MEMORY;
  if (st == TN_OK) {
    tni_sizes_room(&z, false);
    st = tni_lives_make(&z, TN_NONE, &lives, &n);
    if (st == TN_OK) st = tni_order_choose(&x->graph, lives, n, order);
  } else if (st != TN_E_NO_MEMORY) {
    st = TN_OK;
  }
  free(lives);
  free(z.regions);
  free(z.tasks);
  return st == TN_E_LIMIT ? TN_OK : st;
}

static tn_status reorder_tasks(tni_exec *x, const uint32_t *order) {
  tni_etask *tasks = calloc((size_t)x->n_tasks + 1, sizeof *tasks);
  tni_taskgraph g = {0};
  tn_status st = tasks ? tni_taskgraph_permute(&x->graph, order, &g) : TN_E_NO_MEMORY;
  if (st == TN_OK) {
    for (uint32_t p = 0; p < x->n_tasks; p++) tasks[p] = x->tasks[order[p]];
    memcpy(x->tasks, tasks, x->n_tasks * sizeof *tasks);
    tni_taskgraph_destroy(&x->graph);
    x->graph = g;
    index_users(x);
  }
  free(tasks);
  return st;
}

tn_status tni_exec_order(tn_model *m, tni_exec *x, tn_error *err) {
  tn_status st = tni_blocks_make(m, x, err);
  if (st != TN_OK) return st;
  int64_t *dims = calloc((size_t)x->view.n_symbols + 1, sizeof *dims);
  tni_order order = {0};
  st = dims ? make_graph(x) : TN_E_NO_MEMORY;
  if (st == TN_OK) st = make_users(m, x);
  if (st == TN_OK && tni_limit_dims(m, x->phase == TN_PHASE_DECODE, dims, NULL) == TN_OK) {
    st = choose_task_order(m, x, dims, &order);
    if (st == TN_OK && order.task && order.chosen) st = reorder_tasks(x, order.task);
  }
  if (st == TN_OK && x->chunk) st = add_carried(m, x);
  free(order.task);
  free(dims);
  if (st == TN_E_NO_MEMORY) return tni_fail_memory(err, m->path);
  return st == TN_OK ? st : tni_fail(err, st, m->path, "the tasks of '%s' cannot be put in order", m->name);
}

tn_status tni_exec_bound(tn_model *m, tni_exec *x, const int64_t *dims, uint64_t *bound, tn_error *err) {
  tni_order order;
  tn_status st = choose_task_order(m, x, dims, &order);
  *bound = order.bound;
  free(order.task);
  return st == TN_OK ? st : tni_fail_memory(err, m->path);
}
