/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding the past up is sound where padded keys cannot reach what is kept. Attention stops at the caches' valid
 * length, so what matters is who else sees the rounded length: values that end in keys and only ever become a mask are
 * fine, as are shape operands; a number computed from the length (a Range of positions) is not.
 */
#include "runtime/roles/roles.h"

#include <stdio.h>

#include "runtime/roles/fixed.h"
#include "runtime/roles/padding.h"
#include "runtime/shape/shape.h"

typedef struct finder {
  const tni_graph *g;
  tni_roles *r;
  tni_arena *arena;
  uint64_t past; /* mask of the past's symbol */
} finder;

static const char *say_role(finder *f, const char *fmt, const char *name) {
  char text[200];
  snprintf(text, sizeof text, fmt, name);
  const char *kept = tni_arena_strdup(f->arena, text);
  return kept ? kept : "out of memory";
}

static bool mentions_length(const finder *f, tn_expr e) {
  return e != TNI_EXPR_NONE && (tni_ex_symbols(f->g->exprs, e) & f->past);
}

static bool is_ranked(const tni_value *v) { return v->pub.rank <= TN_MAX_RANK; }

static bool depends_on_length(const finder *f, const tni_value *v) {
  for (uint32_t i = 0; is_ranked(v) && i < v->pub.rank; i++)
    if (v->pub.dims[i] == TNI_EXPR_NONE || mentions_length(f, v->pub.dims[i])) return true;
  return !is_ranked(v);
}

/* The symbol of the past and what a run adds to it. */
static void find_lengths(finder *f) {
  const tni_gstate *s = &f->g->states[0];
  const tni_value *past = f->g->values[s->past], *present = f->g->values[s->present];
  if (!tni_ex_is_sym(f->g->exprs, past->pub.dims[s->axis], &f->r->past)) {
    f->r->why_not = say_role(f, "the length of '%s' is no symbol of its own", past->pub.name);
    return;
  }
  f->past = tni_ex_symbols(f->g->exprs, past->pub.dims[s->axis]);
  f->r->total = present->pub.dims[s->axis];
  f->r->step = tni_ex_sub(f->g->exprs, f->r->total, past->pub.dims[s->axis]);
  if (mentions_length(f, f->r->step))
    f->r->why_not = say_role(f, "'%s' does not grow by what a run adds", present->pub.name);
}

/* Of an entry that nobody gave: step.c writes ones. */
static bool can_be_one(uint32_t dtype) {
  return dtype == TN_DT_I64 || dtype == TN_DT_I32 || dtype == TN_DT_F32 || dtype == TN_DT_BOOL || dtype == TN_DT_U8 ||
         dtype == TN_DT_I8;
}

static void find_input(finder *f, uint32_t i) {
  const tni_value *v = f->g->values[f->g->inputs[i]];
  f->r->kinds[i] = TNI_IN_PLAIN;
  if (tni_state_of_past(f->g, f->g->inputs[i]) != TN_NONE) {
    f->r->kinds[i] = TNI_IN_CACHED;
    return;
  }
  if (f->r->continues[i] != TN_NONE) {
    f->r->kinds[i] = TNI_IN_STATE;
    return;
  }
  if (depends_on_length(f, v)) {
    f->r->kinds[i] = TNI_IN_CONTEXT;
    if (!can_be_one(v->pub.dtype))
      f->r->why_not = say_role(f, "input '%s' has an entry per position and a type without ones", v->pub.name);
    if (!is_ranked(v) || v->pub.rank != 2 || v->pub.dims[1] != f->r->total || mentions_length(f, v->pub.dims[0]))
      f->r->why_not =
          say_role(f, "input '%s' depends on the past in a way that is not [batch, past + step]", v->pub.name);
    return;
  }
  for (uint32_t a = 0; is_ranked(v) && a < v->pub.rank && f->r->input == TN_NONE; a++) {
    if (v->pub.dims[a] != f->r->step) continue;
    f->r->input = i;
    f->r->axis = a;
  }
}

/* Node n hands v's last axis, the keys, on to its output's last axis. */
static bool keeps_keys(const finder *f, const tni_node *n) {
  if (!n->op || n->pub.n_out < 1) return false;
  const tni_value *y = f->g->values[n->pub.out[0]];
  switch (n->pub.op) {
    case TN_OP_RESHAPE:
    case TN_OP_UNSQUEEZE:
    case TN_OP_SQUEEZE:
    case TN_OP_EXPAND:
      break;
    default:
      if (!(n->op->flags & TNI_OPF_ELEMENTWISE)) return false;
  }
  return is_ranked(y) && y->pub.rank && y->pub.dims[y->pub.rank - 1] == f->r->total;
}

static bool reads_as(const tni_node *n, tn_id v, uint32_t operand) {
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] == v && i != operand) return false;
  return true;
}

enum { MASK = 3, NONPAD = 6 };

/* v ends in keys and only ever becomes a mask. ok: what is known of later values. */
static bool is_mask(const finder *f, tn_id id, const uint8_t *ok) {
  const tni_value *v = f->g->values[id];
  if (v->is_output || !is_ranked(v) || !v->pub.rank || v->pub.dims[v->pub.rank - 1] != f->r->total) return false;
  for (uint32_t a = 0; a + 1 < v->pub.rank; a++)
    if (v->pub.dims[a] == TNI_EXPR_NONE || mentions_length(f, v->pub.dims[a])) return false;
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_node *n = f->g->nodes[v->pub.uses[u]];
    if (n->n_captures) return false;
    if (tni_is_attention(n->pub.op)) {
      if (!reads_as(n, id, MASK) || n->pub.n_in <= NONPAD || n->pub.in[NONPAD] == TN_NONE) return false;
    } else if (!keeps_keys(f, n) || !ok[n->pub.out[0]]) {
      return false;
    }
  }
  return true;
}

static bool elems_depend(const finder *f, const tni_value *v) {
  for (uint32_t i = 0; v->elems && i < v->n_elems; i++)
    if (mentions_length(f, v->elems[i])) return true;
  return false;
}

/* From the last node to the first, so that readers are known before what they read. */
static void find_exact(finder *f, uint8_t *ok) {
  const tni_graph *g = f->g;
  for (uint32_t i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    if (v->pub.kind == TN_VALUE_STEP && elems_depend(f, v) && tni_step_is_read(g, i))
      f->r->exact = say_role(f, "'%s' is a number computed from the length", v->pub.name);
  }
  for (uint32_t i = g->n_nodes; i-- > 0;) {
    const tni_node *n = g->nodes[i];
    for (uint32_t o = 0; o < n->pub.n_out; o++) {
      const tn_id id = n->pub.out[o];
      if (id == TN_NONE || g->values[id]->pub.kind == TN_VALUE_STATE) continue;
      ok[id] = !depends_on_length(f, g->values[id]) || is_mask(f, id, ok);
      if (!ok[id]) f->r->exact = say_role(f, "'%s' depends on the length, and is no mask", g->values[id]->pub.name);
    }
  }
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (f->r->kinds[i] == TNI_IN_CONTEXT && !is_mask(f, g->inputs[i], ok))
      f->r->exact = say_role(f, "input '%s' is more than a mask", g->values[g->inputs[i]]->pub.name);
}

static bool reads_cache(const tni_graph *g, const tni_node *n) {
  for (uint32_t i = 0; i < n->pub.n_in + n->n_captures; i++) {
    const tn_id v = i < n->pub.n_in ? n->pub.in[i] : n->captures[i - n->pub.n_in];
    if (v != TN_NONE && g->values[v]->pub.kind == TN_VALUE_STATE) return true;
  }
  return false;
}

/* A Scan whose results have known dims is interpreted, and its neighbours are planned as ever. Not so where it reads a
 * cache: rows of a cache do not lie together. */
static bool is_unplanned(const tni_graph *g, const tni_node *n) {
  bool unknown = reads_cache(g, n);
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    unknown = unknown || (n->pub.out[o] != TN_NONE && g->values[n->pub.out[o]]->dynamic);
  return n->dynamic && unknown;
}

static void find_roles(finder *f, uint8_t *ok) {
  const tni_graph *g = f->g;
  if (!tni_fixed_find(g, f->arena, f->r)) {
    f->r->why_not = "out of memory";
    return;
  }
  if (!g->n_states && !f->r->n_fixed) {
    f->r->why_not = "the model has no caches that could be kept in place";
    return;
  }
  if (g->n_states) find_lengths(f);
  for (uint32_t i = 0; !f->r->why_not && i < g->n_nodes; i++)
    if (is_unplanned(g, g->nodes[i]))
      f->r->why_not = say_role(f, "the dims of node '%s' depend on data", g->nodes[i]->pub.name);
  for (uint32_t i = 0; !f->r->why_not && i < g->n_inputs; i++) find_input(f, i);
  for (uint32_t i = 0; !f->r->why_not && i < g->n_outputs; i++)
    if (tni_state_of_present(g, g->outputs[i]) == TN_NONE && depends_on_length(f, g->values[g->outputs[i]]))
      f->r->why_not = say_role(f, "output '%s' depends on the past", g->values[g->outputs[i]]->pub.name);
  if (!f->r->why_not && f->r->input == TN_NONE) f->r->why_not = "no input tells how many positions a step has";
  if (!f->r->why_not && g->n_states) find_exact(f, ok);
}

tn_status tni_roles_find(tni_graph *g, tni_arena *arena, tni_roles *out, tn_error *err) {
  *out = (tni_roles){.past = TN_NONE, .step = TNI_EXPR_NONE, .total = TNI_EXPR_NONE, .input = TN_NONE};
  out->kinds = TNI_NEW_ARRAY(arena, uint8_t, g->n_inputs + 1);
  uint8_t *ok = TNI_NEW_ARRAY(arena, uint8_t, g->n_values + 1);
  if (!out->kinds || !ok) return tni_fail_memory(err, g->name);
  finder f = {g, out, arena, 0};
  find_roles(&f, ok);
  g->padded_symbol = out->past;
  g->padded = out->why_not || out->exact || out->past == TN_NONE ? TNI_EXPR_NONE : out->total;
  g->step = out->why_not ? TNI_EXPR_NONE : out->step;
  g->step_fixed = out->why_not   ? out->why_not
                  : out->exact   ? out->exact
                  : out->n_fixed ? "states of fixed size take in every row of a run"
                                 : tni_padding_refusal(g, out, arena);
  return TN_OK;
}
