/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that put items in order or find the equal ones.
 */
#include <string.h>

#include "runtime/llm/jinja/value.h"

#define FILTER(name) static tni_jj_val name(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, const tni_jj_args *raw)

/* What is compared in place of an item. */
static tni_jj_val key_of(tni_jj_run *x, tni_jj_val item, tni_jj_val attribute, bool cased) {
  const tni_jj_val v =
      tni_jj_given(attribute) && attribute.type != TNI_JJ_NONE ? tni_jj_path(x, item, attribute) : item;
  return v.type == TNI_JJ_STR && !cased ? tni_jj_recase(x, v.s, TNI_JJ_LOWER) : v;
}

/* Several attributes with commas between: a list of keys. */
static tni_jj_val keys_of(tni_jj_run *x, tni_jj_val item, tni_jj_val attribute, bool cased) {
  if (attribute.type != TNI_JJ_STR || tni_jj_find_str(attribute.s, &(tni_jj_str){",", NULL, 1}, 0) == SIZE_MAX)
    return key_of(x, item, attribute, cased);
  tni_jj_items keys = {0};
  for (size_t at = 0; at <= attribute.s->n && !tni_jj_failed(x);) {
    const size_t comma = tni_jj_find_str(attribute.s, &(tni_jj_str){",", NULL, 1}, at),
                 end = comma == SIZE_MAX ? attribute.s->n : comma;
    tni_jj_push(x, &keys, key_of(x, item, tni_jj_cut(x, attribute.s, at, end), cased));
    at = end + 1;
  }
  return tni_jj_items_val(x, &keys, TNI_JJ_OF_LIST);
}

typedef struct keyed {
  tni_jj_val key, item;
} keyed;

/* Merges v[0, mid) and v[mid, n), equal ones in their order. */
static void merge(tni_jj_run *x, keyed *v, keyed *room, size_t mid, size_t n, bool down) {
  size_t i = 0, k = mid, o = 0;
  while (i < mid && k < n && tni_jj_step(x, 1)) {
    const int c = tni_jj_compare(x, v[k].key, v[i].key);
    room[o++] = (down ? c > 0 : c < 0) ? v[k++] : v[i++];
  }
  while (i < mid) room[o++] = v[i++];
  while (k < n) room[o++] = v[k++];
  memcpy(v, room, n * sizeof *v);
}

static void sort_keyed(tni_jj_run *x, keyed *v, keyed *room, size_t n, bool down) {
  for (size_t width = 1; width < n && !tni_jj_failed(x); width *= 2)
    for (size_t at = 0; at + width < n && !tni_jj_failed(x); at += 2 * width)
      merge(x, v + at, room, width, n - at < 2 * width ? n - at : 2 * width, down);
}

static tni_jj_val sorted(tni_jj_run *x, keyed *v, size_t n, bool down) {
  keyed *room = tni_jj_alloc(x, n, sizeof *room);
  tni_jj_items out = {0};
  if (!room) return tni_jj_of(TNI_JJ_UNDEFINED);
  sort_keyed(x, v, room, n, down);
  for (size_t i = 0; i < n; i++) tni_jj_push(x, &out, v[i].item);
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LIST);
}

static bool flag(tni_jj_val v) { return tni_jj_given(v) && tni_jj_truth(v); }

FILTER(do_sort) {
  (void)raw;
  const tni_jj_list *l = tni_jj_iterate(x, v);
  keyed *k = tni_jj_alloc(x, l->n, sizeof *k);
  if (!k) return tni_jj_of(TNI_JJ_UNDEFINED);
  for (size_t i = 0; i < l->n && !tni_jj_failed(x); i++) k[i] = (keyed){keys_of(x, l->v[i], a[2], flag(a[1])), l->v[i]};
  return tni_jj_failed(x) ? tni_jj_of(TNI_JJ_UNDEFINED) : sorted(x, k, l->n, flag(a[0]));
}

FILTER(do_dictsort) {
  (void)raw;
  const bool by_value = tni_jj_given(a[1]) && a[1].type == TNI_JJ_STR && tni_jj_str_is(a[1].s, "value");
  if (v.type != TNI_JJ_DICT) return tni_jj_fail(x, "dictsort of a '%s'", tni_jj_type_name(v));
  keyed *k = tni_jj_alloc(x, v.d->n, sizeof *k);
  if (!k) return tni_jj_of(TNI_JJ_UNDEFINED);
  for (size_t i = 0; i < v.d->n && !tni_jj_failed(x); i++)
    k[i] = (keyed){key_of(x, by_value ? v.d->values[i] : v.d->keys[i], tni_jj_of(TNI_JJ_MISSING), flag(a[0])),
                   tni_jj_pair(x, v.d->keys[i], v.d->values[i])};
  return tni_jj_failed(x) ? tni_jj_of(TNI_JJ_UNDEFINED) : sorted(x, k, v.d->n, flag(a[2]));
}

FILTER(do_unique) {
  (void)raw;
  tni_jj_items out = {0};
  const tni_jj_val seen = tni_jj_dict_new(x);
  const tni_jj_list *l = tni_jj_iterate(x, v);
  for (size_t i = 0; i < l->n && tni_jj_step(x, 1); i++) {
    const tni_jj_val key = key_of(x, l->v[i], a[1], flag(a[0]));
    if (tni_jj_failed(x) || (tni_jj_hashable(key) && tni_jj_dict_get(x, seen.d, key))) continue;
    tni_jj_dict_set(x, seen.d, key, tni_jj_of(TNI_JJ_NONE));
    tni_jj_push(x, &out, l->v[i]);
  }
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LAZY);
}

static tni_jj_val extreme(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, bool largest) {
  const tni_jj_list *l = tni_jj_iterate(x, v);
  if (!l->n) return tni_jj_of(TNI_JJ_UNDEFINED);
  size_t best = 0;
  tni_jj_val key = key_of(x, l->v[0], a[1], flag(a[0]));
  for (size_t i = 1; i < l->n && tni_jj_step(x, 1); i++) {
    const tni_jj_val other = key_of(x, l->v[i], a[1], flag(a[0]));
    if (tni_jj_failed(x)) break;
    const int c = tni_jj_compare(x, other, key);
    if (largest ? c <= 0 : c >= 0) continue;
    best = i;
    key = other;
  }
  return l->v[best];
}
FILTER(do_min) { return (void)raw, extreme(x, v, a, false); }
FILTER(do_max) { return (void)raw, extreme(x, v, a, true); }

/* Tuples of (grouper, list), in the order of what groups. */
FILTER(do_groupby) {
  (void)raw;
  const tni_jj_list *l = tni_jj_iterate(x, v);
  keyed *k = tni_jj_alloc(x, l->n, sizeof *k), *room = tni_jj_alloc(x, l->n, sizeof *room);
  tni_jj_items out = {0};
  if (!k || !room) return tni_jj_of(TNI_JJ_UNDEFINED);
  for (size_t i = 0; i < l->n && !tni_jj_failed(x); i++) {
    k[i] = (keyed){key_of(x, l->v[i], a[0], flag(a[2])), l->v[i]};
    if (k[i].key.type == TNI_JJ_UNDEFINED && tni_jj_given(a[1])) k[i].key = a[1];
  }
  if (!tni_jj_failed(x)) sort_keyed(x, k, room, l->n, false);
  for (size_t i = 0; i < l->n && !tni_jj_failed(x);) {
    tni_jj_items group = {0};
    size_t end = i;
    for (; end < l->n && tni_jj_equal(x, k[i].key, k[end].key); end++) tni_jj_push(x, &group, k[end].item);
    const tni_jj_val name = tni_jj_path(x, k[i].item, a[0]);
    const tni_jj_val pair =
        tni_jj_pair(x, name.type == TNI_JJ_UNDEFINED ? k[i].key : name, tni_jj_items_val(x, &group, TNI_JJ_OF_LIST));
    if (tni_jj_failed(x)) break;
    pair.l->is_group = true;
    tni_jj_push(x, &out, pair);
    i = end > i ? end : i + 1;
  }
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LIST);
}

const tni_jj_builtin tni_jj_order_filters[] = {{"sort", "reverse case_sensitive attribute", 0, do_sort},
                                               {"dictsort", "case_sensitive by reverse", 0, do_dictsort},
                                               {"unique", "case_sensitive attribute", 0, do_unique},
                                               {"min", "case_sensitive attribute", 0, do_min},
                                               {"max", "case_sensitive attribute", 0, do_max},
                                               {"groupby", "attribute default case_sensitive", 1, do_groupby},
                                               {NULL, NULL, 0, NULL}};
