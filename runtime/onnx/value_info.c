/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/onnx/context.h"

enum { MAX_DIM_TEXT = 256, MAX_ROUNDS = 16 };

typedef Onnx__TensorShapeProto__Dimension dim_proto;

static const char *name_of(const Onnx__ValueInfoProto *info) { return info->name ? info->name : ""; }

/* The text of a symbolic dim, or NULL. Converters also write "?", "None" and "-1" where they know nothing. */
static const char *param_of(const dim_proto *d) {
  const bool has = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
  const char *s = has ? d->dim_param : NULL;
  if (!s || !*s || strcmp(s, "?") == 0 || strcmp(s, "None") == 0) return NULL;
  return *s == '-' && s[1] && !s[1 + strspn(s + 1, "0123456789")] ? NULL : s;
}

/* --- names: what tni_import.symbols says of a text --- */

enum { SYMBOL = 1, WHOLE = 2 }; /* WHOLE: it reads like an expression, and is a name all the same */

/* Next identifier at or after p: its start, *n bytes; NULL at the end. */
static const char *read_identifier(const char *p, size_t *n) {
  while (*p && !(isalpha((unsigned char)*p) || *p == '_')) p++;
  if (!*p) return NULL;
  size_t k = 1;
  while (isalnum((unsigned char)p[k]) || p[k] == '_') k++;
  *n = k;
  return p;
}

/* Whether every symbol of text is one of an input. Exporters give each intermediate dim a name of its own; those say
 * nothing and would fill the table. */
static bool knows_symbols(const tni_import *c, const char *text) {
  uint64_t v;
  size_t n;
  if (tni_map_get_str(c->symbols, text, &v)) return true;
  for (const char *p = read_identifier(text, &n); p; p = read_identifier(p + n, &n)) {
    bool function =
        (n == 3 && (memcmp(p, "min", 3) == 0 || memcmp(p, "max", 3) == 0)) || (n == 5 && memcmp(p, "floor", 5) == 0);
    if (!function && !tni_map_get(c->symbols, p, n, &v)) return false;
  }
  return true;
}

static tn_expr named_dim(const tni_import *c, const char *text) {
  uint64_t v;
  const bool whole = tni_map_get_str(c->symbols, text, &v) && v == WHOLE;
  return whole ? tni_ex_sym(c->exprs, text) : tni_ex_parse(c->exprs, text);
}

typedef struct dim_text {
  const char *text;
  tn_expr e;
  bool solved;
  struct dim_text *next;
} dim_text;

/* The dims of all inputs, in a table of their own: what is no expression leaves no symbols in the model's. */
typedef struct dim_texts {
  tni_import *c;
  tni_exprs *x;
  dim_text *all;
  bool *known; /* [symbols of x] the shapes of the inputs say how large it is */
  tn_id open;  /* the one symbol of an expression that is not known, or TN_NONE */
} dim_texts;

static bool note_open(void *ctx, tn_id s) {
  dim_texts *t = ctx;
  if (t->known[s] || s == t->open) return true;
  const bool first = t->open == TN_NONE;
  t->open = s;
  return first;
}

static bool is_other(void *ctx, tn_id s) { return s != ((const dim_texts *)ctx)->open; }

/* Whether all symbols of e are known, or all but one that is added or taken away. Anything else that is open, as in
 * 2*n, has no solution for some sizes. */
static bool can_solve(dim_texts *t, tn_expr e) {
  t->open = TN_NONE;
  if (!tni_ex_each_symbol(t->x, e, note_open, t)) return false;
  if (t->open == TN_NONE) return true;
  const tn_expr s = tni_ex_sym(t->x, tni_ex_symbol_name(t->x, t->open));
  return tni_ex_each_symbol(t->x, tni_ex_sub(t->x, e, s), is_other, t) ||
         tni_ex_each_symbol(t->x, tni_ex_add(t->x, e, s), is_other, t);
}

static void solve_dims(dim_texts *t) {
  bool moved = true;
  for (int round = 0; moved && round < MAX_ROUNDS; round++) {
    moved = false;
    for (dim_text *d = t->all; d; d = d->next) {
      if (d->solved || !can_solve(t, d->e)) continue;
      if (t->open != TN_NONE) t->known[t->open] = true;
      d->solved = moved = true;
    }
  }
}

static bool learn_symbol(void *ctx, tn_id s) {
  const dim_texts *t = ctx;
  return tni_map_put_str(t->c->symbols, tni_ex_symbol_name(t->x, s), SYMBOL);
}

static bool learn_dims(dim_texts *t) {
  bool ok = true;
  for (const dim_text *d = t->all; d && ok; d = d->next)
    if (d->solved) ok = tni_ex_each_symbol(t->x, d->e, learn_symbol, t);
  for (const dim_text *d = t->all; d && ok; d = d->next)
    ok = tni_map_put_str(t->c->symbols, d->text, d->solved ? SYMBOL : WHOLE);
  return ok;
}

static bool add_dims(dim_texts *t, const Onnx__ValueInfoProto *info) {
  const Onnx__TypeProto *type = info->type;
  if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type->shape) return true;
  const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
  for (size_t i = 0; i < shape->n_dim && i < TN_MAX_RANK; i++) {
    const char *text = param_of(shape->dim[i]);
    uint64_t seen;
    if (!text || tni_map_get_str(t->c->symbols, text, &seen)) continue;
    dim_text *d = TNI_NEW(t->c->scratch, dim_text);
    if (!d || !tni_map_put_str(t->c->symbols, text, SYMBOL)) return false;
    *d = (dim_text){text, tni_ex_parse(t->x, text), false, t->all};
    if (d->e == TNI_EXPR_NONE) return false;
    t->all = d;
  }
  return true;
}

tn_status tni_input_dims(tni_import *c, const Onnx__ValueInfoProto *const *infos, uint32_t n) {
  dim_texts t = {.c = c, .x = tni_exprs_create()};
  bool ok = t.x != NULL;
  for (uint32_t i = 0; i < n && ok; i++) ok = add_dims(&t, infos[i]);
  if (ok) t.known = TNI_NEW_ARRAY(c->scratch, bool, tni_ex_n_symbols(t.x) + 1);
  ok = t.known != NULL;
  if (ok) solve_dims(&t);
  ok = ok && !tni_ex_short(t.x) && learn_dims(&t);
  tni_exprs_destroy(t.x);
  return ok ? TN_OK : tni_fail_memory(c->err, c->file);
}

/* --- types --- */

/* dtype and shape of a tensor type; *shape NULL: rank unknown. Other kinds of values: dtype 0, noted. */
static tn_status tensor_type(tni_import *c, const Onnx__ValueInfoProto *info, uint32_t *dtype,
                             const Onnx__TensorShapeProto **shape) {
  const Onnx__TypeProto *t = info->type;
  *dtype = TN_DT_UNDEFINED;
  *shape = NULL;
  if (!t || t->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET) return TN_OK;
  if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    if (t->value_case != ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE &&
        t->value_case != ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE)
      tni_log_line(c->log, TN_LOG_INFO,
                   "%s: '%s' is no dense tensor, sequence or optional; its shape is taken as unknown", c->file,
                   name_of(info));
    return TN_OK;
  }
  const Onnx__TypeProto__Tensor *x = t->tensor_type;
  if (x->elem_type < 0 || x->elem_type >= TN_DT_COUNT)
    return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "value '%s' has data type %d", name_of(info), x->elem_type);
  if (x->shape && x->shape->n_dim > TN_MAX_RANK)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "value '%s' has rank %zu, at most %d are supported", name_of(info),
                    x->shape->n_dim, TN_MAX_RANK);
  *dtype = (uint32_t)x->elem_type;
  *shape = x->shape;
  return TN_OK;
}

/* A number that is written: *e its expression. Exporters write -1 for "unknown": NONE. */
static tn_status fixed_dim(tni_import *c, const Onnx__ValueInfoProto *info, const dim_proto *d, size_t axis,
                           tn_expr *e) {
  *e = TNI_EXPR_NONE;
  if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE || d->dim_value == -1) return TN_OK;
  if (d->dim_value < 0)
    return tni_fail(c->err, TN_E_INVALID, c->file, "value '%s': dimension %zu is %" PRId64, name_of(info), axis,
                    d->dim_value);
  *e = tni_ex_const(c->exprs, d->dim_value);
  return *e == TNI_EXPR_NONE ? tni_fail_memory(c->err, c->file) : TN_OK;
}

/* t as a type on the graph's arena. Dims: those that are written, of an input; nothing is known of a hint's. NULL, with
 * TN_OK, for what Tenon has no word for. */
static tn_status convert_type(tni_import *c, tni_graph *g, const Onnx__TypeProto *t, bool dims, tni_type **out) {
  const Onnx__TypeProto *elem = NULL;
  *out = NULL;
  if (!t) return TN_OK;
  tni_type made = {.form = TNI_FORM_TENSOR, .rank = TNI_RANK_UNKNOWN};
  if (t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) {
    made.form = TNI_FORM_SEQUENCE;
    elem = t->sequence_type->elem_type;
  } else if (t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) {
    made.form = TNI_FORM_OPTIONAL;
    elem = t->optional_type->elem_type;
  } else if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    return TN_OK;
  }
  if (made.form == TNI_FORM_TENSOR) {
    const Onnx__TypeProto__Tensor *x = t->tensor_type;
    if (x->elem_type < 0 || x->elem_type >= TN_DT_COUNT)
      return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "a type has data type %d", x->elem_type);
    made.dtype = (uint32_t)x->elem_type;
    if (dims && x->shape && x->shape->n_dim <= TN_MAX_RANK) {
      tn_expr *list = TNI_NEW_ARRAY(g->arena, tn_expr, x->shape->n_dim + 1);
      if (!list) return tni_fail_memory(c->err, c->file);
      for (size_t i = 0; i < x->shape->n_dim; i++) list[i] = TNI_EXPR_NONE;
      made.rank = (uint32_t)x->shape->n_dim;
      made.dims = list;
    }
  } else {
    tni_type *of = NULL;
    tn_status st = convert_type(c, g, elem, dims, &of); /* the scan bounds the nesting */
    if (st) return st;
    made.elem = of;
  }
  if (!(*out = TNI_NEW(g->arena, tni_type))) return tni_fail_memory(c->err, c->file);
  **out = made;
  return TN_OK;
}

/* Of a value that is no tensor. */
static tn_status group_type(tni_import *c, tni_graph *g, tn_id v, const Onnx__ValueInfoProto *info, bool dims) {
  tni_type *type;
  if (!info->type || info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return TN_OK;
  tn_status st = convert_type(c, g, info->type, dims, &type);
  if (st) return st;
  tni_graph_value(g, v)->type = type;
  return TN_OK;
}

tn_status tni_type_ints(tni_import *c, const Onnx__TypeProto *t, int64_t *v, uint32_t cap, uint32_t *n) {
  for (*n = 0; t && *n + 2 <= cap;) {
    if (t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
      v[(*n)++] = TNI_FORM_TENSOR;
      v[(*n)++] = t->tensor_type->elem_type;
      return TN_OK;
    }
    if (t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) {
      v[(*n)++] = TNI_FORM_SEQUENCE;
      t = t->sequence_type->elem_type;
    } else if (t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) {
      v[(*n)++] = TNI_FORM_OPTIONAL;
      t = t->optional_type->elem_type;
    } else {
      break;
    }
  }
  return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "a type that is no tensor, sequence or optional of such");
}

tn_status tni_input_type(tni_import *c, tni_graph *g, tn_id v, const Onnx__ValueInfoProto *info) {
  uint32_t dtype;
  const Onnx__TensorShapeProto *shape;
  tn_expr dims[TN_MAX_RANK];
  tn_status st = tensor_type(c, info, &dtype, &shape);
  if (st) return st;
  tni_graph_value(g, v)->pub.dtype = dtype;
  st = group_type(c, g, v, info, true);
  if (st || !shape) return st;
  for (size_t i = 0; i < shape->n_dim; i++) {
    const char *param = param_of(shape->dim[i]);
    st = fixed_dim(c, info, shape->dim[i], i, &dims[i]);
    if (st) return st;
    if (g->outer) continue; /* one name may mean different sizes in two bodies, or in two rounds of a loop */
    if (param) {
      dims[i] = named_dim(c, param);
    } else if (dims[i] == TNI_EXPR_NONE) {
      char text[MAX_DIM_TEXT];
      snprintf(text, sizeof text, "%.200s.%zu", tni_graph_value(g, v)->pub.name, i);
      dims[i] = tni_ex_sym(c->exprs, text);
    }
    if (dims[i] == TNI_EXPR_NONE) return tni_fail_memory(c->err, c->file);
  }
  st = tni_value_set_dims(g, v, (uint32_t)shape->n_dim, dims);
  return st ? tni_fail(c->err, st, c->file, "value '%s': its dimensions", name_of(info)) : TN_OK;
}

tn_status tni_hint_type(tni_import *c, tni_graph *g, tn_id v, const Onnx__ValueInfoProto *info, bool new_symbols) {
  uint32_t dtype;
  const Onnx__TensorShapeProto *shape;
  tni_value *value = tni_graph_value(g, v);
  tn_status st = tensor_type(c, info, &dtype, &shape);
  if (st) return st;
  if (value->pub.dtype == TN_DT_UNDEFINED) value->pub.dtype = dtype;
  if (!value->type) st = group_type(c, g, v, info, false);
  if (st || !shape || value->declared) return st;
  tn_expr *dims = TNI_NEW_ARRAY(g->arena, tn_expr, shape->n_dim);
  if (!dims) return tni_fail_memory(c->err, c->file);
  for (size_t i = 0; i < shape->n_dim; i++) {
    const char *param = param_of(shape->dim[i]);
    st = fixed_dim(c, info, shape->dim[i], i, &dims[i]);
    if (st) return st;
    if (param && (new_symbols || knows_symbols(c, param))) dims[i] = named_dim(c, param);
  }
  value->declared = true;
  value->hint_rank = (uint32_t)shape->n_dim;
  value->hint_dims = dims;
  return TN_OK;
}
