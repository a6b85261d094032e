/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods that take strings apart.
 */
#include <string.h>

#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

#define METHOD(name) static tni_jj_val name(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, const tni_jj_args *raw)

static size_t word_end(const tni_jj_str *s, size_t at, size_t to) {
  size_t len;
  while (at < to && !tni_jj_is_space(tni_utf8_get(s->v + at, to - at, &len))) at += len;
  return at;
}

static size_t word_begin(const tni_jj_str *s, size_t end) {
  size_t len;
  while (end > 0) {
    const size_t p = tni_utf8_prev(s->v, end);
    if (tni_jj_is_space(tni_utf8_get(s->v + p, s->n - p, &len))) break;
    end = p;
  }
  return end;
}

static void split_words(tni_jj_run *x, const tni_jj_str *s, int64_t most, tni_jj_items *out) {
  for (size_t at = tni_jj_space_before(s->v, s->n); at < s->n && !tni_jj_failed(x);) {
    const bool rest = most >= 0 && (int64_t)out->n == most;
    const size_t end = rest ? s->n : word_end(s, at, s->n);
    tni_jj_push(x, out, tni_jj_cut(x, s, at, end));
    at = end + tni_jj_space_before(s->v + end, s->n - end);
  }
}

static void split_at(tni_jj_run *x, const tni_jj_str *s, const tni_jj_str *by, int64_t most, tni_jj_items *out) {
  size_t from = 0;
  for (size_t at; (most < 0 || (int64_t)out->n < most) && !tni_jj_failed(x); from = at + by->n) {
    at = tni_jj_find_str(s, by, from);
    if (at == SIZE_MAX) break;
    tni_jj_push(x, out, tni_jj_cut(x, s, from, at));
  }
  tni_jj_push(x, out, tni_jj_cut(x, s, from, s->n));
}

static void turn(tni_jj_items *l) {
  for (size_t i = 0; i < l->n / 2; i++) {
    const tni_jj_val v = l->v[i];
    l->v[i] = l->v[l->n - 1 - i];
    l->v[l->n - 1 - i] = v;
  }
}

/* From the right; out is in that order. */
static void split_right(tni_jj_run *x, const tni_jj_str *s, const tni_jj_str *by, int64_t most, tni_jj_items *out) {
  size_t end = s->n;
  while (!tni_jj_failed(x)) {
    if (!by) {
      end -= tni_jj_space_after(s->v, end);
      if (!end) return;
    }
    const bool rest = most >= 0 && (int64_t)out->n == most;
    const tni_jj_str left = {s->v, s->m, end};
    const size_t at = rest ? SIZE_MAX : by ? tni_jj_find_last(&left, by) : word_begin(s, end);
    if (by) {
      tni_jj_push(x, out, tni_jj_cut(x, s, at == SIZE_MAX ? 0 : at + by->n, end));
      if (at == SIZE_MAX) return;
    } else {
      tni_jj_push(x, out, tni_jj_cut(x, s, rest ? 0 : at, end));
      if (rest) return;
    }
    end = at;
  }
}

static tni_jj_val split(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, bool right) {
  const bool by = tni_jj_given(a[0]) && a[0].type != TNI_JJ_NONE;
  tni_jj_items out = {0};
  if (by && a[0].type != TNI_JJ_STR) return tni_jj_fail(x, "split by a '%s'", tni_jj_type_name(a[0]));
  if (by && !a[0].s->n) return tni_jj_fail(x, "split by nothing");
  if (tni_jj_given(a[1]) && !tni_jj_is_int(a[1]))
    return tni_jj_fail(x, "split: how often is a '%s'", tni_jj_type_name(a[1]));
  const int64_t most = tni_jj_given(a[1]) ? tni_jj_as_int(a[1]) : -1;
  if (right)
    split_right(x, v.s, by ? a[0].s : NULL, most, &out);
  else if (by)
    split_at(x, v.s, a[0].s, most, &out);
  else
    split_words(x, v.s, most, &out);
  if (right && !tni_jj_failed(x)) turn(&out);
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LIST);
}
METHOD(do_split) { return (void)raw, split(x, v, a, false); }
METHOD(do_rsplit) { return (void)raw, split(x, v, a, true); }
METHOD(do_splitlines) {
  (void)raw;
  tni_jj_items out = {0};
  tni_jj_lines(x, v.s, tni_jj_given(a[0]) && tni_jj_truth(a[0]), &out);
  return tni_jj_items_val(x, &out, TNI_JJ_OF_LIST);
}

static tni_jj_val partition(tni_jj_run *x, tni_jj_val v, tni_jj_val by, bool last) {
  if (by.type != TNI_JJ_STR || !by.s->n)
    return tni_jj_fail(x, "partition by a '%s' or by nothing", tni_jj_type_name(by));
  const size_t at = last ? tni_jj_find_last(v.s, by.s) : tni_jj_find_str(v.s, by.s, 0);
  tni_jj_items out = {0};
  const tni_jj_val nothing = tni_jj_literal(x, "");
  if (at == SIZE_MAX) {
    tni_jj_push(x, &out, last ? nothing : v);
    tni_jj_push(x, &out, nothing);
    tni_jj_push(x, &out, last ? v : nothing);
  } else {
    tni_jj_push(x, &out, tni_jj_cut(x, v.s, 0, at));
    tni_jj_push(x, &out, by);
    tni_jj_push(x, &out, tni_jj_cut(x, v.s, at + by.s->n, v.s->n));
  }
  return tni_jj_items_val(x, &out, TNI_JJ_OF_TUPLE);
}
METHOD(do_partition) { return (void)raw, partition(x, v, a[0], false); }
METHOD(do_rpartition) { return (void)raw, partition(x, v, a[0], true); }

const tni_jj_builtin tni_jj_split_methods[] = {
    {"split", "sep maxsplit", 0, do_split},       {"rsplit", "sep maxsplit", 0, do_rsplit},
    {"splitlines", "keepends", 0, do_splitlines}, {"partition", "sep", 1, do_partition},
    {"rpartition", "sep", 1, do_rpartition},      {NULL, NULL, 0, NULL}};
