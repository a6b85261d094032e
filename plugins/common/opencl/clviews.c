/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of values, launches, and the element-wise launches that everything else leans on.
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/opencl/clexpand.h"

void tni_cx_fail(tni_cx *e, tn_status st, const char *where, const char *what) {
  if (e->st == TN_OK) e->st = tni_cm_fail(e->err, st, where, "%s", what);
}

uint32_t tni_cx_size_of(uint32_t type) {
  return type == TN_DT_I64 ? 8 : type == TN_DT_F16 ? 2 : type == TN_DT_BOOL ? 1 : 4;
}

static int32_t put_i32(tni_cx *e, int64_t v) {
  if (v < INT32_MIN || v > INT32_MAX) tni_cx_fail(e, TN_E_LIMIT, e->d->vendor->name, "a dim or stride over 2^31");
  return (int32_t)v;
}

int64_t tni_cx_product(tni_cx *e, const int64_t *dims, uint32_t n) {
  int64_t p = 1;
  for (uint32_t i = 0; i < n; i++)
    if (__builtin_mul_overflow(p, dims[i], &p))
      tni_cx_fail(e, TN_E_LIMIT, e->d->vendor->name, "a value with too many elements");
  return p;
}

const tni_cl_value *tni_cx_value_of(const tni_cx *e, tn_id v) { return &e->p->values[v]; }

/* --- views ------------------------------------------------------------------------------------------------------- */

void tni_cx_dense_strides(tni_cx_view *v) {
  int64_t s = 1;
  for (uint32_t i = v->rank; i-- > 0;) {
    v->strides[i] = s;
    s *= v->dims[i] ? v->dims[i] : 1;
  }
}

uint32_t tni_cx_use_of(const tni_cx *e, uint32_t slot) {
  for (uint32_t i = 0; i < e->t->pub.n_uses; i++)
    if (e->t->pub.uses[i].slot == slot) return i;
  return TN_NONE;
}

tni_cx_view tni_cx_view_of(const tni_cx *e, tn_id id) {
  const tni_cl_value *v = tni_cx_value_of(e, id), *root = tni_cx_value_of(e, v->root);
  tni_cx_view o = {.type = v->store, .rank = v->rank};
  memcpy(o.dims, e->dims[id], sizeof o.dims);
  if (e->views[v->root].type && root->slot == TN_NONE && v->root == id) return e->views[id];
  tni_cx_dense_strides(&o);
  if (root->slot != TN_NONE)
    o.place = (tni_cl_place){TNI_CLP_USE, tni_cx_use_of(e, root->slot), 0};
  else
    o.place = (tni_cl_place){TNI_CLP_ARENA, 0, e->at[v->root]};
  return o;
}

/* Rows of the last axis at one distance: true, with rows and pitch. */
bool tni_cx_as_rows(tni_cx *e, const tni_cx_view *v, int64_t *rows, int64_t *pitch) {
  if (v->rank == 0) return false;
  *rows = tni_cx_product(e, v->dims, v->rank - 1);
  *pitch = v->rank > 1 ? v->strides[v->rank - 2] : v->dims[0];
  if (v->strides[v->rank - 1] != 1 && v->dims[v->rank - 1] != 1) return false;
  for (uint32_t i = 0; i + 2 < v->rank; i++)
    if (v->dims[i] != 1 && v->strides[i] != v->strides[i + 1] * v->dims[i + 1]) return false;
  return true;
}

tni_cx_view tni_cx_rows_view(tni_cl_place place, uint32_t type, int64_t rows, int64_t cols, int64_t pitch) {
  return (tni_cx_view){.place = place, .type = type, .rank = 2, .dims = {rows, cols}, .strides = {pitch, 1}};
}

/* --- launches ---------------------------------------------------------------------------------------------------- */

tni_cl_launch *tni_cx_add_launch(tni_cx *e, uint32_t kind) {
  tn_plan *p = e->plan;
  if (p->n_launches == p->cap_launches) {
    const uint32_t cap = p->cap_launches ? 2 * p->cap_launches : 64;
    tni_cl_launch *grown = tni_cm_new(&p->mem, cap, sizeof *grown);
    if (!grown) {
      tni_cx_fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
      return NULL;
    }
    if (p->n_launches) memcpy(grown, p->launches, p->n_launches * sizeof *grown);
    p->launches = grown;
    p->cap_launches = cap;
  }
  tni_cl_launch *l = &p->launches[p->n_launches++];
  memset(l, 0, sizeof *l);
  l->shape.kind = kind;
  l->state_use[0] = l->state_use[1] = TN_NONE;
  return l;
}

void tni_cx_operand(tni_cl_launch *l, const tni_cx_view *v) {
  const uint32_t i = l->shape.n_operands++;
  l->shape.types[i] = v ? v->type : 0;
  if (v) l->operands[i] = v->place;
}

void tni_cx_ints(tni_cx *e, tni_cl_launch *l, const int64_t *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) l->shape.ints[i] = put_i32(e, v[i]);
  l->shape.n_ints = n;
}

/* Kernel and sizes of a launch that has its shape. */
void tni_cx_finish(tni_cx *e, tni_cl_launch *l, const char *name) {
  if (e->st != TN_OK || !e->compile) return;
  e->st = tni_cl_kernel_for(&e->d->kernels, &l->shape, &l->program, e->err);
  if (e->st == TN_OK) l->program->variant->geometry(&e->d->info, &l->shape, l->global, l->local);
  (void)name;
}

/* --- element-wise ------------------------------------------------------------------------------------------------ */

static int32_t *add_meta(tni_cx *e, uint32_t n, uint32_t *at) {
  tn_plan *p = e->plan;
  if (p->n_meta + n > p->cap_meta) {
    const uint32_t cap = 2 * p->cap_meta + n + 256;
    int32_t *grown = tni_cm_new(&p->mem, cap, sizeof *grown);
    if (!grown) {
      tni_cx_fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
      return NULL;
    }
    if (p->n_meta) memcpy(grown, p->meta, p->n_meta * sizeof *grown);
    p->meta = grown;
    p->cap_meta = cap;
  }
  *at = p->n_meta;
  p->n_meta += n;
  return p->meta + *at;
}

/* Strides of v along the axes of out, innermost first; 0 where it broadcasts. */
static void put_strides(tni_cx *e, const tni_cx_view *v, const tni_cx_view *out, int32_t *to) {
  for (uint32_t i = 0; i < 4; i++) {
    to[i] = 0;
    if (i >= v->rank || i >= out->rank) continue;
    const uint32_t a = v->rank - 1 - i;
    if (v->dims[a] == 1 && out->dims[out->rank - 1 - i] != 1) continue;
    to[i] = put_i32(e, v->strides[a]);
  }
}

static bool is_int(uint32_t type) { return type != TN_DT_F32 && type != TN_DT_F16; }

/* chain's inputs are `in` in order; all outputs have the dims of out[0]. */
void tni_cx_emit_ew(tni_cx *e, const tni_cm_chain *c, const tni_cx_view *in, const tni_cx_view *out,
                    const tni_cx_start *s) {
  tni_cl_ew *w = tni_cm_new(e->mem, 1, sizeof *w);
  tni_cl_launch *l = tni_cx_add_launch(e, TNI_CLK_EW);
  uint32_t at = 0;
  int32_t *m = e->st == TN_OK && w ? add_meta(e, 4 + 4 * (c->n_in + c->n_results) + 3, &at) : NULL;
  if (!m || !l) {
    tni_cx_fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
    return;
  }
  *w = (tni_cl_ew){.n_in = c->n_in, .n_ops = c->n_ops, .n_out = c->n_results, .wide = 1, .dynamic = s ? 1 : 0};
  for (uint32_t i = 0; i < 4; i++) m[i] = i < out->rank ? put_i32(e, out->dims[out->rank - 1 - i]) : 1;
  for (uint32_t i = 0; i < c->n_in + c->n_results; i++) {
    const tni_cx_view *v = i < c->n_in ? &in[i] : &out[i - c->n_in];
    put_strides(e, v, out, m + 4 + 4 * i);
    w->types[i] = v->type;
    w->wide = w->wide && is_int(v->type);
    tni_cx_operand(l, v);
  }
  memcpy(w->ops, c->ops, sizeof w->ops);
  memcpy(w->results, c->results, c->n_results * sizeof *c->results);
  if (s) {
    tni_cx_operand(l, s->from);
    int32_t *d = m + 4 + 4 * (c->n_in + c->n_results);
    d[0] = put_i32(e, s->stride);
    d[1] = put_i32(e, s->length);
    d[2] = put_i32(e, s->taken);
  }
  l->operands[l->shape.n_operands] = (tni_cl_place){TNI_CLP_META, 0, 4 * (uint64_t)at};
  l->shape.types[l->shape.n_operands++] = TN_DT_I32;
  tni_cl_ew_geometry(m, l->global, l->local);
  if (!l->global[0] || !l->global[1] || !l->global[2]) {
    e->plan->n_launches--;
    return;
  }
  if (!e->compile || e->st != TN_OK) return;
  e->st = tni_cl_kernel_of_ew(&e->d->kernels, w, &l->program, e->err);
}

void tni_cx_emit_copy(tni_cx *e, const tni_cx_view *from, const tni_cx_view *to) {
  const tni_cm_chain c = {.n_in = 1, .n_results = 1, .results = {0}};
  tni_cx_emit_ew(e, &c, from, to, NULL);
}
