/* SPDX-License-Identifier: Apache-2.0
 *
 * A state of fixed size is an input that an output continues: both of one type and shape, none of whose dims has to do
 * with how many positions there are; the output is computed from the input and from the run's tokens. Short
 * convolutions, state-space models and linear attention have them, computed at once or by a Scan.
 *
 * Several states of one shape are paired by what their names have in common after `past` and `present`, and where
 * names say nothing, in order. Such pairs alone make no language model: there must be tokens, [batch, step], and an
 * output with a row for each, [batch, step, n]. With attention caches beside them, these say what a step is.
 */
#include "runtime/roles/fixed.h"

#include <string.h>

#include "runtime/shape/shape.h"

typedef struct search {
  const tni_graph *g;
  tni_roles *r;
  tn_expr batch, step;
  bool *used;    /* [n_outputs] */
  uint8_t *from; /* [n_values] 1: computed from the state that is looked at; 2: from the tokens */
} search;

static bool is_token_type(uint32_t t) { return t == TN_DT_I64 || t == TN_DT_I32; }

/* Tokens [batch, step]: two symbols, and an output with a row for each. */
static uint32_t find_tokens(search *s) {
  const tni_graph *g = s->g;
  tn_id a, b;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *v = g->values[g->inputs[i]];
    if (v->pub.rank != 2 || !is_token_type(v->pub.dtype) || v->pub.dims[1] == TNI_EXPR_NONE ||
        v->pub.dims[0] == TNI_EXPR_NONE)
      continue;
    if (!tni_ex_is_sym(g->exprs, v->pub.dims[1], &b)) continue;
    if (tni_ex_is_sym(g->exprs, v->pub.dims[0], &a) && a == b) continue;
    for (uint32_t o = 0; o < g->n_outputs; o++) {
      const tni_value *y = g->values[g->outputs[o]];
      if (y->pub.rank != 3 || tni_state_of_present(g, g->outputs[o]) != TN_NONE || y->pub.dims[0] != v->pub.dims[0])
        continue;
      const bool cut = g->rows_symbol != TN_NONE && y->pub.dims[1] != TNI_EXPR_NONE;
      if (y->pub.dims[1] != v->pub.dims[1] && !cut) continue;
      s->batch = v->pub.dims[0];
      s->step = v->pub.dims[1];
      return i;
    }
  }
  return TN_NONE;
}

/* All dims are constants or the batch. */
static bool has_fixed_dims(const search *s, const tni_value *v) {
  int64_t c;
  if (v->pub.rank < 2 || v->pub.rank > TN_MAX_RANK) return false;
  for (uint32_t d = 0; d < v->pub.rank; d++)
    if (v->pub.dims[d] == TNI_EXPR_NONE ||
        (v->pub.dims[d] != s->batch && !tni_ex_is_const(s->g->exprs, v->pub.dims[d], &c)))
      return false;
  return true;
}

static bool same_form(const tni_value *a, const tni_value *b) {
  return a->pub.dtype == b->pub.dtype && a->pub.rank == b->pub.rank &&
         memcmp(a->pub.dims, b->pub.dims, a->pub.rank * sizeof *a->pub.dims) == 0;
}

/* What is computed from input v (1) and from what has an entry per position (2). Nodes stand in order. */
static void spread(search *s, tn_id v) {
  const tni_graph *g = s->g;
  memset(s->from, 0, g->n_values);
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *x = g->values[g->inputs[i]];
    for (uint32_t d = 0; d < x->pub.rank && x->pub.rank <= TN_MAX_RANK; d++)
      if (x->pub.dims[d] == s->step) s->from[g->inputs[i]] = 2;
  }
  s->from[v] = 1;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    uint8_t all = 0;
    if (n->dead) continue;
    for (uint32_t k = 0; k < n->pub.n_in; k++)
      if (n->pub.in[k] != TN_NONE) all |= s->from[n->pub.in[k]];
    for (uint32_t k = 0; k < n->n_captures; k++) all |= s->from[n->captures[k]];
    for (uint32_t o = 0; o < n->pub.n_out; o++)
      if (n->pub.out[o] != TN_NONE) s->from[n->pub.out[o]] |= all;
  }
}

/* What follows the word; NULL: the name does not begin with it. */
static const char *stem_after(const char *name, const char *word) {
  const size_t n = strlen(word);
  return strncmp(name, word, n) == 0 ? name + n : NULL;
}

static bool names_match(const tni_value *in, const tni_value *out) {
  static const char *const pairs[][2] = {
      {"past_key_values", "present_key_values"}, {"past_key_values", "present"}, {"past", "present"}};
  for (uint32_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    const char *a = stem_after(in->pub.name, pairs[i][0]), *b = stem_after(out->pub.name, pairs[i][1]);
    if (a && b && strcmp(a, b) == 0) return true;
  }
  return false;
}

/* The output that continues input v, TN_NONE: none does. named: only one whose name says so. */
static uint32_t find_continued(search *s, const tni_value *v, bool named) {
  const tni_graph *g = s->g;
  for (uint32_t o = 0; o < g->n_outputs; o++) {
    const tni_value *y = g->values[g->outputs[o]];
    if (s->used[o] || tni_state_of_present(g, g->outputs[o]) != TN_NONE || !same_form(v, y)) continue;
    if (s->from[g->outputs[o]] != 3 || (named && !names_match(v, y))) continue;
    return o;
  }
  return TN_NONE;
}

static void pair_states(search *s, uint32_t tokens, bool named) {
  const tni_graph *g = s->g;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *v = g->values[g->inputs[i]];
    if (i == tokens || s->r->continues[i] != TN_NONE || tni_state_of_past(g, g->inputs[i]) != TN_NONE ||
        !has_fixed_dims(s, v))
      continue;
    spread(s, g->inputs[i]);
    const uint32_t o = find_continued(s, v, named);
    if (o == TN_NONE) continue;
    s->used[o] = true;
    s->r->continues[i] = o;
    s->r->n_fixed++;
  }
}

bool tni_fixed_find(const tni_graph *g, tni_arena *arena, tni_roles *r) {
  search s = {.g = g, .r = r, .batch = TNI_EXPR_NONE, .step = TNI_EXPR_NONE};
  r->continues = TNI_NEW_ARRAY(arena, uint32_t, g->n_inputs + 1);
  s.used = TNI_NEW_ARRAY(arena, bool, g->n_outputs + 1);
  s.from = TNI_NEW_ARRAY(arena, uint8_t, g->n_values + 1);
  if (!r->continues || !s.used || !s.from) return false;
  for (uint32_t i = 0; i < g->n_inputs; i++) r->continues[i] = TN_NONE;
  const uint32_t tokens = find_tokens(&s);
  if (tokens == TN_NONE) return true;
  pair_states(&s, tokens, true);
  pair_states(&s, tokens, false);
  if (r->n_fixed && !g->n_states) r->step = r->total = s.step;
  return true;
}
