/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of a task for concrete dims.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/clprog.h"
#include "plugins/common/graphq.h"

enum { MAX_TEMPS = 2, TEMP_Y = 0, TEMP_X = 1, EW_SOURCE = 24576 };

/* Memory with dims: strides in elements. */
typedef struct view {
  tni_cl_place place;
  uint32_t type, rank;
  int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
} view;

typedef struct region {
  uint64_t bytes, offset;
  uint32_t first, last;
} region;

typedef struct expander {
  tn_plan *plan;
  const tn_program *p;
  const tni_cl_task *t;
  tni_cl_device *d;
  tni_cm_mem *mem;
  int64_t (*dims)[TN_MAX_RANK]; /* by value */
  view *views;                  /* by value; type 0: not placed */
  region *temps;                /* by operation of the task, MAX_TEMPS each */
  uint64_t *at;                 /* by value: offset in the arena */
  bool compile;
  tn_status st;
  tn_error *err;
} expander;

static void fail(expander *e, tn_status st, const char *where, const char *what) {
  if (e->st == TN_OK) e->st = tni_cm_fail(e->err, st, where, "%s", what);
}

static uint32_t size_of(uint32_t type) {
  return type == TN_DT_I64 ? 8 : type == TN_DT_F16 ? 2 : type == TN_DT_BOOL ? 1 : 4;
}

static int32_t i32(expander *e, int64_t v) {
  if (v < INT32_MIN || v > INT32_MAX) fail(e, TN_E_LIMIT, e->d->vendor->name, "a dim or stride over 2^31");
  return (int32_t)v;
}

static int64_t product(expander *e, const int64_t *dims, uint32_t n) {
  int64_t p = 1;
  for (uint32_t i = 0; i < n; i++)
    if (__builtin_mul_overflow(p, dims[i], &p))
      fail(e, TN_E_LIMIT, e->d->vendor->name, "a value with too many elements");
  return p;
}

static const tni_cl_value *value_of(const expander *e, tn_id v) { return &e->p->values[v]; }

/* --- views ------------------------------------------------------------------------------------------------------- */

static void dense_strides(view *v) {
  int64_t s = 1;
  for (uint32_t i = v->rank; i-- > 0;) {
    v->strides[i] = s;
    s *= v->dims[i] ? v->dims[i] : 1;
  }
}

static uint32_t use_of(const expander *e, uint32_t slot) {
  for (uint32_t i = 0; i < e->t->pub.n_uses; i++)
    if (e->t->pub.uses[i].slot == slot) return i;
  return TN_NONE;
}

static view view_of(const expander *e, tn_id id) {
  const tni_cl_value *v = value_of(e, id), *root = value_of(e, v->root);
  view o = {.type = v->store, .rank = v->rank};
  memcpy(o.dims, e->dims[id], sizeof o.dims);
  if (e->views[v->root].type && root->slot == TN_NONE && v->root == id) return e->views[id];
  dense_strides(&o);
  if (root->slot != TN_NONE)
    o.place = (tni_cl_place){TNI_CLP_USE, use_of(e, root->slot), 0};
  else
    o.place = (tni_cl_place){TNI_CLP_ARENA, 0, e->at[v->root]};
  return o;
}

/* Rows of the last axis at one distance: true, with rows and pitch. */
static bool as_rows(expander *e, const view *v, int64_t *rows, int64_t *pitch) {
  if (v->rank == 0) return false;
  *rows = product(e, v->dims, v->rank - 1);
  *pitch = v->rank > 1 ? v->strides[v->rank - 2] : v->dims[0];
  if (v->strides[v->rank - 1] != 1 && v->dims[v->rank - 1] != 1) return false;
  for (uint32_t i = 0; i + 2 < v->rank; i++)
    if (v->dims[i] != 1 && v->strides[i] != v->strides[i + 1] * v->dims[i + 1]) return false;
  return true;
}

static view rows_view(tni_cl_place place, uint32_t type, int64_t rows, int64_t cols, int64_t pitch) {
  return (view){.place = place, .type = type, .rank = 2, .dims = {rows, cols}, .strides = {pitch, 1}};
}

/* --- launches ---------------------------------------------------------------------------------------------------- */

static tni_cl_launch *add_launch(expander *e, uint32_t kind) {
  tn_plan *p = e->plan;
  if (p->n_launches == p->cap_launches) {
    const uint32_t cap = p->cap_launches ? 2 * p->cap_launches : 64;
    tni_cl_launch *grown = tni_cm_new(&p->mem, cap, sizeof *grown);
    if (!grown) {
      fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
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

static void operand(tni_cl_launch *l, const view *v) {
  const uint32_t i = l->shape.n_operands++;
  l->shape.types[i] = v ? v->type : 0;
  if (v) l->operands[i] = v->place;
}

static void ints(expander *e, tni_cl_launch *l, const int64_t *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) l->shape.ints[i] = i32(e, v[i]);
  l->shape.n_ints = n;
}

/* Kernel and sizes of a launch that has its shape. */
static void finish(expander *e, tni_cl_launch *l, const char *name) {
  if (e->st != TN_OK || !e->compile) return;
  e->st = tni_cl_kernel_for(&e->d->kernels, &l->shape, &l->program, e->err);
  if (e->st == TN_OK) l->program->variant->geometry(&e->d->info, &l->shape, l->global, l->local);
  (void)name;
}

/* --- element-wise ------------------------------------------------------------------------------------------------ */

static int32_t *add_meta(expander *e, uint32_t n, uint32_t *at) {
  tn_plan *p = e->plan;
  if (p->n_meta + n > p->cap_meta) {
    const uint32_t cap = 2 * p->cap_meta + n + 256;
    int32_t *grown = tni_cm_new(&p->mem, cap, sizeof *grown);
    if (!grown) {
      fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
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
static void put_strides(expander *e, const view *v, const view *out, int32_t *to) {
  for (uint32_t i = 0; i < 4; i++) {
    to[i] = 0;
    if (i >= v->rank || i >= out->rank) continue;
    const uint32_t a = v->rank - 1 - i;
    if (v->dims[a] == 1 && out->dims[out->rank - 1 - i] != 1) continue;
    to[i] = i32(e, v->strides[a]);
  }
}

typedef struct start {
  const view *from; /* int64 */
  int64_t stride, length, taken;
} start;

static bool is_int(uint32_t type) { return type != TN_DT_F32 && type != TN_DT_F16; }

static void ew_geometry(tni_cl_launch *l, const int32_t *m) {
  const size_t d0 = (size_t)m[0];
  l->local[0] = d0 >= 64 ? 64 : d0 >= 16 ? 16 : 1;
  l->local[1] = l->local[2] = 1;
  l->global[0] = (d0 + l->local[0] - 1) / l->local[0] * l->local[0];
  l->global[1] = (size_t)m[1];
  l->global[2] = (size_t)m[2] * (size_t)m[3];
}

/* chain's inputs are `in` in order; all outputs have the dims of out[0]. */
static void emit_ew(expander *e, const tni_cm_chain *c, const view *in, const view *out, const start *s) {
  tni_cl_ew *w = tni_cm_new(e->mem, 1, sizeof *w);
  tni_cl_launch *l = add_launch(e, TNI_CLK_EW);
  uint32_t at = 0;
  int32_t *m = e->st == TN_OK && w ? add_meta(e, 4 + 4 * (c->n_in + c->n_results) + 3, &at) : NULL;
  if (!m || !l) {
    fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
    return;
  }
  *w = (tni_cl_ew){.n_in = c->n_in, .n_ops = c->n_ops, .n_out = c->n_results, .wide = 1, .dynamic = s ? 1 : 0};
  for (uint32_t i = 0; i < 4; i++) m[i] = i < out->rank ? i32(e, out->dims[out->rank - 1 - i]) : 1;
  for (uint32_t i = 0; i < c->n_in + c->n_results; i++) {
    const view *v = i < c->n_in ? &in[i] : &out[i - c->n_in];
    put_strides(e, v, out, m + 4 + 4 * i);
    w->types[i] = v->type;
    w->wide = w->wide && is_int(v->type);
    operand(l, v);
  }
  memcpy(w->ops, c->ops, sizeof w->ops);
  memcpy(w->results, c->results, c->n_results * sizeof *c->results);
  if (s) {
    operand(l, s->from);
    int32_t *d = m + 4 + 4 * (c->n_in + c->n_results);
    d[0] = i32(e, s->stride);
    d[1] = i32(e, s->length);
    d[2] = i32(e, s->taken);
  }
  l->operands[l->shape.n_operands] = (tni_cl_place){TNI_CLP_META, 0, 4 * (uint64_t)at};
  l->shape.types[l->shape.n_operands++] = TN_DT_I32;
  ew_geometry(l, m);
  if (!l->global[0] || !l->global[1] || !l->global[2]) {
    e->plan->n_launches--;
    return;
  }
  if (!e->compile || e->st != TN_OK) return;
  char *text = tni_cm_new(e->mem, EW_SOURCE, 1);
  if (!text) {
    fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
    return;
  }
  if (!tni_cl_ew_source(w, text, EW_SOURCE)) {
    fail(e, TN_E_LIMIT, e->d->vendor->name, "a chain that is too long");
    return;
  }
  e->st = tni_cl_kernel_of_source(&e->d->kernels, "ew", text, "", &l->program, e->err);
}

static void emit_copy(expander *e, const view *from, const view *to) {
  const tni_cm_chain c = {.n_in = 1, .n_results = 1, .results = {0}};
  emit_ew(e, &c, from, to, NULL);
}

/* --- products ---------------------------------------------------------------------------------------------------- */

static region *temp(const expander *e, uint32_t op, uint32_t which) {
  return &e->temps[(op - e->t->first_op) * MAX_TEMPS + which];
}

/* How a product's results reach memory. */
enum { DIRECT = 0, JOINED = 1, STRIPS = 2 };

static uint32_t product_way(const expander *e, const tni_cl_op *o) {
  const tni_cm_fused *f = &o->f_spec;
  bool plain = f->chain.n_ops == 0, kept = true;
  for (uint32_t i = 0; i < o->n_out; i++) {
    if (o->out[i] == TN_NONE) continue;
    kept = kept && value_of(e, o->out[i])->slot == TN_NONE && !value_of(e, o->out[i])->dense;
  }
  for (uint32_t i = 0; i < f->chain.n_results; i++) plain = plain && f->chain.results[i] < f->n_parts;
  if (plain && f->n_parts == 1 && f->parts[0].first == 0 && f->parts[0].count == o->N && o->n_out == 1) return DIRECT;
  return plain && kept ? JOINED : STRIPS;
}

static int64_t rows_of(expander *e, const tni_cl_op *o) {
  const tni_cl_value *x = value_of(e, o->in[0]);
  return x->rank ? product(e, e->dims[o->in[0]], x->rank - 1) : 1;
}

static void size_product(expander *e, const tni_cl_op *o, uint32_t op) {
  const int64_t M = rows_of(e, o);
  const uint32_t way = product_way(e, o);
  region *y = temp(e, op, TEMP_Y), *x = temp(e, op, TEMP_X);
  y->first = x->first = x->last = y->last = op;
  const int64_t dims[2] = {M, o->N}, xdims[2] = {M, o->K};
  if (way != DIRECT) y->bytes = (uint64_t)product(e, dims, 2) * (way == JOINED ? 2 : 4);
  if (view_of(e, o->in[0]).type != TN_DT_F16) x->bytes = (uint64_t)product(e, xdims, 2) * 2;
  for (uint32_t i = 0; way == JOINED && i < o->n_out; i++)
    if (o->out[i] != TN_NONE && value_of(e, o->out[i])->last > y->last) y->last = value_of(e, o->out[i])->last;
}

static tni_cl_place arena(uint64_t at) { return (tni_cl_place){TNI_CLP_ARENA, 0, at}; }

/* The activation in half, rows at one distance. */
static view half_rows(expander *e, const tni_cl_op *o, uint32_t op, int64_t M) {
  view x = view_of(e, o->in[0]);
  int64_t rows, pitch;
  const bool regular = as_rows(e, &x, &rows, &pitch);
  if (regular && x.type == TN_DT_F16) return rows_view(x.place, x.type, M, o->K, pitch);
  view h = x;
  h.type = TN_DT_F16;
  h.place = arena(temp(e, op, TEMP_X)->offset);
  dense_strides(&h);
  if (!temp(e, op, TEMP_X)->bytes) fail(e, TN_E_INTERNAL, o->name, "an activation without room in half");
  if (x.rank > 4) fail(e, TN_E_UNSUPPORTED, o->name, "an activation of more than 4 dims that is no half");
  emit_copy(e, &x, &h);
  return rows_view(h.place, TN_DT_F16, M, o->K, o->K);
}

static void emit_parts(expander *e, const tni_cl_op *o, const view *x, const view *y, int64_t M) {
  const uint32_t use = use_of(e, o->blob_slot);
  for (int64_t k = 0; k < o->geo.n_parts; k++) {
    const tni_e0m4_part part = tni_e0m4_part_of(&o->geo, k);
    const int64_t N = o->N - part.n0 < part.Pn ? o->N - part.n0 : part.Pn;
    if (N <= 0) break;
    view w = {.place = {TNI_CLP_USE, use, part.w_at}, .type = TN_DT_U8}, s = w, to = *y;
    s.place.at = part.s_at;
    to.place.at += (uint64_t)part.n0 * size_of(to.type);
    tni_cl_launch *l = add_launch(e, M <= TNI_CL_GEMV_ROWS ? TNI_CLK_GEMV : TNI_CLK_GEMM);
    if (!l) return;
    operand(l, x);
    operand(l, &w);
    operand(l, &s);
    operand(l, &to);
    ints(e, l, (int64_t[]){M, N, o->K, part.Pn, x->strides[0], y->strides[0]}, 6);
    l->shape.no_image = !e->p->has_image[o->blob_slot] || k > 0;
    finish(e, l, o->name);
  }
  e->plan->macs += (double)M * (double)o->N * (double)o->K;
  e->plan->moved += (double)o->geo.bytes;
}

/* Column of product p in the joined matrix. */
static int64_t column(const tni_cl_op *o, uint32_t p) {
  return o->weight_n0[o->f_spec.parts[p].weight] + o->f_spec.parts[p].first;
}

static view column_view(expander *e, const tni_cl_op *o, uint32_t op, uint32_t p, uint32_t type, tn_id like) {
  const tni_cl_value *v = value_of(e, like);
  view y = {.place = arena(temp(e, op, TEMP_Y)->offset + (uint64_t)column(o, p) * size_of(type)),
            .type = type,
            .rank = v->rank};
  memcpy(y.dims, e->dims[like], sizeof y.dims);
  int64_t s = o->N;
  y.strides[y.rank - 1] = 1;
  for (uint32_t i = y.rank - 1; i-- > 0;) {
    y.strides[i] = s;
    s *= y.dims[i];
  }
  return y;
}

/* One strip: its products, what else it reads, its instructions with registers renumbered. */
static void emit_strip(expander *e, const tni_cl_op *o, uint32_t op, uint32_t which) {
  const tni_cm_fused *f = &o->f_spec;
  const tni_cm_chain *c = &f->chain;
  uint32_t to[TNI_CM_MAX_REGISTERS];
  bool used[TNI_CM_MAX_REGISTERS] = {false};
  view in[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS], out[TNI_CM_MAX_RESULTS];
  tni_cm_chain n = {0};
  tn_id like = TN_NONE;
  for (uint32_t i = 0; i < c->n_results && i < o->n_out; i++)
    if (o->strip[c->results[i]] == which && o->out[i] != TN_NONE) like = o->out[i];
  if (like == TN_NONE) return;
  for (uint32_t i = 0; i < c->n_ops; i++) {
    if (o->strip[c->n_in + i] != which) continue;
    used[c->ops[i].a] = true;
    if (c->ops[i].b != TN_NONE) used[c->ops[i].b] = true;
  }
  for (uint32_t i = 0; i < c->n_results; i++)
    if (o->strip[c->results[i]] == which) used[c->results[i]] = true;
  for (uint32_t r = 0; r < c->n_in; r++) {
    if (!used[r]) continue;
    in[n.n_in] = r < f->n_parts ? column_view(e, o, op, r, TN_DT_F32, like)
                                : view_of(e, o->in[1 + o->n_weights + r - f->n_parts]);
    to[r] = n.n_in++;
  }
  for (uint32_t i = 0; i < c->n_ops; i++) {
    if (o->strip[c->n_in + i] != which) continue;
    n.ops[n.n_ops] = c->ops[i];
    n.ops[n.n_ops].a = to[c->ops[i].a];
    if (c->ops[i].b != TN_NONE) n.ops[n.n_ops].b = to[c->ops[i].b];
    to[c->n_in + i] = n.n_in + n.n_ops++;
  }
  for (uint32_t i = 0; i < c->n_results && i < o->n_out; i++) {
    if (o->strip[c->results[i]] != which || o->out[i] == TN_NONE) continue;
    out[n.n_results] = view_of(e, o->out[i]);
    n.results[n.n_results++] = to[c->results[i]];
  }
  /* More than four dims: rows and columns, as all operands of a chain have them. */
  for (uint32_t i = 0; i < n.n_in + n.n_results; i++) {
    view *v = i < n.n_in ? &in[i] : &out[i - n.n_in];
    int64_t rows, pitch;
    if (v->rank > 4 && as_rows(e, v, &rows, &pitch))
      *v = rows_view(v->place, v->type, rows, v->dims[v->rank - 1], pitch);
    if (v->rank > 4) fail(e, TN_E_UNSUPPORTED, o->name, "a chain over more than 4 dims");
  }
  emit_ew(e, &n, in, out, NULL);
}

static void expand_product(expander *e, const tni_cl_op *o, uint32_t op) {
  const int64_t M = rows_of(e, o);
  const uint32_t way = product_way(e, o);
  if (M == 0) return;
  const view x = half_rows(e, o, op, M);
  if (way == DIRECT) {
    view y = view_of(e, o->out[0]);
    y = rows_view(y.place, y.type, M, o->N, o->N);
    emit_parts(e, o, &x, &y, M);
    return;
  }
  const uint32_t type = way == JOINED ? TN_DT_F16 : TN_DT_F32;
  const view y = rows_view(arena(temp(e, op, TEMP_Y)->offset), type, M, o->N, o->N);
  emit_parts(e, o, &x, &y, M);
  const tni_cm_chain *c = &o->f_spec.chain;
  for (uint32_t i = 0; way == JOINED && i < o->n_out; i++)
    if (o->out[i] != TN_NONE) e->views[o->out[i]] = column_view(e, o, op, c->results[i], type, o->out[i]);
  for (uint32_t i = 0; way == STRIPS && i < o->n_strips; i++) emit_strip(e, o, op, i);
}

/* --- heads ------------------------------------------------------------------------------------------------------- */

typedef struct heads {
  int64_t B, S, H, D, b, s, h;
} heads;

static heads heads_of(const view *v, int64_t n) {
  if (v->rank == 4)
    return (heads){v->dims[0], v->dims[2], v->dims[1], v->dims[3], v->strides[0], v->strides[2], v->strides[1]};
  const int64_t D = n ? v->dims[2] / n : v->dims[2];
  return (heads){v->dims[0], v->dims[1], n, D, v->strides[0], v->strides[1], D};
}

static void expand_rotary(expander *e, const tni_cl_op *o) {
  const view x = view_of(e, o->in[0]), c = view_of(e, o->in[1]), s = view_of(e, o->in[2]), y = view_of(e, o->out[0]);
  const bool with_pos = o->n_in > 3 && o->in[3] != TN_NONE;
  const view pos = with_pos ? view_of(e, o->in[3]) : x;
  const heads hx = heads_of(&x, o->i[1]), hy = heads_of(&y, o->i[1]);
  const int64_t R = o->i[2] ? o->i[2] / 2 : hx.D / 2;
  if (!hx.B || !hx.S || !hx.H) return;
  if (c.dims[c.rank - 1] < R || R * 2 > hx.D) {
    fail(e, TN_E_INVALID, o->name, "rotary tables that are too narrow");
    return;
  }
  tni_cl_launch *l = add_launch(e, TNI_CLK_ROTARY);
  if (!l) return;
  operand(l, &x);
  operand(l, &c);
  operand(l, &s);
  operand(l, with_pos ? &pos : NULL);
  operand(l, &y);
  const int64_t cb = with_pos || c.dims[0] == 1 ? 0 : c.strides[0], cs = c.strides[c.rank - 2];
  ints(e, l,
       (int64_t[]){hx.B, hx.S, hx.H, hx.D, R, o->i[0] != 0, hx.b, hx.s, hx.h, hy.b, hy.s, hy.h, cb, cs, c.dims[0]}, 15);
  finish(e, l, o->name);
}

/* Use of the cache behind a value, or TN_NONE. */
static uint32_t state_use(const expander *e, tn_id v) {
  return value_of(e, v)->kind == TN_VALUE_STATE ? use_of(e, value_of(e, v)->slot) : TN_NONE;
}

static void expand_append(expander *e, const tni_cl_op *o) {
  const view x = view_of(e, o->in[1]), pos = view_of(e, o->in[2]), cache = view_of(e, o->in[0]);
  const heads hx = heads_of(&x, o->i[1]);
  if (!hx.B || !hx.S || !hx.H || !hx.D) return;
  tni_cl_launch *l = add_launch(e, TNI_CLK_APPEND);
  if (!l) return;
  operand(l, &x);
  operand(l, &pos);
  operand(l, &cache);
  l->state_use[0] = state_use(e, o->in[0]);
  l->label = cache.rank;
  ints(e, l, (int64_t[]){hx.B, hx.S, hx.H, hx.D, hx.b, hx.s, hx.h, 0, 0, 0, 0}, 11);
  finish(e, l, o->name);
}

/* Strides of a mask along batch, head, query; 0 where it has one. */
static void mask_strides(const view *m, int64_t out[4]) {
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t back = 4 - i; /* axis counted from the end */
    out[i] = m->rank >= back && m->dims[m->rank - back] != 1 ? m->strides[m->rank - back] : 0;
  }
  out[3] = m->dims[m->rank - 1];
}

static void expand_attention(expander *e, const tni_cl_op *o) {
  const view q = view_of(e, o->in[0]), k = view_of(e, o->in[1]), v = view_of(e, o->in[2]), y = view_of(e, o->out[0]);
  const bool masked = o->n_in > 3 && o->in[3] != TN_NONE, valid = o->n_in > 6 && o->in[6] != TN_NONE;
  const view m = masked ? view_of(e, o->in[3]) : q, n = valid ? view_of(e, o->in[6]) : q;
  const heads hq = heads_of(&q, o->i[1]), hk = heads_of(&k, o->i[2]), hv = heads_of(&v, o->i[2]),
              hy = heads_of(&y, o->i[1]);
  int64_t ms[4] = {0, 0, 0, 0};
  if (!hq.B || !hq.S || !hq.H || !hv.D) return;
  if (!hk.H || hq.H % hk.H) {
    fail(e, TN_E_INVALID, o->name, "query heads are no multiple of the key heads");
    return;
  }
  if (masked) mask_strides(&m, ms);
  tni_cl_launch *l = add_launch(e, TNI_CLK_ATTN);
  if (!l) return;
  operand(l, &q);
  operand(l, &k);
  operand(l, &v);
  operand(l, masked ? &m : NULL);
  operand(l, valid ? &n : NULL);
  operand(l, &y);
  l->state_use[0] = state_use(e, o->in[1]);
  l->state_use[1] = state_use(e, o->in[2]);
  l->label = k.rank;
  ints(e, l,
       (int64_t[]){hq.B, hq.S, hq.H,  hk.H,  hq.D,  hv.D,  hk.S, hq.b, hq.s, hq.h,         hk.b,    hk.s,    hk.h, hv.b,
                   hv.s, hv.h, ms[0], ms[1], ms[2], ms[3], hy.b, hy.s, hy.h, o->i[0] != 0, o->i[3], o->i[4], 0},
       27);
  l->shape.floats[0] = o->f[0] != 0 ? o->f[0] : 1.0f / sqrtf((float)hq.D);
  l->shape.floats[1] = o->f[1];
  l->shape.n_floats = 2;
  finish(e, l, o->name);
  e->plan->macs += 2.0 * (double)(hq.B * hq.S * hq.H * hq.D) * (double)hk.S;
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

static void expand_norm(expander *e, const tni_cl_op *o) {
  const view x = view_of(e, o->in[0]), y = view_of(e, o->out[0]);
  const view s = o->n_in > 1 && o->in[1] != TN_NONE ? view_of(e, o->in[1]) : x;
  const bool with_bias = o->n_in > 2 && o->in[2] != TN_NONE;
  const view b = with_bias ? view_of(e, o->in[2]) : x;
  const int64_t D = x.dims[x.rank - 1], rows = product(e, x.dims, x.rank - 1);
  if (rows == 0 || D == 0) return;
  tni_cl_launch *l = add_launch(e, TNI_CLK_NORM);
  if (!l) return;
  operand(l, &x);
  operand(l, o->n_in > 1 && o->in[1] != TN_NONE ? &s : NULL);
  operand(l, with_bias ? &b : NULL);
  operand(l, &y);
  ints(e, l, (int64_t[]){rows, D, D, D, o->i[0]}, 5);
  l->shape.floats[0] = o->f[0];
  l->shape.n_floats = 1;
  finish(e, l, o->name);
}

static void expand_gather(expander *e, const tni_cl_op *o) {
  const view t = view_of(e, o->in[0]), ids = view_of(e, o->in[1]), y = view_of(e, o->out[0]);
  const int64_t rows = product(e, ids.dims, ids.rank);
  if (rows == 0 || t.dims[1] == 0) return;
  tni_cl_launch *l = add_launch(e, TNI_CLK_GATHER);
  if (!l) return;
  operand(l, &t);
  operand(l, &ids);
  operand(l, &y);
  ints(e, l, (int64_t[]){rows, t.dims[1], t.dims[0], t.dims[1]}, 4);
  finish(e, l, o->name);
}

static void expand_matmul(expander *e, const tni_cl_op *o) {
  const view a = view_of(e, o->in[0]), b = view_of(e, o->in[1]), y = view_of(e, o->out[0]);
  int64_t batch[2] = {1, 1}, as[2] = {0, 0}, bs[2] = {0, 0};
  for (uint32_t i = 0; i < 2; i++) { /* axis 4 - i from the end is batch i */
    const uint32_t back = 4 - i;
    if (y.rank >= back) batch[i] = y.dims[y.rank - back];
    if (a.rank >= back && a.dims[a.rank - back] != 1) as[i] = a.strides[a.rank - back];
    if (b.rank >= back && b.dims[b.rank - back] != 1) bs[i] = b.strides[b.rank - back];
  }
  const int64_t M = a.dims[a.rank - 2], K = a.dims[a.rank - 1], N = b.dims[b.rank - 1];
  if (b.dims[b.rank - 2] != K) {
    fail(e, TN_E_INVALID, o->name, "operands that do not fit each other");
    return;
  }
  if (!M || !N || !batch[0] || !batch[1]) return;
  tni_cl_launch *l = add_launch(e, TNI_CLK_MATMUL);
  if (!l) return;
  operand(l, &a);
  operand(l, &b);
  operand(l, &y);
  ints(e, l,
       (int64_t[]){M, N, K, batch[0], batch[1], a.strides[a.rank - 2], a.strides[a.rank - 1], as[0], as[1],
                   b.strides[b.rank - 2], b.strides[b.rank - 1], bs[0], bs[1], N},
       14);
  finish(e, l, o->name);
}

static void expand_ew(expander *e, const tni_cl_op *o) {
  view in[TN_CHAIN_MAX_INPUTS], out[TNI_CM_MAX_RESULTS];
  const tni_cm_chain *c = &o->f_spec.chain;
  for (uint32_t i = 0; i < c->n_in && i < TN_CHAIN_MAX_INPUTS; i++) in[i] = view_of(e, o->in[i]);
  for (uint32_t i = 0; i < c->n_results; i++) out[i] = view_of(e, o->out[i]);
  if (o->permuted) {
    const view x = in[0];
    for (uint32_t i = 0; i < x.rank; i++) {
      in[0].dims[i] = x.dims[o->perm[i]];
      in[0].strides[i] = x.strides[o->perm[i]];
    }
  }
  emit_ew(e, c, in, out, NULL);
}

static void expand_slice(expander *e, const tni_cl_op *o) {
  const view x = view_of(e, o->in[0]), from = view_of(e, o->in[1]), y = view_of(e, o->out[0]);
  const uint32_t axis = (uint32_t)o->i[0];
  const start s = {.from = &from, .stride = x.strides[axis], .length = x.dims[axis], .taken = y.dims[axis]};
  const tni_cm_chain c = {.n_in = 1, .n_results = 1, .results = {0}};
  emit_ew(e, &c, &x, &y, &s);
}

/* Pieces of one value along an axis, copied to or from values of their own. */
static void expand_pieces(expander *e, const tni_cl_op *o, bool split) {
  const uint32_t n = split ? o->n_out : o->n_in, axis = (uint32_t)o->i[0];
  const view whole = view_of(e, split ? o->in[0] : o->out[0]);
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tn_id id = split ? o->out[i] : o->in[i];
    if (id == TN_NONE) continue;
    const view piece = view_of(e, id);
    view part = whole;
    part.dims[axis] = piece.dims[axis];
    part.place.at += (uint64_t)(at * whole.strides[axis]) * size_of(whole.type);
    at += piece.dims[axis];
    emit_copy(e, split ? &part : &piece, split ? &piece : &part);
  }
}

static void expand_op(expander *e, uint32_t op) {
  const tni_cl_op *o = &e->p->ops[op];
  switch (o->what) {
    case TNI_CLO_GATHER:
      expand_gather(e, o);
      return;
    case TNI_CLO_NORM:
      expand_norm(e, o);
      return;
    case TNI_CLO_PRODUCT:
      expand_product(e, o, op);
      return;
    case TNI_CLO_EW:
      expand_ew(e, o);
      return;
    case TNI_CLO_SLICE:
      expand_slice(e, o);
      return;
    case TNI_CLO_ROTARY:
      expand_rotary(e, o);
      return;
    case TNI_CLO_APPEND:
      expand_append(e, o);
      return;
    case TNI_CLO_ATTN:
      expand_attention(e, o);
      return;
    case TNI_CLO_MATMUL:
      expand_matmul(e, o);
      return;
    case TNI_CLO_CONCAT:
      expand_pieces(e, o, false);
      return;
    case TNI_CLO_SPLIT:
      expand_pieces(e, o, true);
      return;
    default:
      break;
  }
  /* An alias that has memory of its own: dense to dense, whatever the shapes. */
  if (value_of(e, o->out[0])->root != o->out[0]) return;
  view x = view_of(e, o->in[0]), y = view_of(e, o->out[0]);
  const int64_t n = product(e, y.dims, y.rank);
  x = rows_view(x.place, x.type, 1, n, n);
  y = rows_view(y.place, y.type, 1, n, n);
  emit_copy(e, &x, &y);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void eval_dims(expander *e, const tn_dims *dims) {
  for (tn_id v = 0; v < e->p->n_values && e->st == TN_OK; v++) {
    const tni_cl_value *val = value_of(e, v);
    for (uint32_t i = 0; val->used && i < val->rank && e->st == TN_OK; i++)
      e->st = tni_cm_product(e->d->host, &e->p->graph, val->dims + i, 1, dims, &e->dims[v][i]);
  }
  if (e->st != TN_OK) tni_cm_fail(e->err, e->st, e->d->vendor->name, "a dim cannot be computed");
}

static bool in_task(const expander *e, const tni_cl_value *v) {
  return v->first != UINT32_MAX && v->first >= e->t->first_op && v->last < e->t->first_op + e->t->n_ops;
}

static void place_all(expander *e) {
  const uint32_t n_temps = e->t->n_ops * MAX_TEMPS;
  tn_interval *iv = tni_cm_new(e->mem, (size_t)e->p->n_values + n_temps + 1, sizeof *iv);
  uint32_t n = 0;
  uint64_t total = 0;
  if (!iv) {
    fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
    return;
  }
  for (tn_id v = 0; v < e->p->n_values; v++) {
    const tni_cl_value *val = value_of(e, v);
    if (!val->used || val->root != v || val->slot != TN_NONE || !in_task(e, val)) continue;
    const uint64_t bytes = (uint64_t)product(e, e->dims[v], val->rank) * size_of(val->store);
    iv[n++] = (tn_interval){.first = val->first, .last = val->last, .bytes = bytes, .align = 128};
  }
  for (uint32_t i = 0; i < n_temps; i++)
    iv[n++] =
        (tn_interval){.first = e->temps[i].first, .last = e->temps[i].last, .bytes = e->temps[i].bytes, .align = 128};
  if (e->st != TN_OK) return;
  e->st = e->d->host->offsets(e->d->host->ctx, n, iv, &total);
  n = 0;
  for (tn_id v = 0; v < e->p->n_values; v++) {
    const tni_cl_value *val = value_of(e, v);
    if (val->used && val->root == v && val->slot == TN_NONE && in_task(e, val)) e->at[v] = iv[n++].offset;
  }
  for (uint32_t i = 0; i < n_temps; i++) e->temps[i].offset = iv[n++].offset;
  e->plan->arena_bytes = total + 128;
}

static void start_expand(expander *e) {
  e->dims = tni_cm_new(e->mem, e->p->n_values + 1, sizeof *e->dims);
  e->views = tni_cm_new(e->mem, e->p->n_values + 1, sizeof *e->views);
  e->at = tni_cm_new(e->mem, e->p->n_values + 1, sizeof *e->at);
  e->temps = tni_cm_new(e->mem, e->t->n_ops * MAX_TEMPS + 1, sizeof *e->temps);
  if (!e->dims || !e->views || !e->at || !e->temps) fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
}

tn_status tni_cl_expand(tn_plan *plan, const tn_dims *dims, bool compile, tn_error *err) {
  tni_cm_mem mem = {.host = plan->program->device->host};
  expander e = {.plan = plan,
                .p = plan->program,
                .t = plan->task,
                .d = plan->program->device,
                .mem = &mem,
                .compile = compile,
                .err = err};
  start_expand(&e);
  if (e.st == TN_OK) eval_dims(&e, dims);
  const uint32_t end = plan->task->first_op + plan->task->n_ops;
  for (uint32_t i = plan->task->first_op; e.st == TN_OK && i < end; i++) {
    for (uint32_t k = 0; k < MAX_TEMPS; k++) *temp(&e, i, k) = (region){.first = i, .last = i};
    if (e.p->ops[i].what == TNI_CLO_PRODUCT) size_product(&e, &e.p->ops[i], i);
  }
  if (e.st == TN_OK) place_all(&e);
  for (uint32_t i = plan->task->first_op; e.st == TN_OK && i < end; i++) expand_op(&e, i);
  tni_cm_free(&mem);
  return e.st;
}

static tn_status make_plan(tn_program *p, tn_id task, const tn_dims *dims, bool compile, tn_plan **out, tn_error *err) {
  tni_cm_mem mem = {.host = p->device->host};
  if (task >= p->info.n_tasks) return TN_E_INVALID;
  tn_plan *plan = tni_cm_new(&mem, 1, sizeof *plan);
  if (!plan) return tni_cm_fail(err, TN_E_NO_MEMORY, p->device->vendor->name, "out of memory");
  plan->program = p;
  plan->task = p->tasks[task];
  plan->mem = mem;
  tn_status st = tni_cl_expand(plan, dims, compile, err);
  if (st == TN_OK)
    *out = plan;
  else
    tni_cl_unbind(plan);
  return st;
}

tn_status tni_cl_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  tn_plan *plan = NULL;
  tn_status st = make_plan((tn_program *)p, task, dims, false, &plan, NULL);
  if (st != TN_OK) return st;
  const tni_cl_task *t = plan->task;
  for (uint32_t i = 0; out->slot_bytes && i < t->pub.n_uses; i++) {
    const uint32_t slot = t->pub.uses[i].slot;
    if (p->slots[slot]->kind != TN_SLOT_TEMP) continue;
    uint64_t bytes = plan->arena_bytes;
    if (i != t->arena_use) {
      int64_t n = 0;
      const tni_cl_value *v = &p->values[p->slots[slot]->value];
      st = tni_cm_product(p->device->host, &p->graph, v->dims, v->rank, dims, &n);
      bytes = (uint64_t)n * size_of(v->store);
    }
    out->slot_bytes[slot] = bytes;
  }
  out->scratch_bytes = 0;
  out->scratch_align = 64;
  out->macs = plan->macs;
  out->moved_bytes = plan->moved;
  out->cost_ns = 5000.0 * plan->n_launches + plan->macs / 500 + plan->moved / 40;
  tni_cl_unbind(plan);
  return st;
}

tn_status tni_cl_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  return make_plan(p, task, dims, true, out, err);
}

void tni_cl_unbind(tn_plan *plan) {
  if (!plan) return;
  tni_cm_mem mem = plan->mem;
  tni_cm_free(&mem);
}
