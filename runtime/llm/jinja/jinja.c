/* SPDX-License-Identifier: Apache-2.0
 *
 * A template read and run: JSON to values, bounds, what comes out.
 */
#include "runtime/llm/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/llm/jinja/scope.h"

enum { STEPS = 20000000, TREE_BYTES_PER_BYTE = 1024 };
#define MEMORY ((size_t)512 << 20)
#define OUTPUT ((size_t)64 << 20)

void tni_jinja_destroy(tni_jinja *t) {
  if (!t) return;
  tni_arena_destroy(t->arena);
  free(t);
}

/* Ends of lines are "\n", and one at the very end is left out. */
static size_t normalized(const char *from, size_t n, char *to) {
  size_t o = 0;
  for (size_t i = 0; i < n; i++) {
    if (from[i] == '\r' && i + 1 < n && from[i + 1] == '\n') continue;
    to[o++] = from[i] == '\r' ? '\n' : from[i];
  }
  return o && to[o - 1] == '\n' ? o - 1 : o;
}

static tn_status read_template(tni_jinja *t, const char *text, size_t n, const char *name, tn_error *err) {
  t->name = tni_arena_strdup(t->arena, name);
  t->text = tni_arena_alloc(t->arena, n + 1, 1);
  if (!t->name || !t->text) return tni_fail_memory(err, name);
  t->n = normalized(text, n, t->text);
  tni_jj_run x = {
      .arena = t->arena, .err = err, .name = t->name, .steps = STEPS, .memory = (n + 1024) * TREE_BYTES_PER_BYTE};
  tni_jj_tokens tokens = {0};
  tni_jj_lex(&x, t->text, t->n, &tokens);
  if (tni_jj_failed(&x)) return x.st;
  tni_jj_parser p = {.x = &x, .at = tokens.v};
  x.line = 1;
  t->root = tni_jj_parse_template(&p);
  return x.st;
}

tn_status tni_jinja_parse(const char *text, size_t n, const char *name, tni_jinja **out, tn_error *err) {
  if (n > TNI_JINJA_BYTES)
    return tni_fail(err, TN_E_LIMIT, name, "%s: a template of %zu bytes, at most %d", name, n, TNI_JINJA_BYTES);
  const size_t bad = tni_utf8_valid(text, n);
  if (bad < n) return tni_fail(err, TN_E_INVALID, name, "%s: not valid UTF-8 at byte %zu", name, bad);
  tni_jinja *t = calloc(1, sizeof *t);
  if (t) t->arena = tni_arena_create();
  tn_status st = t && t->arena ? read_template(t, text, n, name, err) : tni_fail_memory(err, name);
  if (st != TN_OK) {
    if (t && t->arena)
      tni_jinja_destroy(t);
    else
      free(t);
    return st;
  }
  *out = t;
  return TN_OK;
}

/* --- values --- */

/* JSON to a value. mark: [longest] what each byte of its strings is. */
static tni_jj_val value_of(tni_jj_run *x, const json_t *j, bool mine);

static tni_jj_val string_of(tni_jj_run *x, const char *s, size_t n, bool mine) {
  char *v = tni_jj_alloc(x, n, 1);
  uint8_t *m = mine ? NULL : tni_jj_alloc(x, n, 1); /* zeroed: none of it is the template's */
  if (!v || (!mine && !m)) return tni_jj_of(TNI_JJ_UNDEFINED);
  if (n) memcpy(v, s, n);
  return tni_jj_text(x, v, m, n);
}

static tni_jj_val object_of(tni_jj_run *x, const json_t *j, bool mine) {
  const tni_jj_val d = tni_jj_dict_new(x);
  for (void *at = json_object_iter((json_t *)j); at && !tni_jj_failed(x); at = json_object_iter_next((json_t *)j, at)) {
    const char *key = json_object_iter_key(at);
    const tni_jj_val k = string_of(x, key, strlen(key), mine), v = value_of(x, json_object_iter_value(at), mine);
    if (!tni_jj_failed(x)) tni_jj_dict_set(x, d.d, k, v);
  }
  return d;
}

static tni_jj_val value_of(tni_jj_run *x, const json_t *j, bool mine) {
  tni_jj_val v = tni_jj_of(TNI_JJ_NONE);
  tni_jj_items l = {0};
  if (!tni_jj_enter(x)) return v;
  switch (json_typeof(j)) {
    case JSON_OBJECT:
      v = object_of(x, j, mine);
      break;
    case JSON_ARRAY:
      for (size_t i = 0; i < json_array_size(j) && !tni_jj_failed(x); i++)
        tni_jj_push(x, &l, value_of(x, json_array_get(j, i), mine));
      v = tni_jj_items_val(x, &l, TNI_JJ_OF_LIST);
      break;
    case JSON_STRING:
      v = string_of(x, json_string_value(j), json_string_length(j), mine);
      break;
    case JSON_INTEGER:
      v = tni_jj_int(json_integer_value(j));
      break;
    case JSON_REAL:
      v = tni_jj_float(json_real_value(j));
      break;
    case JSON_TRUE:
    case JSON_FALSE:
      v = tni_jj_bool(json_is_true(j));
      break;
    default:
      break;
  }
  tni_jj_leave(x);
  return v;
}

static void bind_all(tni_jj_run *x, const json_t *vars, bool mine) {
  if (!vars || tni_jj_failed(x)) return;
  const tni_jj_val d = object_of(x, vars, mine);
  for (size_t i = 0; !tni_jj_failed(x) && i < d.d->n; i++) tni_jj_bind(x, x->root, d.d->keys[i].s, d.d->values[i]);
}

void tni_jinja_text_finish(tni_jinja_text *t) {
  free(t->v);
  free(t->mine);
  *t = (tni_jinja_text){0};
}

static tn_status give(const tni_jj_buf *b, tni_jinja_text *out, const char *name, tn_error *err) {
  tni_jinja_text t = {.v = malloc(b->n + 1), .mine = malloc(b->n + 1), .n = b->n};
  if (!t.v || !t.mine) {
    tni_jinja_text_finish(&t);
    return tni_fail_memory(err, name);
  }
  if (b->n) {
    memcpy(t.v, b->v, b->n);
    memcpy(t.mine, b->m, b->n);
  }
  t.v[b->n] = 0;
  *out = t;
  return TN_OK;
}

tn_status tni_jinja_render(const tni_jinja *t, const json_t *vars, const json_t *trusted, const tni_jinja_opts *o,
                           tni_jinja_text *out, tn_error *err) {
  static const tni_jinja_opts usual;
  if (!o) o = &usual;
  tni_jj_buf text = {.most = o->output ? o->output : OUTPUT};
  tni_jj_run x = {.arena = tni_arena_create(), .err = err, .name = t->name, .line = 1, .out = &text};
  if (!x.arena) return tni_fail_memory(err, t->name);
  x.steps = o->steps ? o->steps : STEPS;
  x.memory = o->memory ? o->memory : MEMORY;
  x.now = o->now ? o->now : (int64_t)time(NULL);
  x.root = x.scope = tni_jj_scope_new(&x, NULL);
  bind_all(&x, vars, false);
  bind_all(&x, trusted, true);
  if (!tni_jj_failed(&x)) (void)tni_jj_exec(&x, t->root);
  const tn_status st = tni_jj_failed(&x) ? x.st : give(&text, out, t->name, err);
  tni_arena_destroy(x.arena);
  return st;
}
