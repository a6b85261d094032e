/* SPDX-License-Identifier: Apache-2.0
 *
 * Truth, equality, order, iteration, str and repr as Python defines them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

const char *tni_jj_type_name(tni_jj_val v) {
  static const char *const names[] = {[TNI_JJ_UNDEFINED] = "Undefined", [TNI_JJ_NONE] = "NoneType",
                                      [TNI_JJ_BOOL] = "bool",           [TNI_JJ_INT] = "int",
                                      [TNI_JJ_FLOAT] = "float",         [TNI_JJ_STR] = "str",
                                      [TNI_JJ_DICT] = "dict",           [TNI_JJ_NAMESPACE] = "Namespace",
                                      [TNI_JJ_MACRO] = "Macro",         [TNI_JJ_FUNCTION] = "function",
                                      [TNI_JJ_METHOD] = "method",       [TNI_JJ_LOOP] = "LoopContext"};
  static const char *const lists[] = {"list", "tuple", NULL, "generator"};
  if (v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_VIEW) return v.l->type;
  return v.type == TNI_JJ_LIST ? lists[v.kind] : v.type <= TNI_JJ_LOOP ? names[v.type] : "nothing";
}

static bool is_lazy(tni_jj_val v) { return v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_LAZY; }

bool tni_jj_truth(tni_jj_val v) {
  switch (v.type) {
    case TNI_JJ_UNDEFINED:
    case TNI_JJ_NONE:
      return false;
    case TNI_JJ_BOOL:
      return v.b;
    case TNI_JJ_INT:
      return v.i != 0;
    case TNI_JJ_FLOAT:
      return v.f != 0;
    case TNI_JJ_STR:
      return v.s->n > 0;
    case TNI_JJ_LIST:
      return v.kind == TNI_JJ_OF_LAZY || v.l->n > 0;
    case TNI_JJ_DICT:
      return v.d->n > 0;
    default:
      return true;
  }
}

/* True: neither is or holds a list or dict. */
bool tni_jj_hashable(tni_jj_val v) {
  if (v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_TUPLE) {
    for (size_t i = 0; i < v.l->n; i++)
      if (!tni_jj_hashable(v.l->v[i])) return false;
    return true;
  }
  return v.type != TNI_JJ_DICT && !(v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_LIST);
}

static bool same_number(tni_jj_val a, tni_jj_val b) {
  return tni_jj_is_int(a) && tni_jj_is_int(b) ? tni_jj_as_int(a) == tni_jj_as_int(b)
                                              : tni_jj_as_float(a) == tni_jj_as_float(b);
}

static bool same_list(tni_jj_run *x, tni_jj_val a, tni_jj_val b) {
  if (a.l == b.l) return true;
  if (a.kind != b.kind || a.kind == TNI_JJ_OF_LAZY || a.l->n != b.l->n) return false;
  for (size_t i = 0; i < a.l->n; i++)
    if (!tni_jj_equal(x, a.l->v[i], b.l->v[i])) return false;
  return true;
}

static bool same_dict(tni_jj_run *x, const tni_jj_dict *a, const tni_jj_dict *b) {
  if (a->n != b->n) return false;
  for (size_t i = 0; i < a->n; i++) {
    const tni_jj_val *other = tni_jj_dict_get(x, b, a->keys[i]);
    if (!other || !tni_jj_equal(x, a->values[i], *other)) return false;
  }
  return true;
}

bool tni_jj_equal(tni_jj_run *x, tni_jj_val a, tni_jj_val b) {
  if (tni_jj_is_number(a) && tni_jj_is_number(b)) return same_number(a, b);
  if (a.type != b.type || !tni_jj_enter(x)) return false;
  bool same;
  switch (a.type) {
    case TNI_JJ_UNDEFINED:
    case TNI_JJ_NONE:
      same = true;
      break;
    case TNI_JJ_STR:
      same = tni_jj_str_same(a.s, b.s);
      break;
    case TNI_JJ_LIST:
      same = same_list(x, a, b);
      break;
    case TNI_JJ_DICT:
      same = same_dict(x, a.d, b.d);
      break;
    default:
      same = a.hint == b.hint; /* the same object */
  }
  tni_jj_leave(x);
  return same;
}

static int order_lists(tni_jj_run *x, const tni_jj_list *a, const tni_jj_list *b) {
  for (size_t i = 0; i < a->n && i < b->n; i++)
    if (!tni_jj_equal(x, a->v[i], b->v[i])) return tni_jj_compare(x, a->v[i], b->v[i]);
  return (a->n > b->n) - (a->n < b->n);
}

int tni_jj_compare(tni_jj_run *x, tni_jj_val a, tni_jj_val b) {
  if (tni_jj_is_int(a) && tni_jj_is_int(b))
    return (tni_jj_as_int(a) > tni_jj_as_int(b)) - (tni_jj_as_int(a) < tni_jj_as_int(b));
  if (tni_jj_is_number(a) && tni_jj_is_number(b))
    return (tni_jj_as_float(a) > tni_jj_as_float(b)) - (tni_jj_as_float(a) < tni_jj_as_float(b));
  if (a.type == TNI_JJ_STR && b.type == TNI_JJ_STR) {
    const size_t n = a.s->n < b.s->n ? a.s->n : b.s->n;
    const int c = n ? memcmp(a.s->v, b.s->v, n) : 0;
    return c ? c : (a.s->n > b.s->n) - (a.s->n < b.s->n);
  }
  if (a.type == TNI_JJ_LIST && b.type == TNI_JJ_LIST && a.kind == b.kind && a.kind <= TNI_JJ_OF_TUPLE &&
      tni_jj_enter(x)) {
    const int c = order_lists(x, a.l, b.l);
    tni_jj_leave(x);
    return c;
  }
  tni_jj_fail(x, "'%s' and '%s' have no order", tni_jj_type_name(a), tni_jj_type_name(b));
  return 0;
}

bool tni_jj_contains(tni_jj_run *x, tni_jj_val box, tni_jj_val item) {
  if (box.type == TNI_JJ_STR) {
    if (item.type == TNI_JJ_STR) return tni_jj_find_str(box.s, item.s, 0) != SIZE_MAX;
    tni_jj_fail(x, "a '%s' is not looked for in a string", tni_jj_type_name(item));
    return false;
  }
  if (box.type == TNI_JJ_DICT) {
    if (!tni_jj_hashable(item)) tni_jj_fail(x, "a '%s' is no key", tni_jj_type_name(item));
    return tni_jj_dict_get(x, box.d, item) != NULL;
  }
  tni_jj_list own = {0}, *rest = &own; /* a generator goes on after what is found */
  if (is_lazy(box))
    rest = box.l;
  else
    own = *tni_jj_iterate(x, box);
  for (tni_jj_val v = tni_jj_next(rest); tni_jj_given(v) && tni_jj_step(x, 1); v = tni_jj_next(rest))
    if (tni_jj_equal(x, v, item)) return true;
  return false;
}

tni_jj_val tni_jj_next(tni_jj_list *rest) {
  if (!rest->n) return tni_jj_of(TNI_JJ_MISSING);
  rest->n--;
  return *rest->v++;
}

const tni_jj_list *tni_jj_iterate(tni_jj_run *x, tni_jj_val v) {
  static const tni_jj_list nothing;
  if (v.type == TNI_JJ_LIST && !is_lazy(v)) return v.l;
  if (v.type == TNI_JJ_UNDEFINED) return &nothing;
  tni_jj_val list = tni_jj_of(TNI_JJ_UNDEFINED);
  if (is_lazy(v)) {
    list = tni_jj_list_of(x, v.l->v, v.l->n, TNI_JJ_OF_LIST);
    v.l->n = 0;
  } else if (v.type == TNI_JJ_DICT) {
    list = tni_jj_list_of(x, v.d->keys, v.d->n, TNI_JJ_OF_LIST);
  } else if (v.type == TNI_JJ_STR) {
    tni_jj_items l = {0};
    for (size_t i = 0, n; i < v.s->n && !tni_jj_failed(x); i += n) {
      n = tni_utf8_len(v.s->v[i]);
      tni_jj_push(x, &l, tni_jj_cut(x, v.s, i, i + n));
    }
    list = tni_jj_items_val(x, &l, TNI_JJ_OF_LIST);
  } else {
    tni_jj_fail(x, "a '%s' cannot be iterated", tni_jj_type_name(v));
  }
  return list.type == TNI_JJ_LIST ? list.l : &nothing;
}

int64_t tni_jj_length(tni_jj_run *x, tni_jj_val v) {
  if (v.type == TNI_JJ_STR) return (int64_t)tni_jj_cp_count(v.s);
  if (v.type == TNI_JJ_DICT) return (int64_t)v.d->n;
  if (v.type == TNI_JJ_LIST && v.kind != TNI_JJ_OF_LAZY) return (int64_t)v.l->n;
  if (v.type == TNI_JJ_UNDEFINED) return 0;
  tni_jj_fail(x, "a '%s' has no length", tni_jj_type_name(v));
  return -1;
}

/* --- str and repr --- */

void tni_jj_float_repr(double f, char out[40]) {
  char digits[40];
  if (isnan(f) || isinf(f)) {
    snprintf(out, 40, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
    return;
  }
  for (int p = 0; p < 17; p++) {
    snprintf(digits, sizeof digits, "%.*e", p, f);
    if (strtod(digits, NULL) == f) break;
  }
  char *e = strchr(digits, 'e');
  const int exponent = atoi(e + 1);
  *e = 0;
  if (exponent < -4 || exponent >= 16) {
    snprintf(out, 40, "%.24se%c%02u", digits, exponent < 0 ? '-' : '+', (unsigned)abs(exponent) % 1000);
    return;
  }
  int n = 0;
  for (const char *c = digits; *c; c++) n += *c >= '0' && *c <= '9';
  const int after = n - 1 - exponent;
  snprintf(out, 40, "%.*f", after > 1 ? after : 1, f);
}

static void put_quoted(tni_jj_run *x, tni_jj_buf *b, const tni_jj_str *s) {
  const bool doubled = memchr(s->n ? s->v : "", '\'', s->n) && !memchr(s->n ? s->v : "", '"', s->n);
  const char quote = doubled ? '"' : '\'';
  tni_jj_put_as(x, b, &quote, 1, true);
  for (size_t i = 0, n; i < s->n && !tni_jj_failed(x); i += n) {
    const uint32_t cp = tni_utf8_get(s->v + i, s->n - i, &n);
    const bool mine = tni_jj_mine(s, i);
    const unsigned cat = tni_category(cp);
    char code[16];
    /* Python prints what is no separator, control, surrogate or unassigned character. */
    const bool shown = cp == ' ' || (cp > 32 && cp < 127) ||
                       (cp > 160 && cat != TNI_CAT_CS && cat != TNI_CAT_CO && cat != TNI_CAT_CN &&
                        tni_category_names[cat][0] != 'Z' && !(tni_category_names[cat][0] == 'C'));
    if (cp == (uint32_t)quote || cp == '\\')
      snprintf(code, sizeof code, "\\%c", (char)cp);
    else if (cp == '\n' || cp == '\r' || cp == '\t')
      snprintf(code, sizeof code, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
    else if (shown)
      snprintf(code, sizeof code, "%.*s", (int)n, s->v + i);
    else
      snprintf(code, sizeof code, cp < 256 ? "\\x%02x" : cp < 65536 ? "\\u%04x" : "\\U%08x", cp);
    tni_jj_put_as(x, b, code, strlen(code), mine);
  }
  tni_jj_put_as(x, b, &quote, 1, true);
}

static void put_list(tni_jj_run *x, tni_jj_buf *b, const tni_jj_list *l, bool tuple) {
  tni_jj_put_as(x, b, tuple ? "(" : "[", 1, true);
  for (size_t i = 0; i < l->n && !tni_jj_failed(x); i++) {
    if (i) tni_jj_put_as(x, b, ", ", 2, true);
    tni_jj_put_repr(x, b, l->v[i]);
  }
  if (tuple && l->n == 1) tni_jj_put_as(x, b, ",", 1, true);
  tni_jj_put_as(x, b, tuple ? ")" : "]", 1, true);
}

/* range(0, 3), dict_keys(['a']) */
static void put_view(tni_jj_run *x, tni_jj_buf *b, const tni_jj_list *l) {
  tni_jj_put_as(x, b, l->type, strlen(l->type), true);
  if (!l->bounds) tni_jj_put_as(x, b, "(", 1, true);
  put_list(x, b, l->bounds ? l->bounds : l, l->bounds != NULL);
  if (!l->bounds) tni_jj_put_as(x, b, ")", 1, true);
}

static void put_dict(tni_jj_run *x, tni_jj_buf *b, const tni_jj_dict *d) {
  tni_jj_put_as(x, b, "{", 1, true);
  for (size_t i = 0; i < d->n && !tni_jj_failed(x); i++) {
    if (i) tni_jj_put_as(x, b, ", ", 2, true);
    tni_jj_put_repr(x, b, d->keys[i]);
    tni_jj_put_as(x, b, ": ", 2, true);
    tni_jj_put_repr(x, b, d->values[i]);
  }
  tni_jj_put_as(x, b, "}", 1, true);
}

static void put_plain(tni_jj_run *x, tni_jj_buf *b, tni_jj_val v) {
  char s[64];
  switch (v.type) {
    case TNI_JJ_NONE:
      snprintf(s, sizeof s, "None");
      break;
    case TNI_JJ_BOOL:
      snprintf(s, sizeof s, v.b ? "True" : "False");
      break;
    case TNI_JJ_INT:
      snprintf(s, sizeof s, "%lld", (long long)v.i);
      break;
    case TNI_JJ_FLOAT:
      tni_jj_float_repr(v.f, s);
      break;
    default:
      snprintf(s, sizeof s, "<%s>", tni_jj_type_name(v));
  }
  tni_jj_put_as(x, b, s, strlen(s), true);
}

void tni_jj_put_repr(tni_jj_run *x, tni_jj_buf *b, tni_jj_val v) {
  if (!tni_jj_enter(x)) return;
  if (v.type == TNI_JJ_STR)
    put_quoted(x, b, v.s);
  else if (v.type == TNI_JJ_LIST && v.kind <= TNI_JJ_OF_TUPLE)
    put_list(x, b, v.l, v.kind == TNI_JJ_OF_TUPLE);
  else if (v.type == TNI_JJ_LIST && v.kind == TNI_JJ_OF_VIEW)
    put_view(x, b, v.l);
  else if (v.type == TNI_JJ_DICT)
    put_dict(x, b, v.d);
  else if (v.type == TNI_JJ_UNDEFINED)
    tni_jj_put_as(x, b, "Undefined", 9, true);
  else
    put_plain(x, b, v);
  tni_jj_leave(x);
}

void tni_jj_put_val(tni_jj_run *x, tni_jj_buf *b, tni_jj_val v) {
  if (v.type == TNI_JJ_STR)
    tni_jj_put_str(x, b, v.s);
  else if (v.type != TNI_JJ_UNDEFINED)
    tni_jj_put_repr(x, b, v);
}

const tni_jj_str *tni_jj_to_str(tni_jj_run *x, tni_jj_val v) {
  static const tni_jj_str empty = {"", NULL, 0};
  if (v.type == TNI_JJ_STR) return v.s;
  tni_jj_buf b = {0};
  tni_jj_put_val(x, &b, v);
  const tni_jj_val s = tni_jj_buf_val(x, &b);
  return s.type == TNI_JJ_STR ? s.s : &empty;
}
