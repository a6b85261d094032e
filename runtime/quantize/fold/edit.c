/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of constants: each axis of a matrix, or the vector, multiplied by numbers that repeat, or turned in
 * runs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/fold/fold.h"

typedef struct axis_edit {
  const float *by; /* [n], repeated; NULL: it is not scaled */
  int64_t n;
  uint32_t turn; /* 0: it is not turned */
} axis_edit;

typedef struct tni_fold_edit {
  axis_edit axis[2];
} edit;

static bool is_edited(const edit *e) { return e->axis[0].by || e->axis[0].turn || e->axis[1].by || e->axis[1].turn; }

static axis_edit *edit_of(tni_fold *f, const tni_fold_side *s) {
  if (!f->edits && !(f->edits = calloc((size_t)f->g->n_values + 1, sizeof *f->edits))) return NULL;
  return &f->edits[s->value].axis[s->axis];
}

static tn_status change(tni_fold *f, const tni_fold_side *sides, uint32_t n, const axis_edit *e, tn_error *err) {
  for (uint32_t i = 0; i < n; i++) {
    axis_edit *at = edit_of(f, &sides[i]);
    if (!at) return tni_fail_memory(err, f->g->name);
    if (at->by || at->turn) return tni_fail(err, TN_E_INTERNAL, f->g->name, "an axis of a constant changes twice");
    edit *all = &f->edits[sides[i].value];
    f->n_edited += !is_edited(all);
    *at = *e;
  }
  return TN_OK;
}

tn_status tni_fold_scale(tni_fold *f, const tni_fold_place *p, const float *s, tn_error *err) {
  float *by = tni_arena_memdup(f->arena, s, (size_t)p->head * sizeof *s, _Alignof(float));
  float *inverse = TNI_NEW_ARRAY(f->arena, float, (size_t)p->head);
  if (!by || !inverse) return tni_fail_memory(err, f->g->name);
  for (int64_t k = 0; k < p->head; k++) inverse[k] = 1 / s[k];
  const tn_status st = change(f, p->maker, p->n_makers, &(axis_edit){.by = inverse, .n = p->head}, err);
  return st == TN_OK ? change(f, p->reader, p->n_readers, &(axis_edit){.by = by, .n = p->head}, err) : st;
}

tn_status tni_fold_turn(tni_fold *f, const tni_fold_place *p, uint32_t turn, tn_error *err) {
  const axis_edit e = {.turn = turn};
  const tn_status st = change(f, p->maker, p->n_makers, &e, err);
  return st == TN_OK ? change(f, p->reader, p->n_readers, &e, err) : st;
}

/* --- elements --- */

/* The symmetric Hadamard matrix of Sylvester over 2^n numbers: it is its own inverse. */
static void turn_run(float *v, uint32_t n) {
  const float unit = 1 / sqrtf((float)n);
  for (uint32_t half = 1; half < n; half *= 2)
    for (uint32_t i = 0; i < n; i += 2 * half)
      for (uint32_t k = i; k < i + half; k++) {
        const float a = v[k], b = v[k + half];
        v[k] = a + b;
        v[k + half] = a - b;
      }
  for (uint32_t i = 0; i < n; i++) v[i] *= unit;
}

/* n numbers along an axis. */
static void edit_line(const axis_edit *e, float *v, int64_t n) {
  for (int64_t i = 0; e->by && i < n; i++) v[i] *= e->by[i % e->n];
  for (int64_t i = 0; e->turn && i < n; i += e->turn) turn_run(v + i, e->turn);
}

/* v [rows, columns]. line [rows]: for what goes along columns. */
static void edit_matrix(const edit *e, float *v, int64_t rows, int64_t columns, float *line) {
  for (int64_t r = 0; r < rows; r++) edit_line(&e->axis[1], v + r * columns, columns);
  if (!e->axis[0].by && !e->axis[0].turn) return;
  for (int64_t c = 0; c < columns; c++) {
    for (int64_t r = 0; r < rows; r++) line[r] = v[r * columns + c];
    edit_line(&e->axis[0], line, rows);
    for (int64_t r = 0; r < rows; r++) v[r * columns + c] = line[r];
  }
}

static void to_half(void *data, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float v;
    memcpy(&v, (char *)data + i * (int64_t)sizeof v, sizeof v);
    const uint16_t half = tni_f32_to_f16(v);
    memcpy((char *)data + i * (int64_t)sizeof half, &half, sizeof half);
  }
}

tn_status tni_fold_elements(const tni_fold *f, const char *name, void **out, uint64_t *bytes, tn_error *err) {
  const tn_id v = name && f->edits ? tni_graph_find(f->g, name) : TN_NONE;
  const edit *e = v == TN_NONE ? NULL : &f->edits[v];
  *out = NULL;
  if (!e || !is_edited(e)) return TN_OK;
  const tni_tensor *t = tni_graph_value(f->g, v)->tensor;
  const int64_t rows = t->dims[0], columns = t->rank == 2 ? t->dims[1] : 1;
  float *line = malloc((size_t)rows * sizeof *line + 1), *data = malloc((size_t)(rows * columns) * sizeof *data + 1);
  if (!line || !data) {
    free(line);
    free(data);
    return tni_fail_memory(err, name);
  }
  tni_tensor_to_f32(t, 0, rows * columns, data);
  edit_matrix(e, data, rows, columns, line);
  if (t->dtype == TN_DT_F16) to_half(data, rows * columns);
  free(line);
  *out = data;
  *bytes = t->bytes;
  return TN_OK;
}
