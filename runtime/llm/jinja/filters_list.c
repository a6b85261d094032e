/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of lists: choosing, mapping, joining.
 */
#include <string.h>

#include "runtime/llm/jinja/value.h"

#define FILTER(name) static tni_jj_val name(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, const tni_jj_args *raw)

FILTER(do_length) {
  (void)a, (void)raw;
  const int64_t n = tni_jj_length(x, v);
  return n < 0 ? tni_jj_of(TNI_JJ_UNDEFINED) : tni_jj_int(n);
}

FILTER(do_list) {
  (void)a, (void)raw;
  const tni_jj_list *l = tni_jj_iterate(x, v);
  return tni_jj_list_of(x, l->v, l->n, TNI_JJ_OF_LIST);
}

FILTER(do_first) {
  (void)a, (void)raw;
  if (v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_LAZY) {
    const tni_jj_val one = tni_jj_next(v.l);
    return tni_jj_given(one) ? one : tni_jj_of(TNI_JJ_UNDEFINED);
  }
  const tni_jj_list *l = tni_jj_iterate(x, v);
  return l->n ? l->v[0] : tni_jj_of(TNI_JJ_UNDEFINED);
}

FILTER(do_last) {
  (void)a, (void)raw;
  if (v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_LAZY) return tni_jj_fail(x, "a generator is not read from its end");
  const tni_jj_list *l = tni_jj_iterate(x, v);
  return l->n ? l->v[l->n - 1] : tni_jj_of(TNI_JJ_UNDEFINED);
}

FILTER(do_reverse) {
  (void)a, (void)raw;
  tni_jj_items out = {0};
  tni_jj_buf b = {0};
  const tni_jj_list *l = tni_jj_iterate(x, v);
  for (size_t i = l->n; i-- > 0 && !tni_jj_failed(x);) {
    if (v.type == TNI_JJ_STR)
      tni_jj_put_str(x, &b, l->v[i].s);
    else
      tni_jj_push(x, &out, l->v[i]);
  }
  if (v.type == TNI_JJ_STR) return tni_jj_buf_val(x, &b);
  /* As jinja2: a generator is reversed as a list. */
  return tni_jj_items_val(x, &out, v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_LAZY ? TNI_JJ_OF_LIST : TNI_JJ_OF_LAZY);
}

FILTER(do_join) {
  (void)raw;
  tni_jj_buf b = {0};
  const tni_jj_list *l = tni_jj_iterate(x, v);
  const tni_jj_str *between = tni_jj_given(a[0]) ? tni_jj_to_str(x, a[0]) : NULL;
  for (size_t i = 0; i < l->n && tni_jj_step(x, 1); i++) {
    if (i && between) tni_jj_put_str(x, &b, between);
    tni_jj_put_val(x, &b, tni_jj_given(a[1]) && a[1].type != TNI_JJ_NONE ? tni_jj_path(x, l->v[i], a[1]) : l->v[i]);
  }
  return tni_jj_buf_val(x, &b);
}

FILTER(do_items) {
  (void)a, (void)raw;
  tni_jj_items out = {0};
  if (v.type != TNI_JJ_DICT && v.type != TNI_JJ_UNDEFINED)
    return tni_jj_fail(x, "items of a '%s'", tni_jj_type_name(v));
  for (size_t i = 0; v.type == TNI_JJ_DICT && i < v.d->n; i++)
    tni_jj_push(x, &out, tni_jj_pair(x, v.d->keys[i], v.d->values[i]));
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LAZY);
}

FILTER(do_attr) {
  (void)raw;
  if (v.type == TNI_JJ_DICT && a[0].type == TNI_JJ_STR && !tni_jj_find_method(v, a[0].s))
    return tni_jj_of(TNI_JJ_UNDEFINED);
  return tni_jj_attribute(x, v, tni_jj_to_str(x, a[0]));
}

static const tni_jj_val *named(const tni_jj_args *raw, const char *name) {
  for (size_t i = 0; i < raw->n_kw; i++)
    if (tni_jj_str_is(raw->kw[i].name, name)) return &raw->kw[i].v;
  return NULL;
}

FILTER(do_map) {
  (void)a;
  tni_jj_items out = {0};
  const tni_jj_val *attribute = named(raw, "attribute"), *dflt = named(raw, "default");
  static const tni_jj_list nothing;
  const tni_jj_list *l = tni_jj_truth(v) ? tni_jj_iterate(x, v) : &nothing; /* as jinja2: of what is false, nothing */
  if (!raw->n && (!attribute || raw->n_kw > (dflt ? 2u : 1u)))
    return tni_jj_fail(x, "map takes a filter or attribute=");
  if (raw->n && raw->pos[0].type != TNI_JJ_STR) return tni_jj_fail(x, "map takes a filter's name");
  tni_jj_args rest = {.pos = raw->pos + 1, .n = raw->n - 1, .kw = raw->kw, .n_kw = raw->n_kw};
  for (size_t i = 0; i < l->n && !tni_jj_failed(x); i++) {
    tni_jj_val one = raw->n ? tni_jj_filter(x, raw->pos[0].s, l->v[i], &rest) : tni_jj_path(x, l->v[i], *attribute);
    if (!raw->n && one.type == TNI_JJ_UNDEFINED && dflt) one = *dflt;
    tni_jj_push(x, &out, one);
  }
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LAZY);
}

/* attribute: the first argument names one; the next a test and its arguments. */
static tni_jj_val choose(tni_jj_run *x, tni_jj_val v, const tni_jj_args *raw, bool attribute, bool keep) {
  const size_t used = attribute;
  tni_jj_items out = {0};
  if (raw->n < used) return tni_jj_fail(x, "an attribute's name is missing");
  const bool tested = raw->n > used;
  if (tested && raw->pos[used].type != TNI_JJ_STR)
    return tni_jj_fail(x, "a test's name is wanted, not a '%s'", tni_jj_type_name(raw->pos[used]));
  tni_jj_args rest = {.kw = raw->kw, .n_kw = raw->n_kw};
  if (tested) {
    rest.pos = raw->pos + used + 1;
    rest.n = raw->n - used - 1;
  }
  static const tni_jj_list nothing;
  const tni_jj_list *l = tni_jj_truth(v) ? tni_jj_iterate(x, v) : &nothing;
  for (size_t i = 0; i < l->n && tni_jj_step(x, 1); i++) {
    const tni_jj_val of = attribute ? tni_jj_path(x, l->v[i], raw->pos[0]) : l->v[i];
    if (tni_jj_failed(x)) break;
    if ((tested ? tni_jj_test(x, raw->pos[used].s, of, &rest) : tni_jj_truth(of)) == keep)
      tni_jj_push(x, &out, l->v[i]);
  }
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LAZY);
}

FILTER(do_select) { return (void)a, choose(x, v, raw, false, true); }
FILTER(do_reject) { return (void)a, choose(x, v, raw, false, false); }
FILTER(do_selectattr) { return (void)a, choose(x, v, raw, true, true); }
FILTER(do_rejectattr) { return (void)a, choose(x, v, raw, true, false); }

FILTER(do_sum) {
  (void)raw;
  tni_jj_val sum = tni_jj_given(a[1]) ? a[1] : tni_jj_int(0);
  const tni_jj_list *l = tni_jj_iterate(x, v);
  for (size_t i = 0; i < l->n && tni_jj_step(x, 1); i++)
    sum = tni_jj_binary(x, TNI_JJ_ADD, sum,
                        tni_jj_given(a[0]) && a[0].type != TNI_JJ_NONE ? tni_jj_path(x, l->v[i], a[0]) : l->v[i]);
  return sum;
}

FILTER(do_batch) {
  (void)raw;
  tni_jj_items out = {0}, row = {0};
  const tni_jj_list *l = tni_jj_iterate(x, v);
  if (!tni_jj_is_int(a[0]) || tni_jj_as_int(a[0]) < 1) return tni_jj_fail(x, "batch takes a whole number above 0");
  const size_t width = (size_t)tni_jj_as_int(a[0]);
  for (size_t i = 0; i < l->n && !tni_jj_failed(x); i++) {
    tni_jj_push(x, &row, l->v[i]);
    if (row.n < width && i + 1 < l->n) continue;
    while (row.n < width && tni_jj_given(a[1]) && a[1].type != TNI_JJ_NONE && !tni_jj_failed(x))
      tni_jj_push(x, &row, a[1]);
    tni_jj_push(x, &out, tni_jj_items_val(x, &row, TNI_JJ_OF_LIST));
    row = (tni_jj_items){0};
  }
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LAZY);
}

const tni_jj_builtin tni_jj_list_filters[] = {{"length", "", 0, do_length},
                                              {"count", "", 0, do_length},
                                              {"list", "", 0, do_list},
                                              {"first", "", 0, do_first},
                                              {"last", "", 0, do_last},
                                              {"reverse", "", 0, do_reverse},
                                              {"join", "d attribute", 0, do_join},
                                              {"items", "", 0, do_items},
                                              {"attr", "name", 1, do_attr},
                                              {"map", NULL, 0, do_map},
                                              {"select", NULL, 0, do_select},
                                              {"reject", NULL, 0, do_reject},
                                              {"selectattr", NULL, 0, do_selectattr},
                                              {"rejectattr", NULL, 0, do_rejectattr},
                                              {"sum", "attribute start", 0, do_sum},
                                              {"batch", "linecount fill_with", 1, do_batch},
                                              {NULL, NULL, 0, NULL}};
