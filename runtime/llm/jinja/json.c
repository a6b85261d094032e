/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter tojson: Python's json.dumps with the arguments that transformers lets templates give.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

typedef struct dumper {
  tni_jj_run *x;
  tni_jj_buf b;
  bool ascii, sorted, lines;
  const tni_jj_str *indent, *item, *key; /* for each level; between items; after a key */
  uint32_t level;
} dumper;

static void dump(dumper *d, tni_jj_val v);

static void put_code(dumper *d, uint32_t unit, bool mine) {
  char s[8];
  snprintf(s, sizeof s, "\\u%04x", unit & 0xffff);
  tni_jj_put_as(d->x, &d->b, s, 6, mine);
}

static void dump_string(dumper *d, const tni_jj_str *s) {
  static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
  tni_jj_put_as(d->x, &d->b, "\"", 1, true);
  for (size_t i = 0, n; i < s->n && !tni_jj_failed(d->x); i += n) {
    const uint32_t cp = tni_utf8_get(s->v + i, s->n - i, &n);
    const bool mine = tni_jj_mine(s, i);
    const char *plain = cp && cp < 128 ? strchr(from, (int)cp) : NULL;
    if (plain) {
      const char pair[] = {'\\', to[plain - from]};
      tni_jj_put_as(d->x, &d->b, pair, 2, mine);
    } else if (cp < 32 || (d->ascii && cp >= 127 && cp < 0x10000)) {
      put_code(d, cp, mine);
    } else if (d->ascii && cp >= 0x10000) {
      put_code(d, 0xd800 + ((cp - 0x10000) >> 10), mine);
      put_code(d, 0xdc00 + ((cp - 0x10000) & 0x3ff), mine);
    } else {
      tni_jj_put(d->x, &d->b, s->v + i, s->m ? s->m + i : NULL, n);
    }
  }
  tni_jj_put_as(d->x, &d->b, "\"", 1, true);
}

static void new_line(dumper *d) {
  if (!d->lines) return;
  tni_jj_put_as(d->x, &d->b, "\n", 1, true);
  for (uint32_t i = 0; i < d->level; i++) tni_jj_put_str(d->x, &d->b, d->indent);
}

static void dump_list(dumper *d, const tni_jj_list *l) {
  tni_jj_put_as(d->x, &d->b, "[", 1, true);
  d->level++;
  for (size_t i = 0; i < l->n && !tni_jj_failed(d->x); i++) {
    if (i) tni_jj_put_str(d->x, &d->b, d->item);
    new_line(d);
    dump(d, l->v[i]);
  }
  d->level--;
  if (l->n) new_line(d);
  tni_jj_put_as(d->x, &d->b, "]", 1, true);
}

static void number_text(tni_jj_val v, char out[40]) {
  if (v.type == TNI_JJ_NONE)
    snprintf(out, 40, "null");
  else if (v.type == TNI_JJ_BOOL)
    snprintf(out, 40, v.b ? "true" : "false");
  else if (v.type == TNI_JJ_INT)
    snprintf(out, 40, "%lld", (long long)v.i);
  else if (isnan(v.f) || isinf(v.f))
    snprintf(out, 40, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity");
  else
    tni_jj_float_repr(v.f, out);
}

static bool is_plain(tni_jj_val v) { return v.type == TNI_JJ_NONE || tni_jj_is_number(v); }

static void dump_key(dumper *d, tni_jj_val key) {
  char s[40];
  if (key.type == TNI_JJ_STR) {
    dump_string(d, key.s);
  } else if (is_plain(key)) {
    number_text(key, s);
    dump_string(d, &(tni_jj_str){s, NULL, strlen(s)});
  } else {
    tni_jj_fail(d->x, "tojson: a key of type '%s'", tni_jj_type_name(key));
  }
}

/* The places of keys in their order. */
static size_t *sorted_keys(dumper *d, const tni_jj_dict *o) {
  size_t *at = tni_jj_alloc(d->x, o->n, sizeof *at);
  for (size_t i = 0; at && i < o->n && tni_jj_step(d->x, o->n / 8 + 1); i++) {
    size_t k = i;
    for (; k && d->sorted && tni_jj_compare(d->x, o->keys[i], o->keys[at[k - 1]]) < 0; k--) at[k] = at[k - 1];
    at[k] = i;
  }
  return at;
}

static void dump_dict(dumper *d, const tni_jj_dict *o) {
  const size_t *at = sorted_keys(d, o);
  tni_jj_put_as(d->x, &d->b, "{", 1, true);
  d->level++;
  for (size_t i = 0; at && i < o->n && !tni_jj_failed(d->x); i++) {
    if (i) tni_jj_put_str(d->x, &d->b, d->item);
    new_line(d);
    dump_key(d, o->keys[at[i]]);
    tni_jj_put_str(d->x, &d->b, d->key);
    dump(d, o->values[at[i]]);
  }
  d->level--;
  if (o->n) new_line(d);
  tni_jj_put_as(d->x, &d->b, "}", 1, true);
}

static void dump(dumper *d, tni_jj_val v) {
  char s[40];
  if (!tni_jj_enter(d->x)) return;
  if (v.type == TNI_JJ_STR) {
    dump_string(d, v.s);
  } else if (is_plain(v)) {
    number_text(v, s);
    tni_jj_put_as(d->x, &d->b, s, strlen(s), true);
  } else if (v.type == TNI_JJ_LIST && v.kind <= TNI_JJ_OF_TUPLE) {
    dump_list(d, v.l);
  } else if (v.type == TNI_JJ_DICT) {
    dump_dict(d, v.d);
  } else {
    tni_jj_fail(d->x, "tojson: a value of type '%s' is no JSON", tni_jj_type_name(v));
  }
  tni_jj_leave(d->x);
}

static bool read_indent(dumper *d, tni_jj_val v) {
  tni_jj_buf b = {0};
  if (!tni_jj_given(v) || v.type == TNI_JJ_NONE) return true;
  d->lines = true;
  if (!tni_jj_is_int(v) && v.type != TNI_JJ_STR)
    return tni_jj_fail(d->x, "tojson: indent is a '%s'", tni_jj_type_name(v)), false;
  if (tni_jj_is_int(v) && tni_jj_as_int(v) > 1000) return tni_jj_limit(d->x, "tojson: indent is too wide"), false;
  for (int64_t i = 0; tni_jj_is_int(v) && i < tni_jj_as_int(v); i++) tni_jj_put_as(d->x, &b, " ", 1, true);
  d->indent = v.type == TNI_JJ_STR ? v.s : tni_jj_to_str(d->x, tni_jj_buf_val(d->x, &b));
  return !tni_jj_failed(d->x);
}

tni_jj_val tni_jj_tojson(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw) {
  static const tni_jj_str comma = {",", NULL, 1}, comma_space = {", ", NULL, 2}, colon = {": ", NULL, 2},
                          none = {"", NULL, 0};
  (void)raw;
  dumper d = {.x = x, .indent = &none, .item = &comma_space, .key = &colon};
  d.ascii = tni_jj_given(a[0]) && tni_jj_truth(a[0]);
  d.sorted = tni_jj_given(a[3]) && tni_jj_truth(a[3]);
  if (!read_indent(&d, a[1])) return tni_jj_of(TNI_JJ_UNDEFINED);
  if (d.lines) d.item = &comma;
  if (tni_jj_given(a[2]) && a[2].type != TNI_JJ_NONE) {
    const tni_jj_list *l = tni_jj_iterate(x, a[2]);
    if (tni_jj_failed(x) || l->n != 2 || l->v[0].type != TNI_JJ_STR || l->v[1].type != TNI_JJ_STR)
      return tni_jj_fail(x, "tojson: separators are two strings");
    d.item = l->v[0].s;
    d.key = l->v[1].s;
  }
  dump(&d, self);
  return tni_jj_buf_val(x, &d.b);
}
