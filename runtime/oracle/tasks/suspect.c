/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and infinity in what a plugin's task gave: the model's own, or the plugin's.
 *
 * The reference computes the task again from the same inputs. An element that it has as a number, and the plugin has
 * not, is the plugin's; nobody is accused where an input is a NaN already (operators differ in what they make of it),
 * where a number is outside of what the task's formats declare, or where the reference cannot compute the task.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/tasks/evaluation.h"

static bool is_float(uint32_t dtype) { return dtype == TN_DT_F32 || dtype == TN_DT_F16 || dtype == TN_DT_BF16; }

static size_t elems_of(uint32_t dtype, uint64_t bytes) { return (size_t)bytes / (dtype == TN_DT_F32 ? 4 : 2); }

/* Whether anything that the task wrote is no number. Caches count as such that may be, where all of them are asked. */
static bool is_strange(const tn_session *s, const tni_sexec *x, uint32_t i) {
  const tni_etask *e = &x->exec->tasks[i];
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    const uint32_t r = e->regions[u];
    if (r == TN_NONE || !(e->info->uses[u].access & (TN_WRITE | TN_APPEND))) continue;
    const tni_sregion *q = &x->regions[r];
    const uint32_t kind = x->exec->regions[r].kind;
    if (kind == TNI_R_STATE && s->watch.only == TN_NONE) return true;
    if (kind == TNI_R_STATE || x->exec->regions[r].value == TN_NONE || !is_float(q->dtype)) continue;
    const size_t n = elems_of(q->dtype, q->bytes);
    if (tni_first_strange(q->dtype, q->ptr, n) < n) return true;
  }
  return false;
}

/* The largest |number| of t; INFINITY where it has a NaN. */
static double largest(const tni_tensor *t) {
  const size_t n = elems_of(t->dtype, t->bytes);
  double most = 0;
  float v[64];
  for (size_t at = 0; is_float(t->dtype) && at < n; at += 64) {
    const size_t len = n - at < 64 ? n - at : 64;
    tni_tensor_to_f32(t, (int64_t)at, (int64_t)len, v);
    for (size_t i = 0; i < len; i++) {
      if (isnan(v[i])) return INFINITY;
      if (!isinf(v[i]) && fabs(v[i]) > most) most = fabs(v[i]);
    }
  }
  return most;
}

/* What the task's formats declare that they take, at most. */
static double declared_most(const tni_evaluation *ev) {
  const tni_program *p = &ev->x->exec->programs[ev->x->exec->tasks[ev->task].program];
  double most = INFINITY;
  for (uint32_t i = 0; i < p->info->n_needs; i++) {
    const tn_numerics *num = p->needs[i].need->format ? tni_ref_numerics(ev, p, &p->needs[i]) : NULL;
    if (num && num->finite_max > 0 && num->finite_max < most) most = num->finite_max;
  }
  return most;
}

/* Whether all that the task's nodes read is what a plugin must be right for. */
static bool reads_numbers(tni_evaluation *ev) {
  const tn_graph *g = &ev->x->exec->view;
  const tn_task *t = ev->x->exec->tasks[ev->task].info;
  const double most = declared_most(ev);
  for (uint32_t i = 0; i < ev->n_done; i++)
    if (ev->done[i].t.data && largest(&ev->done[i].t) > most) return false;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    const tn_node *n = g->nodes[t->nodes[i]];
    for (uint32_t k = 0; k < n->n_in; k++) {
      tni_tensor in;
      if (n->in[k] == TN_NONE || g->values[n->in[k]]->kind == TN_VALUE_CONST) continue;
      if (tni_ref_region(ev->x, ev->task, n->in[k]) == TN_NONE) continue;
      if (tni_ref_operand(ev, n->in[k], &in) != TN_OK || largest(&in) >= most) return false;
    }
  }
  return true;
}

typedef struct finding {
  const tn_value *value;
  size_t at;
  float got, want;
} finding;

/* The first element of done value e that only the plugin has as no number. */
static bool find_in(tni_evaluation *ev, const tni_evaluated *e, finding *f) {
  const uint32_t r = tni_ref_region(ev->x, ev->task, e->value);
  const double top = e->t.dtype == TN_DT_F16 ? 65000 : FLT_MAX / 2;
  if (r == TN_NONE || !is_float(e->t.dtype)) return false;
  const tni_sregion *q = &ev->x->regions[r];
  tni_tensor got = {.dtype = e->t.dtype, .data = q->ptr, .bytes = e->t.bytes};
  if (ev->x->exec->regions[r].kind == TNI_R_STATE) {
    got = e->t;
    if (tni_ref_state_load(ev, q, &got) != TN_OK) return false;
  } else if (e->t.bytes > q->bytes) {
    return false;
  }
  const size_t n = elems_of(got.dtype, got.bytes), size = got.dtype == TN_DT_F32 ? 4 : 2;
  for (size_t at = 0; at < n; at++) {
    at += tni_first_strange(got.dtype, (const char *)got.data + at * size, n - at);
    if (at == n) break;
    tni_tensor_to_f32(&got, (int64_t)at, 1, &f->got);
    tni_tensor_to_f32(&e->t, (int64_t)at, 1, &f->want);
    f->at = at;
    f->value = ev->x->exec->view.values[e->value];
    if (fabs((double)f->want) < top && !(e->bound && isinf(e->bound[at]))) return true;
  }
  return false;
}

static tn_status accuse(const tni_sexec *x, uint32_t i, const finding *f, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_dev *d = x->exec->programs[e->program].dev;
  const tn_graph *g = &x->exec->view;
  const tn_id by = f->value->producer;
  const char *node = by != TN_NONE && by < g->n_nodes && g->nodes[by] ? g->nodes[by]->name : NULL;
  tni_devlock_lose(d->lock);
  return tni_fail(err, TN_E_DEVICE_LOST, d->name,
                  "'%.80s' gave %s on device '%.40s' (element %zu of '%.60s'); the reference gives %g from the same inputs",
                  node && *node ? node : e->label, isnan(f->got) ? "NaN" : "inf", d->device->caps->name, f->at,
                  f->value->name ? f->value->name : "", (double)f->want);
}

tn_status tni_suspect_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  tn_error why;
  finding f;
  tni_error_init(&why);
  if (!is_strange(s, x, i)) return TN_OK;
  tni_evaluation ev = {.s = s, .x = x, .task = i, .arena = tni_arena_create(), .err = &why};
  bool found = false;
  if (ev.arena && tni_evaluate(&ev) == TN_OK && reads_numbers(&ev))
    for (uint32_t k = 0; !found && k < ev.n_done; k++) found = find_in(&ev, &ev.done[k], &f);
  tni_arena_destroy(ev.arena);
  return found ? accuse(x, i, &f, err) : TN_OK;
}
