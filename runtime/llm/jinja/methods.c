/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of strings, lists and dicts.
 */
#include <string.h>

#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

#define METHOD(name) static tni_jj_val name(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, const tni_jj_args *raw)

/* An argument that must be a string. */
static const tni_jj_str *text_of(tni_jj_run *x, tni_jj_val v) {
  static const tni_jj_str empty = {"", NULL, 0};
  if (v.type == TNI_JJ_STR) return v.s;
  tni_jj_fail(x, "a '%s' where a string is wanted", tni_jj_type_name(v));
  return &empty;
}

static int64_t number_of(tni_jj_run *x, tni_jj_val v, int64_t dflt) {
  if (!tni_jj_given(v) || v.type == TNI_JJ_NONE) return dflt;
  if (!tni_jj_is_int(v)) tni_jj_fail(x, "a '%s' where a whole number is wanted", tni_jj_type_name(v));
  return tni_jj_is_int(v) ? tni_jj_as_int(v) : dflt;
}

static tni_jj_val strip(tni_jj_run *x, tni_jj_val v, tni_jj_val chars, int sides) {
  return tni_jj_strip(x, v.s, tni_jj_given(chars) && chars.type != TNI_JJ_NONE ? text_of(x, chars) : NULL, sides);
}
METHOD(do_strip) { return (void)raw, strip(x, v, a[0], 3); }
METHOD(do_lstrip) { return (void)raw, strip(x, v, a[0], 1); }
METHOD(do_rstrip) { return (void)raw, strip(x, v, a[0], 2); }
METHOD(do_upper) { return (void)a, (void)raw, tni_jj_recase(x, v.s, TNI_JJ_UPPER); }
METHOD(do_lower) { return (void)a, (void)raw, tni_jj_recase(x, v.s, TNI_JJ_LOWER); }
METHOD(do_capitalize) { return (void)a, (void)raw, tni_jj_recase(x, v.s, TNI_JJ_CAPITAL); }
METHOD(do_title) { return (void)a, (void)raw, tni_jj_recase(x, v.s, TNI_JJ_TITLE); }
METHOD(do_swapcase) { return (void)a, (void)raw, tni_jj_recase(x, v.s, TNI_JJ_SWAP); }
METHOD(do_replace) {
  (void)raw;
  return tni_jj_replace(x, v.s, text_of(x, a[0]), text_of(x, a[1]), number_of(x, a[2], -1));
}

static bool has_side(const tni_jj_str *s, const tni_jj_str *part, bool end) {
  return part->n <= s->n && (!part->n || memcmp(s->v + (end ? s->n - part->n : 0), part->v, part->n) == 0);
}

/* A string, or a tuple of which one is enough; start and stop cut first. */
static tni_jj_val side(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, bool end) {
  const tni_jj_val none = tni_jj_of(TNI_JJ_NONE);
  if (tni_jj_given(a[1])) v = tni_jj_slice(x, v, a[1], tni_jj_given(a[2]) ? a[2] : none, none);
  if (tni_jj_failed(x) || v.type != TNI_JJ_STR) return tni_jj_bool(false);
  if (a[0].type == TNI_JJ_LIST && a[0].kind == TNI_JJ_OF_TUPLE) {
    for (size_t i = 0; i < a[0].l->n; i++)
      if (has_side(v.s, text_of(x, a[0].l->v[i]), end)) return tni_jj_bool(true);
    return tni_jj_bool(false);
  }
  return tni_jj_bool(has_side(v.s, text_of(x, a[0]), end));
}
METHOD(do_startswith) { return (void)raw, side(x, v, a, false); }
METHOD(do_endswith) { return (void)raw, side(x, v, a, true); }
METHOD(do_removeprefix) {
  (void)raw;
  const tni_jj_str *p = text_of(x, a[0]);
  return has_side(v.s, p, false) ? tni_jj_cut(x, v.s, p->n, v.s->n) : v;
}
METHOD(do_removesuffix) {
  (void)raw;
  const tni_jj_str *p = text_of(x, a[0]);
  return has_side(v.s, p, true) ? tni_jj_cut(x, v.s, 0, v.s->n - p->n) : v;
}

/* Where, by code points; start and stop are bounds of the search. */
static int64_t find(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, bool last) {
  const tni_jj_str *what = text_of(x, a[0]);
  const int64_t n = (int64_t)tni_jj_cp_count(v.s);
  int64_t from = number_of(x, a[1], 0), to = number_of(x, a[2], n);
  if (!tni_jj_step(x, v.s->n / 64)) return -1;
  if (from < 0) from = from + n < 0 ? 0 : from + n;
  if (to < 0) to = to + n < 0 ? 0 : to + n;
  if (to > n) to = n;
  if (from > to) return -1;
  const size_t begin = tni_jj_cp_offset(v.s, (size_t)from), end = tni_jj_cp_offset(v.s, (size_t)to);
  const tni_jj_str part = {v.s->v + begin, NULL, end - begin};
  const size_t at = last ? tni_jj_find_last(&part, what) : tni_jj_find_str(&part, what, 0);
  return at == SIZE_MAX ? -1 : from + (int64_t)tni_jj_cp_count(&(tni_jj_str){part.v, NULL, at});
}
METHOD(do_find) { return (void)raw, tni_jj_int(find(x, v, a, false)); }
METHOD(do_rfind) { return (void)raw, tni_jj_int(find(x, v, a, true)); }
METHOD(do_index) {
  (void)raw;
  const int64_t at = find(x, v, a, false);
  return at < 0 ? tni_jj_fail(x, "substring not found") : tni_jj_int(at);
}
METHOD(do_count) {
  (void)raw;
  const tni_jj_str *what = text_of(x, a[0]);
  int64_t n = 0;
  if (!what->n) return tni_jj_int((int64_t)tni_jj_cp_count(v.s) + 1);
  for (size_t at = 0; (at = tni_jj_find_str(v.s, what, at)) != SIZE_MAX && tni_jj_step(x, 1); at += what->n) n++;
  return tni_jj_int(n);
}

/* --- is... --- */

static bool is_alpha(uint32_t cp) {
  const char *cat = tni_category_names[tni_category(cp)];
  return cat[0] == 'L';
}
static bool is_digit(uint32_t cp) {
  return cp < 128 ? cp >= '0' && cp <= '9' : strcmp(tni_category_names[tni_category(cp)], "Nd") == 0;
}
static bool is_alnum(uint32_t cp) { return is_alpha(cp) || tni_is_number(cp); }

static tni_jj_val all_are(tni_jj_val v, bool (*is)(uint32_t cp)) {
  for (size_t i = 0, n; i < v.s->n; i += n)
    if (!is(tni_utf8_get(v.s->v + i, v.s->n - i, &n))) return tni_jj_bool(false);
  return tni_jj_bool(v.s->n > 0);
}
METHOD(do_isspace) { return (void)x, (void)a, (void)raw, all_are(v, tni_jj_is_space); }
METHOD(do_isdigit) { return (void)x, (void)a, (void)raw, all_are(v, is_digit); }
METHOD(do_isalpha) { return (void)x, (void)a, (void)raw, all_are(v, is_alpha); }
METHOD(do_isalnum) { return (void)x, (void)a, (void)raw, all_are(v, is_alnum); }
METHOD(do_islower) {
  return (void)a, (void)raw, tni_jj_bool(tni_jj_test(x, &(tni_jj_str){"lower", NULL, 5}, v, &(tni_jj_args){0}));
}
METHOD(do_isupper) {
  return (void)a, (void)raw, tni_jj_bool(tni_jj_test(x, &(tni_jj_str){"upper", NULL, 5}, v, &(tni_jj_args){0}));
}

/* --- widths --- */

static tni_jj_val pad(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, int sides) {
  const int64_t n = (int64_t)tni_jj_cp_count(v.s), width = number_of(x, a[0], 0), more = width > n ? width - n : 0;
  const tni_jj_str *fill = tni_jj_given(a[1]) ? text_of(x, a[1]) : &(tni_jj_str){" ", NULL, 1};
  if (width > 100000) return tni_jj_limit(x, "a width is too large");
  if (tni_jj_cp_count(fill) != 1) return tni_jj_fail(x, "the fill is not one character");
  const int64_t left = sides == 1 ? more : sides == 2 ? 0 : more / 2 + (more & width & 1);
  tni_jj_buf b = {0};
  for (int64_t i = 0; i < left; i++) tni_jj_put_str(x, &b, fill);
  tni_jj_put_str(x, &b, v.s);
  for (int64_t i = left; i < more; i++) tni_jj_put_str(x, &b, fill);
  return tni_jj_buf_val(x, &b);
}
METHOD(do_rjust) { return (void)raw, pad(x, v, a, 1); }
METHOD(do_ljust) { return (void)raw, pad(x, v, a, 2); }
METHOD(do_center) { return (void)raw, pad(x, v, a, 3); }
METHOD(do_zfill) {
  (void)raw;
  const bool sign = v.s->n && (*v.s->v == '-' || *v.s->v == '+');
  const int64_t n = (int64_t)tni_jj_cp_count(v.s), width = number_of(x, a[0], 0);
  tni_jj_buf b = {0};
  if (width > 100000) return tni_jj_limit(x, "a width is too large");
  if (sign) tni_jj_put(x, &b, v.s->v, v.s->m, 1);
  for (int64_t i = n; i < width; i++) tni_jj_put_as(x, &b, "0", 1, true);
  tni_jj_put(x, &b, v.s->v + sign, v.s->m ? v.s->m + sign : NULL, v.s->n - sign);
  return tni_jj_buf_val(x, &b);
}

METHOD(do_join) {
  (void)raw;
  tni_jj_buf b = {0};
  const tni_jj_list *l = tni_jj_iterate(x, a[0]);
  for (size_t i = 0; i < l->n && tni_jj_step(x, 1); i++) {
    if (i) tni_jj_put_str(x, &b, v.s);
    tni_jj_put_str(x, &b, text_of(x, l->v[i]));
  }
  return tni_jj_buf_val(x, &b);
}

METHOD(do_format) { return (void)a, tni_jj_format(x, v.s, raw); }

const tni_jj_builtin tni_jj_str_methods[] = {{"strip", "chars", 0, do_strip},
                                             {"lstrip", "chars", 0, do_lstrip},
                                             {"rstrip", "chars", 0, do_rstrip},
                                             {"upper", "", 0, do_upper},
                                             {"lower", "", 0, do_lower},
                                             {"casefold", "", 0, do_lower},
                                             {"capitalize", "", 0, do_capitalize},
                                             {"title", "", 0, do_title},
                                             {"swapcase", "", 0, do_swapcase},
                                             {"replace", "old new count", 2, do_replace},
                                             {"startswith", "prefix start end", 1, do_startswith},
                                             {"endswith", "suffix start end", 1, do_endswith},
                                             {"removeprefix", "prefix", 1, do_removeprefix},
                                             {"removesuffix", "suffix", 1, do_removesuffix},
                                             {"find", "sub start end", 1, do_find},
                                             {"rfind", "sub start end", 1, do_rfind},
                                             {"index", "sub start end", 1, do_index},
                                             {"count", "sub", 1, do_count},
                                             {"isspace", "", 0, do_isspace},
                                             {"isdigit", "", 0, do_isdigit},
                                             {"isalpha", "", 0, do_isalpha},
                                             {"isalnum", "", 0, do_isalnum},
                                             {"islower", "", 0, do_islower},
                                             {"isupper", "", 0, do_isupper},
                                             {"rjust", "width fill", 1, do_rjust},
                                             {"ljust", "width fill", 1, do_ljust},
                                             {"center", "width fill", 1, do_center},
                                             {"zfill", "width", 1, do_zfill},
                                             {"join", "iterable", 1, do_join},
                                             {"format", NULL, 0, do_format},
                                             {NULL, NULL, 0, NULL}};

/* --- lists and dicts --- */

METHOD(do_list_index) {
  (void)raw;
  for (size_t i = 0; i < v.l->n && tni_jj_step(x, 1); i++)
    if (tni_jj_equal(x, v.l->v[i], a[0])) return tni_jj_int((int64_t)i);
  return tni_jj_fail(x, "the value is not in the list");
}
METHOD(do_list_count) {
  (void)raw;
  int64_t n = 0;
  for (size_t i = 0; i < v.l->n && tni_jj_step(x, 1); i++) n += tni_jj_equal(x, v.l->v[i], a[0]);
  return tni_jj_int(n);
}
METHOD(do_list_copy) { return (void)a, (void)raw, tni_jj_list_of(x, v.l->v, v.l->n, TNI_JJ_OF_LIST); }
const tni_jj_builtin tni_jj_list_methods[] = {{"index", "value", 1, do_list_index},
                                              {"count", "value", 1, do_list_count},
                                              {"copy", "", 0, do_list_copy},
                                              {NULL, NULL, 0, NULL}};

METHOD(do_get) {
  (void)raw;
  const tni_jj_val *found = tni_jj_hashable(a[0]) ? tni_jj_dict_get(x, v.d, a[0]) : NULL;
  return found ? *found : tni_jj_given(a[1]) ? a[1] : tni_jj_of(TNI_JJ_NONE);
}
METHOD(do_keys) { return (void)a, (void)raw, tni_jj_view(x, v.d->keys, v.d->n, "dict_keys", NULL); }
METHOD(do_values) { return (void)a, (void)raw, tni_jj_view(x, v.d->values, v.d->n, "dict_values", NULL); }
METHOD(do_items) {
  (void)a, (void)raw;
  tni_jj_items out = {0};
  for (size_t i = 0; i < v.d->n; i++) tni_jj_push(x, &out, tni_jj_pair(x, v.d->keys[i], v.d->values[i]));
  return tni_jj_view(x, out.v, out.n, "dict_items", NULL);
}
METHOD(do_dict_copy) { return (void)x, (void)a, (void)raw, v; }
const tni_jj_builtin tni_jj_dict_methods[] = {{"get", "key default", 1, do_get}, {"keys", "", 0, do_keys},
                                              {"values", "", 0, do_values},      {"items", "", 0, do_items},
                                              {"copy", "", 0, do_dict_copy},     {NULL, NULL, 0, NULL}};

const tni_jj_builtin *tni_jj_find_method(tni_jj_val self, const tni_jj_str *name) {
  if (self.type == TNI_JJ_STR) {
    const tni_jj_builtin *fn = tni_jj_find(tni_jj_str_methods, name);
    return fn ? fn : tni_jj_find(tni_jj_split_methods, name);
  }
  if (self.type == TNI_JJ_DICT) return tni_jj_find(tni_jj_dict_methods, name);
  if (self.type != TNI_JJ_LIST || self.kind > TNI_JJ_OF_TUPLE ||
      (self.kind == TNI_JJ_OF_TUPLE && tni_jj_str_is(name, "copy")))
    return NULL;
  return tni_jj_find(tni_jj_list_methods, name);
}

bool tni_jj_changes(tni_jj_val self, const tni_jj_str *name) {
  static const char *const of_list[] = {"append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear"};
  static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const bool list = self.type == TNI_JJ_LIST && self.kind == TNI_JJ_OF_LIST;
  const char *const *names = list ? of_list : of_dict;
  for (size_t i = 0; (list || self.type == TNI_JJ_DICT) && i < (list ? 8 : 5); i++)
    if (tni_jj_str_is(name, names[i])) return true;
  return false;
}
