/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe's graph. Each step takes what the values so far allow: no recipe makes a graph that is not legal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/generate/grow.h"

static bool same_shape(const gen_value *a, const gen_value *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static bool add_unary(gen_work *w, const tni_gen_step *s) {
  static const char *const ops[] = {"Relu", "Sigmoid", "Tanh",      "Neg", "Gelu",       "Swish",
                                    "Erf",  "Abs",     "LeakyRelu", "Elu", "HardSigmoid"};
  static const float alphas[] = {1, 0.5f, 2, 0.01f};
  const gen_value x = *tni_gen_pick(w, s->a);
  const char *op = ops[s->word[0] % 11];
  const bool alpha = !strcmp(op, "Swish") || !strcmp(op, "LeakyRelu") || !strcmp(op, "Elu");
  const tni_raw_attr a = tni_gen_float_attr("alpha", alphas[s->word[1] % 4]);
  const tni_raw_attr tanh = {.name = "approximate",
                             .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_STRING, .n = 4, .u.s = "tanh"}};
  const bool approximate = !strcmp(op, "Gelu") && s->word[1] % 2;
  return tni_gen_add_value(
      w, &x, tni_gen_apply(w, "", op, 25, &x.id, 1, approximate ? &tanh : &a, alpha || approximate ? 1 : 0),
      tni_gen_width_of(&x));
}

/* With another value of the shape, a row, one number, or itself; on either side. */
static bool add_binary(gen_work *w, const tni_gen_step *s) {
  static const char *const ops[] = {"Add", "Mul", "Sub", "Add", "Max"};
  const gen_value x = *tni_gen_pick(w, s->a);
  tn_id y = TN_NONE;
  for (uint32_t i = 0; i < w->n && y == TN_NONE && s->word[1] % 4 != 3; i++) {
    const gen_value *other = &w->v[(i + s->b) % w->n];
    if (other->id != x.id && same_shape(other, &x)) y = other->id;
  }
  if (y == TN_NONE && s->word[1] % 3 == 1) y = x.id;
  if (y == TN_NONE)
    y = tni_gen_constant(w, 1, 1, tni_gen_width_of(&x) > 0 && s->word[1] % 3 ? tni_gen_width_of(&x) : 1);
  const bool turned = s->word[2] & 1;
  const tn_id in[2] = {turned ? y : x.id, turned ? x.id : y};
  return y != TN_NONE &&
         tni_gen_add_value(w, &x, tni_gen_apply(w, "", ops[s->word[0] % 5], 14, in, 2, NULL, 0), tni_gen_width_of(&x));
}

static bool add_softmax(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  const tni_raw_attr axis = tni_gen_int_attr("axis", s->word[0] % 4 ? -1 : (int64_t)(s->word[1] % x.rank));
  return tni_gen_add_value(w, &x, tni_gen_apply(w, "", "Softmax", 13, &x.id, 1, &axis, 1), tni_gen_width_of(&x));
}

static bool add_norm(gen_work *w, const tni_gen_step *s) {
  static const float eps[] = {1e-5f, 1e-6f, 1e-3f};
  const gen_value x = *tni_gen_pick(w, s->a);
  if (tni_gen_width_of(&x) < 1) return add_unary(w, s);
  const bool layer = s->word[0] & 1, bias = layer && s->word[0] & 2, wide = s->word[2] % 4 == 0;
  const tn_id in[3] = {x.id, tni_gen_constant(w, 1, 1, tni_gen_width_of(&x)),
                       bias ? tni_gen_constant(w, 1, 1, tni_gen_width_of(&x)) : TN_NONE};
  const tni_raw_attr a[2] = {tni_gen_int_attr("axis", wide ? -2 : -1),
                             tni_gen_float_attr("epsilon", eps[s->word[1] % 3])};
  const tn_id y = layer ? tni_gen_apply(w, "", "LayerNormalization", 17, in, bias ? 3 : 2, a, 2)
                        : tni_gen_apply(w, "", "RMSNormalization", 23, in, 2, a, 2);
  return in[1] != TN_NONE && tni_gen_add_value(w, &x, y, tni_gen_width_of(&x));
}

/* Any two axes but the last, or all of them: the last dim stays a number. */
static bool add_transpose(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  gen_value y = x;
  int64_t perm[MOST_RANK];
  if (x.rank < 3) return add_unary(w, s);
  const uint32_t i = s->word[0] % (x.rank - 1), k = s->word[1] % (x.rank - 1);
  const bool all = s->word[2] % 4 == 0 && x.dims[0] > 0 && tni_gen_width_of(&x) < 32; /* as without perm */
  for (uint32_t d = 0; d < x.rank; d++) perm[d] = all ? x.rank - 1 - d : d == i ? k : d == k ? i : d;
  for (uint32_t d = 0; d < x.rank; d++) y.dims[d] = x.dims[perm[d]];
  const tni_raw_attr a = tni_gen_ints_attr("perm", perm, x.rank);
  return tni_gen_add_value(w, &y, tni_gen_apply(w, "", "Transpose", 13, &x.id, 1, &a, all ? 0 : 1), y.dims[x.rank - 1]);
}

static bool add_concat(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  if (tni_gen_width_of(&x) > MOST_WIDTH / 2) return add_unary(w, s);
  const tn_id in[2] = {x.id, x.id};
  const tni_raw_attr a = tni_gen_int_attr("axis", s->word[0] & 1 ? -1 : (int64_t)x.rank - 1);
  return tni_gen_add_value(w, &x, tni_gen_apply(w, "", "Concat", 13, in, 2, &a, 1), 2 * tni_gen_width_of(&x));
}

static bool add_reduce(gen_work *w, const tni_gen_step *s) {
  static const char *const ops[] = {"ReduceMean", "ReduceSum", "ReduceMax"};
  const gen_value x = *tni_gen_pick(w, s->a);
  const int64_t axis = -1;
  tni_tensor t = {.dtype = TN_DT_I64, .rank = 1, .dims = {1}, .bytes = sizeof axis};
  char name[16];
  snprintf(name, sizeof name, "k%u", w->n_constants++);
  if (!(t.data = tni_arena_memdup(w->b->g->arena, &axis, sizeof axis, 16))) return false;
  const tn_id axes = tni_graph_add_value(w->b->g, name, TN_VALUE_CONST, TN_DT_I64);
  if (axes == TN_NONE || tni_value_set_tensor(w->b->g, axes, &t, NULL) != TN_OK) return false;
  const tn_id in[2] = {x.id, axes};
  const tni_raw_attr a = tni_gen_int_attr("keepdims", 1);
  return tni_gen_add_value(w, &x, tni_gen_apply(w, "", ops[s->word[0] % 3], 18, in, 2, &a, 1), 1);
}

static bool add_step(gen_work *w, const tni_gen_step *s) {
  switch (s->kind) {
    case TNI_GEN_MATMUL:
      return tni_gen_add_matmul(w, s);
    case TNI_GEN_GEMM:
      return tni_gen_add_gemm(w, s);
    case TNI_GEN_SIBLINGS:
      return tni_gen_add_siblings(w, s);
    case TNI_GEN_FUSED:
      return tni_gen_add_fused(w, s, false);
    case TNI_GEN_FUSED_CHAIN:
      return tni_gen_add_fused(w, s, true);
    case TNI_GEN_UNARY:
      return add_unary(w, s);
    case TNI_GEN_BINARY:
      return add_binary(w, s);
    case TNI_GEN_SOFTMAX:
      return add_softmax(w, s);
    case TNI_GEN_NORM:
      return add_norm(w, s);
    case TNI_GEN_TRANSPOSE:
      return add_transpose(w, s);
    case TNI_GEN_CONCAT:
      return add_concat(w, s);
    case TNI_GEN_REDUCE:
      return add_reduce(w, s);
    case TNI_GEN_CONV:
      return tni_gen_add_conv(w, s);
    case TNI_GEN_POOL:
      return tni_gen_add_pool(w, s);
    case TNI_GEN_BLOCK:
      return tni_gen_add_block(w, s);
    case TNI_GEN_BETWEEN:
      return tni_gen_add_between(w, s);
    case TNI_GEN_CODE_CONV:
      return tni_gen_add_code_conv(w, s);
    case TNI_GEN_CODE_MATMUL:
      return tni_gen_add_code_matmul(w, s);
    case TNI_GEN_BATCHNORM:
      return tni_gen_add_batchnorm(w, s);
    case TNI_GEN_ATTENTION:
      return tni_gen_add_attention(w, s);
    case TNI_GEN_ROTARY:
      return tni_gen_add_rotary(w, s);
    case TNI_GEN_GATHER:
      return tni_gen_add_gather(w, s);
    default:
      return tni_gen_add_product(w, s);
  }
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static bool add_input(gen_work *w) {
  const tni_gen_recipe *g = w->g;
  gen_value *v = &w->v[w->n++];
  *v = (gen_value){.rank = g->rank};
  for (uint32_t i = 0; i + 2 < g->rank; i++) v->dims[i] = g->batch[i];
  v->dims[g->rank - 2] = SYMBOL;
  v->dims[g->rank - 1] = g->k;
  return (v->id = tni_gen_input(w, 'x', v->dims, v->rank, 0)) != TN_NONE;
}

/* All that nobody reads is an output, and now and then a value in the middle. */
static bool set_outputs(gen_work *w) {
  tni_cn_graph *b = w->b;
  for (uint32_t i = w->n; i-- > 1 && b->n_out < TNI_CN_MAX_OUT;) {
    bool read = false;
    for (uint32_t n = 0; n < b->g->n_nodes && !read; n++)
      for (uint32_t k = 0; k < b->g->nodes[n]->pub.n_in; k++) read = read || b->g->nodes[n]->pub.in[k] == w->v[i].id;
    if (!read || (w->g->values >> i) % 5 == 0 || w->outputs >> i & 1) b->out[b->n_out++] = w->v[i].id;
  }
  return b->n_out > 0 && tni_cn_end(b);
}

bool tni_gen_build(const tni_gen_recipe *g, const tni_cf *cf, tni_cn_graph *b) {
  gen_work w = {.g = g, .b = b, .r = tni_cf_rng_of(cf, g->values)};
  if (!tni_cn_begin(b, TN_DT_F32) || !add_input(&w)) return false;
  for (uint32_t i = 0; i < g->n_steps; i++)
    if (!add_step(&w, &g->step[i])) return false;
  return set_outputs(&w);
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static size_t put_dims(const tni_cn_graph *b, tn_id v, char *text, size_t n) {
  const tn_value *val = &tni_graph_value(b->g, v)->pub;
  size_t at = (size_t)snprintf(text, n, "[");
  for (uint32_t i = 0; i < val->rank && at < n; i++) {
    char one[48];
    tni_ex_print(b->g->exprs, val->dims[i], one, sizeof one);
    at += (size_t)snprintf(text + at, n - at, "%s%s", i ? "," : "", one);
  }
  return at + (at < n ? (size_t)snprintf(text + at, n - at, "]") : 0);
}

/* " strides=1,2": what the node says; tables of fused nodes are left out. */
static size_t put_attrs(const tni_node *node, char *text, size_t n) {
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t i = 0; node->op && i < node->op->n_attrs && at + 1 < n; i++) {
    const tn_attr *a = node->pub.attr[i];
    if (!a || !a->n || (a->type == TN_ATTR_INTS && a->n > 6)) continue;
    if (a->type != TN_ATTR_INT && a->type != TN_ATTR_FLOAT && a->type != TN_ATTR_INTS && a->type != TN_ATTR_STRING)
      continue;
    at += (size_t)snprintf(text + at, n - at, " %s=", node->op->attrs[i].name);
    if (a->type == TN_ATTR_INT && at < n) at += (size_t)snprintf(text + at, n - at, "%lld", (long long)a->u.i);
    if (a->type == TN_ATTR_FLOAT && at < n) at += (size_t)snprintf(text + at, n - at, "%g", a->u.f);
    if (a->type == TN_ATTR_STRING && at < n) at += (size_t)snprintf(text + at, n - at, "%.*s", (int)a->n, a->u.s);
    for (uint64_t k = 0; a->type == TN_ATTR_INTS && k < a->n && at < n; k++)
      at += (size_t)snprintf(text + at, n - at, "%s%lld", k ? "," : "", (long long)a->u.ints[k]);
  }
  return at < n ? at : n - 1;
}

void tni_gen_print(const tni_gen_recipe *g, const tni_cn_graph *b, char *text, size_t n) {
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < b->g->n_nodes && at + 1 < n; i++) {
    const tni_node *node = tni_graph_node(b->g, i);
    at += (size_t)snprintf(text + at, n - at, "%s%s", i ? "; " : "", node->type);
    for (uint32_t k = 0; k < node->pub.n_in && at + 1 < n; k++) {
      text[at++] = ' ';
      if (node->pub.in[k] != TN_NONE && at + 1 < n) at += put_dims(b, node->pub.in[k], text + at, n - at);
    }
    if (at + 1 < n) at += put_attrs(node, text + at, n - at);
  }
  if (at + 1 < n) at += (size_t)snprintf(text + at, n - at, "; S = ");
  for (uint32_t i = 0; i < g->n_runs && at + 1 < n; i++)
    at += (size_t)snprintf(text + at, n - at, "%s%u", i ? ", " : "", tni_gen_rows(g, i));
  if (at + 1 < n)
    (void)snprintf(text + at, n - at, "; %u threads%s%s%s", g->threads, g->order ? "; tasks in a random order" : "",
                   g->refuse ? "; some nodes kept on the host" : "", g->kept ? "; caches in place" : "");
}
