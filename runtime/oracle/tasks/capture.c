/* SPDX-License-Identifier: Apache-2.0
 *
 * TN_MODEL_CAPTURE: every plugin task beside its reference, on the same inputs.
 */
#include "runtime/base/json.h"
#include "runtime/oracle/tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/oracle/oracle.h"
#include "runtime/oracle/tasks/capture_case.h"

typedef struct task_result {
  double ratio;    /* largest |device - reference| / bound */
  double max_diff; /* and the largest difference itself */
  double max_ref;
  uint64_t elements, runs;
} task_result;

struct tni_capture {
  task_result **of;        /* [n_execs][n_tasks] */
  char *folder;            /* where the first task that is off goes; NULL: nowhere, or it is there */
  const tni_exec *written; /* of that task */
  uint32_t written_task;
};

tn_status tni_capture_create(tn_session *s) {
  s->capture = TNI_NEW(s->mem, struct tni_capture);
  if (!s->capture) return TN_E_NO_MEMORY;
  s->capture->of = TNI_NEW_ARRAY(s->mem, task_result *, s->model->n_execs);
  for (uint32_t i = 0; s->capture->of && i < s->model->n_execs; i++) {
    s->capture->of[i] = TNI_NEW_ARRAY(s->mem, task_result, s->model->execs[i].n_tasks + 1);
    if (!s->capture->of[i]) return TN_E_NO_MEMORY;
  }
  return s->capture->of ? TN_OK : TN_E_NO_MEMORY;
}

void tni_capture_destroy(tn_session *s) {
  if (s->capture) free(s->capture->folder);
  s->capture = NULL;
}

static void compare_task(const tni_evaluated *e, const tni_sregion *q, task_result *r) {
  int64_t count = 0;
  (void)!tni_dims_count(e->t.dims, e->t.rank, &count);
  const float *got = q->ptr, *want = e->t.data;
  const double top = tni_ref_largest(&e->t);
  for (int64_t i = 0; i < count; i++) {
    if (e->bound && isinf(e->bound[i])) continue; /* a chain near a pole: anything goes, nothing is checked */
    const bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i])); /* infinities too */
    const double diff = same ? 0 : fabs((double)got[i] - want[i]), bound = e->bound ? e->bound[i] : 1e-5 * top;
    const double ratio = same ? 0 : bound > 0 ? diff / bound : INFINITY;
    if (!(ratio <= r->ratio)) r->ratio = isnan(ratio) ? INFINITY : ratio;
    if (!(diff <= r->max_diff)) r->max_diff = isnan(diff) ? INFINITY : diff;
    r->elements++;
  }
  if (top > r->max_ref) r->max_ref = top;
}

/* v holds codes of 8 bits that its node rounds by scales. */
static bool is_rounded(const tni_graph *g, const tni_evaluated *e) {
  const tn_id node = tni_graph_value(g, e->value)->pub.producer;
  const bool bytes = e->t.dtype == TN_DT_U8 || e->t.dtype == TN_DT_I8;
  return bytes && node != TN_NONE && tni_reference_rounds(tni_graph_node(g, node)->pub.op);
}

/* Integers and halves: the same bits, but for codes. */
static void compare_bytes(const tni_graph *g, const tni_evaluated *e, const tni_sregion *q, task_result *r) {
  int64_t count = 0;
  int most;
  (void)!tni_dims_count(e->t.dims, e->t.rank, &count);
  r->elements += count;
  if (!e->t.bytes || !memcmp(q->ptr, e->t.data, e->t.bytes)) return;
  if (!is_rounded(g, e)) {
    r->ratio = INFINITY;
    return;
  }
  const bool holds = tni_reference_codes(q->ptr, e->t.data, e->t.dtype == TN_DT_I8, count, &most);
  r->ratio = fmax(r->ratio, holds ? 1 : INFINITY);
  r->max_diff = fmax(r->max_diff, most);
}

static tn_status write_first(tn_session *s, tni_evaluation *ev, double ratio) {
  struct tni_capture *c = s->capture;
  if (!c->folder || c->written) return TN_OK;
  c->written = ev->x->exec;
  c->written_task = ev->task;
  return tni_capture_write(ev, ratio, c->folder);
}

tn_status tn_session_capture_case(tn_session *s, const char *folder, tn_error *err) {
  tni_error_begin(err);
  if (!s || !folder) return tni_fail(err, TN_E_INVALID, "tn_session_capture_case", "a NULL argument");
  if (!s->capture) return tni_fail(err, TN_E_INVALID, s->model->path, "the model was not loaded with TN_MODEL_CAPTURE");
  char *copy = strdup(folder);
  if (!copy) return tni_fail_memory(err, folder);
  free(s->capture->folder);
  s->capture->folder = copy;
  return TN_OK;
}

tn_status tni_capture_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  tni_evaluation ev = {.s = s, .x = x, .task = i, .arena = tni_arena_create(), .err = err, .judges = true};
  task_result *r = &s->capture->of[x - s->execs][i];
  tn_status st = ev.arena ? tni_evaluate(&ev) : tni_fail_memory(err, NULL);
  for (uint32_t k = 0; st == TN_OK && k < ev.n_done; k++) {
    const uint32_t reg = tni_ref_region(x, i, ev.done[k].value);
    if (reg == TN_NONE) continue;
    tni_sregion dense;
    const tni_sregion *q = &x->regions[reg];
    if (x->exec->regions[reg].kind == TNI_R_STATE) {
      tni_tensor t = ev.done[k].t;
      st = tni_ref_state_load(&ev, q, &t);
      if (st != TN_OK) break;
      st = tni_ref_state_bound(&ev, q, &ev.done[k]);
      if (st != TN_OK) break;
      dense = (tni_sregion){.ptr = t.data, .bytes = t.bytes, .dtype = t.dtype};
      q = &dense;
    }
    if (ev.done[k].t.bytes > q->bytes)
      r->ratio = INFINITY;
    else if (ev.done[k].t.dtype == TN_DT_F32)
      compare_task(&ev.done[k], q, r);
    else
      compare_bytes(s->model->graph, &ev.done[k], q, r);
  }
  r->runs += st == TN_OK;
  if (st == TN_OK && r->ratio > 1) st = write_first(s, &ev, r->ratio);
  tni_arena_destroy(ev.arena);
  return st;
}

static json_t *task_json(const tni_exec *x, uint32_t i, const task_result *r) {
  const tni_etask *t = &x->tasks[i];
  return json_pack("{s:o, s:o, s:i, s:f, s:f, s:f, s:I, s:I, s:I}", "task", tni_json_shown(t->label), "device",
                   tni_json_shown(x->programs[t->program].dev->name), "phase", (int)x->phase, "worst_ratio",
                   tni_json_number(r->ratio), "max_diff", tni_json_number(r->max_diff), "max_reference",
                   tni_json_number(r->max_ref), "elements", (json_int_t)r->elements, "runs", (json_int_t)r->runs,
                   "nodes", (json_int_t)t->info->n_nodes);
}

static json_t *case_json(const tn_session *s) {
  const struct tni_capture *c = s->capture;
  return json_pack("{s:o, s:o, s:o}", "folder", tni_json_shown(c->folder), "task",
                   tni_json_shown(c->written->tasks[c->written_task].label), "plugin",
                   tni_json_shown(tni_capture_plugin(s, c->written, c->written_task)));
}

tn_status tn_session_capture_report(tn_session *s, char **json, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  TNI_NOT_NULL(json);
  if (!s->capture) return tni_fail(err, TN_E_INVALID, s->model->path, "the model was not loaded with TN_MODEL_CAPTURE");
  tni_json_begin();
  json_t *j = json_object(), *list = json_array();
  double worst = 0;
  uint64_t checked = 0;
  for (uint32_t e = 0; e < s->model->n_execs; e++) {
    const tni_exec *x = &s->model->execs[e];
    for (uint32_t i = 0; i < x->n_tasks; i++) {
      const task_result *r = &s->capture->of[e][i];
      if (!r->runs) continue;
      worst = fmax(worst, r->ratio);
      checked += r->elements;
      json_array_append_new(list, task_json(x, i, r));
    }
  }
  if (s->capture->written) json_object_set_new(j, "case", case_json(s));
  json_object_set_new(j, "worst_ratio", json_real(tni_json_number(worst)));
  json_object_set_new(j, "elements", json_integer((json_int_t)checked));
  json_object_set_new(j, "tasks", list);
  char *out = json_dumps(j, JSON_INDENT(1));
  json_decref(j);
  if (!out || tni_json_short()) { /* a list that lacks a task would call it right */
    free(out);
    return tni_fail_memory(err, "report");
  }
  *json = out;
  return TN_OK;
}
