/* SPDX-License-Identifier: Apache-2.0
 *
 * Products over packed weights: one joined matrix, then its parts as they lie or a generated kernel for each strip.
 */
#include <string.h>

#include "plugins/common/opencl/clexpand.h"

/* --- products ---------------------------------------------------------------------------------------------------- */

tni_cx_region *tni_cx_temp(const tni_cx *e, uint32_t op, uint32_t which) {
  return &e->temps[(op - e->t->first_op) * MAX_TEMPS + which];
}

/* How a product's results reach memory. */
enum { DIRECT = 0, JOINED = 1, STRIPS = 2 };

static uint32_t product_way(const tni_cx *e, const tni_cl_op *o) {
  const tni_cm_fused *f = &o->f_spec;
  bool plain = f->chain.n_ops == 0, kept = true;
  for (uint32_t i = 0; i < o->n_out; i++) {
    if (o->out[i] == TN_NONE) continue;
    kept = kept && tni_cx_value_of(e, o->out[i])->slot == TN_NONE && !tni_cx_value_of(e, o->out[i])->dense;
  }
  for (uint32_t i = 0; i < f->chain.n_results; i++) plain = plain && f->chain.results[i] < f->n_parts;
  if (plain && f->n_parts == 1 && f->parts[0].first == 0 && f->parts[0].count == o->N && o->n_out == 1) return DIRECT;
  return plain && kept ? JOINED : STRIPS;
}

static int64_t rows_of(tni_cx *e, const tni_cl_op *o) {
  const tni_cl_value *x = tni_cx_value_of(e, o->in[0]);
  return x->rank ? tni_cx_product(e, e->dims[o->in[0]], x->rank - 1) : 1;
}

void tni_cx_size_product(tni_cx *e, const tni_cl_op *o, uint32_t op) {
  const int64_t M = rows_of(e, o);
  const uint32_t way = product_way(e, o);
  tni_cx_region *y = tni_cx_temp(e, op, TEMP_Y), *x = tni_cx_temp(e, op, TEMP_X);
  y->first = x->first = x->last = y->last = op;
  const int64_t dims[2] = {M, o->N}, xdims[2] = {M, o->K};
  if (way != DIRECT) y->bytes = (uint64_t)tni_cx_product(e, dims, 2) * (way == JOINED ? 2 : 4);
  if (tni_cx_view_of(e, o->in[0]).type != TN_DT_F16) x->bytes = (uint64_t)tni_cx_product(e, xdims, 2) * 2;
  for (uint32_t i = 0; way == JOINED && i < o->n_out; i++)
    if (o->out[i] != TN_NONE && tni_cx_value_of(e, o->out[i])->last > y->last)
      y->last = tni_cx_value_of(e, o->out[i])->last;
}

static tni_cl_place place_in_arena(uint64_t at) { return (tni_cl_place){TNI_CLP_ARENA, 0, at}; }

/* The activation in half, rows at one distance. */
static tni_cx_view half_rows(tni_cx *e, const tni_cl_op *o, uint32_t op, int64_t M) {
  tni_cx_view x = tni_cx_view_of(e, o->in[0]);
  int64_t rows, pitch;
  const bool regular = tni_cx_as_rows(e, &x, &rows, &pitch);
  if (regular && x.type == TN_DT_F16) return tni_cx_rows_view(x.place, x.type, M, o->K, pitch);
  if (regular && x.rank > 4) x = tni_cx_rows_view(x.place, x.type, M, o->K, pitch);
  tni_cx_view h = x;
  h.type = TN_DT_F16;
  h.place = place_in_arena(tni_cx_temp(e, op, TEMP_X)->offset);
  tni_cx_dense_strides(&h);
  if (!tni_cx_temp(e, op, TEMP_X)->bytes) tni_cx_fail(e, TN_E_INTERNAL, o->name, "an activation without room in half");
  if (x.rank > 4) tni_cx_fail(e, TN_E_UNSUPPORTED, o->name, "an activation of more than 4 dims that is no half");
  tni_cx_emit_copy(e, &x, &h);
  return tni_cx_rows_view(h.place, TN_DT_F16, M, o->K, o->K);
}

static void emit_parts(tni_cx *e, const tni_cl_op *o, const tni_cx_view *x, const tni_cx_view *y, int64_t M) {
  const uint32_t use = tni_cx_use_of(e, o->blob_slot);
  for (int64_t k = 0; k < o->geo.n_parts; k++) {
    const tni_e0m_part part = tni_e0m_part_of(&o->geo, k);
    const int64_t N = o->N - part.n0 < part.Pn ? o->N - part.n0 : part.Pn;
    if (N <= 0) break;
    tni_cx_view w = {.place = {TNI_CLP_USE, use, part.w_at}, .type = TN_DT_U8}, s = w, to = *y;
    s.place.at = part.s_at;
    to.place.at += (uint64_t)part.n0 * tni_cx_size_of(to.type);
    tni_cl_launch *l = tni_cx_add_launch(e, M <= TNI_CL_GEMV_ROWS ? TNI_CLK_GEMV : TNI_CLK_GEMM);
    if (!l) return;
    tni_cx_operand(l, x);
    tni_cx_operand(l, &w);
    tni_cx_operand(l, &s);
    tni_cx_operand(l, &to);
    tni_cx_ints(e, l, (int64_t[]){M, N, o->K, part.Pn, x->strides[0], y->strides[0]}, 6);
    l->shape.bits = o->geo.bits;
    l->shape.no_image = !e->p->has_image[o->blob_slot] || k > 0;
    tni_cx_finish(e, l, o->name);
  }
  e->plan->macs += (double)M * (double)o->N * (double)o->K;
  e->plan->moved += (double)o->geo.bytes;
}

/* Column of product p in the joined matrix. */
static int64_t product_column(const tni_cl_op *o, uint32_t p) {
  return o->weight_n0[o->f_spec.parts[p].weight] + o->f_spec.parts[p].first;
}

static tni_cx_view column_view(tni_cx *e, const tni_cl_op *o, uint32_t op, uint32_t p, uint32_t type, tn_id like) {
  const tni_cl_value *v = tni_cx_value_of(e, like);
  tni_cx_view y = {.place = place_in_arena(tni_cx_temp(e, op, TEMP_Y)->offset +
                                           (uint64_t)product_column(o, p) * tni_cx_size_of(type)),
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
static void emit_strip(tni_cx *e, const tni_cl_op *o, uint32_t op, uint32_t which) {
  const tni_cm_fused *f = &o->f_spec;
  const tni_cm_chain *c = &f->chain;
  uint32_t to[TNI_CM_MAX_REGISTERS];
  bool used[TNI_CM_MAX_REGISTERS] = {false};
  tni_cx_view in[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS], out[TNI_CM_MAX_RESULTS];
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
                                : tni_cx_view_of(e, o->in[1 + o->n_weights + r - f->n_parts]);
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
    out[n.n_results] = tni_cx_view_of(e, o->out[i]);
    n.results[n.n_results++] = to[c->results[i]];
  }
  /* More than four dims: rows and columns, as all operands of a chain have them. */
  for (uint32_t i = 0; i < n.n_in + n.n_results; i++) {
    tni_cx_view *v = i < n.n_in ? &in[i] : &out[i - n.n_in];
    int64_t rows, pitch;
    if (v->rank > 4 && tni_cx_as_rows(e, v, &rows, &pitch))
      *v = tni_cx_rows_view(v->place, v->type, rows, v->dims[v->rank - 1], pitch);
    if (v->rank > 4) tni_cx_fail(e, TN_E_UNSUPPORTED, o->name, "a chain over more than 4 dims");
  }
  tni_cx_emit_ew(e, &n, in, out, NULL);
}

void tni_cx_expand_product(tni_cx *e, const tni_cl_op *o, uint32_t op) {
  const int64_t M = rows_of(e, o);
  const uint32_t way = product_way(e, o);
  if (M == 0) return;
  const tni_cx_view x = half_rows(e, o, op, M);
  if (way == DIRECT) {
    tni_cx_view y = tni_cx_view_of(e, o->out[0]);
    y = tni_cx_rows_view(y.place, y.type, M, o->N, o->N);
    emit_parts(e, o, &x, &y, M);
    return;
  }
  const uint32_t type = way == JOINED ? TN_DT_F16 : TN_DT_F32;
  const tni_cx_view y = tni_cx_rows_view(place_in_arena(tni_cx_temp(e, op, TEMP_Y)->offset), type, M, o->N, o->N);
  emit_parts(e, o, &x, &y, M);
  const tni_cm_chain *c = &o->f_spec.chain;
  for (uint32_t i = 0; way == JOINED && i < o->n_out; i++)
    if (o->out[i] != TN_NONE) e->views[o->out[i]] = column_view(e, o, op, c->results[i], type, o->out[i]);
  for (uint32_t i = 0; way == STRIPS && i < o->n_strips; i++) emit_strip(e, o, op, i);
}
