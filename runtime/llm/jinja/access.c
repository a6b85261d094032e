/* SPDX-License-Identifier: Apache-2.0
 *
 * v.name, v[key] and slices: as jinja2's environment asks Python's objects, in its order.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/scope.h"
#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

/* why: what else an error says of it. */
static tni_jj_val undefined(tni_jj_run *x, const tni_jj_str *name, const char *why) {
  tni_jj_val v = tni_jj_of(TNI_JJ_UNDEFINED);
  const size_t n = strlen(why);
  char *hint = tni_jj_alloc(x, name->n + n + 1, 1);
  if (!hint) return v;
  memcpy(hint, name->v, name->n);
  memcpy(hint + name->n, why, n);
  v.hint = hint;
  return v;
}

/* What Python's getattr finds; TNI_JJ_MISSING: nothing. */
static tni_jj_val python_attribute(tni_jj_run *x, tni_jj_val v, const tni_jj_str *name) {
  if (v.type == TNI_JJ_NAMESPACE) {
    const tni_jj_val *found = tni_jj_dict_name(v.d, name);
    return found ? *found : tni_jj_of(TNI_JJ_MISSING);
  }
  if (v.type == TNI_JJ_LOOP) return tni_jj_loop_attribute(x, v.loop, name);
  if (v.type == TNI_JJ_LIST && v.l->is_group) {
    if (tni_jj_str_is(name, "grouper")) return v.l->v[0];
    if (tni_jj_str_is(name, "list")) return v.l->v[1];
  }
  if (tni_jj_changes(v, name)) /* jinja2's sandbox hides it, and the key of that name too */
    return undefined(x, name, v.type == TNI_JJ_DICT ? " (it would change a dict)" : " (it would change a list)");
  const tni_jj_builtin *fn = tni_jj_find_method(v, name);
  if (!fn) return tni_jj_of(TNI_JJ_MISSING);
  tni_jj_method *m = tni_jj_alloc(x, 1, sizeof *m);
  if (!m) return tni_jj_of(TNI_JJ_MISSING);
  *m = (tni_jj_method){v, fn};
  return (tni_jj_val){.type = TNI_JJ_METHOD, .method = m};
}

/* What v[key] finds; TNI_JJ_MISSING: nothing. */
static tni_jj_val python_item(tni_jj_run *x, tni_jj_val v, tni_jj_val key) {
  if (v.type == TNI_JJ_DICT) {
    const tni_jj_val *found = tni_jj_hashable(key) ? tni_jj_dict_get(x, v.d, key) : NULL;
    return found ? *found : tni_jj_of(TNI_JJ_MISSING);
  }
  if (!tni_jj_is_int(key) || (v.type != TNI_JJ_STR && !(v.type == TNI_JJ_LIST && tni_jj_has_index(v))))
    return tni_jj_of(TNI_JJ_MISSING);
  const int64_t n = tni_jj_length(x, v);
  int64_t i = tni_jj_as_int(key);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return tni_jj_of(TNI_JJ_MISSING);
  if (v.type == TNI_JJ_LIST) return v.l->v[i];
  const size_t at = tni_jj_cp_offset(v.s, (size_t)i);
  return tni_jj_cut(x, v.s, at, at + tni_utf8_len(v.s->v[at]));
}

static tni_jj_val refuse_undefined(tni_jj_run *x, tni_jj_val v) {
  return tni_jj_fail(x, "'%s' is undefined", v.hint ? v.hint : "a value");
}

tni_jj_val tni_jj_attribute(tni_jj_run *x, tni_jj_val v, const tni_jj_str *name) {
  if (v.type == TNI_JJ_UNDEFINED) return refuse_undefined(x, v);
  tni_jj_val found = python_attribute(x, v, name);
  if (found.type == TNI_JJ_MISSING && v.type == TNI_JJ_DICT)
    found = python_item(x, v, tni_jj_text(x, name->v, name->m, name->n));
  return found.type == TNI_JJ_MISSING ? undefined(x, name, "") : found;
}

tni_jj_val tni_jj_item(tni_jj_run *x, tni_jj_val v, tni_jj_val key) {
  if (v.type == TNI_JJ_UNDEFINED) return refuse_undefined(x, v);
  tni_jj_val found = python_item(x, v, key);
  if (found.type == TNI_JJ_MISSING && key.type == TNI_JJ_STR) found = python_attribute(x, v, key.s);
  return found.type == TNI_JJ_MISSING ? undefined(x, tni_jj_to_str(x, key), "") : found;
}

/* Python's slice.indices: where a step begins and where it ends. */
static int64_t clip(tni_jj_val v, int64_t n, int64_t step, bool first) {
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  if (!tni_jj_is_int(v)) return (step < 0) == first ? high : low;
  int64_t i = tni_jj_as_int(v);
  if (i < 0) i += n;
  return i < low ? low : i > high ? high : i;
}

static bool slice_part(tni_jj_val v) { return tni_jj_is_int(v) || v.type == TNI_JJ_NONE; }

tni_jj_val tni_jj_slice(tni_jj_run *x, tni_jj_val v, tni_jj_val a, tni_jj_val b, tni_jj_val c) {
  if (v.type == TNI_JJ_UNDEFINED) return refuse_undefined(x, v);
  if (v.type != TNI_JJ_STR && (v.type != TNI_JJ_LIST || !tni_jj_has_index(v)))
    return tni_jj_fail(x, "a slice of a '%s'", tni_jj_type_name(v));
  const int64_t step = tni_jj_is_int(c) ? tni_jj_as_int(c) : 1, n = tni_jj_length(x, v);
  if (!slice_part(a) || !slice_part(b) || !slice_part(c))
    return tni_jj_fail(x, "a slice's bounds are whole numbers or none");
  if (step == 0 || step == INT64_MIN) return tni_jj_fail(x, "the step of a slice cannot be %lld", (long long)step);
  const int64_t from = clip(a, n, step, true), to = clip(b, n, step, false);
  if (v.type == TNI_JJ_STR && step == 1)
    return tni_jj_cut(x, v.s, tni_jj_cp_offset(v.s, (size_t)from),
                      tni_jj_cp_offset(v.s, (size_t)(to > from ? to : from)));
  const tni_jj_list *items = tni_jj_iterate(x, v);
  tni_jj_items l = {0};
  tni_jj_buf s = {0};
  for (int64_t i = from; (step > 0 ? i < to : i > to) && !tni_jj_failed(x);) {
    if (v.type == TNI_JJ_STR)
      tni_jj_put_str(x, &s, items->v[i].s);
    else
      tni_jj_push(x, &l, items->v[i]);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (v.type == TNI_JJ_STR) return tni_jj_buf_val(x, &s);
  if (v.kind != TNI_JJ_OF_VIEW) return tni_jj_items_val(x, &l, (tni_jj_kind)v.kind);
  return tni_jj_range_part(x, v.l, &l, (int64_t[]){from, to, step});
}

tni_jj_val tni_jj_path(tni_jj_run *x, tni_jj_val v, tni_jj_val path) {
  if (path.type != TNI_JJ_STR) return tni_jj_item(x, v, path);
  const tni_jj_str *p = path.s;
  for (size_t at = 0; at <= p->n && !tni_jj_failed(x);) {
    const size_t dot = tni_jj_find_str(p, &(tni_jj_str){".", NULL, 1}, at), end = dot == SIZE_MAX ? p->n : dot;
    bool digits = end > at;
    for (size_t i = at; i < end; i++) digits = digits && p->v[i] >= '0' && p->v[i] <= '9';
    v = tni_jj_item(x, v, digits && end - at < 10 ? tni_jj_int(atoi(p->v + at)) : tni_jj_cut(x, p, at, end));
    at = end + 1;
  }
  return v;
}
