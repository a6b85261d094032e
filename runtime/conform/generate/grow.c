/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/generate/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t tni_gen_width_of(const gen_value *v) { return v->dims[v->rank - 1]; }

const gen_value *tni_gen_pick(const gen_work *w, uint32_t n) { return &w->v[w->n - 1 - n % (w->n < 3 ? w->n : 3)]; }

tn_id tni_gen_constant_of(gen_work *w, uint32_t rank, const int64_t *dims, float scale) {
  int64_t n = 1;
  char name[16];
  for (uint32_t i = 0; i < rank; i++) n *= dims[i];
  snprintf(name, sizeof name, "c%u", w->n_constants++);
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  if (!x) return TN_NONE;
  for (int64_t i = 0; i < n; i++) x[i] = scale * (float)tni_cf_rng_normal(&w->r);
  const tn_id v = tni_cn_constant(w->b, name, TN_DT_F32, rank, dims, x);
  free(x);
  return v;
}

tn_id tni_gen_input(gen_work *w, char kind, const int64_t *dims, uint32_t rank, int64_t limit) {
  tni_cn_graph *b = w->b;
  char text[96] = "", name[16];
  if (b->n_in == TNI_CN_MAX_IN) return TN_NONE;
  for (uint32_t i = 0; i < rank; i++) {
    char one[24];
    snprintf(one, sizeof one, dims[i] == SYMBOL ? "%sS" : "%s%lld", i ? "," : "", (long long)dims[i]);
    strcat(text, one);
  }
  snprintf(name, sizeof name, b->n_in ? "x%u" : "x", b->n_in);
  const uint32_t type = kind == 'i' ? TN_DT_I64 : kind == 'b' ? TN_DT_BOOL : TN_DT_F32;
  const tn_id v = tni_cn_value(b, name, TN_VALUE_INPUT, type, text);
  b->operand[b->n_in] = (tni_cn_operand){.kind = kind, .value = v, .limit = limit};
  b->in[b->n_in++] = v;
  return v;
}

tn_id tni_gen_constant(gen_work *w, uint32_t rank, int64_t rows, int64_t columns) {
  const int64_t dims[2] = {rows, columns}, n = rank == 2 ? rows * columns : columns;
  char name[16];
  snprintf(name, sizeof name, "c%u", w->n_constants++);
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  if (!x) return TN_NONE;
  const bool sized = rank == 2 && tni_cf_rng_next(&w->r) % 2, by_column = tni_cf_rng_next(&w->r) % 2;
  for (int64_t i = 0; i < n; i++) {
    const int64_t line = by_column ? i % columns : i / columns;
    const float size = !sized ? 0.25f : line % 7 == 5 ? 0 : line % 7 == 6 ? 1e-4f : 0.25f;
    x[i] = size * (float)tni_cf_rng_normal(&w->r);
  }
  const tn_id v = tni_cn_constant(w->b, name, TN_DT_F32, rank, rank == 2 ? dims : dims + 1, x);
  free(x);
  return v;
}

bool tni_gen_add_value(gen_work *w, const gen_value *like, tn_id id, int64_t width) {
  if (id == TN_NONE || w->n == MOST_VALUES) return false;
  gen_value *v = &w->v[w->n++];
  *v = *like;
  v->id = id;
  v->dims[v->rank - 1] = width;
  return true;
}

tn_id tni_gen_apply(gen_work *w, const char *domain, const char *op, int64_t version, const tn_id *in, uint32_t n_in,
                    const tni_raw_attr *attr, uint32_t n_attr) {
  return tni_gen_apply_as(w, TN_DT_F32, domain, op, version, in, n_in, attr, n_attr);
}

tn_id tni_gen_apply_as(gen_work *w, uint32_t dtype, const char *domain, const char *op, int64_t version, const tn_id *in,
                       uint32_t n_in, const tni_raw_attr *attr, uint32_t n_attr) {
  char name[16];
  snprintf(name, sizeof name, "v%u_%u", w->n, w->b->g->n_nodes);
  const tn_id out = tni_cn_value(w->b, name, TN_VALUE_ACT, dtype, "?");
  return out != TN_NONE && tni_cn_node(w->b, domain, op, version, in, n_in, &out, 1, attr, n_attr) ? out : TN_NONE;
}

tni_raw_attr tni_gen_int_attr(const char *name, int64_t v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = v}};
}
tni_raw_attr tni_gen_float_attr(const char *name, float v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOAT, .n = 1, .u.f = (double)v}};
}
tni_raw_attr tni_gen_ints_attr(const char *name, const int64_t *v, uint64_t n) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = n, .u.ints = v}};
}
tni_raw_attr tni_gen_text_attr(const char *name, const char *text) {
  return (tni_raw_attr){.name = name,
                        .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_STRING, .n = strlen(text), .u.s = text}};
}
