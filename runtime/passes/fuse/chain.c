/* SPDX-License-Identifier: Apache-2.0
 *
 * chain: element-wise operators that read what a product with constant weights makes become part of it
 * (tenon.FusedMatMul): bias, residual, gate, activation, soft cap. Two and more that are left and follow each other
 * become one tenon.Elementwise. Floats only; which operators, and what operands may be, says ops.h.
 *
 * An operator is taken where it is the only reader of the product, or where it waits for nothing else; never where a
 * product would then wait for itself. In a tenon.Elementwise, all operators have the result's shape and only the
 * last one's result is read outside.
 *
 * Keeps: the values that are read outside, with name, dtype and shape. f32 and f64 keep every bit on the host; halves
 * are rounded once, at the end.
 */
#include <stdlib.h>

#include "runtime/passes/fuse/fuse.h"

/* --- after products --- */

/* Node e can do its work as soon as the draft's own registers are there. */
static bool waits_for_nothing(const tni_graph *g, const tni_fusion *d, const tni_node *e) {
  for (uint32_t i = 0; i < e->pub.n_in; i++) {
    const tni_value *v = tni_match_value(g, e->pub.in[i]);
    if (v && v->pub.producer != TN_NONE && tni_fusion_find(d, e->pub.in[i]) == TNI_REG_NONE) return false;
  }
  return true;
}

static bool only_reads(const tni_graph *g, tn_id v, tn_id reader) {
  const tni_value *val = g->values[v];
  if (val->is_output) return false;
  for (uint32_t u = 0; u < val->pub.n_uses; u++)
    if (!g->nodes[val->pub.uses[u]]->dead && val->pub.uses[u] != reader) return false;
  return true;
}

/* Takes one reader of value v into the draft. */
static bool take_reader(tni_graph *g, tni_fuse_set *s, tni_fusion *d, tn_id v) {
  const tni_value *val = tni_match_value(g, v);
  for (uint32_t u = 0; val && u < val->pub.n_uses; u++) {
    const tn_id reader = val->pub.uses[u];
    const tni_node *e = g->nodes[reader];
    tni_fusion more = *d;
    if (e->dead || s->member[reader] || !tni_fusion_pull(g, &more, e)) continue;
    if (!only_reads(g, v, reader) && !waits_for_nothing(g, d, e)) continue;
    if (!tni_fuse_set_add(g, s, reader)) continue;
    *d = more;
    return true;
  }
  return false;
}

static bool take_any(tni_graph *g, tni_fuse_set *s, tni_fusion *d) {
  for (uint32_t i = d->n_ops; i-- > 0;)
    if (take_reader(g, s, d, d->op_value[i])) return true;
  for (uint32_t p = 0; p < d->n_parts; p++)
    if (take_reader(g, s, d, d->part_value[p])) return true;
  return false;
}

static tn_status fuse_products(tni_graph *g, tni_fuse_set *s, uint32_t *fired, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  tn_status st = TN_OK;
  for (tn_id i = 0; st == TN_OK && i < n_nodes; i++) {
    tni_fusion d;
    if (!tni_fusion_read(g, g->nodes[i], &d) || !tni_fuse_set_add(g, s, i)) continue;
    while (take_any(g, s, &d)) continue;
    const uint32_t taken = s->n - 1;
    tni_fuse_set_clear(g, s, taken != 0);
    if (taken) st = tni_fusion_write(g, &d, g->nodes[i]->pub.name, err);
    *fired += taken;
  }
  return st;
}

/* --- runs without a product --- */

typedef struct run {
  tn_id in[TN_CHAIN_MAX_INPUTS];
  uint32_t n_in;
} run;

/* Every live reader of v is in the set, and v is no graph output. */
static bool read_inside(const tni_graph *g, const tni_fuse_set *s, tn_id v) {
  const tni_value *val = g->values[v];
  if (val->is_output) return false;
  for (uint32_t u = 0; u < val->pub.n_uses; u++)
    if (!g->nodes[val->pub.uses[u]]->dead && !s->member[val->pub.uses[u]]) return false;
  return true;
}

static tn_id made_by(const tni_graph *g, tn_id v) {
  const tni_value *val = tni_match_value(g, v);
  return val && val->pub.producer < g->n_nodes && !g->nodes[val->pub.producer]->dead ? val->pub.producer : TN_NONE;
}

/* Inputs of the set from outside; false: too many. */
static bool collect_inputs(const tni_graph *g, const tni_fuse_set *s, run *r) {
  r->n_in = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const tni_node *n = g->nodes[s->list[i]];
    for (uint32_t k = 0; k < n->pub.n_in; k++) {
      const tn_id from = made_by(g, n->pub.in[k]);
      uint32_t at = 0;
      if (from != TN_NONE && s->member[from]) continue;
      while (at < r->n_in && r->in[at] != n->pub.in[k]) at++;
      if (at < r->n_in) continue;
      if (r->n_in == TN_CHAIN_MAX_INPUTS) return false;
      r->in[r->n_in++] = n->pub.in[k];
    }
  }
  return true;
}

/* The set grows by one node that only it reads. */
static bool grow_set(const tni_graph *g, tni_fuse_set *s) {
  const tni_node *last = g->nodes[s->list[0]];
  run r;
  for (uint32_t i = 0; i < s->n && s->n < TN_CHAIN_MAX_OPS; i++) {
    const tni_node *n = g->nodes[s->list[i]];
    for (uint32_t k = 0; k < n->pub.n_in; k++) {
      const tn_id v = n->pub.in[k], from = made_by(g, v);
      tni_instr op;
      if (from == TN_NONE || s->member[from] || !tni_chain_takes(g, g->nodes[from], &op)) continue;
      if (!read_inside(g, s, v) || !tni_match_same_shape(g, v, last->pub.out[0])) continue;
      if (!tni_fuse_set_add(g, s, from)) continue;
      if (collect_inputs(g, s, &r)) return true;
      s->member[from] = 0;
      s->n--;
    }
  }
  return false;
}

static int64_t position_in(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return i;
  return -1;
}

static int by_id(const void *a, const void *b) {
  const tn_id x = *(const tn_id *)a, y = *(const tn_id *)b;
  return x < y ? -1 : x > y;
}

/* Writes the set in the graph's order: ids rise along it, as long as nodes of an earlier run are not in it. */
static tn_status write_run(tni_graph *g, tni_fuse_set *s, const run *r, tn_error *err) {
  const tni_node *last = g->nodes[s->list[0]];
  int64_t ops[3 * TN_CHAIN_MAX_OPS], result = (int64_t)r->n_in + s->n - 1;
  float floats[TN_CHAIN_MAX_OPS];
  tn_id made[TN_CHAIN_MAX_OPS], in[TN_CHAIN_MAX_INPUTS];
  uint32_t n_in = 0;
  const uint32_t n = s->n;
  qsort(s->list, n, sizeof *s->list, by_id);
  for (uint32_t i = 0; i < n; i++) {
    const tni_node *node = g->nodes[s->list[i]];
    tni_instr op = {.op = 0};
    (void)tni_chain_takes(g, node, &op);
    ops[3 * i] = op.op;
    for (uint32_t k = 0; k < 2; k++) {
      const tn_id v = tni_match_in(node, k);
      const int64_t inner = position_in(made, i, v);
      if (v != TN_NONE && inner < 0 && position_in(in, n_in, v) < 0) in[n_in++] = v;
      ops[3 * i + 1 + k] = v == TN_NONE ? -1 : inner >= 0 ? r->n_in + inner : position_in(in, n_in, v);
    }
    floats[i] = op.value;
    made[i] = node->pub.out[0];
  }
  const tni_raw_attr attr[] = {tni_raw_ints("ops", ops, 3 * n), tni_raw_floats("floats", floats, n),
                               tni_raw_ints("results", &result, 1)};
  const tn_id out = last->pub.out[0];
  tni_fuse_set_clear(g, s, true);
  return tni_graph_add_node(g, last->pub.name, "tenon", "Elementwise", 1, in, n_in, &out, 1, attr, 3, NULL, err);
}

static tn_status fuse_runs(tni_graph *g, tni_fuse_set *s, uint32_t *fired, tn_error *err) {
  tn_status st = TN_OK;
  for (tn_id i = g->n_nodes; st == TN_OK && i-- > 0;) {
    const tni_node *n = g->nodes[i];
    tni_instr op;
    run r;
    if (!tni_chain_takes(g, n, &op) || g->values[n->pub.out[0]]->pub.rank == TNI_RANK_UNKNOWN) continue;
    if (!tni_fuse_set_add(g, s, i)) continue;
    while (grow_set(g, s)) continue;
    const uint32_t taken = s->n;
    if (taken > 1 && collect_inputs(g, s, &r)) {
      st = write_run(g, s, &r, err);
      *fired += taken;
    } else {
      tni_fuse_set_clear(g, s, false);
    }
  }
  return st;
}

tn_status tni_pass_chain(tni_graph *g, uint32_t *n, tn_error *err) {
  tni_fuse_set s;
  uint32_t fired = 0;
  bool ok = tni_fuse_set_init(&s, g);
  tn_status st = ok ? fuse_products(g, &s, &fired, err) : tni_fail_memory(err, g->name);
  if (st == TN_OK && fired) st = tni_graph_finish(g, err); /* ids in order again */
  tni_fuse_set_free(&s);
  if (st == TN_OK && !tni_fuse_set_init(&s, g)) {
    tni_fuse_set_free(&s);
    st = tni_fail_memory(err, g->name);
  }
  if (st != TN_OK) return st;
  st = fuse_runs(g, &s, &fired, err);
  tni_fuse_set_free(&s);
  return st == TN_OK ? tni_build_done(g, fired, n, err) : st;
}
