/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/tasks/capture_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/onnx/save/save.h"
#include "runtime/plugin/load/load.h"

typedef struct case_writer {
  tni_evaluation *ev;
  const char *folder;
  const tn_task *task;
  tni_saved *in, *out;
  tni_tensor *in_t, *out_t; /* what in[i].t and out[i].t point to */
  uint32_t n_in, n_out;
} case_writer;

const char *tni_capture_plugin(const tn_session *s, const tni_exec *x, uint32_t task) {
  const tni_dev *dev = x->programs[x->tasks[task].program].dev;
  const tni_registry *r = s->model->rt->registry;
  for (uint32_t i = 0; i < tni_registry_count(r); i++) {
    const tni_plugin_info *p = tni_registry_get(r, i);
    if (p->plugin == dev->plugin && p->path && *p->path) return p->path;
  }
  return dev->name;
}

static bool made_here(const case_writer *w, tn_id v) {
  const tn_graph *g = &w->ev->x->exec->view;
  for (uint32_t i = 0; i < w->task->n_nodes; i++) {
    const tn_node *n = g->nodes[w->task->nodes[i]];
    for (uint32_t k = 0; k < n->n_out; k++)
      if (n->out[k] == v) return true;
  }
  return false;
}

static tn_status add_input(case_writer *w, tn_id v) {
  if (v == TN_NONE || w->ev->x->exec->view.values[v]->kind == TN_VALUE_CONST || made_here(w, v)) return TN_OK;
  for (uint32_t i = 0; i < w->n_in; i++)
    if (w->in[i].value == v) return TN_OK;
  tn_status st = tni_ref_operand(w->ev, v, &w->in_t[w->n_in]);
  w->in[w->n_in] = (tni_saved){v, &w->in_t[w->n_in]};
  w->n_in += st == TN_OK;
  return st;
}

static tn_status collect_case(case_writer *w) {
  const tn_graph *g = &w->ev->x->exec->view;
  uint32_t reads = 1;
  for (uint32_t i = 0; i < w->task->n_nodes; i++) reads += g->nodes[w->task->nodes[i]]->n_in;
  w->in = TNI_NEW_ARRAY(w->ev->arena, tni_saved, reads);
  w->in_t = TNI_NEW_ARRAY(w->ev->arena, tni_tensor, reads);
  w->out = TNI_NEW_ARRAY(w->ev->arena, tni_saved, w->ev->n_done + 1);
  w->out_t = TNI_NEW_ARRAY(w->ev->arena, tni_tensor, w->ev->n_done + 1);
  if (!w->in || !w->in_t || !w->out || !w->out_t) return tni_fail_memory(w->ev->err, w->folder);
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < w->task->n_nodes; i++) {
    const tn_node *n = g->nodes[w->task->nodes[i]];
    for (uint32_t k = 0; st == TN_OK && k < n->n_in; k++) st = add_input(w, n->in[k]);
  }
  for (uint32_t i = 0; i < w->ev->n_done; i++)
    if (tni_ref_region(w->ev->x, w->ev->task, w->ev->done[i].value) != TN_NONE)
      w->out[w->n_out++] = (tni_saved){w->ev->done[i].value, &w->ev->done[i].t};
  return st;
}

/* What the device left of an output, as dense as the reference's. */
static tn_status of_device(case_writer *w, uint32_t i) {
  const uint32_t r = tni_ref_region(w->ev->x, w->ev->task, w->out[i].value);
  const tni_sregion *q = &w->ev->x->regions[r];
  w->out_t[i] = *w->out[i].t;
  w->out_t[i].data = q->ptr;
  if (w->ev->x->exec->regions[r].kind == TNI_R_STATE) return tni_ref_state_load(w->ev, q, &w->out_t[i]);
  if (w->out_t[i].bytes > q->bytes) w->out_t[i].bytes = 0; /* it has another size: there is nothing to show */
  return TN_OK;
}

static tn_status write_tensor(const case_writer *w, const char *sub, const char *kind, uint32_t i, tn_id v,
                              const tni_tensor *t) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s/%s_%u.pb", w->folder, sub, kind, i) < 0) return tni_fail_memory(w->ev->err, w->folder);
  tn_tensor out = {.h = {sizeof out, 1, 0},
                   .name = w->ev->x->exec->view.values[v]->name,
                   .dtype = t->dtype,
                   .rank = t->rank,
                   .data = t->data,
                   .bytes = t->bytes};
  memcpy(out.dims, t->dims, sizeof out.dims);
  tn_status st = tn_tensor_save(&out, path, w->ev->err);
  free(path);
  return st;
}

static tn_status make_folder(const case_writer *w, const char *sub) {
  char *path = tni_file_in(w->folder, sub);
  const int rc = path ? tni_make_folder(path) : ENOMEM;
  free(path);
  return rc ? tni_fail(w->ev->err, tni_errno_status(rc, TN_E_IO), w->folder, "cannot make '%s/%s': %s", w->folder, sub,
                       strerror(rc))
            : TN_OK;
}

static tn_status write_tensors(case_writer *w) {
  tn_status st = make_folder(w, "test_data_set_0");
  if (st == TN_OK) st = make_folder(w, "device");
  for (uint32_t i = 0; st == TN_OK && i < w->n_in; i++)
    st = write_tensor(w, "test_data_set_0", "input", i, w->in[i].value, w->in[i].t);
  for (uint32_t i = 0; st == TN_OK && i < w->n_out; i++) {
    st = write_tensor(w, "test_data_set_0", "output", i, w->out[i].value, w->out[i].t);
    if (st == TN_OK) st = of_device(w, i);
    if (st == TN_OK) st = write_tensor(w, "device", "output", i, w->out[i].value, &w->out_t[i]);
  }
  return st;
}

static tn_status write_story(const case_writer *w, double ratio) {
  const tni_exec *x = w->ev->x->exec;
  const tn_session *s = w->ev->s;
  char *path = tni_file_in(w->folder, "case.json");
  json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:i, s:f}", "task", tni_json_shown(x->tasks[w->ev->task].label), "device",
                        tni_json_shown(x->programs[x->tasks[w->ev->task].program].dev->name), "plugin",
                        tni_json_shown(tni_capture_plugin(s, x, w->ev->task)), "model", tni_json_shown(s->model->path),
                        "phase", (int)x->phase, "worst_ratio", tni_json_number(ratio));
  tn_status st = TN_OK;
  if (!path || !j)
    st = tni_fail_memory(w->ev->err, w->folder);
  else if (json_dump_file(j, path, JSON_INDENT(1)) != 0)
    st = tni_fail(w->ev->err, TN_E_IO, path, "cannot write '%s'", path);
  json_decref(j);
  free(path);
  return st;
}

tn_status tni_capture_write(tni_evaluation *ev, double ratio, const char *folder) {
  case_writer w = {.ev = ev, .folder = folder, .task = ev->x->exec->tasks[ev->task].info};
  tn_status st = collect_case(&w);
  if (st == TN_OK) st = write_tensors(&w);
  if (st == TN_OK)
    st = tni_save_nodes(ev->s->model->graph, w.task->nodes, w.task->n_nodes, w.in, w.n_in, w.out, w.n_out, folder,
                        ev->err);
  return st == TN_OK ? write_story(&w, ratio) : st;
}
