/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/graph/priv.h"

static const char *const type_names[] = {"NONE",   "INT",    "FLOAT", "STRING", "INTS",
                                         "FLOATS", "TENSOR", "GRAPH", "STRINGS"};

static const char *type_name(uint32_t type) {
  return type < sizeof type_names / sizeof *type_names ? type_names[type] : "an unknown type";
}

static const void *dup_list(tni_arena *a, const void *p, uint64_t n, size_t size) {
  void *d = tni_arena_array(a, n, size, 8);
  if (d && n) memcpy(d, p, n * size);
  return d;
}

static const char *const *dup_strings(tni_arena *a, const char *const *s, uint64_t n) {
  const char **d = TNI_NEW_ARRAY(a, const char *, n);
  for (uint64_t i = 0; d && i < n; i++) {
    d[i] = tni_arena_strdup(a, s[i]);
    if (!d[i]) return NULL;
  }
  return d;
}

static bool copy_one(tni_arena *a, const tni_raw_attr *src, tni_raw_attr *dst) {
  *dst = *src;
  dst->a.h = (tn_hdr)TN_HDR(tn_attr);
  dst->name = tni_arena_strdup(a, src->name);
  if (!dst->name) return false;
  dst->a.name = dst->name;
  switch (src->a.type) {
    case TN_ATTR_STRING:
      dst->a.u.s = tni_arena_strndup(a, src->a.u.s, src->a.n);
      return dst->a.u.s != NULL;
    case TN_ATTR_INTS:
      dst->a.u.p = dup_list(a, src->a.u.ints, src->a.n, sizeof(int64_t));
      return dst->a.u.p != NULL;
    case TN_ATTR_FLOATS:
      dst->a.u.p = dup_list(a, src->a.u.floats, src->a.n, sizeof(float));
      return dst->a.u.p != NULL;
    case TN_ATTR_STRINGS:
      dst->a.u.strings = dup_strings(a, src->a.u.strings, src->a.n);
      return dst->a.u.p != NULL;
    case TN_ATTR_TENSOR:
      dst->a.n = 1;
      dst->a.u.p = src->tensor;
      return true;
    case TN_ATTR_GRAPH:
      dst->graphs = (tni_graph **)dup_list(a, src->graphs, src->n_graphs, sizeof *src->graphs);
      dst->a.n = src->n_graphs;
      dst->a.u.p = src->n_graphs ? src->graphs[0] : NULL;
      return dst->graphs != NULL;
    default:
      dst->a.n = 1;
      return true;
  }
}

const tni_raw_attr *tni_raw_copy(tni_arena *a, const tni_raw_attr *raw, uint32_t n) {
  tni_raw_attr *copy = TNI_NEW_ARRAY(a, tni_raw_attr, n);
  for (uint32_t i = 0; copy && i < n; i++)
    if (!copy_one(a, &raw[i], &copy[i])) return NULL;
  return copy;
}

static const tni_attr_spec *find_spec(const tni_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_attrs; i++)
    if (strcmp(op->attrs[i].name, name) == 0) return &op->attrs[i];
  return NULL;
}

/* Which of words, "a|b|c", s is, counted from 1; 0: none. Activations' names are written in small letters too. */
static uint32_t find_word(const char *s, size_t n, const char *words, bool any_case) {
  uint32_t i = 1;
  for (const char *w = words;; w++, i++) {
    const size_t len = strcspn(w, "|");
    if (len == n && (any_case ? strncasecmp(w, s, n) : strncmp(w, s, n)) == 0) return i;
    w += len;
    if (!*w) return 0;
  }
}

enum { WORD_BITS = 5, MAX_WORDS = 6 }; /* of STRINGS in tn_attr.word */

/* tn_attr.word of an attribute that fits s. */
static uint32_t word_of(const tni_attr_spec *s, const tn_attr *a) {
  uint32_t all = 0;
  if (!s->words) return 0;
  if (a->type == TN_ATTR_STRING) return a->u.s ? find_word(a->u.s, (size_t)a->n, s->words, false) : 0;
  for (uint32_t i = 0; i < MAX_WORDS && i < a->n; i++)
    all |= find_word(a->u.strings[i], strlen(a->u.strings[i]), s->words, true) << WORD_BITS * i;
  return all;
}

static bool word_fits(const tni_attr_spec *s, const char *word, size_t len, char *why, size_t n) {
  if (find_word(word, len, s->words, s->type == TN_ATTR_STRINGS)) return true;
  snprintf(why, n, "attribute '%s' is '%.*s', must be one of %s", s->name, len < 40 ? (int)len : 40, word, s->words);
  return false;
}

static bool number_fits(const tni_attr_spec *s, int64_t v, char *why, size_t n) {
  if (v >= s->lo && v <= s->hi) return true;
  if (s->hi == INT64_MAX)
    snprintf(why, n, "attribute '%s' is %lld, must be at least %lld", s->name, (long long)v, (long long)s->lo);
  else
    snprintf(why, n, "attribute '%s' is %lld, must be in %lld to %lld", s->name, (long long)v, (long long)s->lo,
             (long long)s->hi);
  return false;
}

bool tni_attr_fits(const tni_attr_spec *s, const tn_attr *a, char *why, size_t n) {
  bool ok = s->type == a->type;
  if (!ok) snprintf(why, n, "attribute '%s' is %s, must be %s", s->name, type_name(a->type), type_name(s->type));
  if (ok && s->words && s->type == TN_ATTR_STRING) return word_fits(s, a->u.s, (size_t)a->n, why, n);
  for (uint64_t i = 0; ok && s->words && i < a->n; i++)
    ok = word_fits(s, a->u.strings[i], strlen(a->u.strings[i]), why, n);
  if (!ok || s->lo == s->hi) return ok;
  if (s->type == TN_ATTR_INT) return number_fits(s, a->u.i, why, n);
  for (uint64_t i = 0; ok && i < a->n; i++) ok = number_fits(s, a->u.ints[i], why, n);
  return ok;
}

static tn_status check_raw(const tni_node *n, tn_id id, const tni_raw_attr *r, tn_error *err) {
  const tni_attr_spec *s = find_spec(n->op, r->name);
  if (!s)
    return tni_fail_node(err, TN_E_INVALID, n, id, "attribute '%s' is not one of %s (opset %lld)", r->name, n->type,
                         (long long)n->version);
  if (s->type == TN_ATTR_NONE)
    return tni_fail_node(err, TN_E_UNSUPPORTED, n, id, "attribute '%s' is not supported", r->name);
  char why[512];
  if (!tni_attr_fits(s, &r->a, why, sizeof why)) return tni_fail_node(err, TN_E_INVALID, n, id, "%s", why);
  if (s->type == TN_ATTR_GRAPH && r->n_graphs != 1)
    return tni_fail_node(err, TN_E_INVALID, n, id, "attribute '%s' has %u graphs, must have one", r->name, r->n_graphs);
  if (s->type == TN_ATTR_TENSOR && !r->tensor)
    return tni_fail_node(err, TN_E_INVALID, n, id, "attribute '%s' has no tensor", r->name);
  if (s->type == TN_ATTR_TENSOR) {
    tn_status st = tni_tensor_check(r->tensor, why, sizeof why);
    if (st != TN_OK) return tni_fail_node(err, st, n, id, "attribute '%s': %s", r->name, why);
  }
  for (const tni_raw_attr *other = n->raw; other < r; other++)
    if (strcmp(other->name, r->name) == 0)
      return tni_fail_node(err, TN_E_INVALID, n, id, "attribute '%s' stands twice", r->name);
  return TN_OK;
}

static void set_default(const tni_attr_spec *s, tn_attr *a) {
  *a = (tn_attr){.h = TN_HDR(tn_attr), .type = s->type, .name = s->name};
  if (s->absent) return;
  if (s->type == TN_ATTR_INT) {
    a->n = 1;
    a->u.i = s->dflt.i;
  } else if (s->type == TN_ATTR_FLOAT) {
    a->n = 1;
    a->u.f = s->dflt.f;
  } else if (s->type == TN_ATTR_STRING && s->dflt.s) {
    a->n = strlen(s->dflt.s);
    a->u.s = s->dflt.s;
  }
}

tn_status tni_attrs_type(tni_arena *arena, tni_node *n, tn_id id, tn_error *err) {
  const tni_op *op = n->op;
  for (uint32_t i = 0; i < n->n_raw; i++) {
    tn_status st = check_raw(n, id, &n->raw[i], err);
    if (st != TN_OK) return st;
  }
  tn_attr *attrs = TNI_NEW_ARRAY(arena, tn_attr, op->n_attrs);
  const tn_attr **ptrs = TNI_NEW_ARRAY(arena, const tn_attr *, op->n_attrs);
  if (!attrs || !ptrs) return tni_fail_memory(err, n->pub.name);
  for (uint32_t i = 0; i < op->n_attrs; i++) {
    const tni_attr_spec *s = &op->attrs[i];
    const tni_raw_attr *r = NULL;
    for (uint32_t k = 0; k < n->n_raw && !r; k++)
      if (strcmp(n->raw[k].name, s->name) == 0) r = &n->raw[k];
    if (!r && s->required)
      return tni_fail_node(err, TN_E_INVALID, n, id, "attribute '%s' is required and missing", s->name);
    if (r)
      attrs[i] = r->a;
    else
      set_default(s, &attrs[i]);
    attrs[i].word = word_of(s, &attrs[i]);
    ptrs[i] = &attrs[i];
  }
  n->pub.attr = ptrs;
  n->pub.n_attr = op->n_attrs;
  return TN_OK;
}

tn_status tni_attrs_untyped(tni_arena *arena, tni_node *n, tn_error *err) {
  const tn_attr **ptrs = TNI_NEW_ARRAY(arena, const tn_attr *, n->n_raw + 1);
  if (!ptrs) return tni_fail_memory(err, n->pub.name);
  for (uint32_t i = 0; i < n->n_raw; i++) ptrs[i] = &n->raw[i].a;
  n->pub.attr = ptrs;
  n->pub.n_attr = n->n_raw;
  return TN_OK;
}

#ifdef TNI_COUNT_LOOKUPS
static uint64_t lookup_count;
uint64_t tni_attr_lookups(void) { return __atomic_load_n(&lookup_count, __ATOMIC_RELAXED); }
static void count_lookup(void) { __atomic_fetch_add(&lookup_count, 1, __ATOMIC_RELAXED); }
#else
static void count_lookup(void) {}
#endif

const tn_attr *tni_attr(const tn_node *node, const char *name) {
  const tni_node *n = (const tni_node *)node;
  count_lookup();
  if (n->op) {
    for (uint32_t i = 0; i < n->op->n_attrs; i++)
      if (strcmp(n->op->attrs[i].name, name) == 0) return n->pub.attr[i];
    return NULL;
  }
  for (uint32_t i = 0; i < n->n_raw; i++)
    if (strcmp(n->raw[i].name, name) == 0) return &n->raw[i].a;
  return NULL;
}

static const tn_attr *typed_attr(const tn_node *n, const char *name, uint32_t type) {
  const tn_attr *a = tni_attr(n, name);
  return a && a->type == type ? a : NULL;
}

int64_t tni_attr_i(const tn_node *n, const char *name, int64_t dflt) {
  const tn_attr *a = typed_attr(n, name, TN_ATTR_INT);
  return a && a->n ? a->u.i : dflt;
}

double tni_attr_f(const tn_node *n, const char *name, double dflt) {
  const tn_attr *a = typed_attr(n, name, TN_ATTR_FLOAT);
  return a && a->n ? a->u.f : dflt;
}

const char *tni_attr_s(const tn_node *n, const char *name, const char *dflt) {
  const tn_attr *a = typed_attr(n, name, TN_ATTR_STRING);
  return a && a->u.s ? a->u.s : dflt;
}

uint32_t tni_attr_ints(const tn_node *n, const char *name, const int64_t **v) {
  const tn_attr *a = typed_attr(n, name, TN_ATTR_INTS);
  *v = a ? a->u.ints : NULL;
  return a ? (uint32_t)a->n : 0;
}

const tni_tensor *tni_attr_tensor(const tn_node *n, const char *name) {
  const tn_attr *a = typed_attr(n, name, TN_ATTR_TENSOR);
  return a ? a->u.p : NULL;
}
