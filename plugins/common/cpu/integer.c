/* SPDX-License-Identifier: Apache-2.0
 *
 * What an integer product is, and its task.
 */
#include "plugins/common/cpu/integer.h"

#include "plugins/common/formats/formats.h"

static const int64_t is_unsigned[2] = {0, 1}; /* params of the format */

static const tn_value *integer_input(const tn_graph *g, const tn_node *n, uint32_t i) {
  return i < n->n_in ? tni_cm_value(g, n->in[i]) : NULL;
}

static bool is_dtype(const tn_value *v, uint32_t dtype) { return !v || v->dtype == dtype; }

/* One element, or [N] after axes of 1; v may be absent. */
static bool fits_columns(const tni_clt_device *d, const tn_graph *g, const tn_value *v, int64_t N, bool *one) {
  int64_t last = 1, dim;
  if (!v) return true;
  if (v->rank > TN_MAX_RANK) return false;
  for (uint32_t i = 0; i < v->rank; i++) {
    if (!tni_cm_const(d->host, g, v->dims[i], &dim) || (i + 1 < v->rank && dim != 1)) return false;
    last = dim;
  }
  *one = last == 1;
  return last == 1 || last == N;
}

const char *tni_clt_integer_match(const tni_clt_device *d, const tn_graph *g, const tn_node *n, tni_clt_match *m) {
  const tn_value *a = integer_input(g, n, TN_INTEGER_A), *b = integer_input(g, n, TN_INTEGER_B);
  const tn_value *scale = integer_input(g, n, TN_INTEGER_SCALE), *bias = integer_input(g, n, TN_INTEGER_BIAS);
  const tn_value *za = integer_input(g, n, TN_INTEGER_A_ZERO), *zb = integer_input(g, n, TN_INTEGER_B_ZERO);
  int64_t k;
  bool one = true;
  m->reason = TN_WHY_SHAPE;
  if (!a || !b || !scale || n->n_out < 1 || a->rank < 1 || a->rank > TN_MAX_RANK) return "an operand is missing";
  if (b->kind != TN_VALUE_CONST || b->rank != 2) {
    m->reason = TN_WHY_NOT_CONST;
    return "an integer product whose B is no constant matrix";
  }
  m->reason = TN_WHY_DTYPE;
  if (a->dtype != TN_DT_U8 || (b->dtype != TN_DT_U8 && b->dtype != TN_DT_I8))
    return "an integer product of other types than uint8 with int8 or uint8";
  if (!is_dtype(za, a->dtype) || !is_dtype(zb, b->dtype) || scale->dtype != TN_DT_F32 || !is_dtype(bias, TN_DT_F32))
    return "zero points, a scale or a bias of another type";
  m->reason = TN_WHY_SHAPE;
  if (!tni_cm_const(d->host, g, b->dims[0], &m->K) || !tni_cm_const(d->host, g, b->dims[1], &m->N) ||
      !tni_cm_const(d->host, g, a->dims[a->rank - 1], &k) || k != m->K)
    return "the last dim of A is not known to be K";
  if (!fits_columns(d, g, za, 1, &one) || !fits_columns(d, g, zb, m->N, &one) ||
      !fits_columns(d, g, scale, m->N, &one) || !fits_columns(d, g, bias, m->N, &one) || (bias && one && m->N != 1))
    return "zero points, a scale or a bias that do not fit the columns";
  if ((zb && zb->kind != TN_VALUE_CONST) || (bias && bias->kind != TN_VALUE_CONST)) {
    m->reason = TN_WHY_NOT_CONST;
    return "a zero point of B or a bias that is not constant";
  }
  m->reason = TN_WHY_OPTION;
  if (m->K < d->set.min_k || m->N < d->set.min_n) return "constant with a dim below options min_k, min_n";
  tni_int8_geometry geo;
  m->reason = TN_WHY_TOO_BIG;
  if (tni_int8_geometry_of(m->N, m->K, &geo) != TN_OK) return "constant with a dim of zero or over 2^31";
  m->x = n->in[TN_INTEGER_A];
  m->w = n->in[TN_INTEGER_B];
  m->y = n->out[0];
  m->kn = true;
  m->offset = b->dtype == TN_DT_U8 ? 128 : 0;
  return NULL;
}

tni_cm_offer tni_clt_integer_offer(int64_t N, int64_t K, int64_t offset) {
  tni_int8_geometry g = {0};
  tni_cm_offer o = {.format = &tni_int8_format, .params = &is_unsigned[offset != 0], .n_params = 1};
  if (tni_int8_geometry_of(N, K, &g) == TN_OK) o.weight_bytes = g.bytes;
  return o;
}

/* A use of operand `i` of the node, or TN_NONE. */
static uint32_t integer_use(tni_clt_builder *b, const tn_node *n, uint32_t i) {
  if (i >= n->n_in || n->in[i] == TN_NONE) return TN_NONE;
  return tni_clt_add_use(b, tni_clt_slot_to_read(b, n->in[i]), TN_READ);
}

/* One element for all columns, not one each. */
static bool is_one(const tni_clt_builder *b, const tn_node *n, uint32_t i, int64_t N) {
  bool one = true;
  return fits_columns(b->d, b->c.s->graph, integer_input(b->c.s->graph, n, i), N, &one) && one;
}

tn_status tni_clt_lower_integer(tni_clt_builder *b, uint32_t i, tn_error *err) {
  const tni_clt_match *m = &b->match[i];
  const tn_node *n = b->c.s->graph->nodes[m->node];
  const tn_value *x = b->c.s->graph->values[m->x];
  tni_int8_geometry g;
  b->done[i] = 1;
  tn_status st = tni_int8_geometry_of(m->N, m->K, &g);
  if (st != TN_OK) return tni_cm_fail(err, st, n->name, "the matrix is too large");
  if (!tni_clt_start_task(b, TNI_CLT_INTEGER, "linear ", m->node, 8, 1)) return TN_E_NO_MEMORY;
  tni_clt_task *t = b->task;
  t->geo = (tni_clt_geometry){
      .N = g.N, .K = g.K, .K_padded = g.K_padded, .row_block_bytes = g.row_block_bytes, .bytes = g.bytes};
  t->x = tni_clt_copy_dims(b, x->dims, x->rank);
  tni_clt_add_use(b, tni_clt_slot_to_read(b, m->x), TN_READ);
  const uint32_t need = tni_clt_add_need_with(b, &tni_int8_format, &is_unsigned[m->offset != 0], 1, &m->w, 1, true);
  t->w_use = tni_clt_add_use(b, tni_clt_add_blob_slot(b, need), TN_READ);
  t->integer = (tni_clt_integer){.offset = (int32_t)m->offset,
                                 .scale_one = is_one(b, n, TN_INTEGER_SCALE, m->N),
                                 .b_zero_one = is_one(b, n, TN_INTEGER_B_ZERO, m->N),
                                 .scale = integer_use(b, n, TN_INTEGER_SCALE),
                                 .a_zero = integer_use(b, n, TN_INTEGER_A_ZERO),
                                 .b_zero = integer_use(b, n, TN_INTEGER_B_ZERO),
                                 .bias = integer_use(b, n, TN_INTEGER_BIAS)};
  t->integer.y = tni_clt_add_use(b, tni_clt_slot_to_write(b, m->y), TN_WRITE);
  tni_clt_add_node(b, m->node);
  t->pub.symbols = tni_cm_symbols(b->d->host, b->c.s->graph, x->dims, x->rank - 1);
  tni_clt_finish_task(b);
  return b->c.no_memory ? TN_E_NO_MEMORY : TN_OK;
}
