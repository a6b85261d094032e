/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions: jinja2's grammar, in its order of precedence.
 */
#include <string.h>

#include "runtime/llm/jinja/tree.h"

tni_jj_node *tni_jj_new_node(tni_jj_parser *p, tni_jj_node_kind kind) {
  tni_jj_node *n = tni_jj_alloc(p->x, 1, sizeof *n);
  if (!n) n = &p->nothing;
  *n = (tni_jj_node){0};
  n->kind = kind;
  n->line = p->at->line;
  return n;
}

static void advance(tni_jj_parser *p) {
  if (p->at->kind != T_EOF) p->at++;
  p->x->line = p->at->line;
}

bool tni_jj_at_op(const tni_jj_parser *p, const char *op) {
  return p->at->kind == T_OP && tni_jj_str_is(&p->at->text, op);
}
bool tni_jj_at_name(const tni_jj_parser *p, const char *name) {
  return p->at->kind == T_NAME && tni_jj_str_is(&p->at->text, name);
}

bool tni_jj_skip_op(tni_jj_parser *p, const char *op) {
  if (tni_jj_failed(p->x) || !tni_jj_at_op(p, op)) return false;
  advance(p);
  return true;
}

bool tni_jj_skip_name(tni_jj_parser *p, const char *name) {
  if (tni_jj_failed(p->x) || !tni_jj_at_name(p, name)) return false;
  advance(p);
  return true;
}

void *tni_jj_bad_token(tni_jj_parser *p, const char *wanted) {
  const tni_jj_token *t = p->at;
  if (t->kind == T_EOF)
    tni_jj_fail(p->x, "the template ends where %s is wanted", wanted);
  else if (t->kind == T_BLOCK_END || t->kind == T_VAR_END)
    tni_jj_fail(p->x, "the tag ends where %s is wanted", wanted);
  else
    tni_jj_fail(p->x, "'%.*s' stands where %s is wanted", t->text.n < 40 ? (int)t->text.n : 40, t->text.v, wanted);
  return NULL;
}

void tni_jj_want_op(tni_jj_parser *p, const char *op) {
  char wanted[16] = "'";
  strncat(strncat(wanted, op, 8), "'", 2);
  if (!tni_jj_failed(p->x) && !tni_jj_skip_op(p, op)) tni_jj_bad_token(p, wanted);
}

/* a is the left side of what is made; list nodes get all. */
static tni_jj_node *two_sided(tni_jj_parser *p, tni_jj_node_kind kind, tni_jj_op op, tni_jj_node *a, tni_jj_node *b) {
  tni_jj_node *n = tni_jj_new_node(p, kind);
  n->op = op;
  n->a = a;
  n->b = b;
  if (a) n->line = a->line;
  return n;
}

static tni_jj_node *constant(tni_jj_parser *p, tni_jj_val v) {
  tni_jj_node *n = tni_jj_new_node(p, N_CONST);
  n->value = v;
  return n;
}

static tni_jj_node *parse_strings(tni_jj_parser *p) {
  tni_jj_buf b = {0};
  tni_jj_node *n = tni_jj_new_node(p, N_CONST);
  const bool one = p->at[1].kind != T_STRING;
  tni_jj_str first = p->at->text;
  for (; p->at->kind == T_STRING && !tni_jj_failed(p->x); advance(p))
    if (!one) tni_jj_put_str(p->x, &b, &p->at->text);
  n->value = one ? tni_jj_text(p->x, first.v, NULL, first.n) : tni_jj_text(p->x, b.n ? b.v : "", NULL, b.n);
  return n;
}

static tni_jj_node *parse_name(tni_jj_parser *p) {
  static const struct {
    const char *name;
    tni_jj_val v;
  } fixed[] = {{"true", {.type = TNI_JJ_BOOL, .b = true}},
               {"True", {.type = TNI_JJ_BOOL, .b = true}},
               {"false", {.type = TNI_JJ_BOOL}},
               {"False", {.type = TNI_JJ_BOOL}},
               {"none", {.type = TNI_JJ_NONE}},
               {"None", {.type = TNI_JJ_NONE}}};
  tni_jj_node *n = tni_jj_new_node(p, N_NAME);
  n->name = p->at->text;
  if (tni_jj_at_name(p, "varargs")) p->seen |= TNI_JJ_SEES_VARARGS;
  if (tni_jj_at_name(p, "kwargs")) p->seen |= TNI_JJ_SEES_KWARGS;
  if (tni_jj_at_name(p, "caller")) p->seen |= TNI_JJ_SEES_CALLER;
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (tni_jj_at_name(p, fixed[i].name)) n = constant(p, fixed[i].v);
  advance(p);
  return n;
}

/* Items up to the closing bracket. */
static tni_jj_node *parse_items(tni_jj_parser *p, tni_jj_node_kind kind, const char *end) {
  tni_jj_node *n = tni_jj_new_node(p, kind), **tail = &n->first;
  while (!tni_jj_failed(p->x) && !tni_jj_at_op(p, end)) {
    if (n->first) tni_jj_want_op(p, ",");
    if (tni_jj_at_op(p, end)) break;
    tni_jj_node *item = tni_jj_parse_expr(p);
    if (kind == N_DICT) {
      tni_jj_want_op(p, ":");
      item = two_sided(p, N_PAIR, TNI_JJ_ADD, item, tni_jj_parse_expr(p));
    }
    *tail = item;
    if (tni_jj_failed(p->x)) break;
    tail = &item->next;
  }
  tni_jj_want_op(p, end);
  return n;
}

static bool ends_tuple(const tni_jj_parser *p) {
  return p->at->kind == T_VAR_END || p->at->kind == T_BLOCK_END || p->at->kind == T_EOF || tni_jj_at_op(p, ")") ||
         tni_jj_at_name(p, "recursive");
}

static tni_jj_node *parse_tuple(tni_jj_parser *p, bool cond, bool parentheses) {
  tni_jj_node *n = tni_jj_new_node(p, N_TUPLE), **tail = &n->first;
  bool tuple = false;
  while (!tni_jj_failed(p->x)) {
    if (n->first) tni_jj_want_op(p, ",");
    if (ends_tuple(p)) break;
    *tail = cond ? tni_jj_parse_expr(p) : tni_jj_parse_or(p);
    if (tni_jj_failed(p->x)) break;
    tail = &(*tail)->next;
    if (!tni_jj_at_op(p, ",")) break;
    tuple = true;
  }
  if (tuple || tni_jj_failed(p->x)) return n;
  if (n->first) return n->first;
  return parentheses ? n : tni_jj_bad_token(p, "an expression");
}

tni_jj_node *tni_jj_parse_tuple(tni_jj_parser *p, bool cond) { return parse_tuple(p, cond, false); }

tni_jj_node *tni_jj_parse_primary(tni_jj_parser *p) {
  const tni_jj_token *t = p->at;
  tni_jj_node *n = NULL;
  if (!tni_jj_enter(p->x)) return tni_jj_new_node(p, N_CONST);
  if (t->kind == T_NAME) {
    n = parse_name(p);
  } else if (t->kind == T_STRING) {
    n = parse_strings(p);
  } else if (t->kind == T_INT || t->kind == T_FLOAT) {
    n = constant(p, t->kind == T_INT ? tni_jj_int(t->i) : tni_jj_float(t->f));
    advance(p);
  } else if (tni_jj_skip_op(p, "(")) {
    n = parse_tuple(p, true, true);
    tni_jj_want_op(p, ")");
  } else if (tni_jj_skip_op(p, "[")) {
    n = parse_items(p, N_LIST, "]");
  } else if (tni_jj_skip_op(p, "{")) {
    n = parse_items(p, N_DICT, "}");
  } else {
    tni_jj_bad_token(p, "an expression");
  }
  tni_jj_leave(p->x);
  return n && !tni_jj_failed(p->x) ? n : tni_jj_new_node(p, N_CONST);
}

/* A part of a slice, or NULL. */
static tni_jj_node *slice_part(tni_jj_parser *p) {
  return tni_jj_at_op(p, ":") || tni_jj_at_op(p, "]") || tni_jj_at_op(p, ",") ? NULL : tni_jj_parse_expr(p);
}

static tni_jj_node *parse_subscript(tni_jj_parser *p, tni_jj_node *of) {
  tni_jj_node *n = tni_jj_new_node(p, N_ITEM);
  tni_jj_node *first = tni_jj_at_op(p, ":") ? NULL : tni_jj_parse_expr(p);
  if (tni_jj_at_op(p, ",")) {
    tni_jj_fail(p->x, "several subscripts");
  } else if (tni_jj_skip_op(p, ":")) {
    n->kind = N_SLICE;
    n->a = first;
    n->b = slice_part(p);
    if (tni_jj_skip_op(p, ":")) n->c = slice_part(p);
    n->d = of;
  } else {
    n->a = of;
    n->b = first;
  }
  tni_jj_want_op(p, "]");
  return n;
}

tni_jj_node *tni_jj_parse_args(tni_jj_parser *p) {
  tni_jj_node *list = NULL, **tail = &list;
  bool named = false;
  while (!tni_jj_failed(p->x) && !tni_jj_at_op(p, ")")) {
    if (list) tni_jj_want_op(p, ",");
    if (tni_jj_at_op(p, ")")) break;
    tni_jj_node *n;
    const bool keyword = p->at->kind == T_NAME && p->at[1].kind == T_OP && tni_jj_str_is(&p->at[1].text, "=");
    if (keyword || tni_jj_at_op(p, "*") || tni_jj_at_op(p, "**")) {
      n = tni_jj_new_node(p, keyword ? N_KW : tni_jj_at_op(p, "*") ? N_STAR : N_STARSTAR);
      n->name = p->at->text;
      advance(p);
      if (keyword) advance(p);
      n->a = tni_jj_parse_expr(p);
      named = named || n->kind != N_STAR;
    } else {
      if (named) tni_jj_fail(p->x, "an argument without a name stands after one with a name");
      n = tni_jj_new_node(p, N_POS);
      n->a = tni_jj_parse_expr(p);
    }
    if (tni_jj_failed(p->x)) break;
    *tail = n;
    tail = &n->next;
  }
  tni_jj_want_op(p, ")");
  return list;
}

tni_jj_node *tni_jj_parse_postfix(tni_jj_parser *p, tni_jj_node *a) {
  uint32_t links = 0;
  while (!tni_jj_failed(p->x)) {
    tni_jj_node *n;
    if (++links > TNI_JJ_DEPTH) tni_jj_limit(p->x, "a chain of attributes is too long");
    if (tni_jj_skip_op(p, ".")) {
      n = tni_jj_new_node(p, p->at->kind == T_INT ? N_ITEM : N_ATTR);
      n->a = a;
      n->name = p->at->text;
      if (p->at->kind == T_INT)
        n->b = constant(p, tni_jj_int(p->at->i));
      else if (p->at->kind != T_NAME)
        tni_jj_bad_token(p, "a name");
      advance(p);
    } else if (tni_jj_skip_op(p, "[")) {
      n = parse_subscript(p, a);
    } else if (tni_jj_skip_op(p, "(")) {
      n = tni_jj_new_node(p, N_CALL);
      n->a = a;
      n->first = tni_jj_parse_args(p);
    } else {
      break;
    }
    a = n;
  }
  return a;
}

/* Names of filters and tests may have dots. Whether there is such a one is asked when it is needed, as in jinja2. */
static void read_dots(tni_jj_parser *p, tni_jj_str *name) {
  while (tni_jj_skip_op(p, ".")) {
    if (p->at->kind != T_NAME) tni_jj_bad_token(p, "a name");
    name->n = (size_t)(p->at->text.v + p->at->text.n - name->v);
    advance(p);
  }
}

static tni_jj_node *parse_filter(tni_jj_parser *p, tni_jj_node *a) {
  tni_jj_node *n = tni_jj_new_node(p, N_FILTER);
  n->a = a;
  n->name = p->at->text;
  if (p->at->kind != T_NAME) tni_jj_bad_token(p, "a filter's name");
  advance(p);
  read_dots(p, &n->name);
  if (tni_jj_skip_op(p, "(")) n->first = tni_jj_parse_args(p);
  return n;
}

/* What may begin the argument of a test without parentheses. */
static bool begins_argument(const tni_jj_parser *p) {
  if (tni_jj_at_name(p, "else") || tni_jj_at_name(p, "or") || tni_jj_at_name(p, "and") || tni_jj_at_name(p, "is"))
    return false;
  return p->at->kind == T_NAME || p->at->kind == T_STRING || p->at->kind == T_INT || p->at->kind == T_FLOAT ||
         tni_jj_at_op(p, "[") || tni_jj_at_op(p, "{");
}

static tni_jj_node *parse_test(tni_jj_parser *p, tni_jj_node *a) {
  const bool negated = tni_jj_skip_name(p, "not");
  tni_jj_node *n = tni_jj_new_node(p, N_TEST);
  n->a = a;
  n->name = p->at->text;
  if (p->at->kind != T_NAME) tni_jj_bad_token(p, "a test's name");
  advance(p);
  read_dots(p, &n->name);
  if (tni_jj_skip_op(p, "(")) {
    n->first = tni_jj_parse_args(p);
  } else if (tni_jj_at_name(p, "is")) {
    tni_jj_fail(p->x, "tests in a row need parentheses");
  } else if (begins_argument(p)) {
    n->first = tni_jj_new_node(p, N_POS);
    n->first->a = tni_jj_parse_postfix(p, tni_jj_parse_primary(p));
  }
  return negated ? two_sided(p, N_NOT, TNI_JJ_ADD, n, NULL) : n;
}

tni_jj_node *tni_jj_parse_filters(tni_jj_parser *p, tni_jj_node *a, bool begins) {
  uint32_t links = 0;
  while (!tni_jj_failed(p->x)) {
    if (++links > TNI_JJ_DEPTH) tni_jj_limit(p->x, "a chain of filters is too long");
    if (begins || tni_jj_skip_op(p, "|")) {
      a = parse_filter(p, a);
    } else if (a && tni_jj_skip_name(p, "is")) {
      a = parse_test(p, a);
    } else if (a && tni_jj_skip_op(p, "(")) {
      tni_jj_node *n = tni_jj_new_node(p, N_CALL);
      n->a = a;
      n->first = tni_jj_parse_args(p);
      a = n;
    } else {
      break;
    }
    begins = false;
  }
  return a;
}

tni_jj_node *tni_jj_parse_unary(tni_jj_parser *p, bool filters) {
  tni_jj_node *n;
  if (!tni_jj_enter(p->x)) return tni_jj_new_node(p, N_CONST);
  if (tni_jj_skip_op(p, "-"))
    n = two_sided(p, N_NEG, TNI_JJ_ADD, tni_jj_parse_unary(p, false), NULL);
  else if (tni_jj_skip_op(p, "+"))
    n = two_sided(p, N_POS, TNI_JJ_ADD, tni_jj_parse_unary(p, false), NULL);
  else
    n = tni_jj_parse_primary(p);
  n = tni_jj_parse_postfix(p, n);
  if (filters) n = tni_jj_parse_filters(p, n, false);
  tni_jj_leave(p->x);
  return n;
}

static tni_jj_node *parse_pow(tni_jj_parser *p) {
  tni_jj_node *a = tni_jj_parse_unary(p, true);
  while (tni_jj_skip_op(p, "**")) a = two_sided(p, N_BINARY, TNI_JJ_POW, a, tni_jj_parse_unary(p, true));
  return a;
}

/* Which of these signs stands here; it is skipped. */
static bool skip_sign(tni_jj_parser *p, const char *const *signs, const tni_jj_op *ops, size_t n, tni_jj_op *op) {
  for (size_t i = 0; i < n; i++)
    if (tni_jj_skip_op(p, signs[i])) {
      *op = ops[i];
      return true;
    }
  return false;
}

static tni_jj_node *parse_products(tni_jj_parser *p) {
  static const char *const signs[] = {"*", "/", "//", "%"};
  static const tni_jj_op ops[] = {TNI_JJ_MUL, TNI_JJ_DIV, TNI_JJ_FLOORDIV, TNI_JJ_MOD};
  tni_jj_node *a = parse_pow(p);
  for (tni_jj_op op; skip_sign(p, signs, ops, 4, &op);) a = two_sided(p, N_BINARY, op, a, parse_pow(p));
  return a;
}

static tni_jj_node *parse_concat(tni_jj_parser *p) {
  tni_jj_node *a = parse_products(p);
  if (!tni_jj_at_op(p, "~")) return a;
  tni_jj_node *n = tni_jj_new_node(p, N_CONCAT);
  n->first = a;
  while (tni_jj_skip_op(p, "~")) a = a->next = parse_products(p);
  return n;
}

static tni_jj_node *parse_sums(tni_jj_parser *p) {
  static const char *const signs[] = {"+", "-"};
  static const tni_jj_op ops[] = {TNI_JJ_ADD, TNI_JJ_SUB};
  tni_jj_node *a = parse_concat(p);
  for (tni_jj_op op; skip_sign(p, signs, ops, 2, &op);) a = two_sided(p, N_BINARY, op, a, parse_concat(p));
  return a;
}

static bool skip_compare(tni_jj_parser *p, tni_jj_op *op) {
  static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
  static const tni_jj_op ops[] = {TNI_JJ_EQ, TNI_JJ_NE, TNI_JJ_LT, TNI_JJ_LE, TNI_JJ_GT, TNI_JJ_GE};
  *op = TNI_JJ_IN;
  if (skip_sign(p, signs, ops, 6, op) || tni_jj_skip_name(p, "in")) return true;
  *op = TNI_JJ_NOT_IN;
  if (!tni_jj_at_name(p, "not") || p->at[1].kind != T_NAME || !tni_jj_str_is(&p->at[1].text, "in")) return false;
  advance(p);
  advance(p);
  return true;
}

static tni_jj_node *parse_compare(tni_jj_parser *p) {
  tni_jj_node *a = parse_sums(p), *n = NULL, **tail = NULL;
  for (tni_jj_op op; skip_compare(p, &op);) {
    if (!n) {
      n = two_sided(p, N_COMPARE, op, a, NULL);
      tail = &n->first;
    }
    *tail = two_sided(p, N_BINARY, op, NULL, parse_sums(p));
    if (tni_jj_failed(p->x)) break;
    tail = &(*tail)->next;
  }
  return n ? n : a;
}

static tni_jj_node *parse_not(tni_jj_parser *p) {
  if (!tni_jj_skip_name(p, "not")) return parse_compare(p);
  if (!tni_jj_enter(p->x)) return tni_jj_new_node(p, N_CONST);
  tni_jj_node *n = two_sided(p, N_NOT, TNI_JJ_ADD, parse_not(p), NULL);
  tni_jj_leave(p->x);
  return n;
}

static tni_jj_node *parse_and(tni_jj_parser *p) {
  tni_jj_node *a = parse_not(p);
  while (tni_jj_skip_name(p, "and")) a = two_sided(p, N_AND, TNI_JJ_ADD, a, parse_not(p));
  return a;
}

tni_jj_node *tni_jj_parse_or(tni_jj_parser *p) {
  tni_jj_node *a = parse_and(p);
  while (tni_jj_skip_name(p, "or")) a = two_sided(p, N_OR, TNI_JJ_ADD, a, parse_and(p));
  return a;
}

tni_jj_node *tni_jj_parse_expr(tni_jj_parser *p) {
  tni_jj_node *a = tni_jj_parse_or(p);
  while (tni_jj_skip_name(p, "if")) {
    tni_jj_node *n = tni_jj_new_node(p, N_COND);
    n->b = a;
    n->a = tni_jj_parse_or(p);
    if (tni_jj_skip_name(p, "else") && tni_jj_enter(p->x)) {
      n->c = tni_jj_parse_expr(p);
      tni_jj_leave(p->x);
    }
    a = n;
  }
  return a;
}

tni_jj_node *tni_jj_parse_target(tni_jj_parser *p, bool ns) {
  tni_jj_node *n = tni_jj_new_node(p, N_TUPLE), **tail = &n->first;
  bool tuple = false;
  while (!tni_jj_failed(p->x)) {
    tni_jj_node *one = tni_jj_new_node(p, N_NAME);
    one->name = p->at->text;
    if (tni_jj_at_op(p, "(") && !ns && tni_jj_enter(p->x)) {
      advance(p);
      one = tni_jj_parse_target(p, false);
      tni_jj_want_op(p, ")");
      tni_jj_leave(p->x);
    } else {
      if (p->at->kind != T_NAME || tni_jj_at_name(p, "in")) return tni_jj_bad_token(p, "a name");
      advance(p);
    }
    if (ns && tni_jj_skip_op(p, ".")) {
      one->kind = N_ATTR;
      one->value = tni_jj_text(p->x, p->at->text.v, NULL, p->at->text.n);
      if (p->at->kind != T_NAME) return tni_jj_bad_token(p, "a name");
      advance(p);
    }
    *tail = one;
    tail = &one->next;
    if (!tni_jj_skip_op(p, ",")) break;
    tuple = true;
    if (tni_jj_at_op(p, "=") || tni_jj_at_op(p, ")") || tni_jj_at_name(p, "in")) break;
  }
  return tuple ? n : n->first;
}
