/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, bounds and containers of a rendering.
 */
#include "runtime/llm/jinja/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/llm/text/text.h"

tni_jj_val tni_jj_fail(tni_jj_run *x, const char *fmt, ...) {
  if (tni_jj_failed(x)) return tni_jj_of(TNI_JJ_UNDEFINED);
  va_list ap;
  va_start(ap, fmt);
  x->st = tni_vfail(x->err, TN_E_INVALID, x->name, fmt, ap);
  va_end(ap);
  tni_error_prefix(x->err, "%s: line %u", x->name, x->line);
  return tni_jj_of(TNI_JJ_UNDEFINED);
}

tni_jj_val tni_jj_limit(tni_jj_run *x, const char *what) {
  if (tni_jj_failed(x)) return tni_jj_of(TNI_JJ_UNDEFINED);
  x->st = tni_fail(x->err, TN_E_LIMIT, x->name, "%s: line %u: %s", x->name, x->line, what);
  return tni_jj_of(TNI_JJ_UNDEFINED);
}

bool tni_jj_step(tni_jj_run *x, uint64_t n) {
  if (tni_jj_failed(x)) return false;
  if (x->steps < n) {
    tni_jj_limit(x, "the template takes too many steps");
    return false;
  }
  x->steps -= n;
  return true;
}

bool tni_jj_enter(tni_jj_run *x) {
  if (!tni_jj_step(x, 1)) return false;
  if (x->depth >= TNI_JJ_DEPTH) {
    tni_jj_limit(x, "expressions, calls or values are nested too deep");
    return false;
  }
  x->depth++;
  return true;
}

void tni_jj_leave(tni_jj_run *x) { x->depth--; }

void *tni_jj_alloc(tni_jj_run *x, size_t count, size_t size) {
  size_t bytes;
  if (tni_jj_failed(x)) return NULL;
  if (!tni_mul_size(count ? count : 1, size, &bytes) || bytes > x->memory) {
    tni_jj_limit(x, "the template makes values of too many bytes");
    return NULL;
  }
  x->memory -= bytes;
  void *p = tni_arena_alloc(x->arena, bytes, 8);
  if (!p) x->st = tni_fail_memory(x->err, x->name);
  return p;
}

/* --- strings --- */

tni_jj_val tni_jj_text(tni_jj_run *x, const char *v, const uint8_t *m, size_t n) {
  tni_jj_str *s = tni_jj_alloc(x, 1, sizeof *s);
  if (!s) return tni_jj_of(TNI_JJ_UNDEFINED);
  *s = (tni_jj_str){v, m, n};
  return (tni_jj_val){.type = TNI_JJ_STR, .s = s};
}

tni_jj_val tni_jj_literal(tni_jj_run *x, const char *s) { return tni_jj_text(x, s, NULL, strlen(s)); }

bool tni_jj_str_is(const tni_jj_str *s, const char *t) { return s->n == strlen(t) && memcmp(s->v, t, s->n) == 0; }

bool tni_jj_str_same(const tni_jj_str *a, const tni_jj_str *b) {
  return a->n == b->n && (!a->n || memcmp(a->v, b->v, a->n) == 0);
}

static bool grow(tni_jj_run *x, tni_jj_buf *b, size_t n) {
  if (tni_jj_failed(x)) return false;
  if (b->most && n > b->most - b->n) {
    tni_jj_limit(x, "the text is too long");
    return false;
  }
  if (b->v && n <= b->cap - b->n) return true;
  size_t cap = b->cap ? b->cap : 32;
  while (cap - b->n < n) cap *= 2; /* memory is bounded long before this overflows */
  char *v = tni_jj_alloc(x, cap, 1);
  uint8_t *m = tni_jj_alloc(x, cap, 1);
  if (!v || !m) return false;
  if (b->n) {
    memcpy(v, b->v, b->n);
    memcpy(m, b->m, b->n);
  }
  b->v = v;
  b->m = m;
  b->cap = cap;
  return true;
}

void tni_jj_put(tni_jj_run *x, tni_jj_buf *b, const char *v, const uint8_t *m, size_t n) {
  if (!n || !tni_jj_step(x, n / 64) || !grow(x, b, n)) return;
  memcpy(b->v + b->n, v, n);
  if (m)
    memcpy(b->m + b->n, m, n);
  else
    memset(b->m + b->n, 1, n);
  b->n += n;
}

void tni_jj_put_as(tni_jj_run *x, tni_jj_buf *b, const char *v, size_t n, bool mine) {
  if (!n || !grow(x, b, n)) return;
  memcpy(b->v + b->n, v, n);
  memset(b->m + b->n, mine, n);
  b->n += n;
}

void tni_jj_put_cp(tni_jj_run *x, tni_jj_buf *b, uint32_t cp, bool mine) {
  char c[4];
  tni_jj_put_as(x, b, c, tni_utf8_put(cp, c), mine);
}

tni_jj_val tni_jj_buf_val(tni_jj_run *x, const tni_jj_buf *b) {
  return tni_jj_text(x, b->n ? b->v : "", b->n ? b->m : NULL, b->n);
}

/* --- lists and dicts --- */

tni_jj_val tni_jj_list_of(tni_jj_run *x, const tni_jj_val *v, size_t n, tni_jj_kind kind) {
  tni_jj_list *l = tni_jj_alloc(x, 1, sizeof *l);
  if (!l) return tni_jj_of(TNI_JJ_UNDEFINED);
  *l = (tni_jj_list){.v = v, .n = n};
  return (tni_jj_val){.type = TNI_JJ_LIST, .kind = (uint8_t)kind, .l = l};
}

tni_jj_val tni_jj_view(tni_jj_run *x, const tni_jj_val *v, size_t n, const char *type, const tni_jj_list *bounds) {
  const tni_jj_val view = tni_jj_list_of(x, v, n, TNI_JJ_OF_VIEW);
  if (tni_jj_failed(x)) return view;
  view.l->type = type;
  view.l->bounds = bounds;
  return view;
}

tni_jj_val tni_jj_pair(tni_jj_run *x, tni_jj_val a, tni_jj_val b) {
  tni_jj_val *v = tni_jj_alloc(x, 2, sizeof *v);
  if (!v) return tni_jj_of(TNI_JJ_UNDEFINED);
  v[0] = a;
  v[1] = b;
  return tni_jj_list_of(x, v, 2, TNI_JJ_OF_TUPLE);
}

void tni_jj_push(tni_jj_run *x, tni_jj_items *l, tni_jj_val v) {
  if (!tni_jj_step(x, 1)) return;
  if (l->n == l->cap) {
    size_t cap = l->cap ? l->cap * 2 : 8;
    tni_jj_val *grown = tni_jj_alloc(x, cap, sizeof *grown);
    if (!grown) return;
    if (l->n) memcpy(grown, l->v, l->n * sizeof *grown);
    l->v = grown;
    l->cap = cap;
  }
  l->v[l->n++] = v;
}

tni_jj_val tni_jj_dict_new(tni_jj_run *x) {
  tni_jj_dict *d = tni_jj_alloc(x, 1, sizeof *d);
  return d ? (tni_jj_val){.type = TNI_JJ_DICT, .d = d} : tni_jj_of(TNI_JJ_UNDEFINED);
}

static size_t find_key(tni_jj_run *x, const tni_jj_dict *d, tni_jj_val key) {
  if (!tni_jj_step(x, d->n / 16)) return SIZE_MAX;
  for (size_t i = 0; i < d->n; i++) {
    const tni_jj_val k = d->keys[i];
    if (k.type == TNI_JJ_STR && key.type == TNI_JJ_STR ? tni_jj_str_same(k.s, key.s)
                                                       : k.type != TNI_JJ_STR && tni_jj_equal(x, k, key))
      return i;
  }
  return SIZE_MAX;
}

void tni_jj_dict_set(tni_jj_run *x, tni_jj_dict *d, tni_jj_val key, tni_jj_val v) {
  if (!tni_jj_hashable(key)) {
    tni_jj_fail(x, "a key of a dict cannot be a %s", tni_jj_type_name(key));
    return;
  }
  const size_t at = find_key(x, d, key);
  if (tni_jj_failed(x)) return;
  if (at != SIZE_MAX) {
    d->values[at] = v;
    return;
  }
  if (d->n == d->cap) {
    const size_t cap = d->cap ? d->cap * 2 : 4;
    tni_jj_val *keys = tni_jj_alloc(x, cap, sizeof *keys), *values = tni_jj_alloc(x, cap, sizeof *values);
    if (!keys || !values) return;
    if (d->n) {
      memcpy(keys, d->keys, d->n * sizeof *keys);
      memcpy(values, d->values, d->n * sizeof *values);
    }
    d->keys = keys;
    d->values = values;
    d->cap = cap;
  }
  d->keys[d->n] = key;
  d->values[d->n++] = v;
}

const tni_jj_val *tni_jj_dict_get(tni_jj_run *x, const tni_jj_dict *d, tni_jj_val key) {
  const size_t at = find_key(x, d, key);
  return at == SIZE_MAX ? NULL : &d->values[at];
}

const tni_jj_val *tni_jj_dict_name(const tni_jj_dict *d, const tni_jj_str *key) {
  for (size_t i = 0; i < d->n; i++)
    if (d->keys[i].type == TNI_JJ_STR && tni_jj_str_same(d->keys[i].s, key)) return &d->values[i];
  return NULL;
}
