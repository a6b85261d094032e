/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/linear.h"

#include <math.h>
#include <string.h>

#include "plugins/common/base/base.h"

typedef struct linear_reader {
  const tni_npu_device *d;
  const tn_graph *g;
  const tn_node *n;
  tni_npu_linear *l;
  tni_npu_answer *a;
} linear_reader;

static bool refuse_linear(const linear_reader *r, uint32_t reason, const char *text) {
  r->a->reason = reason;
  r->a->text = text;
  return false;
}

/* --- operands --------------------------------------------------------------------------------------------------- */

static bool read_values(const linear_reader *r) {
  const tn_node *n = r->n;
  for (uint32_t i = 0; i < (uint32_t)n->n_in + n->n_out; i++) {
    const bool result = i >= n->n_in;
    const tn_id id = result ? n->out[i - n->n_in] : n->in[i];
    const tn_value *v = tni_cm_value(r->g, id);
    if (!v && result && id == TN_NONE) continue;
    if (!v) return refuse_linear(r, TN_WHY_SHAPE, "an operand is missing");
    if (v->dtype != TN_DT_F32) return refuse_linear(r, TN_WHY_DTYPE, "only float32 inputs and outputs");
    if (v->kind == TN_VALUE_STATE) return refuse_linear(r, TN_WHY_FLOAT, "attention stays on the CPU");
    if (v->rank > TN_MAX_RANK) return refuse_linear(r, TN_WHY_SHAPE, "a rank that is unknown or over 8");
  }
  const tn_value *x = tni_cm_value(r->g, n->in[0]);
  if (x->kind == TN_VALUE_CONST)
    return refuse_linear(r, TN_WHY_NOT_CONST, "constant activation; only weights may be packed");
  if (x->rank < 1 || !tni_cm_const(r->d->host, r->g, x->dims[x->rank - 1], &r->l->K))
    return refuse_linear(r, TN_WHY_SHAPE, "the last dim of the activation is not known");
  r->l->x = n->in[0];
  return true;
}

/* A MatMul is a FusedMatMul of one part and no chain. */
static bool read_products(const linear_reader *r) {
  tni_npu_linear *l = r->l;
  if (r->n->op == TN_OP_FUSED_MATMUL) {
    const char *why = tni_cm_fused_read(r->n, &l->f);
    if (why) return refuse_linear(r, TN_WHY_ATTR, why);
  } else {
    const tn_value *w = r->n->n_in == 2 ? tni_cm_value(r->g, r->n->in[1]) : NULL;
    if (!w || w->rank != 2 || !tni_cm_const(r->d->host, r->g, w->dims[1], &l->N[0]))
      return refuse_linear(r, TN_WHY_NOT_CONST, "the second operand is no constant matrix");
    l->f = (tni_cm_fused){
        .n_weights = 1, .n_parts = 1, .parts = {{.count = l->N[0]}}, .chain = {.n_in = 1, .n_results = 1}};
  }
  l->kn = !l->f.trans_b;
  for (uint32_t i = 0; i < l->f.n_extras; i++) l->extras[i] = r->n->in[1 + l->f.n_weights + i];
  l->n_strips = tni_cm_strips(&l->f, l->strip);
  return l->n_strips ? true : refuse_linear(r, TN_WHY_ATTR, "a chain that joins unlike products or uses none");
}

static bool read_weight(const linear_reader *r, uint32_t w, uint32_t to) {
  tni_npu_linear *l = r->l;
  const tn_value *v = tni_cm_value(r->g, r->n->in[1 + w]);
  int64_t K;
  if (v->kind != TN_VALUE_CONST || v->rank != 2)
    return refuse_linear(r, TN_WHY_NOT_CONST, "a weight is no constant matrix");
  if (!tni_cm_const(r->d->host, r->g, v->dims[l->kn ? 0 : 1], &K) ||
      !tni_cm_const(r->d->host, r->g, v->dims[l->kn ? 1 : 0], &l->N[to]) || K != l->K)
    return refuse_linear(r, TN_WHY_SHAPE, "a weight whose dims are unknown or do not fit the activation");
  if (!tni_w8a8_codes(l->N[to], K))
    return refuse_linear(r, TN_WHY_TOO_BIG, "a weight with a dim of zero, K over 131072 or N over 2^31");
  for (uint32_t p = 0; p < l->f.n_parts; p++)
    if (l->f.parts[p].weight == w && l->f.parts[p].first + l->f.parts[p].count > l->N[to])
      return refuse_linear(r, TN_WHY_SHAPE, "a part has columns that its weight lacks");
  l->weight[to] = r->n->in[1 + w];
  return true;
}

/* Weights that no part uses are left out. */
static bool read_weights(const linear_reader *r) {
  tni_npu_linear *l = r->l;
  uint32_t place[TN_FUSED_MAX_PARTS];
  for (uint32_t w = 0; w < l->f.n_weights; w++) {
    bool used = false;
    for (uint32_t p = 0; p < l->f.n_parts; p++) used = used || l->f.parts[p].weight == w;
    place[w] = l->n_weights;
    if (used && !read_weight(r, w, l->n_weights++)) return false;
  }
  for (uint32_t p = 0; p < l->f.n_parts; p++) l->f.parts[p].weight = place[l->f.parts[p].weight];
  return true;
}

static bool read_extras(const linear_reader *r) {
  tni_npu_linear *l = r->l;
  return tni_cm_extras_read(r->d->host, r->g, &l->f, l->strip, l->extras, l->extra) ||
         refuse_linear(r, TN_WHY_SHAPE, "an operand of the chain does not have the products' columns");
}

/* --- the chunk -------------------------------------------------------------------------------------------------- */

/* The last unknown dim is the sequence's and is held to the chunk. Others, a batch, are chunks one after the other. */
static bool read_rows(const linear_reader *r) {
  tni_npu_linear *l = r->l;
  const tn_value *x = tni_cm_value(r->g, l->x);
  int64_t known = 1, dim;
  for (uint32_t i = 0; i + 1 < x->rank; i++) {
    if (x->dims[i] == TN_NONE) return refuse_linear(r, TN_WHY_SHAPE, "a dim that nobody knows");
    if (!tni_cm_const(r->d->host, r->g, x->dims[i], &dim)) {
      l->rows = (tn_constraint){.lhs = x->dims[i], .rel = TN_REL_EQ, .rhs = r->d->set.chunk};
      if (r->d->set.n_lengths > 1)
        l->rows = (tn_constraint){.lhs = x->dims[i], .rel = TN_REL_IN}; /* set 0: the lengths */
      l->n_rows = 1;
    } else if (dim < 1 || __builtin_mul_overflow(known, dim, &known)) {
      return refuse_linear(r, TN_WHY_SHAPE, "no rows, or too many");
    }
  }
  if (!l->n_rows && known % r->d->set.chunk) return refuse_linear(r, TN_WHY_SHAPE, "rows that are not whole chunks");
  return true;
}

/* --- calibration ------------------------------------------------------------------------------------------------ */

static bool read_stats(const linear_reader *r) {
  const tn_stats *s = tni_cm_value(r->g, r->l->x)->stats;
  if (!s) return refuse_linear(r, TN_WHY_NO_STATS, "the activation was not calibrated");
  if (!(s->absmax >= 0 && s->absmax < 1e30f) || !(s->p999 >= 0 && s->p999 < 1e30f))
    return refuse_linear(r, TN_WHY_NO_STATS, "the activation's statistics are no numbers");
  r->l->importance = s->p999 > 0 ? (double)s->absmax / (double)s->p999 : 1;
  return true;
}

/* Without shadow nothing that calibration saw may be cut off. p999 is a bin's upper end, so it may lie above absmax. */
static void choose_scale(const tn_graph *g, tni_npu_linear *l) {
  const tn_stats *s = tni_cm_value(g, l->x)->stats;
  const float top = l->shadow && s->p999 > 0 && s->p999 < s->absmax ? s->p999 : s->absmax;
  l->scale = top / 127.0f > 1e-30f ? top / 127.0f : 1e-30f;
  tni_w8a8_params(l->scale, l->shadow, l->params);
}

/* --- nodes ------------------------------------------------------------------------------------------------------ */

static bool read_node(const linear_reader *r) {
  const tn_node *n = r->n;
  if (n->op != TN_OP_MATMUL && n->op != TN_OP_FUSED_MATMUL)
    return refuse_linear(r, TN_WHY_FLOAT, "only int8 products with constant weights run here");
  if (r->g->phase != TN_PHASE_PREFILL)
    return refuse_linear(r, TN_WHY_OPTION, "static shapes: this device takes the prefill phase only");
  if (n->n_in < 2 || n->n_out < 1) return refuse_linear(r, TN_WHY_SHAPE, "an operand is missing");
  return read_values(r) && read_products(r) && read_weights(r) && read_extras(r) && read_rows(r) && read_stats(r);
}

/* Whether fewer than `keep` products are more important than node i; earlier ones count as more. */
static bool among_first(const tni_npu_answer *a, uint32_t n, uint32_t i, uint32_t keep) {
  uint32_t before = 0;
  for (uint32_t k = 0; k < n; k++)
    if (a[k].linear && (a[k].linear->importance > a[i].linear->importance ||
                        (k < i && a[k].linear->importance >= a[i].linear->importance)))
      before++;
  return before < keep;
}

static void choose_shadows(const tni_npu_device *d, const tn_graph *g, const tni_npu_answer *a) {
  uint32_t count = 0;
  for (uint32_t i = 0; a && i < g->n_nodes; i++) count += a[i].linear != NULL;
  const uint32_t keep = (uint32_t)ceil((1 - d->set.prune) * count - 1e-9);
  for (uint32_t i = 0; a && i < g->n_nodes; i++) {
    tni_npu_linear *l = (tni_npu_linear *)(uintptr_t)a[i].linear;
    if (!l) continue;
    l->shadow = d->set.shadow == TNI_NPU_SHADOW_ALL ||
                (d->set.shadow == TNI_NPU_SHADOW_PRUNED && among_first(a, g->n_nodes, i, keep));
    choose_scale(g, l);
  }
}

const tni_npu_answer *tni_npu_read(const tni_npu_device *d, const tn_graph *g, tni_cm_mem *mem) {
  tni_npu_answer *a = tni_cm_new(mem, g->n_nodes ? g->n_nodes : 1, sizeof *a);
  for (uint32_t i = 0; a && i < g->n_nodes; i++) {
    if (g->nodes[i]->op == TN_OP_ATTENTION) {
      tni_npu_attention *o = tni_cm_new(mem, 1, sizeof *o);
      if (!o) return NULL;
      if (tni_npu_attention_read(d, g, i, o, &a[i].reason, &a[i].text)) a[i].attention = o;
      continue;
    }
    const bool product = g->nodes[i]->op == TN_OP_MATMUL || g->nodes[i]->op == TN_OP_FUSED_MATMUL;
    tni_npu_linear none = {.n_weights = 0}, *l = product ? tni_cm_new(mem, 1, sizeof *l) : &none;
    if (!l) return NULL;
    l->node = i;
    const linear_reader r = {d, g, g->nodes[i], l, &a[i]};
    if (read_node(&r)) a[i].linear = l;
  }
  if (a && !tni_npu_fit_window(d, a, g->n_nodes, mem)) return NULL;
  choose_shadows(d, g, a);
  return a;
}
