/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of one operator, from text.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/build.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/shape/shape.h"

enum { LONGEST = 4096 };

static bool build_failed(tni_cn_graph *b, const char *what, const char *detail) {
  tni_fail(&b->err, TN_E_INTERNAL, detail, "the kit's own graph: %s", what);
  return false;
}

bool tni_cn_begin(tni_cn_graph *b, uint32_t dtype) { return tni_cn_begin_long(b, dtype, LONGEST); }

bool tni_cn_begin_long(tni_cn_graph *b, uint32_t dtype, int64_t longest) {
  *b = (tni_cn_graph){.dtype = dtype, .node = TN_NONE};
  tni_error_init(&b->err);
  if (tni_graph_create(NULL, "case", &b->g, &b->err) != TN_OK) return false;
  const tn_expr s = tni_ex_sym(b->g->exprs, "S"), t = tni_ex_sym(b->g->exprs, "T");
  if (tni_ex_bound(b->g->exprs, 0, 0, longest) != TN_OK || tni_ex_bound(b->g->exprs, 1, 0, longest) != TN_OK)
    return build_failed(b, "bounds", "S");
  b->g->step = s;
  (void)t;
  return true;
}

tn_id tni_cn_value(tni_cn_graph *b, const char *name, uint32_t kind, uint32_t dtype, const char *dims) {
  tn_expr e[TN_MAX_RANK];
  uint32_t rank = 0;
  char text[64];
  const tn_id v = tni_graph_add_value(b->g, name, kind, dtype);
  for (const char *at = dims; v != TN_NONE && *at && rank < TN_MAX_RANK;) {
    const size_t n = strcspn(at, ",");
    snprintf(text, sizeof text, "%.*s", (int)n, at);
    e[rank++] = tni_ex_parse(b->g->exprs, text);
    at += n + (at[n] == ',');
  }
  if (v == TN_NONE) return build_failed(b, "no memory", name), TN_NONE;
  if (kind == TN_VALUE_ACT && !strcmp(dims, "?")) return v; /* inferred */
  if (tni_value_set_dims(b->g, v, rank, e) != TN_OK) return build_failed(b, "dims", name), TN_NONE;
  return v;
}

static tn_id add_tensor(tni_cn_graph *b, const char *name, tni_tensor *t) {
  const tn_id v = tni_graph_add_value(b->g, name, TN_VALUE_CONST, t->dtype);
  if (v == TN_NONE || tni_value_set_tensor(b->g, v, t, NULL) != TN_OK)
    return build_failed(b, "a constant", name), TN_NONE;
  return v;
}

static bool tensor_room(tni_cn_graph *b, tni_tensor *t) {
  int64_t count;
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK || tni_dtype_bytes(t->dtype, count, &t->bytes) != TN_OK)
    return build_failed(b, "a constant that is too large", NULL);
  t->data = tni_arena_alloc(b->g->arena, t->bytes + 1, 64);
  return t->data || build_failed(b, "no memory", NULL);
}

tn_id tni_cn_constant(tni_cn_graph *b, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dims,
                      const float *data) {
  tni_tensor t = {.dtype = dtype, .rank = rank};
  memcpy(t.dims, dims, rank * sizeof *dims);
  if (!tensor_room(b, &t)) return TN_NONE;
  tni_cn_store(&t, data);
  return add_tensor(b, name, &t);
}

bool tni_cn_node(tni_cn_graph *b, const char *domain, const char *op, int64_t version, const tn_id *in, uint32_t n_in,
                 const tn_id *out, uint32_t n_out, const tni_raw_attr *attr, uint32_t n_attr) {
  return tni_graph_add_node(b->g, "", domain, op, version, in, n_in, out, n_out, attr, n_attr, &b->node, &b->err) ==
         TN_OK;
}

bool tni_cn_append(tni_cn_graph *b, const tn_state *like, tn_id before, tn_id x, tn_id after) {
  tn_state *s = TNI_NEW(b->g->arena, tn_state);
  if (!s) return false;
  *s = *like;
  tni_graph_value(b->g, before)->pub.state = tni_graph_value(b->g, after)->pub.state = s;
  if (before == after) return true;
  const tn_id in[3] = {before, x, like->pos};
  const tni_raw_attr axis = {.name = "axis",
                             .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = like->axis}};
  return tni_cn_node(b, "", "TensorScatter", 24, in, 3, &after, 1, &axis, 1);
}

void tni_cn_pad(tni_cn_graph *b) {
  b->g->padded = tni_ex_add(b->g->exprs, tni_ex_sym(b->g->exprs, "S"), tni_ex_sym(b->g->exprs, "T"));
  b->g->padded_symbol = 1;
}

bool tni_cn_end(tni_cn_graph *b) {
  return tni_graph_set_io(b->g, b->in, b->n_in, b->out, b->n_out) == TN_OK &&
         tni_graph_finish(b->g, &b->err) == TN_OK && tni_infer_graph(b->g, &b->err) == TN_OK &&
         tni_graph_finish(b->g, &b->err) == TN_OK;
}

void tni_cn_destroy(tni_cn_graph *b) {
  tni_graph_destroy(b->g);
  b->g = NULL;
}

/* --- attributes -------------------------------------------------------------------------------------------------- */

enum { MAX_ATTRS = 10, MAX_INTS = 96 };

typedef struct attrs {
  tni_raw_attr a[MAX_ATTRS];
  int64_t ints[MAX_ATTRS][MAX_INTS];
  float floats[MAX_ATTRS][MAX_INTS];
  char text[MAX_ATTRS][64], name[MAX_ATTRS][40];
  uint32_t n;
} attrs;

static uint32_t type_of(const tni_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_attrs; i++)
    if (!strcmp(op->attrs[i].name, name)) return op->attrs[i].type;
  return TN_ATTR_NONE;
}

static uint32_t numbers_read(char *text, int64_t *ints, float *floats) {
  uint32_t n = 0;
  char *save = NULL;
  for (char *w = strtok_r(text, ",", &save); w && n < MAX_INTS; w = strtok_r(NULL, ",", &save), n++) {
    ints[n] = strtoll(w, NULL, 10);
    floats[n] = strtof(w, NULL);
  }
  return n;
}

static bool one_attr(attrs *s, const tni_op *op, char *word) {
  char *value = strchr(word, '=');
  if (!value || s->n == MAX_ATTRS) return false;
  *value++ = '\0';
  const uint32_t i = s->n++;
  s->a[i] = (tni_raw_attr){0};
  tn_attr *a = &s->a[i].a;
  snprintf(s->name[i], sizeof s->name[i], "%s", word);
  snprintf(s->text[i], sizeof s->text[i], "%s", value);
  *a = (tn_attr){.h = TN_HDR(tn_attr), .type = type_of(op, word)};
  s->a[i].name = s->name[i];
  const uint32_t n = a->type == TN_ATTR_STRING ? 0 : numbers_read(value, s->ints[i], s->floats[i]);
  a->n = n;
  switch (a->type) {
    case TN_ATTR_INT:
      a->u.i = s->ints[i][0];
      return n == 1;
    case TN_ATTR_FLOAT:
      a->u.f = (double)s->floats[i][0];
      return n == 1;
    case TN_ATTR_INTS:
      a->u.ints = s->ints[i];
      return true;
    case TN_ATTR_FLOATS:
      a->u.floats = s->floats[i];
      return true;
    case TN_ATTR_STRING:
      a->n = strlen(s->text[i]);
      a->u.s = s->text[i];
      return true;
    default:
      return false;
  }
}

static bool read_attrs(attrs *s, const tni_op *op, const char *text) {
  char copy[512], *save = NULL;
  snprintf(copy, sizeof copy, "%s", text ? text : "");
  s->n = 0;
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
    if (!one_attr(s, op, w)) return false;
  return true;
}

/* --- operands ---------------------------------------------------------------------------------------------------- */

static tn_id given_ints(tni_cn_graph *b, const char *name, const char *dims, char *list) {
  int64_t v[MAX_INTS];
  float f[MAX_INTS];
  const uint32_t n = numbers_read(list, v, f);
  tni_tensor t = {.dtype = TN_DT_I64, .rank = *dims ? 1 : 0, .dims = {n}};
  if (!tensor_room(b, &t)) return TN_NONE;
  memcpy(t.data, v, n * sizeof *v);
  return add_tensor(b, name, &t);
}

static tn_id random_constant(tni_cn_graph *b, const char *name, uint32_t dtype, char *dims, float scale,
                             tni_cf_rng *r) {
  int64_t d[MAX_INTS], count = 1;
  float ignored[MAX_INTS];
  const uint32_t rank = numbers_read(dims, d, ignored);
  for (uint32_t i = 0; i < rank; i++) count *= d[i];
  float *x = malloc((size_t)(count + 1) * sizeof *x);
  if (!x || rank > TN_MAX_RANK) return free(x), TN_NONE;
  for (int64_t i = 0; i < count; i++) x[i] = scale * (float)tni_cf_rng_normal(r);
  const tn_id v = tni_cn_constant(b, name, dtype, rank, d, x);
  free(x);
  return v;
}

tn_id tni_cn_quantizing(tni_cn_graph *b, const char *name, char kind, uint32_t rank, const int64_t *dims,
                        const float *given, uint32_t n, tni_cf_rng *r) {
  int64_t count = 1;
  tni_tensor t = {.dtype = kind == 'q' ? TN_DT_F32 : kind == 'N' ? TN_DT_I32 : kind == 'I' ? TN_DT_I8 : TN_DT_U8, .rank = rank};
  if (rank > TN_MAX_RANK) return TN_NONE;
  for (uint32_t i = 0; i < rank; i++) count *= t.dims[i] = dims[i];
  if (!tensor_room(b, &t)) return TN_NONE;
  for (int64_t i = 0; i < count; i++) {
    const uint64_t x = tni_cf_rng_next(r);
    const float v = n ? given[i % n] : 0;
    if (kind == 'q')
      ((float *)t.data)[i] = n ? v : 0.004f + (float)(x % 1000) * 0.00003f;
    else if (kind == 'N')
      ((int32_t *)t.data)[i] = n ? (int32_t)v : (int32_t)(x % 601) - 300;
    else
      ((uint8_t *)t.data)[i] = (uint8_t)(n ? (int32_t)v : (int32_t)(x % 256));
  }
  return add_tensor(b, name, &t);
}

static tn_id quantizing(tni_cn_graph *b, const char *name, char kind, char *dims, char *list, tni_cf_rng *r) {
  int64_t d[MAX_INTS], ints[MAX_INTS];
  float ignored[MAX_INTS], given[MAX_INTS];
  const uint32_t rank = numbers_read(dims, d, ignored), n = list ? numbers_read(list, ints, given) : 0;
  return tni_cn_quantizing(b, name, kind, rank, d, given, n, r);
}

/* "x[S,64]", "i[S]<50>", "k[2]=1,-1", "U[]=128", "-" */
static bool operand_read(tni_cn_graph *b, const char *word, float scale, tni_cf_rng *r, tni_cn_operand *o) {
  char dims[128] = "", tail[256] = "", name[32];
  *o = (tni_cn_operand){.kind = word[0], .value = TN_NONE};
  if (word[0] == '-') return true;
  const char *open = strchr(word, '['), *close = strchr(word, ']');
  if (!open || !close) return build_failed(b, "an operand", word);
  snprintf(dims, sizeof dims, "%.*s", (int)(close - open - 1), open + 1);
  snprintf(tail, sizeof tail, "%s", close + 1);
  snprintf(name, sizeof name, "%c%u", word[0], (unsigned)(o - b->operand));
  if (tail[0] == '<') o->limit = strtoll(tail + 1, NULL, 10);
  switch (word[0]) {
    case 'w':
    case 'c':
      o->value = random_constant(b, name, word[0] == 'c' ? TN_DT_F32 : b->dtype, dims, scale, r);
      break;
    case 'U':
    case 'I':
    case 'N':
    case 'q':
      o->value = quantizing(b, name, word[0], dims, tail[0] == '=' ? tail + 1 : NULL, r);
      break;
    case 'k':
      o->value = given_ints(b, name, dims, tail[0] == '=' ? tail + 1 : tail);
      break;
    default: {
      const uint32_t t = word[0] == 'i'   ? TN_DT_I64
                         : word[0] == 'b' ? TN_DT_BOOL
                         : word[0] == 'f' ? TN_DT_F32
                         : word[0] == 'u' ? TN_DT_U8
                         : word[0] == 's' ? TN_DT_I8
                                          : b->dtype;
      o->value = tni_cn_value(b, name, TN_VALUE_INPUT, t, dims);
      b->in[b->n_in++] = o->value;
    }
  }
  return o->value != TN_NONE;
}

bool tni_cn_build(tni_cn_graph *b, const tni_cn_spec *s, tni_cf_rng *r) {
  const tni_op *op = tni_op_find(s->domain ? s->domain : "", s->op, s->version);
  attrs a;
  char copy[512], name[16], *save = NULL;
  tn_id ids[TNI_CN_MAX_IN];
  uint32_t n = 0;
  if (!tni_cn_begin_long(b, s->dtype, s->longest ? s->longest : LONGEST)) return false;
  if (!op || !read_attrs(&a, op, s->attrs)) return build_failed(b, "an operator or attribute", s->op);
  snprintf(copy, sizeof copy, "%s", s->inputs);
  for (char *w = strtok_r(copy, " ", &save); w && n < TNI_CN_MAX_IN; w = strtok_r(NULL, " ", &save), n++) {
    if (!operand_read(b, w, s->scale, r, &b->operand[n])) return false;
    ids[n] = b->operand[n].value;
  }
  for (b->n_out = 0; b->n_out < s->n_out && b->n_out < TNI_CN_MAX_OUT; b->n_out++) {
    snprintf(name, sizeof name, "y%u", b->n_out);
    b->out[b->n_out] = tni_cn_value(b, name, TN_VALUE_ACT, TN_DT_UNDEFINED, "?");
  }
  return tni_cn_node(b, s->domain ? s->domain : "", s->op, s->version, ids, n, b->out, b->n_out, a.a, a.n) &&
         tni_cn_end(b);
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

tni_tensor tni_cn_tensor(const tni_cn_graph *b, tn_id v, const int64_t *sym, tni_arena *a) {
  const tn_value *val = &tni_graph_value(b->g, v)->pub;
  tni_tensor t = {.dtype = val->dtype, .rank = val->rank};
  int64_t count;
  if (val->rank > TN_MAX_RANK) return t;
  for (uint32_t i = 0; i < val->rank; i++)
    if (tni_ex_eval(b->g->exprs, val->dims[i], sym, tni_ex_n_symbols(b->g->exprs), &t.dims[i]) != TN_OK) return t;
  if (tni_dims_count(t.dims, t.rank, &count) != TN_OK || tni_dtype_bytes(t.dtype, count, &t.bytes) != TN_OK) return t;
  t.data = tni_arena_alloc(a, t.bytes + 64, 64);
  return t;
}

int64_t tni_cn_count(const tni_tensor *t) {
  int64_t n = 0;
  return tni_dims_count(t->dims, t->rank, &n) == TN_OK ? n : 0;
}

void tni_cn_store(tni_tensor *t, const float *x) { tni_store_f32(t->dtype, t->data, 0, tni_cn_count(t), x); }

/* gcc 12 for aarch64 stops at -O3 where this is a loop of fmax. */
double tni_cn_greatest(const float *x, int64_t n) {
  float top = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x[i]) && fabsf(x[i]) > top) top = fabsf(x[i]);
  return (double)top;
}

float *tni_cn_floats(const tni_tensor *t, tni_arena *a) {
  const int64_t n = tni_cn_count(t);
  float *x = tni_arena_array(a, (size_t)n + 1, sizeof *x, 64);
  if (x) tni_tensor_to_f32(t, 0, n, x);
  return x;
}
