/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding before quantizing: the float model walks over the texts, which gives the scales of places; the folded model
 * is written into WORK/floats, and that is quantized. So later steps know nothing of it, and a call that was killed
 * finds it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/json_write.h"
#include "runtime/quantize/walk.h"

#define NOTES "fold.json"

static bool does(const tni_qz *z, uint32_t flag) { return (z->o.flags & flag) != 0; }

/* Turned are the values of heads, whose scales then stay. */
static bool is_scaled(const tni_qz *z, const tni_fold_place *p) {
  return does(z, TN_QUANTIZE_SCALES) && !(p->kind == TNI_FOLD_VALUES && does(z, TN_QUANTIZE_ROTATE_VO));
}

/* The grid that scales are searched for; under a budget nobody knows yet which a product takes. */
static const tni_quant_grid *grid_of(const tni_qz *z) {
  return &z->formats[tni_qz_is_mixed(&z->o) ? tni_qz_mix_reference(z) : z->products[0].format].grid;
}

static tn_status scale_place(tni_qz_walker *w, tni_fold *f, const tni_fold_place *p) {
  tni_qz *z = w->z;
  const tni_qz_product x = {.x = p->x, .K = p->K, .name = tni_graph_node(w->g, p->node)->pub.name};
  float *h = calloc((size_t)(p->K * p->K), sizeof *h), *s = malloc((size_t)p->head * sizeof *s);
  double gain;
  tn_status st = h && s ? TN_OK : tni_fail_memory(z->err, x.name);
  for (uint32_t i = 0; st == TN_OK && i < w->n_seqs; i++)
    st = tni_qz_add_moments(w, w->state + (size_t)i * w->g->n_values, &x, h);
  if (st == TN_OK) st = tni_fold_search(f, p, h, grid_of(z), &z->run.run, s, &gain, z->err);
  if (st == TN_OK) st = tni_fold_scale(f, p, s, z->err);
  free(h);
  free(s);
  return st;
}

/* Places in the order in which the walk reaches their products. */
static tn_status scale_places(tni_qz *z, tni_fold *f) {
  tni_qz_walker w;
  tn_id at = 0;
  tn_status st = tni_qz_walk_begin(&w, z, z->import->graph, z->n_seqs);
  for (tn_id node = 0; st == TN_OK && node < w.g->n_nodes; node++)
    for (uint32_t i = 0; st == TN_OK && i < f->n_places; i++) {
      const tni_fold_place *p = &f->places[i];
      if (p->node != node || !is_scaled(z, p)) continue;
      st = z->o.progress ? z->o.progress(z->o.user, tni_graph_node(w.g, node)->pub.name, 0, z->n_products) : TN_OK;
      if (st != TN_OK) st = tni_fail(z->err, st, z->path, "stopped while scales were searched");
      if (st == TN_OK) st = tni_qz_run_segment(&w, at, node);
      at = node;
      if (st == TN_OK) st = scale_place(&w, f, p);
    }
  tni_qz_walk_end(&w);
  return st;
}

/* The largest power of 2 that divides n. */
static uint32_t power_in(int64_t n) { return (uint32_t)(n & -n); }

/* --- notes --- */

static bool is_turned(const tni_qz *z, const tni_fold_place *p) {
  return does(z, TN_QUANTIZE_ROTATE_VO) && p->kind == TNI_FOLD_VALUES && power_in(p->head) >= TNI_FOLD_LEAST_HEAD;
}

/* How many places changed. */
static json_t *notes_of(const tni_qz *z, const tni_fold *f) {
  static const char *const names[] = {"norms", "factors", "values"};
  int scaled[3] = {0}, turned = 0;
  for (uint32_t i = 0; f->n_edited && i < f->n_places; i++) {
    const tni_fold_place *p = &f->places[i];
    scaled[p->kind] += is_scaled(z, p);
    turned += is_turned(z, p);
  }
  json_t *o = json_object();
  for (int i = 0; i < 3 && does(z, TN_QUANTIZE_SCALES); i++) tni_json_put(o, names[i], json_integer(scaled[i]));
  if (does(z, TN_QUANTIZE_ROTATE_VO)) tni_json_put(o, "rotated", json_integer(turned));
  return o;
}

static tn_status keep_notes(tni_qz *z, const char *folder, json_t *notes) {
  char *path = tni_file_in(folder, NOTES);
  const bool ok = path && notes && json_dump_file(notes, path, JSON_COMPACT) == 0;
  free(path);
  json_decref(notes);
  return ok ? TN_OK : tni_fail(z->err, TN_E_IO, folder, "cannot write '%s/%s'", folder, NOTES);
}

/* What the folder says becomes quantize.json, unless a budget writes one, and a part of that. */
static tn_status take_notes(tni_qz *z, const char *folder) {
  char *path = tni_file_in(folder, NOTES);
  z->fold_notes = path ? json_load_file(path, 0, NULL) : NULL;
  free(path);
  if (!z->fold_notes) return tni_fail(z->err, TN_E_CORRUPT, folder, "'%s/%s' cannot be read", folder, NOTES);
  if (tni_qz_is_mixed(&z->o)) return TN_OK;
  tni_json_writer w = {0};
  tni_json_begin();
  tni_json_open(&w, NULL, '{');
  tni_json_put_count(&w, "schema", 1);
  tni_json_put_tree(&w, "fold", json_incref(z->fold_notes));
  tni_json_shut(&w, '}');
  z->notes = tni_json_written(&w);
  return z->notes ? TN_OK : tni_fail_memory(z->err, z->path);
}

/* --- the folded model --- */

/* Notes, and the model where it changes. */
static tn_status fill_stage(tni_qz *z, tni_fold *f, const char *stage) {
  z->fold = f;
  z->n_folded = 0;
  tn_status st = f->n_edited ? tni_qz_write(z, stage) : TN_OK;
  z->fold = NULL;
  if (st == TN_OK && z->n_folded != f->n_edited) { /* a constant is no initializer: nothing changes */
    char *path = tni_file_in(stage, "model.onnx");
    if (path) (void)unlink(path);
    free(path);
    f->n_edited = 0;
  }
  return st == TN_OK ? keep_notes(z, stage, notes_of(z, f)) : st;
}

static tn_status write_folded(tni_qz *z, tni_fold *f, const char *folder) {
  char stage[TNI_QZ_PATH];
  snprintf(stage, sizeof stage, "%s.stage", folder);
  const int why = tni_make_folder(stage);
  if (why) return tni_fail(z->err, tni_errno_status(why, TN_E_IO), stage, "cannot make '%s': %s", stage, strerror(why));
  tn_status st = fill_stage(z, f, stage);
  if (st == TN_OK && rename(stage, folder) != 0)
    st = tni_fail(z->err, tni_errno_status(errno, TN_E_IO), folder, "cannot give '%s' its name: %s", folder,
                  strerror(errno));
  return st;
}

static tn_status make_folded(tni_qz *z, const char *folder) {
  tni_fold f;
  tn_status st = tni_fold_find(z->import->graph, &f, z->err);
  for (uint32_t i = 0; st == TN_OK && i < f.n_places; i++)
    if (is_turned(z, &f.places[i])) st = tni_fold_turn(&f, &f.places[i], power_in(f.places[i].head), z->err);
  if (st == TN_OK && does(z, TN_QUANTIZE_SCALES)) st = scale_places(z, &f);
  if (st == TN_OK) st = write_folded(z, &f, folder);
  tni_fold_finish(&f);
  return st;
}

/* What was found of the first model, of the folded one: the same nodes. */
static tn_status take_folded(tni_qz *z) {
  tni_qz_product *before = z->products;
  const uint32_t n = z->n_products, items = z->n_items;
  const bool floats = z->floats;
  tni_model_destroy(z->import);
  tni_model_destroy(z->floats);
  z->import = z->floats = NULL;
  z->products = NULL;
  z->n_products = 0;
  z->path = z->folded;
  tn_status st = tni_qz_import(z, &z->import);
  if (st == TN_OK && floats) st = tni_qz_import(z, &z->floats);
  if (st == TN_OK) st = tni_qz_find_products(z);
  if (st == TN_OK && (z->n_products != n || z->n_items != items))
    st = tni_fail(z->err, TN_E_INTERNAL, z->path, "folding changed the products of '%s'", z->path);
  for (uint32_t i = 0; st == TN_OK && i < items; i++) z->products[i].format = before[i].format;
  free(before);
  return st;
}

tn_status tni_qz_fold(tni_qz *z) {
  if (!does(z, TNI_QZ_FOLDS)) return TN_OK;
  char *folder = tni_file_in(z->work, "floats");
  z->folded = folder ? tni_file_in(folder, "model.onnx") : NULL;
  tn_status st = z->folded ? TN_OK : tni_fail_memory(z->err, z->path);
  if (st == TN_OK && access(folder, R_OK) != 0) st = make_folded(z, folder);
  if (st == TN_OK) st = take_notes(z, folder);
  if (st == TN_OK && access(z->folded, R_OK) == 0) st = take_folded(z);
  free(folder);
  return st;
}
