/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: arguments to parameters, macros, the tables of filters and tests, global functions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/llm/jinja/scope.h"
#include "runtime/llm/text/text.h"

const tni_jj_builtin *tni_jj_find(const tni_jj_builtin *table, const tni_jj_str *name) {
  for (; table->name; table++)
    if (tni_jj_str_is(name, table->name)) return table;
  return NULL;
}

/* The place of a name in "a b c", -1: none. */
static int parameter(const char *names, const tni_jj_str *name) {
  int k = 0;
  for (const char *s = names; *s; k++) {
    const size_t n = strcspn(s, " ");
    if (n == name->n && memcmp(s, name->v, n) == 0) return k;
    s += n + (s[n] == ' ');
  }
  return -1;
}

static int parameters(const char *names) {
  int n = *names != 0;
  for (; *names; names++) n += *names == ' ';
  return n;
}

tni_jj_val tni_jj_call_builtin(tni_jj_run *x, const tni_jj_builtin *fn, tni_jj_val self, const tni_jj_args *a) {
  tni_jj_val v[TNI_JJ_PARAMS];
  for (int i = 0; i < TNI_JJ_PARAMS; i++) v[i] = tni_jj_of(TNI_JJ_MISSING);
  if (!fn->names) return fn->fn(x, self, v, a);
  const int most = parameters(fn->names);
  if (a->n > (size_t)most) return tni_jj_fail(x, "'%s' takes %d arguments, not %zu", fn->name, most, a->n);
  for (size_t i = 0; i < a->n; i++) v[i] = a->pos[i];
  for (size_t i = 0; i < a->n_kw; i++) {
    const int k = parameter(fn->names, a->kw[i].name);
    if (k < 0 || tni_jj_given(v[k]))
      return tni_jj_fail(x, "'%s' does not take '%.*s'%s", fn->name, (int)a->kw[i].name->n, a->kw[i].name->v,
                         k < 0 ? "" : " twice");
    v[k] = a->kw[i].v;
  }
  for (int i = 0; i < fn->need; i++)
    if (!tni_jj_given(v[i])) return tni_jj_fail(x, "'%s' lacks an argument", fn->name);
  return fn->fn(x, self, v, a);
}

/* --- macros --- */

static const tni_jj_val *keyword(const tni_jj_args *a, const tni_jj_str *name) {
  for (size_t i = 0; i < a->n_kw; i++)
    if (tni_jj_str_same(a->kw[i].name, name)) return &a->kw[i].v;
  return NULL;
}

static bool has_parameter(const tni_jj_node *n, const tni_jj_str *name) {
  for (const tni_jj_node *p = n->first; p; p = p->next)
    if (tni_jj_str_same(&p->name, name)) return true;
  return false;
}

/* Arguments beyond the parameters: where the macro looks at them. */
static void bind_rest(tni_jj_run *x, const tni_jj_macro *m, const tni_jj_args *a, size_t used) {
  static const tni_jj_str varargs = {"varargs", NULL, 7}, kwargs = {"kwargs", NULL, 6}, caller = {"caller", NULL, 6};
  const int64_t sees = m->is_caller ? 0 : m->node->value.i;
  const size_t more = a->n > used ? a->n - used : 0;
  if (more && !(sees & TNI_JJ_SEES_VARARGS)) tni_jj_fail(x, "a macro takes %zu arguments, not %zu", used, a->n);
  if (sees & TNI_JJ_SEES_VARARGS)
    tni_jj_bind(x, x->scope, &varargs, tni_jj_list_of(x, a->pos + (more ? used : 0), more, TNI_JJ_OF_TUPLE));
  const tni_jj_val rest = tni_jj_dict_new(x);
  const tni_jj_val *given = keyword(a, &caller);
  if (sees & TNI_JJ_SEES_CALLER && !has_parameter(m->node, &caller)) {
    tni_jj_val none = tni_jj_of(TNI_JJ_UNDEFINED);
    none.hint = "caller";
    tni_jj_bind(x, x->scope, &caller, given ? *given : none);
  }
  for (size_t i = 0; i < a->n_kw && !tni_jj_failed(x); i++) {
    const tni_jj_str *name = a->kw[i].name;
    if (has_parameter(m->node, name) || (sees & TNI_JJ_SEES_CALLER && tni_jj_str_is(name, "caller"))) continue;
    if (!(sees & TNI_JJ_SEES_KWARGS)) tni_jj_fail(x, "a macro does not take '%.*s'", (int)name->n, name->v);
    const tni_jj_val key = tni_jj_text(x, name->v, name->m, name->n);
    if (!tni_jj_failed(x)) tni_jj_dict_set(x, rest.d, key, a->kw[i].v);
  }
  if (sees & TNI_JJ_SEES_KWARGS) tni_jj_bind(x, x->scope, &kwargs, rest);
}

static void bind_parameters(tni_jj_run *x, const tni_jj_macro *m, const tni_jj_args *a) {
  size_t at = 0;
  for (const tni_jj_node *p = m->node->first; p && !tni_jj_failed(x); p = p->next, at++) {
    const tni_jj_val *named = keyword(a, &p->name);
    tni_jj_val v = tni_jj_of(TNI_JJ_UNDEFINED);
    if (at < a->n && named)
      tni_jj_fail(x, "'%.*s' is given twice", (int)p->name.n, p->name.v);
    else if (at < a->n)
      v = a->pos[at];
    else if (named)
      v = *named;
    else if (p->a)
      v = tni_jj_eval(x, p->a);
    if (!tni_jj_failed(x)) tni_jj_bind(x, x->scope, &p->name, v);
  }
  if (!tni_jj_failed(x)) bind_rest(x, m, a, at);
}

tni_jj_val tni_jj_call_macro(tni_jj_run *x, const tni_jj_macro *m, const tni_jj_args *a) {
  tni_jj_scope *around = x->scope, *scope = tni_jj_scope_new(x, m->scope);
  if (!scope || !tni_jj_enter(x)) return tni_jj_of(TNI_JJ_UNDEFINED);
  x->scope = scope;
  bind_parameters(x, m, a);
  const tni_jj_val v = tni_jj_failed(x) ? tni_jj_of(TNI_JJ_UNDEFINED) : tni_jj_captured(x, m->node->d, scope);
  x->scope = around;
  tni_jj_leave(x);
  return v;
}

tni_jj_val tni_jj_call(tni_jj_run *x, tni_jj_val fn, const tni_jj_args *a) {
  switch (fn.type) {
    case TNI_JJ_MACRO:
      return tni_jj_call_macro(x, fn.macro, a);
    case TNI_JJ_FUNCTION:
      return tni_jj_call_builtin(x, fn.fn, tni_jj_of(TNI_JJ_NONE), a);
    case TNI_JJ_METHOD:
      return tni_jj_call_builtin(x, fn.method->fn, fn.method->self, a);
    case TNI_JJ_UNDEFINED:
      return tni_jj_fail(x, "'%s' is undefined and cannot be called", fn.hint ? fn.hint : "a value");
    default:
      return tni_jj_fail(x, "a '%s' cannot be called", tni_jj_type_name(fn));
  }
}

/* --- functions that every template has --- */

static tni_jj_val range_of(tni_jj_run *x, const tni_jj_items *l, int64_t from, int64_t to, int64_t step) {
  const tni_jj_val all[] = {tni_jj_int(from), tni_jj_int(to), tni_jj_int(step)};
  tni_jj_items bounds = {0};
  for (size_t i = 0; i < (step == 1 ? 2 : 3); i++) tni_jj_push(x, &bounds, all[i]);
  const tni_jj_val list = tni_jj_items_val(x, &bounds, TNI_JJ_OF_TUPLE);
  return tni_jj_failed(x) ? list : tni_jj_view(x, l->v, l->n, "range", list.l);
}

tni_jj_val tni_jj_range_part(tni_jj_run *x, const tni_jj_list *range, const tni_jj_items *part, const int64_t cut[3]) {
  const tni_jj_val *b = range->bounds->v;
  const int64_t step = range->bounds->n > 2 ? b[2].i : 1;
  int64_t ends[3];
  bool over = false;
  for (int i = 0; i < 3; i++) over |= __builtin_mul_overflow(cut[i], step, &ends[i]);
  for (int i = 0; i < 2; i++) over |= __builtin_add_overflow(ends[i], b[0].i, &ends[i]);
  if (over) return tni_jj_limit(x, "a whole number is larger than 64 bits hold");
  return range_of(x, part, ends[0], ends[1], ends[2]);
}

static tni_jj_val do_range(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  (void)self;
  tni_jj_items l = {0};
  for (size_t i = 0; i < raw->n; i++)
    if (!tni_jj_is_int(a[i])) return tni_jj_fail(x, "range of a '%s'", tni_jj_type_name(a[i]));
  const int64_t from = raw->n > 1 ? tni_jj_as_int(a[0]) : 0, to = tni_jj_as_int(a[raw->n > 1]),
                step = raw->n > 2 ? tni_jj_as_int(a[2]) : 1;
  if (!step) return tni_jj_fail(x, "range with a step of 0");
  /* jinja2's sandbox: at most 100,000. */
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    if (l.n == 100000) return tni_jj_fail(x, "range of more than 100000 numbers");
    tni_jj_push(x, &l, tni_jj_int(i));
    if (tni_jj_failed(x) || __builtin_add_overflow(i, step, &i)) break;
  }
  return range_of(x, &l, from, to, step);
}

static tni_jj_val do_dict(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  (void)self;
  (void)a;
  const tni_jj_val d = tni_jj_dict_new(x);
  if (raw->n > 1) return tni_jj_fail(x, "dict takes one argument without a name, not %zu", raw->n);
  if (raw->n && raw->pos[0].type == TNI_JJ_DICT) {
    for (size_t i = 0; i < raw->pos[0].d->n && !tni_jj_failed(x); i++)
      tni_jj_dict_set(x, d.d, raw->pos[0].d->keys[i], raw->pos[0].d->values[i]);
  } else if (raw->n) {
    const tni_jj_list *l = tni_jj_iterate(x, raw->pos[0]);
    for (size_t i = 0; i < l->n && !tni_jj_failed(x); i++) {
      const tni_jj_list *pair = tni_jj_iterate(x, l->v[i]);
      if (pair->n != 2) return tni_jj_fail(x, "dict of something that is no list of pairs");
      tni_jj_dict_set(x, d.d, pair->v[0], pair->v[1]);
    }
  }
  for (size_t i = 0; i < raw->n_kw && !tni_jj_failed(x); i++) {
    const tni_jj_str *name = raw->kw[i].name;
    const tni_jj_val key = tni_jj_text(x, name->v, name->m, name->n);
    if (!tni_jj_failed(x)) tni_jj_dict_set(x, d.d, key, raw->kw[i].v);
  }
  return d;
}

static tni_jj_val do_namespace(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  tni_jj_val d = do_dict(x, self, a, raw);
  if (!tni_jj_failed(x)) d.type = TNI_JJ_NAMESPACE;
  return d;
}

static tni_jj_val do_raise(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  (void)self;
  (void)raw;
  const tni_jj_str *s = tni_jj_to_str(x, a[0]);
  return tni_jj_fail(x, "%.*s", s->n < 1000 ? (int)s->n : 1000, s->v);
}

static tni_jj_val do_strftime(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  (void)self;
  (void)raw;
  char format[256], out[1024];
  const time_t now = (time_t)x->now;
  struct tm tm;
  if (a[0].type != TNI_JJ_STR || a[0].s->n >= sizeof format) return tni_jj_fail(x, "strftime_now takes a short string");
  memcpy(format, a[0].s->v, a[0].s->n);
  format[a[0].s->n] = 0;
  if (!localtime_r(&now, &tm)) return tni_jj_fail(x, "the clock has no date");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const size_t n = strftime(out, sizeof out, format, &tm);
#pragma GCC diagnostic pop
  char *copy = tni_jj_alloc(x, n + 1, 1);
  if (!copy) return tni_jj_of(TNI_JJ_UNDEFINED);
  memcpy(copy, out, n);
  return tni_utf8_valid(copy, n) == n ? tni_jj_text(x, copy, NULL, n) : tni_jj_fail(x, "strftime gives no UTF-8");
}

static const tni_jj_builtin globals[] = {
    {"range", "start stop step", 1, do_range},  {"dict", NULL, 0, do_dict},
    {"namespace", NULL, 0, do_namespace},       {"raise_exception", "message", 1, do_raise},
    {"strftime_now", "format", 1, do_strftime}, {NULL, NULL, 0, NULL}};

const tni_jj_builtin *tni_jj_find_global(const tni_jj_str *name) { return tni_jj_find(globals, name); }

/* --- filters --- */

const tni_jj_builtin *tni_jj_find_filter(const tni_jj_str *name) {
  const tni_jj_builtin *fn = tni_jj_find(tni_jj_text_filters, name);
  if (!fn) fn = tni_jj_find(tni_jj_list_filters, name);
  return fn ? fn : tni_jj_find(tni_jj_order_filters, name);
}

tni_jj_val tni_jj_filter(tni_jj_run *x, const tni_jj_str *name, tni_jj_val v, const tni_jj_args *a) {
  const tni_jj_builtin *fn = tni_jj_find_filter(name);
  if (!fn) return tni_jj_fail(x, "there is no filter '%.*s'", (int)name->n, name->v);
  return tni_jj_call_builtin(x, fn, v, a);
}
