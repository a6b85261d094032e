/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/tasks/tasks.h"

#include <string.h>

#include "runtime/oracle/tasks/evaluation.h"

tn_status tni_calibrate_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  const tn_task *t = x->exec->tasks[i].info;
  tn_status st = TN_OK;
  for (uint32_t k = 0; st == TN_OK && k < t->n_nodes; k++) {
    const tn_id v = tni_recorder_value(s->model->recorder, t->nodes[k]);
    const uint32_t r = v == TN_NONE ? TN_NONE : tni_ref_region(x, i, v);
    if (r == TN_NONE) continue;
    const tni_sregion *q = &x->regions[r];
    tni_tensor in = {.dtype = q->dtype, .rank = q->rank, .data = q->ptr, .bytes = q->bytes};
    memcpy(in.dims, q->dims, sizeof in.dims);
    st = tni_recorder_add(s->model->recorder, v, &in, err);
  }
  return st;
}

/* --- application API ---------------------------------------------------------------------------------------------- */

static tn_status needs_recorder(const tn_model *m, tn_error *err) {
  if (m->recorder) return TN_OK;
  return tni_fail(err, TN_E_INVALID, m->path, "the model was not loaded with TN_MODEL_CALIBRATE");
}

tn_status tn_model_calibration_next(tn_model *m, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  tn_status st = needs_recorder(m, err);
  return st == TN_OK ? tni_recorder_next(m->recorder, err) : st;
}

static tn_status collect_stats(const tn_model *m, tni_calib *c, tn_error *err) {
  *c = (tni_calib){.arena = tni_arena_create(), .model_name = m->name, .text_name = "text"};
  if (!c->arena) return tni_fail_memory(err, m->path);
  memcpy(c->model, m->hash, sizeof c->model);
  tn_status st = tni_recorder_result(m->recorder, c->arena, &c->entries, &c->n_entries, err);
  if (st == TN_OK && !c->n_entries)
    st = tni_fail(err, TN_E_INVALID, m->path, "no activation met a constant weight: nothing was recorded");
  return st;
}

tn_status tn_model_calibration_save(tn_model *m, const tn_calibration_text *text, const char *path, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  tn_calibration_text t;
  tni_calib c = {0};
  tn_status st = needs_recorder(m, err);
  if (st != TN_OK) return st;
  if (!path || !text) return tni_fail(err, TN_E_INVALID, "tn_model_calibration_save", "a NULL argument");
  st = tni_take(&t, sizeof t, text, "tn_calibration_text", err);
  if (st == TN_OK) st = collect_stats(m, &c, err);
  if (t.name) c.text_name = t.name;
  c.tokens = t.tokens;
  tni_calib_text_hash(t.bytes, t.bytes ? t.n_bytes : 0, c.text);
  if (st == TN_OK) st = tni_calib_write(&c, path, err);
  tni_arena_destroy(c.arena);
  return st;
}

/* The hashes of what is recorded. */
static tn_status find_place(const tn_model *m, const tn_calibration_text *text, tni_calib_place *at, tn_error *err) {
  tn_calibration_text t;
  const tn_status st = tni_take(&t, sizeof t, text, "tn_calibration_text", err);
  if (st != TN_OK) return st;
  const char *options = t.options ? t.options : "";
  *at = (tni_calib_place){.done = t.done};
  memcpy(at->model, m->hash, sizeof at->model);
  tni_calib_text_hash(t.bytes, t.bytes ? t.n_bytes : 0, at->text);
  tni_calib_text_hash(options, strlen(options), at->options);
  return TN_OK;
}

tn_status tn_model_calibration_keep(tn_model *m, const tn_calibration_text *text, const char *path, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  TNI_NOT_NULL(text);
  TNI_NOT_NULL(path);
  tni_calib_place at;
  tn_status st = needs_recorder(m, err);
  if (st == TN_OK) st = find_place(m, text, &at, err);
  return st == TN_OK ? tni_recorder_keep(m->recorder, &at, path, err) : st;
}

tn_status tn_model_calibration_resume(tn_model *m, const tn_calibration_text *text, const char *path, uint32_t *pass,
                                      uint64_t *done, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  TNI_NOT_NULL(text);
  TNI_NOT_NULL(path);
  TNI_NOT_NULL(pass);
  TNI_NOT_NULL(done);
  tni_calib_place at;
  tn_status st = needs_recorder(m, err);
  if (st == TN_OK) st = find_place(m, text, &at, err);
  if (st == TN_OK) st = tni_recorder_resume(m->recorder, &at, path, pass, err);
  if (st == TN_OK) *done = at.done;
  return st;
}

static json_t *entry_json(const tni_calib_entry *e) {
  double over = 0;
  uint32_t channels = 0;
  json_t *weights = json_array();
  for (uint32_t k = 0; k < e->stats.n; k++) {
    over += (double)e->stats.ch_over[k];
    channels += e->stats.ch_over[k] > 0;
  }
  for (uint32_t i = 0; i < e->n_weights; i++) json_array_append_new(weights, tni_json_shown(e->weights[i]));
  return json_pack("{s:o, s:o, s:I, s:I, s:f, s:f, s:I, s:I}", "name", tni_json_shown(e->name), "weights", weights,
                   "rows", (json_int_t)e->stats.rows, "channels", (json_int_t)e->stats.n, "absmax",
                   (double)e->stats.absmax, "p999", (double)e->stats.p999, "outlier_channels", (json_int_t)channels,
                   "outliers", (json_int_t)over);
}

tn_status tni_calibrate_report(const tn_model *m, json_t **out, tn_error *err) {
  tni_calib c = {0};
  tn_status st = needs_recorder(m, err);
  if (st == TN_OK) st = collect_stats(m, &c, err);
  json_t *list = json_array();
  for (uint32_t i = 0; st == TN_OK && i < c.n_entries; i++) json_array_append_new(list, entry_json(&c.entries[i]));
  if (st == TN_OK)
    *out = json_pack("{s:o, s:s, s:O}", "model", tni_json_shown(m->path), "hash", m->hash, "values", list);
  json_decref(list);
  tni_arena_destroy(c.arena);
  return st;
}
