/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/dims/fused.h"

static const char *read_ops(const tn_node *n, tni_chain *c) {
  const int64_t *ops;
  const tn_attr *floats = tni_at(n, TNI_A_FLOATS);
  const uint32_t n_ops = tni_at_ints(n, TNI_A_OPS, &ops);
  if (n_ops % 3) return "ops is no list of triples";
  c->n_ops = n_ops / 3;
  if (c->n_ops > TN_CHAIN_MAX_OPS) return "more instructions than a chain may have";
  if ((floats ? floats->n : 0) != c->n_ops) return "floats does not have one number per instruction";
  for (uint32_t i = 0; i < c->n_ops; i++, ops += 3) {
    const int64_t limit = (int64_t)c->n_in + i;
    const uint32_t arity = ops[0] > 0 && ops[0] < UINT32_MAX ? tn_chain_arity((uint32_t)ops[0]) : 0;
    if (!arity) return "an operator in ops that chains do not have";
    if (ops[1] < 0 || ops[1] >= limit || (arity == 2 && (ops[2] < 0 || ops[2] >= limit)))
      return "an instruction reads a register that is not written yet";
    if (arity == 1 && ops[2] != -1) return "an operator of one operand with a second one";
    c->ops[i] = (tni_instr){(uint32_t)ops[0], (uint32_t)ops[1], arity == 2 ? (uint32_t)ops[2] : UINT32_MAX,
                            floats->u.floats[i]};
  }
  return NULL;
}

static const char *read_results(const tn_node *n, tni_chain *c) {
  const int64_t *results;
  c->n_results = tni_at_ints(n, TNI_A_RESULTS, &results);
  if (c->n_results != n->n_out || c->n_results > sizeof c->results / sizeof *c->results)
    return "results does not have one register per output";
  for (uint32_t i = 0; i < c->n_results; i++) {
    if (results[i] < 0 || results[i] >= (int64_t)c->n_in + c->n_ops) return "a result that is no register";
    c->results[i] = (uint32_t)results[i];
  }
  return NULL;
}

static bool all_there(const tn_node *n) {
  for (uint32_t i = 0; i < n->n_in; i++)
    if (n->in[i] == TN_NONE) return false;
  return true;
}

const char *tni_chain_read(const tn_node *n, tni_chain *out) {
  *out = (tni_chain){.n_in = n->n_in};
  if (!n->n_in || n->n_in > TN_CHAIN_MAX_INPUTS) return "more inputs than a chain may have, or none";
  if (!all_there(n)) return "an input is absent";
  const char *why = read_ops(n, out);
  return why ? why : read_results(n, out);
}

static const char *read_parts(const tn_node *n, tni_fused *f) {
  const int64_t *parts, n_weights = tni_at_i(n, TNI_A_N_WEIGHTS, 1);
  const uint32_t count = tni_at_ints(n, TNI_A_PARTS, &parts);
  if (n_weights < 1 || n_weights > TN_FUSED_MAX_PARTS || n_weights >= n->n_in) return "n_weights is out of range";
  f->n_weights = (uint32_t)n_weights;
  f->trans_b = tni_at_i(n, TNI_A_TRANS_B, 0) != 0;
  if (!count || count % 3 || count / 3 > TN_FUSED_MAX_PARTS) return "parts is no list of triples of the allowed length";
  f->n_parts = count / 3;
  for (uint32_t p = 0; p < f->n_parts; p++, parts += 3) {
    if (parts[0] < 0 || parts[0] >= n_weights) return "a part of a weight that is not there";
    if (parts[1] < 0 || parts[2] < 1 || parts[1] > INT64_MAX - parts[2]) return "a part with absurd columns";
    f->parts[p] = (tni_part){(uint32_t)parts[0], parts[1], parts[2]};
  }
  return NULL;
}

/* Joins groups a and b under the smaller number. */
static void join_registers(tni_fused *f, uint32_t n_regs, uint32_t a, uint32_t b) {
  const uint32_t to = a < b ? a : b, from = a < b ? b : a;
  for (uint32_t r = 0; r < n_regs; r++)
    if (f->group[r] == from) f->group[r] = to;
}

static const char *set_groups(tni_fused *f) {
  const tni_chain *c = &f->chain;
  const uint32_t n_regs = c->n_in + c->n_ops;
  for (uint32_t r = 0; r < n_regs; r++) f->group[r] = r < f->n_parts ? r : TN_NONE;
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const uint32_t a = f->group[c->ops[i].a], b = c->ops[i].b == UINT32_MAX ? TN_NONE : f->group[c->ops[i].b];
    if (a == TN_NONE && b == TN_NONE) return "an instruction that reads no product";
    f->group[c->n_in + i] = a < b ? a : b;
    if (a != TN_NONE && b != TN_NONE && a != b) join_registers(f, n_regs, a, b);
  }
  for (uint32_t p = 0; p < f->n_parts; p++) {
    const uint32_t old = f->group[p];
    if (old < p && f->parts[old].count != f->parts[p].count) return "products of different widths meet";
  }
  /* A group's number is its first product's until here: numbers without gaps. */
  for (uint32_t p = 0; p < f->n_parts; p++) {
    if (f->group[p] != p) continue;
    for (uint32_t r = 0; r < n_regs; r++)
      if (f->group[r] == p) f->group[r] = f->n_groups;
    f->n_groups++;
  }
  for (uint32_t i = 0; i < c->n_results; i++)
    if (f->group[c->results[i]] == TN_NONE) return "a result that is an input";
  return NULL;
}

const char *tni_fused_read(const tn_node *n, tni_fused *out) {
  *out = (tni_fused){.n_weights = 0};
  const char *why = read_parts(n, out);
  if (why) return why;
  if (n->n_in - 1 - out->n_weights > TN_CHAIN_MAX_INPUTS) return "more inputs than a chain may have";
  if (!all_there(n)) return "an input is absent";
  out->chain.n_in = out->n_parts + n->n_in - 1 - out->n_weights;
  why = read_ops(n, &out->chain);
  if (!why) why = read_results(n, &out->chain);
  return why ? why : set_groups(out);
}
