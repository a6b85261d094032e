/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements run.
 */
#include <string.h>

#include "runtime/llm/jinja/scope.h"

tni_jj_val tni_jj_captured(tni_jj_run *x, const tni_jj_node *list, tni_jj_scope *scope) {
  tni_jj_buf b = {0}, *out = x->out;
  tni_jj_scope *around = x->scope, *mine = tni_jj_scope_new(x, scope);
  if (!mine || !tni_jj_enter(x)) return tni_jj_of(TNI_JJ_UNDEFINED);
  x->out = &b;
  x->scope = mine;
  (void)tni_jj_exec(x, list);
  x->out = out;
  x->scope = around;
  tni_jj_leave(x);
  return tni_jj_buf_val(x, &b);
}

static void assign(tni_jj_run *x, const tni_jj_node *target, tni_jj_val v) {
  if (tni_jj_failed(x)) return;
  if (target->kind == N_NAME) {
    tni_jj_bind(x, x->scope, &target->name, v);
  } else if (target->kind == N_ATTR) {
    const tni_jj_val ns = tni_jj_lookup(x, x->scope, &target->name);
    if (ns.type != TNI_JJ_NAMESPACE)
      tni_jj_fail(x, "'%.*s' is no namespace: its attributes cannot be set", (int)target->name.n, target->name.v);
    else
      tni_jj_dict_set(x, ns.d, target->value, v);
  } else {
    const tni_jj_list *l = tni_jj_iterate(x, v);
    size_t n = 0, i = 0;
    for (const tni_jj_node *t = target->first; t; t = t->next) n++;
    if (!tni_jj_failed(x) && (n != l->n || v.type == TNI_JJ_UNDEFINED))
      tni_jj_fail(x, "%zu values for %zu names", l->n, n);
    for (const tni_jj_node *t = target->first; t && !tni_jj_failed(x); t = t->next) assign(x, t, l->v[i++]);
  }
}

/* --- loops --- */

/* Whether the loop's condition lets v through. */
static bool passes(tni_jj_run *x, const tni_jj_loop *l, tni_jj_val v) {
  tni_jj_scope *around = x->scope;
  x->scope = l->scope;
  l->scope->names.n = 0;
  assign(x, l->node->a, v);
  const tni_jj_val keep = tni_jj_failed(x) ? tni_jj_of(TNI_JJ_NONE) : tni_jj_eval(x, l->node->c);
  x->scope = around;
  return tni_jj_truth(keep);
}

/* The next item, out of `rest`. */
static tni_jj_val take(tni_jj_run *x, tni_jj_loop *l) {
  tni_jj_val v = tni_jj_next(l->rest);
  while (tni_jj_given(v) && tni_jj_step(x, 1) && l->node && !passes(x, l, v)) v = tni_jj_next(l->rest);
  return tni_jj_failed(x) ? tni_jj_of(TNI_JJ_MISSING) : v;
}

static tni_jj_val peek(tni_jj_run *x, tni_jj_loop *l) {
  if (!tni_jj_given(l->after)) l->after = take(x, l);
  return l->after;
}

static int64_t length_of(tni_jj_run *x, tni_jj_loop *l) {
  if (l->length >= 0) return l->length;
  tni_jj_items all = {0};
  for (tni_jj_val v = take(x, l); tni_jj_given(v); v = take(x, l)) tni_jj_push(x, &all, v);
  const tni_jj_val list = tni_jj_items_val(x, &all, TNI_JJ_OF_LIST);
  if (tni_jj_failed(x)) return 0;
  l->rest = list.l;
  l->node = NULL;
  l->length = (int64_t)all.n + l->at + 1 + tni_jj_given(l->after);
  return l->length;
}

static tni_jj_val or_undefined(tni_jj_val v) { return tni_jj_given(v) ? v : tni_jj_of(TNI_JJ_UNDEFINED); }

static tni_jj_val loop_cycle(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  (void)a;
  if (!raw->n) return tni_jj_fail(x, "loop.cycle without values");
  return raw->pos[(size_t)self.loop->at % raw->n];
}

static tni_jj_val loop_changed(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  (void)a;
  tni_jj_loop *l = self.loop;
  const tni_jj_val now = tni_jj_list_of(x, raw->pos, raw->n, TNI_JJ_OF_TUPLE);
  const bool changed = !l->has_changed || !tni_jj_equal(x, l->changed, now);
  l->has_changed = true;
  l->changed = now;
  return tni_jj_bool(changed);
}

tni_jj_val tni_jj_loop_attribute(tni_jj_run *x, tni_jj_loop *l, const tni_jj_str *name) {
  static const tni_jj_builtin functions[] = {
      {"cycle", NULL, 0, loop_cycle}, {"changed", NULL, 0, loop_changed}, {NULL, NULL, 0, NULL}};
  const struct {
    const char *name;
    int64_t v;
  } numbers[] = {
      {"index", l->at + 1}, {"index0", l->at}, {"depth", l->depth}, {"depth0", (int64_t)l->depth - 1}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (tni_jj_str_is(name, numbers[i].name)) return tni_jj_int(numbers[i].v);
  if (tni_jj_str_is(name, "length")) return tni_jj_int(length_of(x, l));
  if (tni_jj_str_is(name, "revindex")) return tni_jj_int(length_of(x, l) - l->at);
  if (tni_jj_str_is(name, "revindex0")) return tni_jj_int(length_of(x, l) - l->at - 1);
  if (tni_jj_str_is(name, "first")) return tni_jj_bool(l->at == 0);
  if (tni_jj_str_is(name, "last")) return tni_jj_bool(!tni_jj_given(peek(x, l)));
  if (tni_jj_str_is(name, "previtem")) return or_undefined(l->before);
  if (tni_jj_str_is(name, "nextitem")) return or_undefined(peek(x, l));
  const tni_jj_builtin *fn = tni_jj_find(functions, name);
  tni_jj_method *m = fn ? tni_jj_alloc(x, 1, sizeof *m) : NULL;
  if (!m) return tni_jj_of(TNI_JJ_MISSING);
  *m = (tni_jj_method){{.type = TNI_JJ_LOOP, .loop = l}, fn};
  return (tni_jj_val){.type = TNI_JJ_METHOD, .method = m};
}

/* Into `now`. False: the loop is at its end. */
static bool next_round(tni_jj_run *x, tni_jj_loop *l) {
  const tni_jj_val v = peek(x, l);
  if (!tni_jj_given(v)) return false;
  l->after = tni_jj_of(TNI_JJ_MISSING);
  l->before = l->now;
  l->now = v;
  l->at++;
  return true;
}

/* *through: some round came to the end of the body. */
static void run_loop(tni_jj_run *x, const tni_jj_node *n, tni_jj_loop *l, tni_jj_scope *scope, bool *through) {
  static const tni_jj_str loop_name = {"loop", NULL, 4};
  while (tni_jj_step(x, 1) && next_round(x, l)) {
    scope->names.n = 0;
    tni_jj_bind(x, scope, &loop_name, (tni_jj_val){.type = TNI_JJ_LOOP, .loop = l});
    assign(x, n->a, l->now);
    const tni_jj_flow flow = tni_jj_exec(x, n->first);
    *through = *through || flow == TNI_JJ_ON;
    if (flow == TNI_JJ_BREAK) break;
  }
}

static tni_jj_loop *new_loop(tni_jj_run *x, const tni_jj_node *n, tni_jj_val over) {
  const bool lazy = over.type == TNI_JJ_LIST && over.kind == TNI_JJ_OF_LAZY;
  const tni_jj_val none = tni_jj_of(TNI_JJ_MISSING);
  tni_jj_loop *l = tni_jj_alloc(x, 1, sizeof *l);
  if (!l) return NULL;
  *l = (tni_jj_loop){.node = n->c ? n : NULL, .at = -1, .length = -1, .before = none, .now = none, .after = none};
  l->depth = 1;
  l->scope = n->c ? tni_jj_scope_new(x, x->scope) : NULL;
  const tni_jj_list *items = lazy ? over.l : tni_jj_iterate(x, over);
  const tni_jj_val own = lazy ? over : tni_jj_list_of(x, items->v, items->n, TNI_JJ_OF_LIST);
  if (tni_jj_failed(x)) return NULL;
  l->rest = own.l;
  if (!lazy && !n->c) l->length = (int64_t)items->n;
  return l;
}

static tni_jj_flow run_for(tni_jj_run *x, const tni_jj_node *n) {
  const tni_jj_val over = tni_jj_eval(x, n->b);
  tni_jj_loop *l = tni_jj_failed(x) ? NULL : new_loop(x, n, over);
  tni_jj_scope *around = x->scope, *scope = tni_jj_scope_new(x, around);
  if (!scope || !l || tni_jj_failed(x)) return TNI_JJ_ON;
  x->scope = scope;
  bool ran = false;
  run_loop(x, n, l, scope, &ran);
  scope->names.n = 0;
  x->scope = around;
  /* As jinja2 does it: break and continue leave the word that the loop ran unsaid. */
  if (ran || tni_jj_failed(x) || !n->d) return TNI_JJ_ON;
  x->scope = scope;
  const tni_jj_flow flow = tni_jj_exec(x, n->d);
  x->scope = around;
  return flow;
}

/* --- others --- */

static tni_jj_flow run_if(tni_jj_run *x, const tni_jj_node *n) {
  for (;;) {
    const tni_jj_val v = tni_jj_eval(x, n->a);
    if (tni_jj_failed(x)) return TNI_JJ_ON;
    if (tni_jj_truth(v)) return tni_jj_exec(x, n->first);
    if (!n->b) return TNI_JJ_ON;
    if (n->b->kind != S_IF || n->b->next) return tni_jj_exec(x, n->b);
    n = n->b;
  }
}

/* The filters of a block around what it holds: the innermost has no operand. */
static tni_jj_val through(tni_jj_run *x, const tni_jj_node *filter, tni_jj_val v) {
  tni_jj_args a;
  if (!filter || tni_jj_failed(x)) return v;
  v = through(x, filter->a, v);
  if (filter->kind != N_FILTER) return tni_jj_fail(x, "a block goes through filters only");
  return tni_jj_args_eval(x, filter->first, &a) ? tni_jj_filter(x, &filter->name, v, &a) : v;
}

static tni_jj_val macro_of(tni_jj_run *x, const tni_jj_node *n, bool caller) {
  tni_jj_macro *m = tni_jj_alloc(x, 1, sizeof *m);
  if (!m) return tni_jj_of(TNI_JJ_UNDEFINED);
  *m = (tni_jj_macro){n, x->scope, caller};
  return (tni_jj_val){.type = TNI_JJ_MACRO, .macro = m};
}

static void run_call(tni_jj_run *x, const tni_jj_node *n) {
  static const tni_jj_str caller = {"caller", NULL, 6};
  const tni_jj_val fn = tni_jj_eval(x, n->a->a);
  tni_jj_args a;
  if (tni_jj_failed(x) || !tni_jj_args_eval(x, n->a->first, &a)) return;
  tni_jj_kw *kw = tni_jj_alloc(x, a.n_kw + 1, sizeof *kw);
  if (!kw) return;
  if (a.n_kw) memcpy(kw, a.kw, a.n_kw * sizeof *kw);
  kw[a.n_kw++] = (tni_jj_kw){&caller, macro_of(x, n, true)};
  a.kw = kw;
  const tni_jj_val v = tni_jj_call(x, fn, &a);
  if (!tni_jj_failed(x)) tni_jj_put_val(x, x->out, v);
}

static tni_jj_flow run_with(tni_jj_run *x, const tni_jj_node *n) {
  tni_jj_scope *around = x->scope, *scope = tni_jj_scope_new(x, around);
  for (const tni_jj_node *s = n->first; s && !tni_jj_failed(x); s = s->next) {
    const tni_jj_val v = tni_jj_eval(x, s->b); /* with the names around */
    if (!tni_jj_failed(x)) tni_jj_bind(x, scope, &s->a->name, v);
  }
  if (tni_jj_failed(x)) return TNI_JJ_ON;
  x->scope = scope;
  const tni_jj_flow flow = tni_jj_exec(x, n->d);
  x->scope = around;
  return flow;
}

static tni_jj_flow run_one(tni_jj_run *x, const tni_jj_node *n) {
  tni_jj_val v;
  switch (n->kind) {
    case S_DATA:
      tni_jj_put_str(x, x->out, n->value.s);
      return TNI_JJ_ON;
    case S_PRINT:
      v = tni_jj_eval(x, n->a);
      if (!tni_jj_failed(x)) tni_jj_put_val(x, x->out, v);
      return TNI_JJ_ON;
    case S_IF:
      return run_if(x, n);
    case S_FOR:
      return run_for(x, n);
    case S_SET:
      assign(x, n->a, tni_jj_eval(x, n->b));
      return TNI_JJ_ON;
    case S_SET_BLOCK:
      assign(x, n->a, through(x, n->b, tni_jj_captured(x, n->first, x->scope)));
      return TNI_JJ_ON;
    case S_MACRO:
      tni_jj_bind(x, x->scope, &n->name, macro_of(x, n, false));
      return TNI_JJ_ON;
    case S_CALL:
      run_call(x, n);
      return TNI_JJ_ON;
    case S_FILTER:
    case S_GENERATION:
      v = tni_jj_captured(x, n->kind == S_FILTER ? n->first : n->d, x->scope);
      if (n->kind == S_FILTER) v = through(x, n->a, v);
      if (!tni_jj_failed(x)) tni_jj_put_val(x, x->out, v);
      return TNI_JJ_ON;
    case S_WITH:
      return run_with(x, n);
    default:
      return n->kind == S_BREAK ? TNI_JJ_BREAK : TNI_JJ_CONTINUE;
  }
}

tni_jj_flow tni_jj_exec(tni_jj_run *x, const tni_jj_node *list) {
  tni_jj_flow flow = TNI_JJ_ON;
  if (!tni_jj_enter(x)) return TNI_JJ_ON;
  for (; list && flow == TNI_JJ_ON && tni_jj_step(x, 1); list = list->next) {
    x->line = list->line;
    flow = run_one(x, list);
  }
  tni_jj_leave(x);
  return tni_jj_failed(x) ? TNI_JJ_BREAK : flow;
}
