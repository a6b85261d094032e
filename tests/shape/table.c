/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/shape/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 64, MAX_WORDS = 16, WORD = 256 };

typedef struct word {
  uint32_t dtype, rank, n;
  tn_expr dims[TN_MAX_RANK + 1], elems[MAX_ITEMS];
  bool has_elems, constant;
} word;

static uint32_t dtype_of(const char *s, size_t n) {
  static const struct {
    const char *name;
    uint32_t dtype;
  } names[] = {{"f32", TN_DT_F32}, {"f64", TN_DT_F64}, {"i32", TN_DT_I32},   {"i64", TN_DT_I64},    {"u8", TN_DT_U8},
               {"i8", TN_DT_I8},   {"f16", TN_DT_F16}, {"bool", TN_DT_BOOL}, {"?", TN_DT_UNDEFINED}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strlen(names[i].name) == n && strncmp(names[i].name, s, n) == 0) return names[i].dtype;
  }
  CU_FAIL("a table names an unknown dtype");
  return TN_DT_UNDEFINED;
}

static tn_expr item(tni_exprs *x, const char *s, size_t n) {
  char buf[WORD];
  int64_t lo, hi;
  if (n == 1 && *s == '?') return TNI_EXPR_NONE;
  snprintf(buf, sizeof buf, "%.*s", (int)n, s);
  tn_expr e = tni_ex_parse(x, buf);
  for (uint32_t i = 0; i < tni_ex_n_symbols(x); i++) {
    tni_ex_symbol_bounds(x, i, &lo, &hi);
    const char *name = tni_ex_symbol_name(x, i);
    if (name[0] == 'p' && strncmp(name, "past", 4) != 0 && lo < 1) CU_ASSERT_EQUAL(tni_ex_bound(x, i, 1, hi), TN_OK);
  }
  return tni_ex_parse(x, buf) == TNI_EXPR_NONE ? e : tni_ex_parse(x, buf);
}

/* Items up to the closing character, separated by commas outside parentheses. Returns what follows. */
static const char *items(tni_exprs *x, const char *s, char close, tn_expr *e, uint32_t max, uint32_t *n) {
  int depth = 0;
  const char *from = s;
  *n = 0;
  for (; *s; s++) {
    if (*s == '(') depth++;
    if (depth == 0 && (*s == ',' || *s == close)) {
      if (s > from && *n < max) e[(*n)++] = item(x, from, (size_t)(s - from));
      from = s + 1;
    }
    if (depth == 0 && *s == close) break;
    if (*s == ')') depth--;
  }
  if (!*s && s > from && *n < max) e[(*n)++] = item(x, from, (size_t)(s - from));
  return *s ? s + 1 : s;
}

static word parse_word(tni_exprs *x, const char *s) {
  word w = {.rank = TNI_RANK_UNKNOWN};
  const char *open = strchr(s, '[');
  w.dtype = dtype_of(s, open ? (size_t)(open - s) : strlen(s));
  if (!open) return w;
  if (strncmp(open, "[...]", 5) == 0) return w;
  s = items(x, open + 1, ']', w.dims, TN_MAX_RANK + 1, &w.rank);
  if (*s != '=') return w;
  w.has_elems = true;
  w.constant = s[1] != '{';
  items(x, w.constant ? s + 1 : s + 2, '}', w.elems, MAX_ITEMS, &w.n);
  return w;
}

/* A number that is none of the expressions' integers has become a symbol of that name. */
static bool fraction(const tni_exprs *x, tn_expr e, double *v) {
  tn_id sym;
  char *end;
  if (!tni_ex_is_sym(x, e, &sym)) return false;
  *v = strtod(tni_ex_symbol_name(x, sym), &end);
  return !*end;
}

static void store(uint32_t dtype, void *p, uint32_t i, int64_t v, double real) {
  switch (dtype) {
    case TN_DT_F32:
      ((float *)p)[i] = (float)real;
      break;
    case TN_DT_F64:
      ((double *)p)[i] = real;
      break;
    case TN_DT_I32:
      ((int32_t *)p)[i] = (int32_t)v;
      break;
    case TN_DT_I64:
      ((int64_t *)p)[i] = v;
      break;
    default:
      ((uint8_t *)p)[i] = (uint8_t)v;
      break;
  }
}

static bool word_tensor(tni_arena *a, tni_exprs *x, const word *w, tni_tensor *t) {
  memset(t, 0, sizeof *t);
  t->dtype = w->dtype;
  t->rank = w->rank;
  for (uint32_t d = 0; d < w->rank; d++) {
    if (!tni_ex_is_const(x, w->dims[d], &t->dims[d])) return false;
  }
  if (!w->constant) return true;
  if (tni_dtype_bytes(t->dtype, w->n, &t->bytes) != TN_OK) return false;
  t->data = tni_arena_alloc(a, t->bytes ? t->bytes : 1, 8);
  for (uint32_t i = 0; i < w->n; i++) {
    int64_t v = 0;
    double real;
    const bool whole = tni_ex_is_const(x, w->elems[i], &v);
    if (!whole && !fraction(x, w->elems[i], &real)) return false;
    store(t->dtype, t->data, i, v, whole ? (double)v : real);
  }
  return t->data != NULL;
}

tn_id add_word(tni_graph *g, const char *name, const char *text) {
  if (strcmp(text, "-") == 0) return TN_NONE;
  word w = parse_word(g->exprs, text);
  tn_id id = tni_graph_add_value(g, name, TN_VALUE_INPUT, w.dtype);
  tni_value *v = tni_graph_value(g, id);
  if (w.rank != TNI_RANK_UNKNOWN) CU_ASSERT_EQUAL(tni_value_set_dims(g, id, w.rank, w.dims), TN_OK);
  tni_tensor t;
  if (w.constant) {
    CU_ASSERT_TRUE(word_tensor(g->arena, g->exprs, &w, &t));
    CU_ASSERT_EQUAL(tni_value_set_tensor(g, id, &t, NULL), TN_OK);
  } else if (w.has_elems) {
    v->elems = tni_arena_memdup(g->arena, w.elems, (w.n + 1) * sizeof *w.elems, 4);
    v->n_elems = w.n;
  }
  return id;
}

static uint32_t split(const char *s, char sep, char out[MAX_WORDS][WORD]) {
  uint32_t n = 0;
  while (*s && n < MAX_WORDS) {
    const char *e = strchr(s, sep);
    size_t len = e ? (size_t)(e - s) : strlen(s);
    if (len) snprintf(out[n++], WORD, "%.*s", (int)len, s);
    s += e ? len + 1 : len;
  }
  return n;
}

/* "name=1", "name=1,2" (list; "1," for one), "name=0.5", "name=\"text\"", "name=DTYPE[..]=v" (tensor) */
static void parse_attr(tni_graph *g, char *s, tni_raw_attr *r) {
  char *eq = strchr(s, '=');
  memset(r, 0, sizeof *r);
  *eq = 0;
  r->name = s;
  char *v = eq + 1;
  r->a.h = (tn_hdr)TN_HDR(tn_attr);
  if (v[0] == '"') {
    r->a.type = TN_ATTR_STRING;
    r->a.u.s = tni_arena_strndup(g->arena, v + 1, strlen(v) - 2);
    r->a.n = strlen(v) - 2;
  } else if (strchr(v, '[')) {
    word w = parse_word(g->exprs, v);
    r->a.type = TN_ATTR_TENSOR;
    r->tensor = TNI_NEW(g->arena, tni_tensor);
    CU_ASSERT_TRUE(word_tensor(g->arena, g->exprs, &w, r->tensor));
  } else if (strchr(v, ',')) {
    int64_t *list = TNI_NEW_ARRAY(g->arena, int64_t, MAX_ITEMS);
    r->a.type = TN_ATTR_INTS;
    for (char *t = strtok(v, ","); t; t = strtok(NULL, ",")) list[r->a.n++] = strtoll(t, NULL, 10);
    r->a.u.ints = list;
  } else if (strchr(v, '.')) {
    r->a.type = TN_ATTR_FLOAT;
    r->a.n = 1;
    r->a.u.f = strtod(v, NULL);
  } else {
    r->a.type = TN_ATTR_INT;
    r->a.n = 1;
    r->a.u.i = strtoll(v, NULL, 10);
  }
}

tn_status add_op(tni_graph *g, const char *op, int version, const char *in, const char *out, const char *attrs,
                 tn_error *err) {
  char names[MAX_WORDS][WORD], text[MAX_WORDS][WORD];
  tn_id ids[MAX_WORDS], outs[MAX_WORDS], node;
  tni_raw_attr raw[MAX_WORDS];
  uint32_t n_in = split(in, ' ', names);
  for (uint32_t i = 0; i < n_in; i++) ids[i] = strcmp(names[i], "-") == 0 ? TN_NONE : tni_graph_find(g, names[i]);
  uint32_t n_out = split(out, ' ', names);
  for (uint32_t i = 0; i < n_out; i++) {
    outs[i] = strcmp(names[i], "-") == 0 ? TN_NONE : tni_graph_add_value(g, names[i], TN_VALUE_ACT, TN_DT_UNDEFINED);
  }
  uint32_t n_attr = split(attrs, ';', text);
  for (uint32_t i = 0; i < n_attr; i++) parse_attr(g, text[i], &raw[i]);
  snprintf(names[0], WORD, "the_%s", op);
  const bool own = strncmp(op, "tenon.", 6) == 0;
  return tni_graph_add_node(g, names[0], own ? "tenon" : "", own ? op + 6 : op, version, ids, n_in, outs, n_out, raw,
                            n_attr, &node, err);
}

bool matches(const tni_graph *g, const tni_value *v, const char *text) {
  word w = parse_word(g->exprs, text);
  if (v->pub.dtype != w.dtype || v->pub.rank != w.rank) return false;
  for (uint32_t d = 0; w.rank != TNI_RANK_UNKNOWN && d < w.rank; d++) {
    if (v->pub.dims[d] != w.dims[d]) return false;
  }
  if (!w.has_elems) return v->elems == NULL;
  if (!v->elems || v->n_elems != w.n) return false;
  for (uint32_t i = 0; i < w.n; i++) {
    if (v->elems[i] != w.elems[i]) return false;
  }
  return true;
}

static void complain(const rule_case *c, const tni_graph *g, uint32_t o, const tni_value *v, const char *text) {
  printf("\n  %s(%s) {%s}: output %u should be %s, is %s", c->op, c->in, c->attrs, o, text,
         tni_dtype_name(v->pub.dtype));
  char buf[128];
  if (v->pub.rank == TNI_RANK_UNKNOWN) printf("[...]");
  for (uint32_t d = 0; v->pub.rank != TNI_RANK_UNKNOWN && d < v->pub.rank; d++) {
    if (v->pub.dims[d] != TNI_EXPR_NONE) tni_ex_print(g->exprs, v->pub.dims[d], buf, sizeof buf);
    printf("%s%s", d ? "," : "[", v->pub.dims[d] == TNI_EXPR_NONE ? "?" : buf);
  }
  printf("]");
  for (uint32_t i = 0; v->elems && i < v->n_elems; i++) {
    if (v->elems[i] != TNI_EXPR_NONE) tni_ex_print(g->exprs, v->elems[i], buf, sizeof buf);
    printf("%s%s", i ? "," : "={", v->elems[i] == TNI_EXPR_NONE ? "?" : buf);
  }
  printf("\n");
}

static tni_graph *build(const rule_case *c, uint32_t *n_out, char outs[MAX_WORDS][WORD], tn_status *st, tn_error *err) {
  tni_graph *g = NULL;
  char words[MAX_WORDS][WORD], in[WORD] = "", out[WORD] = "", name[16];
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, err), TN_OK);
  uint32_t n = split(c->in, ' ', words);
  for (uint32_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "x%u", i);
    bool absent = add_word(g, name, words[i]) == TN_NONE;
    strncat(in, absent ? "-" : name, WORD - strlen(in) - 1);
    strncat(in, " ", WORD - strlen(in) - 1);
  }
  *n_out = c->out[0] == '!' ? (uint32_t)strspn(c->out, "!") : split(c->out, ' ', outs);
  for (uint32_t i = 0; i < *n_out; i++) {
    snprintf(name, sizeof name, "y%u ", i);
    strncat(out, name, WORD - strlen(out) - 1);
  }
  *st = add_op(g, c->op, c->version, in, out, c->attrs, err);
  return g;
}

static void run_case(const rule_case *c) {
  tn_error err;
  char outs[MAX_WORDS][WORD];
  uint32_t n_out;
  tn_status st;
  tni_error_init(&err);
  tni_graph *g = build(c, &n_out, outs, &st, &err);
  CU_ASSERT_TRUE(st == TN_OK || c->out[0] == '!'); /* values of attributes are refused with the node */
  if (st == TN_OK) st = tni_infer_graph(g, &err);
  if (c->out[0] == '!') {
    bool ok = st == TN_E_INVALID && strstr(err.message, c->out + n_out) && strstr(err.where, "the_") && err.node == 0;
    CU_ASSERT_TRUE(ok);
    if (!ok) printf("\n  %s(%s): expected '%s', got %d '%s'\n", c->op, c->in, c->out + 1, (int)st, err.message);
  } else {
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st != TN_OK) printf("\n  %s(%s): %s\n", c->op, c->in, err.message);
    for (uint32_t o = 0; st == TN_OK && o < n_out; o++) {
      char name[16];
      snprintf(name, sizeof name, "y%u", o);
      const tni_value *v = tni_graph_value(g, tni_graph_find(g, name));
      bool ok = matches(g, v, outs[o]);
      CU_ASSERT_TRUE(ok);
      if (!ok) complain(c, g, o, v, outs[o]);
    }
  }
  tni_graph_destroy(g);
}

void run_cases(const rule_case *c, size_t n) {
  for (size_t i = 0; i < n; i++) run_case(&c[i]);
}

static void concrete_case(const rule_case *c) {
  tn_error err;
  char outs[MAX_WORDS][WORD], words[MAX_WORDS][WORD];
  uint32_t n_out;
  tn_status st;
  tni_tensor t[MAX_WORDS], out[MAX_WORDS];
  const tni_tensor *in[MAX_WORDS];
  tni_error_init(&err);
  tni_graph *g = build(c, &n_out, outs, &st, &err);
  uint32_t n = split(c->in, ' ', words);
  for (uint32_t i = 0; i < n; i++) {
    in[i] = NULL;
    if (strcmp(words[i], "-") == 0) continue;
    word w = parse_word(g->exprs, words[i]);
    CU_ASSERT_TRUE(word_tensor(g->arena, g->exprs, &w, &t[i]));
    in[i] = &t[i];
  }
  memset(out, 0, sizeof out);
  st = tni_infer_concrete(tni_graph_node(g, 0), in, n, out, n_out, NULL, &err);
  bool unsupported = strcmp(c->out, "!unsupported") == 0;
  if (c->out[0] == '!') {
    bool ok = st == (unsupported ? TN_E_UNSUPPORTED : TN_E_INVALID) && (unsupported || strstr(err.message, c->out + 1));
    CU_ASSERT_TRUE(ok);
    if (!ok) printf("\n  %s(%s): expected '%s', got %d '%s'\n", c->op, c->in, c->out + 1, (int)st, err.message);
  } else {
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st != TN_OK) printf("\n  %s(%s): %s\n", c->op, c->in, err.message);
  }
  for (uint32_t o = 0; st == TN_OK && o < n_out; o++) {
    word w = parse_word(g->exprs, outs[o]);
    int64_t d, count = 1;
    uint64_t bytes = 0;
    bool ok = out[o].dtype == w.dtype && out[o].rank == w.rank;
    for (uint32_t k = 0; ok && k < w.rank; k++) {
      ok = tni_ex_is_const(g->exprs, w.dims[k], &d) && d == out[o].dims[k];
      count *= out[o].dims[k];
    }
    CU_ASSERT_EQUAL(tni_dtype_bytes(out[o].dtype, count, &bytes), TN_OK);
    CU_ASSERT_TRUE(ok && bytes == out[o].bytes);
    if (!ok) printf("\n  %s(%s) concrete: output %u should be %s\n", c->op, c->in, o, outs[o]);
  }
  tni_graph_destroy(g);
}

void run_concrete(const rule_case *c, size_t n) {
  for (size_t i = 0; i < n; i++) concrete_case(&c[i]);
}
