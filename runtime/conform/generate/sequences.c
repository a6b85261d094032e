/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of sequences: attention, rotary embeddings, rows of a table.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/conform/generate/grow.h"

enum { POSITIONS = 140, ROWS = 50 };

static bool lengths_known(const gen_value *x) {
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dims[i] < SYMBOL || x->dims[i] == 0) return false;
  return true;
}

static const gen_value *same_as(const gen_work *w, const gen_value *x, uint32_t from) {
  for (uint32_t i = 0; i < w->n; i++) {
    const gen_value *v = &w->v[(from + i) % w->n];
    if (v->rank == x->rank && !memcmp(v->dims, x->dims, x->rank * sizeof *x->dims)) return v;
  }
  return x;
}

/* What every attention may have. rows: of scores. */
static uint32_t put_attention(const tni_gen_step *s, bool kept, tni_raw_attr *a) {
  static const float scales[] = {0.5f, 0.125f, 1}, caps[] = {5, 20};
  uint32_t n = 0;
  if (kept || s->word[1] % 2) a[n++] = tni_gen_int_attr("is_causal", 1);
  if (s->word[1] / 2 % 3 == 0) a[n++] = tni_gen_float_attr("scale", scales[s->word[1] / 6 % 3]);
  if (s->word[1] / 32 % 3 == 0) a[n++] = tni_gen_float_attr("softcap", caps[s->word[1] / 96 % 2]);
  return n;
}

/* What is added to scores, or hides some of them: one for all, or one of each batch, of each head, of both. Only where
 * rows and columns are S: TN_NONE otherwise. */
static tn_id draw_mask(gen_work *w, const tni_gen_step *s, int64_t batch, int64_t heads, int64_t length) {
  const uint32_t how = s->word[5] / 6 % 5, rank = how ? 4 : 2;
  const int64_t dims[4] = {how & 1 ? batch : 1, how & 2 ? heads : 1, length, length};
  if (length != SYMBOL || s->word[5] % 3 || w->b->n_in + 1 >= TNI_CN_MAX_IN) return TN_NONE;
  return tni_gen_input(w, s->word[5] / 3 % 2 ? 'b' : 'x', dims + 4 - rank, rank, 0);
}

/* Caches of a layer: their pasts are inputs, [batch, heads, T, size], and what they become are outputs. */
static bool add_pasts(gen_work *w, int64_t batch, int64_t heads, const int64_t *size, tn_id *in, tn_id *out) {
  tni_cn_graph *b = w->b;
  char dims[64], name[48];
  const uint32_t layer = w->n_layers++;
  for (int i = 0; i < 2; i++) {
    snprintf(dims, sizeof dims, "%lld,%lld,T,%lld", (long long)batch, (long long)heads, (long long)size[i]);
    snprintf(name, sizeof name, "past_key_values.%u.%s", layer, i ? "value" : "key");
    in[i] = b->in[b->n_in++] = tni_cn_value(b, name, TN_VALUE_INPUT, TN_DT_F32, dims);
    snprintf(name, sizeof name, "present.%u.%s", layer, i ? "value" : "key");
    out[i] = b->out[b->n_out++] = tni_cn_value(b, name, TN_VALUE_ACT, TN_DT_F32, "?");
    if (in[i] == TN_NONE || out[i] == TN_NONE) return false;
  }
  return true;
}

static tn_id project(gen_work *w, const gen_value *x, int64_t width) {
  const tn_id in[2] = {x->id, tni_gen_constant(w, 2, tni_gen_width_of(x), width)};
  return in[1] == TN_NONE ? TN_NONE : tni_gen_apply(w, "", "MatMul", 13, in, 2, NULL, 0);
}

/* [batch, S, width]: heads are parts of the last dim, and q, k and v are products. */
static bool add_flat(gen_work *w, const gen_value *x, const tni_gen_step *s) {
  static const int64_t heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {3, 3}, {4, 1}, {6, 2}, {2, 1}},
                       sizes[] = {8, 16, 4, 32, 12, 5};
  const int64_t *h = heads[s->word[2] % 7], D = sizes[s->word[3] % 6],
                size[2] = {D, s->word[4] % 4 ? D : sizes[s->word[4] / 4 % 6]};
  /* Sequences may have become S by a Transpose: their number is not known, and caches have one. */
  const bool room = w->b->n_in + 2 <= TNI_CN_MAX_IN && w->b->n_out + 3 <= TNI_CN_MAX_OUT;
  const bool kept = w->g->kept && room && x->dims[0] != SYMBOL;
  tn_id in[6] = {
      project(w, x, h[0] * D), project(w, x, h[1] * D), project(w, x, h[1] * size[1]), TN_NONE, TN_NONE, TN_NONE};
  tni_raw_attr a[8];
  tn_id out[3];
  char name[24];
  uint32_t n = put_attention(s, w->g->kept, a);
  a[n++] = tni_gen_int_attr("q_num_heads", h[0]);
  a[n++] = tni_gen_int_attr("kv_num_heads", h[1]);
  for (int i = 0; i < 3; i++)
    if (in[i] == TN_NONE) return false;
  if (!w->g->kept) in[3] = draw_mask(w, s, x->dims[0], h[0], x->dims[1]);
  if (kept && s->word[5] % 2) a[n++] = tni_gen_int_attr("left_window_size", 5 + s->word[5] / 2 % 20);
  if (kept && !add_pasts(w, x->dims[0], h[1], size, &in[4], &out[1])) return false;
  snprintf(name, sizeof name, "v%u_%u", w->n, w->b->g->n_nodes);
  out[0] = tni_cn_value(w->b, name, TN_VALUE_ACT, TN_DT_F32, "?");
  if (out[0] == TN_NONE || !tni_cn_node(w->b, "", "Attention", 24, in,
                                        kept               ? 6
                                        : in[3] == TN_NONE ? 3
                                                           : 4,
                                        out, kept ? 3 : 1, a, n))
    return false;
  return tni_gen_add_value(w, x, out[0], h[0] * size[1]);
}

bool tni_gen_add_attention(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  if (!lengths_known(&x) || x.rank < 3 || x.rank > 4) return tni_gen_add_matmul(w, s);
  if (x.rank == 3) return add_flat(w, &x, s);
  tni_raw_attr a[4];
  const uint32_t n = put_attention(s, false, a);
  const tn_id in[4] = {x.id, same_as(w, &x, s->b)->id, same_as(w, &x, s->b + 1)->id,
                       draw_mask(w, s, x.dims[0], x.dims[1], x.dims[2])};
  return tni_gen_add_value(w, &x, tni_gen_apply(w, "", "Attention", 23, in, in[3] == TN_NONE ? 3 : 4, a, n),
                           tni_gen_width_of(&x));
}

/* Of heads that lie beside each other or in an axis of their own; all of a head or its first part. */
bool tni_gen_add_rotary(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  const int64_t width = tni_gen_width_of(&x);
  const bool flat = x.rank == 3;
  if (!lengths_known(&x) || x.rank < 3 || x.rank > 4 || width % 2 || w->b->n_in + 1 >= TNI_CN_MAX_IN)
    return tni_gen_add_matmul(w, s);
  const int64_t heads = flat && width % 4 == 0 && s->word[1] % 2 ? 2 : 1, size = flat ? width / heads : width;
  const int64_t part = s->word[2] % 3 == 0 && size % 4 == 0 ? size / 2 : size, table[2] = {POSITIONS, part / 2},
                at[2] = {x.dims[0], flat ? x.dims[1] : x.dims[2]};
  const tn_id in[4] = {x.id, tni_gen_constant_of(w, 2, table, 0.7f), tni_gen_constant_of(w, 2, table, 0.7f),
                       tni_gen_input(w, 'i', at, 2, POSITIONS)};
  tni_raw_attr a[3] = {tni_gen_int_attr("interleaved", s->word[3] % 2)};
  uint32_t n = 1;
  if (flat) a[n++] = tni_gen_int_attr("num_heads", heads);
  if (part != size) a[n++] = tni_gen_int_attr("rotary_embedding_dim", part);
  if (part != size && !flat) a[n++] = tni_gen_int_attr("num_heads", x.dims[1]);
  if (in[1] == TN_NONE || in[2] == TN_NONE || in[3] == TN_NONE) return false;
  return tni_gen_add_value(w, &x, tni_gen_apply(w, "", "RotaryEmbedding", 23, in, 4, a, n), width);
}

/* Rows of a table, by numbers that are an input: some count from the end. */
bool tni_gen_add_gather(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  if (!lengths_known(&x) || w->b->n_in + 1 >= TNI_CN_MAX_IN) return tni_gen_add_matmul(w, s);
  const int64_t width = s->word[0] ? s->word[0] : tni_gen_width_of(&x), rows = ROWS + s->word[1] % 7,
                table[2] = {rows, width};
  const tn_id in[2] = {tni_gen_constant_of(w, 2, table, 1),
                       tni_gen_input(w, 'i', x.dims, x.rank - 1, s->word[1] % 4 ? rows : -rows)};
  const tni_raw_attr a = tni_gen_int_attr("axis", s->word[2] % 2 ? 0 : -2);
  if (in[0] == TN_NONE || in[1] == TN_NONE) return false;
  return tni_gen_add_value(w, &x, tni_gen_apply(w, "", "Gather", 13, in, 2, &a, 1), width);
}
