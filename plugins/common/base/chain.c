/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/chain.h"

#include <string.h>

#include "plugins/common/base/graphq.h"

enum { PIECE = 1024 }; /* elements that all steps take before the next: tiles are then read from L1 */

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* The attribute, where it has this type; an absent or empty list has n 0. */
static const tn_attr *chain_attr(const tn_node *n, uint32_t i, uint32_t type) {
  const tn_attr *a = i < n->n_attr ? n->attr[i] : NULL;
  return a && a->type == type ? a : NULL;
}

static int64_t attr_int(const tn_node *n, uint32_t i, int64_t dflt) {
  const tn_attr *a = chain_attr(n, i, TN_ATTR_INT);
  return a ? a->u.i : dflt;
}

static const char *read_ops(const tn_node *n, tni_cm_chain *c) {
  const tn_attr *ops = chain_attr(n, TN_ELEMENTWISE_OPS, TN_ATTR_INTS);
  const tn_attr *floats = chain_attr(n, TN_ELEMENTWISE_FLOATS, TN_ATTR_FLOATS);
  uint64_t count = ops ? ops->n : 0;
  if (count % 3 || count / 3 > TN_CHAIN_MAX_OPS) return "ops is no list of triples of the allowed length";
  c->n_ops = (uint32_t)(count / 3);
  if ((floats ? floats->n : 0) != c->n_ops) return "floats does not have one number per instruction";
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const int64_t *t = ops->u.ints + 3 * i, limit = (int64_t)c->n_in + i;
    uint32_t operands = t[0] > 0 && t[0] < UINT32_MAX ? tn_chain_arity((uint32_t)t[0]) : 0;
    if (!operands) return "ops has an operator that is no part of chains";
    if (t[1] < 0 || t[1] >= limit || (operands == 2 ? t[2] < 0 || t[2] >= limit : t[2] != -1))
      return "an instruction's operands are not registers written before";
    c->ops[i] = (tni_cm_instr){.op = (uint32_t)t[0],
                               .a = (uint32_t)t[1],
                               .b = operands == 2 ? (uint32_t)t[2] : TN_NONE,
                               .value = floats->u.floats[i]};
  }
  return NULL;
}

static const char *read_results(const tn_node *n, tni_cm_chain *c) {
  const tn_attr *results = chain_attr(n, TN_ELEMENTWISE_RESULTS, TN_ATTR_INTS);
  uint64_t count = results ? results->n : 0;
  if (count != n->n_out || count == 0 || count > TNI_CM_MAX_RESULTS)
    return "results does not have one register per output";
  c->n_results = (uint32_t)count;
  for (uint32_t i = 0; i < c->n_results; i++) {
    int64_t r = results->u.ints[i];
    if (r < 0 || r >= (int64_t)c->n_in + c->n_ops) return "a result is no register";
    c->results[i] = (uint32_t)r;
  }
  return NULL;
}

const char *tni_cm_chain_read(const tn_node *n, uint32_t n_in, tni_cm_chain *out) {
  *out = (tni_cm_chain){.n_in = n_in};
  if (n_in > TNI_CM_MAX_REGISTERS - TN_CHAIN_MAX_OPS) return "more inputs than a chain may have";
  for (uint32_t i = 0; i < n->n_in; i++)
    if (n->in[i] == TN_NONE) return "an input is absent";
  const char *why = read_ops(n, out);
  return why ? why : read_results(n, out);
}

static const char *read_parts(const tn_node *n, tni_cm_fused *f) {
  int64_t n_weights = attr_int(n, TN_FUSED_N_WEIGHTS, 1);
  if (n_weights < 1 || n_weights > TN_FUSED_MAX_PARTS || n_weights >= n->n_in) return "n_weights is out of range";
  f->n_weights = (uint32_t)n_weights;
  f->n_extras = n->n_in - 1u - f->n_weights;
  if (f->n_extras > TN_CHAIN_MAX_INPUTS) return "more inputs than a chain may have";
  f->trans_b = attr_int(n, TN_FUSED_TRANS_B, 0) != 0;
  const tn_attr *parts = chain_attr(n, TN_FUSED_PARTS, TN_ATTR_INTS);
  uint64_t count = parts ? parts->n : 0;
  if (!count || count % 3 || count / 3 > TN_FUSED_MAX_PARTS) return "parts is no list of triples of the allowed length";
  f->n_parts = (uint32_t)(count / 3);
  for (uint32_t p = 0; p < f->n_parts; p++) {
    const int64_t *t = parts->u.ints + 3 * p;
    if (t[0] < 0 || t[0] >= n_weights) return "a part names a weight that is not there";
    if (t[1] < 0 || t[2] < 1 || t[1] > INT64_MAX - t[2]) return "a part has impossible columns";
    f->parts[p] = (tni_cm_part){.first = t[1], .count = t[2], .weight = (uint32_t)t[0]};
  }
  return NULL;
}

const char *tni_cm_fused_read(const tn_node *n, tni_cm_fused *out) {
  memset(out, 0, sizeof *out);
  const char *why = read_parts(n, out);
  return why ? why : tni_cm_chain_read(n, out->n_parts + out->n_extras, &out->chain);
}

/* --- strips ----------------------------------------------------------------------------------------------------- */

/* What two registers share is called by the smaller number. */
static void join_strips(uint32_t *strip, uint32_t n, uint32_t a, uint32_t b) {
  uint32_t to = a < b ? a : b, from = a < b ? b : a;
  for (uint32_t r = 0; r < n; r++)
    if (strip[r] == from) strip[r] = to;
}

uint32_t tni_cm_strips(const tni_cm_fused *f, uint32_t strip[TNI_CM_MAX_REGISTERS]) {
  const tni_cm_chain *c = &f->chain;
  uint32_t n = c->n_in + c->n_ops, n_strips = 0;
  for (uint32_t r = 0; r < n; r++) strip[r] = r < f->n_parts ? r : TN_NONE;
  for (uint32_t i = 0; i < c->n_ops; i++) {
    uint32_t a = strip[c->ops[i].a], b = c->ops[i].b == TN_NONE ? TN_NONE : strip[c->ops[i].b];
    if (a == TN_NONE && b == TN_NONE) return 0;
    strip[c->n_in + i] = a < b ? a : b;
    if (a != b && a != TN_NONE && b != TN_NONE) join_strips(strip, n, a, b);
  }
  for (uint32_t i = 0; i < c->n_results; i++)
    if (strip[c->results[i]] == TN_NONE) return 0;
  for (uint32_t p = 0; p < f->n_parts; p++)
    if (f->parts[p].count != f->parts[strip[p]].count) return 0;
  for (uint32_t p = 0; p < f->n_parts; p++) {
    if (strip[p] != p) continue;
    for (uint32_t r = 0; r < n; r++)
      if (strip[r] == p) strip[r] = n_strips; /* n_strips <= p: no name that is still to come */
    n_strips++;
  }
  return n_strips;
}

/* Which registers lead to a result of the strip. */
static void mark_needed(const tni_cm_fused *f, const uint32_t *strip, uint32_t which, bool *needed) {
  const tni_cm_chain *c = &f->chain;
  memset(needed, 0, TNI_CM_MAX_REGISTERS * sizeof *needed);
  for (uint32_t i = 0; i < c->n_results; i++) needed[c->results[i]] |= strip[c->results[i]] == which;
  for (uint32_t i = c->n_ops; i-- > 0;) {
    if (!needed[c->n_in + i]) continue;
    needed[c->ops[i].a] = true;
    if (c->ops[i].b != TN_NONE) needed[c->ops[i].b] = true;
  }
}

typedef struct placer {
  const tni_cm_chain *c;
  const bool *needed;
  uint32_t tile_of[TNI_CM_MAX_REGISTERS];
  bool busy[TNI_CM_MAX_REGISTERS]; /* per tile */
  uint32_t n_tiles;
} placer;

static uint32_t take_tile(placer *p) {
  uint32_t t = 0;
  while (t < p->n_tiles && p->busy[t]) t++;
  if (t == p->n_tiles) p->n_tiles++;
  p->busy[t] = true;
  return t;
}

/* Whether register r is read by a needed instruction after i, or is a result. */
static bool read_later(const placer *p, uint32_t r, uint32_t i) {
  for (uint32_t k = 0; k < p->c->n_results; k++)
    if (p->c->results[k] == r) return true;
  for (uint32_t k = i + 1; k < p->c->n_ops; k++)
    if (p->needed[p->c->n_in + k] && (p->c->ops[k].a == r || p->c->ops[k].b == r)) return true;
  return false;
}

static void place_steps(placer *p, tni_cm_strip *out, const uint32_t *strip, uint32_t which) {
  const tni_cm_chain *c = p->c;
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const tni_cm_instr *op = &c->ops[i];
    if (strip[c->n_in + i] != which || !p->needed[c->n_in + i]) continue;
    tni_cm_step *s = &out->steps[out->n_steps++];
    *s = (tni_cm_step){.op = op->op, .a = p->tile_of[op->a], .b = TN_NONE, .value = op->value};
    if (op->b != TN_NONE) s->b = p->tile_of[op->b];
    if (!read_later(p, op->a, i)) p->busy[s->a] = false;
    if (op->b != TN_NONE && !read_later(p, op->b, i)) p->busy[s->b] = false;
    s->dst = p->tile_of[c->n_in + i] = take_tile(p);
  }
}

static bool one_element(const tn_host *host, const tn_graph *g, const tn_value *v) {
  int64_t dim;
  for (uint32_t i = 0; i < v->rank; i++)
    if (!tni_cm_const(host, g, v->dims[i], &dim) || dim != 1) return false;
  return true;
}

/* What an extra is to products of this width; 0 where it has other columns. */
static uint8_t extra_of(const tn_host *host, const tn_graph *g, const tn_value *v, int64_t width) {
  int64_t last;
  if (one_element(host, g, v)) return TNI_CM_ONE;
  if (!tni_cm_const(host, g, v->dims[v->rank - 1], &last) || last != width) return 0;
  return v->rank == 1 ? TNI_CM_ROW : TNI_CM_WHOLE;
}

bool tni_cm_extras_read(const tn_host *host, const tn_graph *g, const tni_cm_fused *f,
                        const uint32_t strip[TNI_CM_MAX_REGISTERS], const tn_id *extras,
                        uint8_t extra[TN_CHAIN_MAX_INPUTS]) {
  const tni_cm_chain *c = &f->chain;
  for (uint32_t i = 0; i < c->n_ops; i++) {
    int64_t width = 0;
    for (uint32_t p = 0; p < f->n_parts; p++)
      if (strip[p] == strip[c->n_in + i]) width = f->parts[p].count;
    const uint32_t operands[2] = {c->ops[i].a, c->ops[i].b};
    for (uint32_t k = 0; k < 2; k++) {
      if (operands[k] < f->n_parts || operands[k] >= c->n_in) continue;
      const uint32_t e = operands[k] - f->n_parts;
      extra[e] = extra_of(host, g, tni_cm_value(g, extras[e]), width);
      if (!extra[e]) return false;
    }
  }
  return true;
}

void tni_cm_strip_make(const tni_cm_fused *f, const uint32_t *strip, uint32_t which, tni_cm_strip *out) {
  const tni_cm_chain *c = &f->chain;
  bool needed[TNI_CM_MAX_REGISTERS];
  mark_needed(f, strip, which, needed);
  placer p = {.c = c, .needed = needed};
  memset(out, 0, sizeof *out);
  for (uint32_t r = 0; r < f->n_parts; r++) {
    if (strip[r] != which || !needed[r]) continue;
    p.tile_of[r] = take_tile(&p);
    out->parts[out->n_parts++] = r;
  }
  for (uint32_t r = f->n_parts; r < c->n_in; r++) {
    if (!needed[r]) continue;
    p.tile_of[r] = take_tile(&p);
    out->loads[out->n_loads++] = (tni_cm_move){p.tile_of[r], r - f->n_parts};
  }
  place_steps(&p, out, strip, which);
  for (uint32_t i = 0; i < c->n_results; i++)
    if (strip[c->results[i]] == which) out->stores[out->n_stores++] = (tni_cm_move){p.tile_of[c->results[i]], i};
  out->n_tiles = p.n_tiles;
}

/* --- running ---------------------------------------------------------------------------------------------------- */

static tni_cm_binary_fn binary_of(const tni_cm_chain_kernels *k, uint32_t op) {
  return op == TN_OP_ADD ? k->add : op == TN_OP_SUB ? k->sub : op == TN_OP_MUL ? k->mul : k->div;
}

static tni_cm_unary_fn unary_of(const tni_cm_chain_kernels *k, const tni_cm_step *s) {
  switch (s->op) {
    case TN_OP_NEG:
      return k->neg;
    case TN_OP_RELU:
      return k->relu;
    case TN_OP_SIGMOID:
      return k->sigmoid;
    case TN_OP_TANH:
      return k->tanh;
    case TN_OP_GELU:
      return s->value != 0 ? k->gelu_tanh : k->gelu_erf;
    default:
      return k->swish;
  }
}

static void run_steps(const tni_cm_strip *s, const tni_cm_chain_kernels *k, float *tiles, size_t stride, size_t n) {
  for (uint32_t i = 0; i < s->n_steps; i++) {
    const tni_cm_step *t = &s->steps[i];
    float *dst = tiles + t->dst * stride, *a = tiles + t->a * stride;
    if (t->b == TN_NONE)
      unary_of(k, t)(dst, a, t->value, n);
    else
      binary_of(k, t->op)(dst, a, tiles + t->b * stride, n);
  }
}

void tni_cm_strip_run(const tni_cm_strip *s, const tni_cm_chain_kernels *k, float *tiles, size_t stride, size_t n) {
  for (size_t at = 0; at < n; at += PIECE) run_steps(s, k, tiles + at, stride, n - at < PIECE ? n - at : PIECE);
}
