/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin says of its program is checked before anything is built on it.
 */
#include "runtime/place/program_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 1 << 20 };

typedef struct check {
  const tn_graph *view;
  const tni_dev *dev;
  const tni_cluster *cluster;
  const tn_program_info *info;
  tn_error *err;
} check;

static tn_status bad_program(const check *c, const char *part, uint32_t index, const char *what) {
  return tni_fail(c->err, TN_E_INTERNAL, c->dev->name, "plugin '%s' lowered a wrong program: %s %u: %s", c->dev->name,
                  part, index, what);
}

static tn_status check_need(const check *c, uint32_t i) {
  const tn_need *n = c->info->needs[i];
  if (!n || n->h.size < TN_UPTO(tn_need, flags)) return bad_program(c, "need", i, "no need");
  if (n->n_values == 0 || !n->values || n->n_values > c->view->n_values) return bad_program(c, "need", i, "no values");
  if (!n->format && n->n_values != 1) return bad_program(c, "need", i, "raw needs take one value");
  for (uint32_t k = 0; k < n->n_values; k++) {
    if (n->values[k] >= c->view->n_values) return bad_program(c, "need", i, "a value that does not exist");
    const tn_value *v = c->view->values[n->values[k]];
    if (v->kind != TN_VALUE_CONST) return bad_program(c, "need", i, "a value that is not a constant");
    if (n->format && v->rank != 2) return bad_program(c, "need", i, "a packed value that is not a matrix");
  }
  const tn_format *f = n->format;
  if (f && (f->h.size < sizeof(tn_hdr) || !f->name || !f->size || !f->begin || !f->rows || !f->end || !f->unpack))
    return bad_program(c, "need", i, "a format that lacks functions");
  return TN_OK;
}

/* The nodes of a cluster are sorted. */
static bool in_cluster(const check *c, tn_id node) {
  uint32_t lo = 0, hi = c->cluster->n_nodes;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (c->cluster->nodes[mid] == node) return true;
    if (c->cluster->nodes[mid] < node)
      lo = mid + 1;
    else
      hi = mid;
  }
  return false;
}

static tn_status check_slot(const check *c, uint32_t i) {
  const tn_slot *s = c->info->slots[i];
  if (!s) return bad_program(c, "slot", i, "no slot");
  if (s->h.size < TN_UPTO(tn_slot, reserved2)) return bad_program(c, "slot", i, "a size that is not one");
  if (s->kind < TN_SLOT_INPUT || s->kind > TN_SLOT_PRIVATE) return bad_program(c, "slot", i, "an unknown kind");
  bool has_value = s->kind <= TN_SLOT_STEP;
  if (has_value && s->value >= c->view->n_values) return bad_program(c, "slot", i, "a value that does not exist");
  if (has_value && c->view->values[s->value]->kind == TN_VALUE_CONST)
    return bad_program(c, "slot", i, "a constant that is no need");
  if (s->kind == TN_SLOT_OUTPUT && !in_cluster(c, c->view->values[s->value]->producer))
    return bad_program(c, "slot", i, "an output that its nodes do not compute");
  bool is_state = has_value && c->view->values[s->value]->kind == TN_VALUE_STATE;
  if (s->kind == TN_SLOT_STATE && !is_state) return bad_program(c, "slot", i, "a state that is none");
  if (s->kind != TN_SLOT_STATE && is_state) return bad_program(c, "slot", i, "a state in a slot of another kind");
  if (s->kind == TN_SLOT_INPUT && in_cluster(c, c->view->values[s->value]->producer))
    return bad_program(c, "slot", i, "an input that its own nodes compute");
  if (s->kind == TN_SLOT_STEP && c->view->values[s->value]->kind != TN_VALUE_STEP)
    return bad_program(c, "slot", i, "a step value that is none");
  if (s->kind == TN_SLOT_WEIGHT && s->need >= c->info->n_needs)
    return bad_program(c, "slot", i, "a need that does not exist");
  if (s->align & (s->align - 1) || s->align > 1u << 20) return bad_program(c, "slot", i, "an absurd alignment");
  return TN_OK;
}

static tn_status check_task(const check *c, uint32_t i) {
  const tn_task *t = c->info->tasks[i];
  uint32_t engines = c->dev->device->caps ? c->dev->device->caps->n_engines : 0;
  if (!t) return bad_program(c, "task", i, "no task");
  if (t->h.size < TN_UPTO(tn_task, reserved)) return bad_program(c, "task", i, "a size that is not one");
  if (t->engine > engines) return bad_program(c, "task", i, "an engine that does not exist");
  if (t->engine && !c->dev->device->submit) return bad_program(c, "task", i, "an engine without submit");
  if (t->engine == 0 && !c->dev->device->run) return bad_program(c, "task", i, "a CPU task without run");
  if (t->n_uses > c->info->n_slots || (t->n_uses && !t->uses)) return bad_program(c, "task", i, "absurd uses");
  for (uint32_t u = 0; u < t->n_uses; u++) {
    if (t->uses[u].slot >= c->info->n_slots) return bad_program(c, "task", i, "a slot that does not exist");
    uint32_t kind = c->info->slots[t->uses[u].slot]->kind;
    bool fixed = kind == TN_SLOT_INPUT || kind == TN_SLOT_STEP || kind == TN_SLOT_WEIGHT;
    if (fixed && (t->uses[u].access & (TN_WRITE | TN_APPEND)))
      return bad_program(c, "task", i, "it writes what it may only read");
  }
  if (t->n_deps > i || (t->n_deps && !t->deps)) return bad_program(c, "task", i, "absurd dependencies");
  if (t->n_nodes > c->view->n_nodes || (t->n_nodes && !t->nodes)) return bad_program(c, "task", i, "absurd nodes");
  for (uint32_t d = 0; d < t->n_deps; d++)
    if (t->deps[d] >= i) return bad_program(c, "task", i, "a dependency that is not an earlier task");
  for (uint32_t n = 0; n < t->n_nodes; n++)
    if (t->nodes[n] >= c->view->n_nodes) return bad_program(c, "task", i, "a node that does not exist");
  return TN_OK;
}

/* Marks the values that some task writes through a slot of outputs. */
static void mark_written(const check *c, bool *written) {
  for (uint32_t t = 0; t < c->info->n_tasks; t++)
    for (uint32_t u = 0; u < c->info->tasks[t]->n_uses; u++) {
      tn_use use = c->info->tasks[t]->uses[u];
      const tn_slot *s = c->info->slots[use.slot];
      if (s->kind == TN_SLOT_OUTPUT && (use.access & TN_WRITE)) written[s->value] = true;
    }
}

static tn_status check_outputs(const check *c) {
  bool *written = calloc((size_t)c->view->n_values + 1, sizeof *written);
  if (!written) return tni_fail_memory(c->err, c->dev->name);
  tn_status st = TN_OK;
  mark_written(c, written);
  for (uint32_t i = 0; st == TN_OK && i < c->cluster->n_outputs; i++)
    if (!written[c->cluster->outputs[i]]) st = bad_program(c, "output", i, "no task writes it");
  free(written);
  return st;
}

tn_status tni_program_check(const tn_graph *view, const tni_dev *dev, const tni_cluster *cluster,
                            const tn_program_info *info, tn_error *err) {
  check c = {view, dev, cluster, info, err};
  if (!info || info->h.size < TN_UPTO(tn_program_info, reserved)) return bad_program(&c, "info", 0, "none");
  if (info->n_tasks > MAX_TASKS || info->n_slots > MAX_TASKS || info->n_needs > MAX_TASKS)
    return bad_program(&c, "info", 0, "absurd counts");
  if ((info->n_tasks && !info->tasks) || (info->n_slots && !info->slots) || (info->n_needs && !info->needs))
    return bad_program(&c, "info", 0, "a table that is missing");
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < info->n_needs; i++) st = check_need(&c, i);
  for (uint32_t i = 0; st == TN_OK && i < info->n_slots; i++) st = check_slot(&c, i);
  for (uint32_t i = 0; st == TN_OK && i < info->n_tasks; i++) st = check_task(&c, i);
  return st == TN_OK ? check_outputs(&c) : st;
}
