/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/numbers/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "runtime/conform/case/case.h"
#include "runtime/conform/observe/observe.h"
#include "runtime/place/place.h"

enum { CALIBRATION_IDS = 96 };

typedef struct loader {
  const placement_req *r;
  char folder[64], profile[96], calibration[1100];
  bool calibrated; /* the file is ours */
  tn_error *err;
} loader;

static void on_log(void *user, uint32_t level, const char *line) {
  (void)user;
  if (level == TN_LOG_ERROR) printf("%s\n", line);
}

/* write: the profile. calibration: a file, or "". */
static tn_status open_runtime(loader *l, void (*write)(const placement_req *r, FILE *f), const char *calibration,
                              tn_runtime **out) {
  FILE *f = fopen(l->profile, "w");
  if (f) write(l->r, f);
  if (!f || ferror(f) | fclose(f)) return tni_fail(l->err, TN_E_IO, l->profile, "it cannot be written");
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = l->profile,
                             .plugin_dirs = &l->r->plugin_dir,
                             .n_plugin_dirs = 1,
                             .threads = 2,
                             .log = on_log,
                             .log_level = TN_LOG_WARN,
                             .calibration = *calibration ? calibration : NULL,
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  return tn_runtime_create(&o, out, l->err);
}

/* --- profiles ---------------------------------------------------------------------------------------------------- */

static void write_host(const placement_req *r, FILE *f) {
  (void)r;
  fputs("plugins: [host]\n", f);
}

static void write_plugin(const placement_req *r, FILE *f) {
  fprintf(f, "plugins:\n  - name: %s\n    options: ", r->plugin);
  tni_cf_options_write(f, r->options, r->n_options);
  fputs("\n  - host\n", f);
  if (r->phase == TN_PHASE_ANY)
    fprintf(f, "require: [%s]\n", r->plugin);
  else
    fprintf(f, "phases: {%s: [%s, host], %s: [host]}\n", r->phase == TN_PHASE_PREFILL ? "prefill" : "decode", r->plugin,
            r->phase == TN_PHASE_PREFILL ? "decode" : "prefill");
}

/* --- calibration ------------------------------------------------------------------------------------------------- */

static tn_status calibration_record(tn_lm *lm, tn_chat *chat, const char *path, tn_error *err) {
  int32_t ids[CALIBRATION_IDS];
  const float *logits;
  size_t rows, vocab;
  for (int i = 0; i < CALIBRATION_IDS; i++) ids[i] = 3 + i * 131 % 400;
  tn_status st = tn_chat_score(chat, ids, CALIBRATION_IDS, &logits, &rows, &vocab, err);
  if (st == TN_OK) st = tn_model_calibration_next(tn_lm_model(lm), err);
  tn_chat_reset(chat);
  if (st == TN_OK) st = tn_chat_score(chat, ids, CALIBRATION_IDS, &logits, &rows, &vocab, err);
  const tn_calibration_text what = {.h = {sizeof what, 1, 0}, .name = "ids by a rule"};
  return st == TN_OK ? tn_model_calibration_save(tn_lm_model(lm), &what, path, err) : st;
}

static tn_status loader_calibrate(loader *l) {
  tn_runtime *rt = NULL;
  tn_lm *lm = NULL;
  tn_chat *chat = NULL;
  snprintf(l->calibration, sizeof l->calibration, "%s/calibration.yaml", l->r->model);
  if (access(l->calibration, R_OK) == 0) return TN_OK;
  snprintf(l->calibration, sizeof l->calibration, "%s/calibration.yaml", l->folder);
  l->calibrated = true;
  const tn_lm_opts o = {.h = {sizeof o, 1, 0}, .model_flags = TN_MODEL_CALIBRATE};
  tn_status st = open_runtime(l, write_host, "", &rt);
  if (st == TN_OK) st = tn_lm_load(rt, l->r->model, &o, &lm, l->err);
  if (st == TN_OK) st = tn_chat_create(lm, &chat, l->err);
  if (st == TN_OK) st = calibration_record(lm, chat, l->calibration, l->err);
  tn_chat_destroy(chat);
  tn_lm_destroy(lm);
  tn_runtime_destroy(rt);
  return st;
}

/* --- copies ------------------------------------------------------------------------------------------------------ */

static void *or_abort(void *p) {
  if (!p) abort();
  return p;
}

static const float *copy_floats(const float *from, uint32_t n) {
  if (!from) return NULL;
  return memcpy(or_abort(malloc((n + 1) * sizeof *from)), from, n * sizeof *from);
}

static void copy_stats(const tn_stats *from, tn_stats *to) {
  if (!from) return;
  *to = *from;
  to->ch_over = copy_floats(from->ch_over, from->n);
  to->ch_mean = copy_floats(from->ch_mean, from->n);
  to->ch_weight = copy_floats(from->ch_weight, from->n);
}

static tn_status copy_matrix(const tn_weight *w, placed_weight *out) {
  float *row = or_abort(malloc((size_t)(w->K + 1) * sizeof *row));
  tn_status st = TN_OK;
  out->kn = or_abort(malloc((size_t)(w->N * w->K + 1) * sizeof *out->kn));
  for (int64_t n = 0; n < w->N && st == TN_OK; n++) {
    st = w->rows(w, n, n + 1, row);
    for (int64_t k = 0; k < w->K; k++) out->kn[k * w->N + n] = row[k];
  }
  free(row);
  return st;
}

static tn_status copy_item(const tni_pack_item *it, const tn_blob *b, placed_weight *out) {
  *out = (placed_weight){.N = it->weight->N, .K = it->weight->K, .n_params = it->n_params, .n_bytes = b->bytes};
  if (it->n_params > PLACED_PARAMS) return TN_E_LIMIT;
  snprintf(out->name, sizeof out->name, "%s", it->name);
  snprintf(out->format, sizeof out->format, "%s", it->format->name);
  if (it->n_params) memcpy(out->params, it->params, it->n_params * sizeof *it->params);
  copy_stats(it->weight->x, &out->stats);
  out->bytes = or_abort(malloc(b->bytes + 1));
  tn_status st = b->ptr ? (memcpy(out->bytes, b->ptr, b->bytes), TN_OK) : b->read(b, 0, b->bytes, out->bytes);
  return st == TN_OK ? copy_matrix(it->weight, out) : st;
}

static tn_status copy_all(const tn_model *m, const tni_dev *dev, placement *out) {
  const tni_packed *p = m->packed ? &m->packed[dev - m->rt->devs] : NULL;
  tn_status st = TN_OK;
  if (!p) return TN_OK;
  out->w = or_abort(calloc((size_t)p->n_items + 1, sizeof *out->w));
  for (uint32_t i = 0; i < p->n_items && st == TN_OK; i++)
    st = copy_item(p->items[i], tni_pack_store_blob(p->store, i), &out->w[out->n++]);
  return st;
}

bool placement_read(const placement_req *r, placement *out, tn_error *err) {
  loader l = {.r = r, .folder = "/tmp/tenon-placement-XXXXXX", .err = err};
  tn_runtime *rt = NULL;
  tn_model *m = NULL;
  tni_dev *dev = NULL;
  const tn_model_opts o = {.h = {sizeof o, 1, 0}};
  *out = (placement){0};
  tn_error_init(err);
  if (!mkdtemp(l.folder)) return false;
  snprintf(l.profile, sizeof l.profile, "%s/profile.yaml", l.folder);
  tn_status st = r->need_stats ? loader_calibrate(&l) : TN_OK;
  if (st == TN_OK) st = open_runtime(&l, write_plugin, l.calibration, &rt);
  if (st == TN_OK && !(dev = tni_cf_only_device(rt, r->plugin, r->device)))
    st = tni_fail(err, TN_E_UNAVAILABLE, r->plugin, "the runtime finds no device %u of it", r->device);
  if (st == TN_OK) st = tn_model_load(rt, r->model, &o, &m, err);
  if (st == TN_OK) st = copy_all(m, dev, out);
  tn_model_destroy(m);
  tn_runtime_destroy(rt);
  if (l.calibrated) unlink(l.calibration);
  unlink(l.profile);
  rmdir(l.folder);
  return st == TN_OK;
}

void placement_free(placement *p) {
  for (uint32_t i = 0; i < p->n; i++) {
    free(p->w[i].kn);
    free(p->w[i].bytes);
    free((void *)(uintptr_t)p->w[i].stats.ch_over);
    free((void *)(uintptr_t)p->w[i].stats.ch_mean);
    free((void *)(uintptr_t)p->w[i].stats.ch_weight);
  }
  free(p->w);
  *p = (placement){0};
}
