/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, rotary, caches, norms and what moves elements.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/opencl/clexpand.h"

/* --- heads ------------------------------------------------------------------------------------------------------- */

typedef struct heads {
  int64_t B, S, H, D, b, s, h;
} heads;

static heads heads_of(const tni_cx_view *v, int64_t n) {
  if (v->rank == 4)
    return (heads){v->dims[0], v->dims[2], v->dims[1], v->dims[3], v->strides[0], v->strides[2], v->strides[1]};
  const int64_t D = n ? v->dims[2] / n : v->dims[2];
  return (heads){v->dims[0], v->dims[1], n, D, v->strides[0], v->strides[1], D};
}

void tni_cx_expand_rotary(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view x = tni_cx_view_of(e, o->in[0]), c = tni_cx_view_of(e, o->in[1]), s = tni_cx_view_of(e, o->in[2]),
                    y = tni_cx_view_of(e, o->out[0]);
  const bool with_pos = o->n_in > 3 && o->in[3] != TN_NONE;
  const tni_cx_view pos = with_pos ? tni_cx_view_of(e, o->in[3]) : x;
  const heads hx = heads_of(&x, o->i[1]), hy = heads_of(&y, o->i[1]);
  const int64_t R = o->i[2] ? o->i[2] / 2 : hx.D / 2;
  if (!hx.B || !hx.S || !hx.H) return;
  if (c.dims[c.rank - 1] < R || R * 2 > hx.D) {
    tni_cx_fail(e, TN_E_INVALID, o->name, "rotary tables that are too narrow");
    return;
  }
  tni_cl_launch *l = tni_cx_add_launch(e, TNI_CLK_ROTARY);
  if (!l) return;
  tni_cx_operand(l, &x);
  tni_cx_operand(l, &c);
  tni_cx_operand(l, &s);
  tni_cx_operand(l, with_pos ? &pos : NULL);
  tni_cx_operand(l, &y);
  const int64_t cb = with_pos || c.dims[0] == 1 ? 0 : c.strides[0], cs = c.strides[c.rank - 2];
  tni_cx_ints(
      e, l, (int64_t[]){hx.B, hx.S, hx.H, hx.D, R, o->i[0] != 0, hx.b, hx.s, hx.h, hy.b, hy.s, hy.h, cb, cs, c.dims[0]},
      15);
  tni_cx_finish(e, l, o->name);
}

/* Use of the cache that a value is in, or TN_NONE. */
static uint32_t state_use(const tni_cx *e, tn_id v) {
  return tni_cx_value_of(e, v)->kind == TN_VALUE_STATE ? tni_cx_use_of(e, tni_cx_value_of(e, v)->slot) : TN_NONE;
}

void tni_cx_expand_append(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view x = tni_cx_view_of(e, o->in[1]), pos = tni_cx_view_of(e, o->in[2]),
                    cache = tni_cx_view_of(e, o->in[0]);
  const heads hx = heads_of(&x, o->i[1]);
  if (!hx.B || !hx.S || !hx.H || !hx.D) return;
  tni_cl_launch *l = tni_cx_add_launch(e, TNI_CLK_APPEND);
  if (!l) return;
  tni_cx_operand(l, &x);
  tni_cx_operand(l, &pos);
  tni_cx_operand(l, &cache);
  l->state_use[0] = state_use(e, o->in[0]);
  l->label = cache.rank;
  tni_cx_ints(e, l, (int64_t[]){hx.B, hx.S, hx.H, hx.D, hx.b, hx.s, hx.h, 0, 0, 0, 0}, 11);
  tni_cx_finish(e, l, o->name);
}

/* Strides of a mask along batch, head, query; 0 where it has one. */
static void mask_strides(const tni_cx_view *m, int64_t out[4]) {
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t back = 4 - i; /* axis counted from the end */
    out[i] = m->rank >= back && m->dims[m->rank - back] != 1 ? m->strides[m->rank - back] : 0;
  }
  out[3] = m->dims[m->rank - 1];
}

void tni_cx_expand_attention(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view q = tni_cx_view_of(e, o->in[0]), k = tni_cx_view_of(e, o->in[1]), v = tni_cx_view_of(e, o->in[2]),
                    y = tni_cx_view_of(e, o->out[0]);
  const bool masked = o->n_in > 3 && o->in[3] != TN_NONE, valid = o->n_in > 6 && o->in[6] != TN_NONE;
  const tni_cx_view m = masked ? tni_cx_view_of(e, o->in[3]) : q, n = valid ? tni_cx_view_of(e, o->in[6]) : q;
  const heads hq = heads_of(&q, o->i[1]), hk = heads_of(&k, o->i[2]), hv = heads_of(&v, o->i[2]),
              hy = heads_of(&y, o->i[1]);
  int64_t ms[4] = {0, 0, 0, 0};
  if (!hq.B || !hq.S || !hq.H || !hv.D) return;
  if (!hk.H || hq.H % hk.H) {
    tni_cx_fail(e, TN_E_INVALID, o->name, "query heads are no multiple of the key heads");
    return;
  }
  if (masked) mask_strides(&m, ms);
  tni_cl_launch *l = tni_cx_add_launch(e, TNI_CLK_ATTN);
  if (!l) return;
  tni_cx_operand(l, &q);
  tni_cx_operand(l, &k);
  tni_cx_operand(l, &v);
  tni_cx_operand(l, masked ? &m : NULL);
  tni_cx_operand(l, valid ? &n : NULL);
  tni_cx_operand(l, &y);
  l->state_use[0] = state_use(e, o->in[1]);
  l->state_use[1] = state_use(e, o->in[2]);
  l->label = k.rank;
  tni_cx_ints(e, l, (int64_t[]){hq.B,  hq.S,  hq.H, hk.H, hq.D, hv.D,         hk.S,    hq.b,    hq.s,
                                hq.h,  hk.b,  hk.s, hk.h, hv.b, hv.s,         hv.h,    ms[0],   ms[1],
                                ms[2], ms[3], hy.b, hy.s, hy.h, o->i[0] != 0, o->i[3], o->i[4], 0},
              27);
  l->shape.floats[0] = o->f[0] != 0 ? o->f[0] : 1.0f / sqrtf((float)hq.D);
  l->shape.floats[1] = o->f[1];
  l->shape.n_floats = 2;
  tni_cx_finish(e, l, o->name);
  e->plan->macs += 2.0 * (double)(hq.B * hq.S * hq.H * hq.D) * (double)hk.S;
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

void tni_cx_expand_norm(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view x = tni_cx_view_of(e, o->in[0]), y = tni_cx_view_of(e, o->out[0]);
  const tni_cx_view s = o->n_in > 1 && o->in[1] != TN_NONE ? tni_cx_view_of(e, o->in[1]) : x;
  const bool with_bias = o->n_in > 2 && o->in[2] != TN_NONE;
  const tni_cx_view b = with_bias ? tni_cx_view_of(e, o->in[2]) : x;
  const int64_t parts = o->i[1] ? o->i[1] : 1; /* rows in the last axis */
  const int64_t D = x.dims[x.rank - 1] / parts, rows = tni_cx_product(e, x.dims, x.rank - 1) * parts;
  if (rows == 0 || D == 0) return;
  tni_cl_launch *l = tni_cx_add_launch(e, TNI_CLK_NORM);
  if (!l) return;
  tni_cx_operand(l, &x);
  tni_cx_operand(l, o->n_in > 1 && o->in[1] != TN_NONE ? &s : NULL);
  tni_cx_operand(l, with_bias ? &b : NULL);
  tni_cx_operand(l, &y);
  tni_cx_ints(e, l, (int64_t[]){rows, D, D, D, o->i[0]}, 5);
  l->shape.floats[0] = o->f[0];
  l->shape.n_floats = 1;
  tni_cx_finish(e, l, o->name);
}

void tni_cx_expand_gather(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view t = tni_cx_view_of(e, o->in[0]), ids = tni_cx_view_of(e, o->in[1]),
                    y = tni_cx_view_of(e, o->out[0]);
  const int64_t rows = tni_cx_product(e, ids.dims, ids.rank);
  if (rows == 0 || t.dims[1] == 0) return;
  tni_cl_launch *l = tni_cx_add_launch(e, TNI_CLK_GATHER);
  if (!l) return;
  tni_cx_operand(l, &t);
  tni_cx_operand(l, &ids);
  tni_cx_operand(l, &y);
  tni_cx_ints(e, l, (int64_t[]){rows, t.dims[1], t.dims[0], t.dims[1]}, 4);
  tni_cx_finish(e, l, o->name);
}

void tni_cx_expand_matmul(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view a = tni_cx_view_of(e, o->in[0]), b = tni_cx_view_of(e, o->in[1]), y = tni_cx_view_of(e, o->out[0]);
  int64_t batch[2] = {1, 1}, as[2] = {0, 0}, bs[2] = {0, 0};
  for (uint32_t i = 0; i < 2; i++) { /* axis 4 - i from the end is batch i */
    const uint32_t back = 4 - i;
    if (y.rank >= back) batch[i] = y.dims[y.rank - back];
    if (a.rank >= back && a.dims[a.rank - back] != 1) as[i] = a.strides[a.rank - back];
    if (b.rank >= back && b.dims[b.rank - back] != 1) bs[i] = b.strides[b.rank - back];
  }
  const int64_t M = a.dims[a.rank - 2], K = a.dims[a.rank - 1], N = b.dims[b.rank - 1];
  if (b.dims[b.rank - 2] != K) {
    tni_cx_fail(e, TN_E_INVALID, o->name, "operands that do not fit each other");
    return;
  }
  if (!M || !N || !batch[0] || !batch[1]) return;
  tni_cl_launch *l = tni_cx_add_launch(e, TNI_CLK_MATMUL);
  if (!l) return;
  tni_cx_operand(l, &a);
  tni_cx_operand(l, &b);
  tni_cx_operand(l, &y);
  tni_cx_ints(e, l,
              (int64_t[]){M, N, K, batch[0], batch[1], a.strides[a.rank - 2], a.strides[a.rank - 1], as[0], as[1],
                          b.strides[b.rank - 2], b.strides[b.rank - 1], bs[0], bs[1], N},
              14);
  tni_cx_finish(e, l, o->name);
}

void tni_cx_expand_ew(tni_cx *e, const tni_cl_op *o) {
  tni_cx_view in[TN_CHAIN_MAX_INPUTS], out[TNI_CM_MAX_RESULTS];
  const tni_cm_chain *c = &o->f_spec.chain;
  for (uint32_t i = 0; i < c->n_in && i < TN_CHAIN_MAX_INPUTS; i++) in[i] = tni_cx_view_of(e, o->in[i]);
  for (uint32_t i = 0; i < c->n_results; i++) out[i] = tni_cx_view_of(e, o->out[i]);
  if (o->permuted) {
    const tni_cx_view x = in[0];
    for (uint32_t i = 0; i < x.rank; i++) {
      in[0].dims[i] = x.dims[o->perm[i]];
      in[0].strides[i] = x.strides[o->perm[i]];
    }
  }
  tni_cx_emit_ew(e, c, in, out, NULL);
}

void tni_cx_expand_slice(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view x = tni_cx_view_of(e, o->in[0]), from = tni_cx_view_of(e, o->in[1]),
                    y = tni_cx_view_of(e, o->out[0]);
  const uint32_t axis = (uint32_t)o->i[0];
  const tni_cx_start s = {.from = &from, .stride = x.strides[axis], .length = x.dims[axis], .taken = y.dims[axis]};
  const tni_cm_chain c = {.n_in = 1, .n_results = 1, .results = {0}};
  tni_cx_emit_ew(e, &c, &x, &y, &s);
}

/* Pieces of one value along an axis, copied to or from values of their own. */
/* v with its last axis as [parts, size]. */
static tni_cx_view split_last(tni_cx_view v, int64_t parts) {
  const uint32_t last = v.rank - 1;
  const int64_t size = parts ? v.dims[last] / parts : 0, stride = v.strides[last];
  v.dims[last] = parts;
  v.strides[last] = size * stride;
  v.dims[last + 1] = size;
  v.strides[last + 1] = stride;
  v.rank++;
  return v;
}

/* tenon.ConcatHeads: each operand into its part of every head; one that is shared is broadcast. */
void tni_cx_expand_heads(tni_cx *e, const tni_cl_op *o) {
  const tni_cx_view whole = split_last(tni_cx_view_of(e, o->out[0]), o->i[0]);
  const uint32_t last = whole.rank - 1;
  int64_t at = 0;
  for (uint32_t i = 0; i < o->n_in; i++) {
    const tni_cx_view piece = split_last(tni_cx_view_of(e, o->in[i]), o->i[1] >> i & 1 ? 1 : o->i[0]);
    tni_cx_view part = whole;
    part.dims[last] = piece.dims[last];
    part.place.at += (uint64_t)(at * whole.strides[last]) * tni_cx_size_of(whole.type);
    at += piece.dims[last];
    tni_cx_emit_copy(e, &piece, &part);
  }
}

void tni_cx_expand_pieces(tni_cx *e, const tni_cl_op *o, bool split) {
  const uint32_t n = split ? o->n_out : o->n_in, axis = (uint32_t)o->i[0];
  const tni_cx_view whole = tni_cx_view_of(e, split ? o->in[0] : o->out[0]);
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tn_id id = split ? o->out[i] : o->in[i];
    if (id == TN_NONE) continue;
    const tni_cx_view piece = tni_cx_view_of(e, id);
    tni_cx_view part = whole;
    part.dims[axis] = piece.dims[axis];
    part.place.at += (uint64_t)(at * whole.strides[axis]) * tni_cx_size_of(whole.type);
    at += piece.dims[axis];
    tni_cx_emit_copy(e, split ? &part : &piece, split ? &piece : &part);
  }
}
