/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program says of the order of its tasks: a host that runs them in any order that `deps` allow must find in each
 * value what another task has written there.
 */
#include <stdlib.h>

#include "runtime/conform/observe/layer.h"

enum { MOST_TASKS = 4096 };

typedef struct written { /* by a task, and what else writes the same slot */
  uint32_t task, next;
} written;

typedef struct order {
  const tn_program_info *f;
  size_t words;     /* of a row of `before` */
  uint64_t *before; /* [n_tasks] which tasks come before it */
  uint32_t *head;   /* [n_slots] what writes it */
  written *writers;
  uint32_t n_writers;
} order;

static bool comes_before(const order *o, uint32_t a, uint32_t b) {
  return o->before[b * o->words + a / 64] >> a % 64 & 1;
}

/* Absurd ones are the host's to refuse. */
static bool is_sound(const tn_program_info *f) {
  if (!f || f->n_tasks > MOST_TASKS) return false;
  for (uint32_t t = 0; t < f->n_tasks; t++) {
    const tn_task *k = f->tasks[t];
    for (uint32_t d = 0; d < k->n_deps; d++)
      if (k->deps[d] >= t) return false;
    for (uint32_t u = 0; u < k->n_uses; u++)
      if (k->uses[u].slot >= f->n_slots) return false;
  }
  return true;
}

static void fill_before(order *o) {
  for (uint32_t t = 0; t < o->f->n_tasks; t++) {
    uint64_t *mine = &o->before[t * o->words];
    for (uint32_t d = 0; d < o->f->tasks[t]->n_deps; d++) {
      const uint32_t dep = o->f->tasks[t]->deps[d];
      for (size_t i = 0; i < o->words; i++) mine[i] |= o->before[dep * o->words + i];
      mine[dep / 64] |= UINT64_C(1) << dep % 64;
    }
  }
}

static void fill_writers(order *o) {
  for (uint32_t s = 0; s < o->f->n_slots; s++) o->head[s] = TN_NONE;
  for (uint32_t t = 0; t < o->f->n_tasks; t++)
    for (uint32_t u = 0; u < o->f->tasks[t]->n_uses; u++) {
      const tn_use *use = &o->f->tasks[t]->uses[u];
      const uint32_t kind = o->f->slots[use->slot]->kind;
      /* Of caches a task may read rows that another does not append to. */
      if (!(use->access & TN_WRITE) || (kind != TN_SLOT_TEMP && kind != TN_SLOT_OUTPUT)) continue;
      o->writers[o->n_writers] = (written){t, o->head[use->slot]};
      o->head[use->slot] = o->n_writers++;
    }
}

static void look_at(layer *l, const order *o, uint32_t t) {
  for (uint32_t u = 0; u < o->f->tasks[t]->n_uses; u++) {
    const tn_use *use = &o->f->tasks[t]->uses[u];
    for (uint32_t w = o->head[use->slot]; use->access & TN_READ && w != TN_NONE; w = o->writers[w].next) {
      const uint32_t by = o->writers[w].task;
      if (by == t || comes_before(o, by, t) || comes_before(o, t, by)) continue;
      tni_obs_wrong(l,
                    "task %u reads slot %u, which task %u writes, and its `deps` do not lead to that task: it may run "
                    "first (plugin.h, tn_task.deps)",
                    t, use->slot, by);
      return;
    }
  }
}

/* A cache that a node reads with the rows of this run: who appends them, a TensorScatter in a task of the program, comes
 * first. Slots do not say it, since both values of a cache may have one. */
static void look_at_caches(layer *l, const order *o, const tn_graph *g, const uint32_t *task_of, uint32_t t) {
  const tn_task *k = o->f->tasks[t];
  for (uint32_t i = 0; i < k->n_nodes; i++) {
    const tn_node *n = k->nodes[i] < g->n_nodes ? g->nodes[k->nodes[i]] : NULL;
    for (uint32_t v = 0; n && v < n->n_in; v++) {
      const tn_value *x = n->in[v] < g->n_values ? g->values[n->in[v]] : NULL;
      if (!x || x->producer >= g->n_nodes || g->nodes[x->producer]->op != TN_OP_TENSOR_SCATTER) continue;
      const uint32_t by = task_of[x->producer];
      if (by == TN_NONE || by == t || comes_before(o, by, t)) continue;
      tni_obs_wrong(l,
                    "task %u reads the cache '%.60s', to which task %u appends, and its `deps` do not lead to that task: it "
                    "may run first (plugin.h, tn_task.deps)",
                    t, x->name ? x->name : "", by);
      return;
    }
  }
}

static void look_at_appends(layer *l, const order *o, const tn_graph *g) {
  uint32_t *task_of = malloc((g->n_nodes + 1) * sizeof *task_of);
  for (uint32_t i = 0; task_of && i < g->n_nodes; i++) task_of[i] = TN_NONE;
  for (uint32_t t = 0; task_of && t < o->f->n_tasks; t++)
    for (uint32_t i = 0; i < o->f->tasks[t]->n_nodes; i++)
      if (o->f->tasks[t]->nodes[i] < g->n_nodes) task_of[o->f->tasks[t]->nodes[i]] = t;
  for (uint32_t t = 0; task_of && t < o->f->n_tasks; t++) look_at_caches(l, o, g, task_of, t);
  free(task_of);
}

void tni_obs_order(layer *l, const tn_graph *g, const tn_program_info *f) {
  size_t uses = 0;
  if (!is_sound(f)) return;
  for (uint32_t t = 0; t < f->n_tasks; t++) uses += f->tasks[t]->n_uses;
  order o = {.f = f, .words = ((size_t)f->n_tasks + 63) / 64};
  o.before = calloc(f->n_tasks * o.words + 1, sizeof *o.before);
  o.head = calloc((size_t)f->n_slots + 1, sizeof *o.head);
  o.writers = calloc(uses + 1, sizeof *o.writers);
  if (o.before && o.head && o.writers) {
    fill_before(&o);
    fill_writers(&o);
    for (uint32_t t = 0; t < f->n_tasks; t++) look_at(l, &o, t);
    look_at_appends(l, &o, g);
  }
  free(o.before);
  free(o.head);
  free(o.writers);
}
