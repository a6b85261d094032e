/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions evaluated.
 */
#include <string.h>

#include "runtime/llm/jinja/scope.h"

tni_jj_scope *tni_jj_scope_new(tni_jj_run *x, tni_jj_scope *up) {
  tni_jj_scope *s = tni_jj_alloc(x, 1, sizeof *s);
  if (s) s->up = up;
  return s;
}

void tni_jj_bind(tni_jj_run *x, tni_jj_scope *s, const tni_jj_str *name, tni_jj_val v) {
  const tni_jj_val key = tni_jj_text(x, name->v, name->m, name->n);
  if (!tni_jj_failed(x)) tni_jj_dict_set(x, &s->names, key, v);
}

tni_jj_val tni_jj_lookup(const tni_jj_run *x, const tni_jj_scope *s, const tni_jj_str *name) {
  (void)x;
  for (; s; s = s->up) {
    const tni_jj_val *v = tni_jj_dict_name(&s->names, name);
    if (v) return *v;
  }
  return tni_jj_of(TNI_JJ_MISSING);
}

static tni_jj_val eval_name(tni_jj_run *x, const tni_jj_node *n) {
  tni_jj_val v = tni_jj_lookup(x, x->scope, &n->name);
  if (v.type != TNI_JJ_MISSING) return v;
  const tni_jj_builtin *fn = tni_jj_find_global(&n->name);
  if (fn) return (tni_jj_val){.type = TNI_JJ_FUNCTION, .fn = fn};
  v = tni_jj_of(TNI_JJ_UNDEFINED);
  char *hint = tni_jj_alloc(x, n->name.n + 1, 1);
  if (hint) memcpy(hint, n->name.v, n->name.n);
  v.hint = hint;
  return v;
}

static tni_jj_val eval_items(tni_jj_run *x, const tni_jj_node *n, tni_jj_kind kind) {
  tni_jj_items l = {0};
  for (const tni_jj_node *i = n->first; i && !tni_jj_failed(x); i = i->next) tni_jj_push(x, &l, tni_jj_eval(x, i));
  return tni_jj_items_val(x, &l, kind);
}

static tni_jj_val eval_dict(tni_jj_run *x, const tni_jj_node *n) {
  const tni_jj_val d = tni_jj_dict_new(x);
  for (const tni_jj_node *i = n->first; i && !tni_jj_failed(x); i = i->next) {
    const tni_jj_val key = tni_jj_eval(x, i->a), v = tni_jj_eval(x, i->b);
    if (!tni_jj_failed(x)) tni_jj_dict_set(x, d.d, key, v);
  }
  return d;
}

static tni_jj_val eval_concat(tni_jj_run *x, const tni_jj_node *n) {
  tni_jj_buf b = {0};
  for (const tni_jj_node *i = n->first; i && !tni_jj_failed(x); i = i->next) tni_jj_put_val(x, &b, tni_jj_eval(x, i));
  return tni_jj_buf_val(x, &b);
}

/* a < b < c: each pair in turn. */
static tni_jj_val eval_compare(tni_jj_run *x, const tni_jj_node *n) {
  tni_jj_val left = tni_jj_eval(x, n->a), v = tni_jj_bool(true);
  for (const tni_jj_node *i = n->first; i && !tni_jj_failed(x); i = i->next) {
    const tni_jj_val right = tni_jj_eval(x, i->b);
    if (tni_jj_failed(x)) break;
    v = tni_jj_binary(x, i->op, left, right);
    if (!tni_jj_truth(v)) break;
    left = right;
  }
  return v;
}

static bool add_keyword(tni_jj_run *x, tni_jj_args *a, size_t *cap, const tni_jj_str *name, tni_jj_val v) {
  if (a->n_kw == *cap) {
    tni_jj_kw *grown = tni_jj_alloc(x, *cap * 2 + 4, sizeof *grown);
    if (!grown) return false;
    if (a->n_kw) memcpy(grown, a->kw, a->n_kw * sizeof *grown);
    a->kw = grown;
    *cap = *cap * 2 + 4;
  }
  for (size_t i = 0; i < a->n_kw; i++)
    if (tni_jj_str_same(a->kw[i].name, name))
      return tni_jj_fail(x, "'%.*s' is given twice", (int)name->n, name->v), false;
  a->kw[a->n_kw++] = (tni_jj_kw){name, v};
  return true;
}

bool tni_jj_args_eval(tni_jj_run *x, const tni_jj_node *list, tni_jj_args *out) {
  tni_jj_items pos = {0};
  size_t cap = 0;
  *out = (tni_jj_args){0};
  for (const tni_jj_node *i = list; i && !tni_jj_failed(x); i = i->next) {
    const tni_jj_val v = tni_jj_eval(x, i->a);
    if (tni_jj_failed(x)) break;
    if (i->kind == N_KW) {
      (void)add_keyword(x, out, &cap, &i->name, v);
    } else if (i->kind == N_STARSTAR) {
      if (v.type != TNI_JJ_DICT) return tni_jj_fail(x, "** of a '%s'", tni_jj_type_name(v)), false;
      for (size_t k = 0; k < v.d->n && !tni_jj_failed(x); k++)
        (void)add_keyword(x, out, &cap, tni_jj_to_str(x, v.d->keys[k]), v.d->values[k]);
    } else if (i->kind == N_STAR) {
      const tni_jj_list *l = tni_jj_iterate(x, v);
      for (size_t k = 0; k < l->n; k++) tni_jj_push(x, &pos, l->v[k]);
    } else {
      tni_jj_push(x, &pos, v);
    }
  }
  out->pos = pos.v;
  out->n = pos.n;
  return !tni_jj_failed(x);
}

static tni_jj_val eval_call(tni_jj_run *x, const tni_jj_node *n) {
  const tni_jj_val fn = tni_jj_eval(x, n->a);
  tni_jj_args a;
  if (tni_jj_failed(x) || !tni_jj_args_eval(x, n->first, &a)) return tni_jj_of(TNI_JJ_UNDEFINED);
  x->line = n->line;
  return tni_jj_call(x, fn, &a);
}

static tni_jj_val eval_named(tni_jj_run *x, const tni_jj_node *n) {
  const tni_jj_val v = tni_jj_eval(x, n->a);
  tni_jj_args a;
  if (tni_jj_failed(x) || !tni_jj_args_eval(x, n->first, &a)) return tni_jj_of(TNI_JJ_UNDEFINED);
  if (n->kind == N_TEST) return tni_jj_bool(tni_jj_test(x, &n->name, v, &a));
  return tni_jj_filter(x, &n->name, v, &a);
}

static tni_jj_val eval_slice(tni_jj_run *x, const tni_jj_node *n) {
  const tni_jj_val none = tni_jj_of(TNI_JJ_NONE), of = tni_jj_eval(x, n->d);
  const tni_jj_val a = n->a ? tni_jj_eval(x, n->a) : none, b = n->b ? tni_jj_eval(x, n->b) : none,
                   c = n->c ? tni_jj_eval(x, n->c) : none;
  return tni_jj_failed(x) ? none : tni_jj_slice(x, of, a, b, c);
}

static tni_jj_val eval_two(tni_jj_run *x, const tni_jj_node *n) {
  const tni_jj_val a = tni_jj_eval(x, n->a), b = tni_jj_eval(x, n->b);
  if (tni_jj_failed(x)) return a;
  return n->kind == N_ITEM ? tni_jj_item(x, a, b) : tni_jj_binary(x, n->op, a, b);
}

static tni_jj_val eval_one(tni_jj_run *x, const tni_jj_node *n) {
  const tni_jj_val a = tni_jj_eval(x, n->a);
  if (tni_jj_failed(x)) return a;
  switch (n->kind) {
    case N_NEG:
      return tni_jj_negate(x, a);
    case N_NOT:
      return tni_jj_bool(!tni_jj_truth(a));
    case N_POS:
      return tni_jj_is_int(a)         ? tni_jj_int(tni_jj_as_int(a))
             : a.type == TNI_JJ_FLOAT ? a
                                      : tni_jj_fail(x, "+ of a '%s'", tni_jj_type_name(a));
    case N_AND:
      return tni_jj_truth(a) ? tni_jj_eval(x, n->b) : a;
    case N_OR:
      return tni_jj_truth(a) ? a : tni_jj_eval(x, n->b);
    case N_COND:
      return tni_jj_truth(a) ? tni_jj_eval(x, n->b) : n->c ? tni_jj_eval(x, n->c) : tni_jj_of(TNI_JJ_UNDEFINED);
    default: /* N_ATTR */
      return tni_jj_attribute(x, a, &n->name);
  }
}

static tni_jj_val evaluate(tni_jj_run *x, const tni_jj_node *n) {
  switch (n->kind) {
    case N_CONST:
      return n->value;
    case N_NAME:
      return eval_name(x, n);
    case N_TUPLE:
    case N_LIST:
      return eval_items(x, n, n->kind == N_TUPLE ? TNI_JJ_OF_TUPLE : TNI_JJ_OF_LIST);
    case N_DICT:
      return eval_dict(x, n);
    case N_CONCAT:
      return eval_concat(x, n);
    case N_COMPARE:
      return eval_compare(x, n);
    case N_CALL:
      return eval_call(x, n);
    case N_FILTER:
    case N_TEST:
      return eval_named(x, n);
    case N_SLICE:
      return eval_slice(x, n);
    case N_ITEM:
    case N_BINARY:
      return eval_two(x, n);
    default:
      return eval_one(x, n);
  }
}

tni_jj_val tni_jj_eval(tni_jj_run *x, const tni_jj_node *n) {
  if (!tni_jj_enter(x)) return tni_jj_of(TNI_JJ_UNDEFINED);
  x->line = n->line;
  const tni_jj_val v = evaluate(x, n);
  tni_jj_leave(x);
  return v;
}
