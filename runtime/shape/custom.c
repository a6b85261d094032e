/* SPDX-License-Identifier: Apache-2.0
 *
 * A rule is read anew for each node: operands bind names, results are expressions of them.
 */
#include "runtime/shape/custom.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 32, MAX_NEST = 16 };

/* A name and what it stands for: one dim, or (n_run not TNI_RANK_UNKNOWN) a run of them. */
typedef struct binding {
  const char *name;
  size_t length;
  tn_expr dim;
  const tn_expr *run;
  uint32_t n_run;
} binding;

typedef struct reader {
  tni_infer *in;
  const char *rule, *at;
  binding names[MAX_NAMES];
  uint32_t n_names, nest;
  bool unknown; /* an operand's rank is not known: nothing is said of results */
} reader;

static tn_status bad_rule(const reader *r) {
  return tni_fail(r->in->err, TN_E_INTERNAL, r->in->node->pub.name,
                  "the shape rule of %s.%s, \"%s\", does not read at \"%.20s\"", r->in->node->pub.domain,
                  r->in->node->type, r->rule, r->at);
}

static bool take(reader *r, const char *text) {
  while (*r->at == ' ') r->at++;
  const size_t n = strlen(text);
  if (strncmp(r->at, text, n) != 0) return false;
  r->at += n;
  return true;
}

/* A C identifier; 0: none. */
static size_t name_at(reader *r) {
  size_t n = 0;
  while (*r->at == ' ') r->at++;
  if (isalpha((unsigned char)*r->at) || *r->at == '_')
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
  return n;
}

static binding *find_name(reader *r, const char *name, size_t n) {
  for (uint32_t i = 0; i < r->n_names; i++)
    if (r->names[i].length == n && memcmp(r->names[i].name, name, n) == 0) return &r->names[i];
  return NULL;
}

static binding *add_name(reader *r, const char *name, size_t n) {
  if (r->n_names == MAX_NAMES) return NULL;
  r->names[r->n_names] = (binding){.name = name, .length = n, .dim = TNI_EXPR_NONE, .n_run = TNI_RANK_UNKNOWN};
  return &r->names[r->n_names++];
}

/* --- operands ---------------------------------------------------------------------------------------------------- */

static tn_status same_dim(reader *r, uint32_t operand, const char *name, size_t n, tn_expr *mine, tn_expr other) {
  bool ok = true;
  *mine = tni_rule_same_dim(r->in, *mine, other, &ok);
  return ok ? TN_OK : tni_rule_fail(r->in, "operand %u has another '%.*s'", operand, (int)n, name);
}

/* dims[*d] and on, as the rule's next entry says; after: entries that follow it in this operand. */
static tn_status bind_entry(reader *r, uint32_t operand, const tn_expr *dims, uint32_t rank, uint32_t after,
                            uint32_t *d) {
  const size_t n = name_at(r);
  const char *name = r->at;
  r->at += n;
  if (n && take(r, "...")) {
    const uint32_t count = rank - *d - after;
    binding *b = find_name(r, name, n);
    if (b && (b->n_run == TNI_RANK_UNKNOWN || b->n_run != count))
      return tni_rule_fail(r->in, "operand %u has another '%.*s...'", operand, (int)n, name);
    if (!b && !(b = add_name(r, name, n))) return bad_rule(r);
    for (uint32_t i = 0; b->run && i < count; i++) {
      tn_expr one = b->run[i];
      tn_status st = same_dim(r, operand, name, n, &one, dims[*d + i]);
      if (st != TN_OK) return st;
    }
    b->run = dims + *d;
    b->n_run = count;
    *d += count;
    return TN_OK;
  }
  if (n) {
    binding *b = find_name(r, name, n);
    if (b && b->n_run != TNI_RANK_UNKNOWN) return bad_rule(r);
    if (b) return same_dim(r, operand, name, n, &b->dim, dims[(*d)++]);
    if (!(b = add_name(r, name, n))) return bad_rule(r);
    b->dim = dims[(*d)++];
    return TN_OK;
  }
  char *end;
  const long long v = strtoll(r->at, &end, 10);
  if (end == r->at) return bad_rule(r);
  tn_expr mine = tni_rule_const(r->in, v);
  tn_status st = same_dim(r, operand, r->at, (size_t)(end - r->at), &mine, dims[(*d)++]);
  r->at = end;
  return st;
}

/* Entries up to the bracket's end; *run: one of them is a run. */
static uint32_t count_entries(const reader *r, bool *run) {
  uint32_t n = 1;
  const char *s = r->at;
  while (*s == ' ') s++;
  *run = false;
  if (*s == ']') return 0;
  for (; *s && *s != ']'; s++) {
    n += *s == ',';
    *run = *run || strncmp(s, "...", 3) == 0;
  }
  return n;
}

static tn_status read_operand(reader *r, uint32_t i, bool optional) {
  const tni_value *v = tni_rule_in(r->in, i), *ranked = tni_rule_ranked(r->in, i);
  bool run;
  uint32_t d = 0, n = count_entries(r, &run);
  if (!v && !optional) return tni_rule_fail(r->in, "operand %u is missing", i);
  if (!ranked) { /* absent, or nothing is known of it */
    r->unknown = r->unknown || v;
    const char *end = strchr(r->at, ']');
    if (!end) return bad_rule(r);
    r->at = end + 1;
    return TN_OK;
  }
  const uint32_t rank = ranked->pub.rank, least = n - run;
  if (run ? rank < least : rank != n)
    return tni_rule_fail(r->in, "operand %u has rank %u, not %u%s", i, rank, least, run ? " or more" : "");
  tn_status st = TN_OK;
  for (uint32_t k = 0; st == TN_OK && k < n; k++) {
    if (k && !take(r, ",")) return bad_rule(r);
    st = bind_entry(r, i, ranked->pub.dims, rank, n - 1 - k, &d);
  }
  return st != TN_OK || take(r, "]") ? st : bad_rule(r);
}

static tn_status read_operands(reader *r) {
  uint32_t i = 0;
  if (take(r, "->")) return r->in->node->pub.n_in ? tni_rule_fail(r->in, "it has operands, and takes none") : TN_OK;
  do {
    const bool optional = take(r, "?");
    if (optional && take(r, "...")) {
      i = UINT16_MAX;
      break;
    }
    if (!take(r, "[")) return bad_rule(r);
    tn_status st = read_operand(r, i++, optional);
    if (st != TN_OK) return st;
  } while (take(r, ","));
  if (!take(r, "->")) return bad_rule(r);
  return r->in->node->pub.n_in <= i ? TN_OK : tni_rule_fail(r->in, "it takes %u operands at most", i);
}

/* --- results ----------------------------------------------------------------------------------------------------- */

static bool read_sum(reader *r, tn_expr *out);

static bool read_atom(reader *r, tn_expr *out) {
  const size_t n = name_at(r);
  if (n) {
    const binding *b = find_name(r, r->at, n);
    char name[128];
    if (b && b->n_run != TNI_RANK_UNKNOWN) return false;
    if (n >= sizeof name) return false;
    memcpy(name, r->at, n);
    name[n] = '\0';
    const tn_attr *a = b ? NULL : tni_attr(&r->in->node->pub, name);
    if (!b && (!a || a->type != TN_ATTR_INT)) return false;
    *out = b ? b->dim : tni_rule_const(r->in, a->u.i);
    r->at += n;
    return true;
  }
  if (take(r, "(")) {
    if (++r->nest > MAX_NEST || !read_sum(r, out) || !take(r, ")")) return false;
    r->nest--;
    return true;
  }
  char *end;
  const long long v = strtoll(r->at, &end, 10);
  if (end == r->at) return false;
  *out = tni_rule_const(r->in, v);
  r->at = end;
  return true;
}

static bool read_product(reader *r, tn_expr *out) {
  tni_exprs *x = r->in->x;
  if (!read_atom(r, out)) return false;
  for (;;) {
    tn_expr b;
    if (take(r, "*")) {
      if (!read_atom(r, &b)) return false;
      *out = tni_ex_mul(x, *out, b);
    } else if (take(r, "/")) {
      if (!read_atom(r, &b)) return false;
      const tn_expr up = tni_ex_sub(x, b, tni_rule_const(r->in, 1));
      *out = tni_ex_floordiv(x, tni_ex_add(x, *out, up), b);
    } else {
      return true;
    }
  }
}

static bool read_sum(reader *r, tn_expr *out) {
  tni_exprs *x = r->in->x;
  tn_expr b;
  if (!read_product(r, out)) return false;
  for (;;) {
    if (take(r, "+")) {
      if (!read_product(r, &b)) return false;
      *out = tni_ex_add(x, *out, b);
    } else if (take(r, "-")) {
      if (!read_product(r, &b)) return false;
      *out = tni_ex_sub(x, *out, b);
    } else {
      return true;
    }
  }
}

static bool read_run(reader *r, tn_expr *dims, uint32_t *rank, bool *fits) {
  const size_t n = name_at(r);
  const binding *b = n && strncmp(r->at + n, "...", 3) == 0 ? find_name(r, r->at, n) : NULL;
  if (!b || b->n_run == TNI_RANK_UNKNOWN) return false;
  r->at += n + 3;
  *fits = *rank + b->n_run <= TN_MAX_RANK;
  for (uint32_t i = 0; *fits && i < b->n_run; i++) dims[(*rank)++] = b->run[i];
  return true;
}

/* The dtype before a bracket, or that of the first operand. */
static bool read_dtype(reader *r, uint32_t *dtype) {
  const size_t n = name_at(r);
  const tni_value *first = tni_rule_in(r->in, 0);
  *dtype = first ? first->pub.dtype : TN_DT_UNDEFINED;
  for (uint32_t dt = 1; n && dt < TN_DT_COUNT; dt++) {
    const char *name = tni_dtype_name(dt);
    if (strlen(name) != n || memcmp(name, r->at, n) != 0) continue;
    *dtype = dt;
    r->at += n;
    return true;
  }
  return !n;
}

static tn_status read_result(reader *r, uint32_t o) {
  tn_expr dims[TN_MAX_RANK];
  uint32_t rank = 0, dtype;
  if (!read_dtype(r, &dtype) || !take(r, "[")) return bad_rule(r);
  while (!take(r, "]")) {
    bool fits = rank < TN_MAX_RANK;
    if (rank && !take(r, ",")) return bad_rule(r);
    if (!read_run(r, dims, &rank, &fits) && (!fits || !read_sum(r, &dims[rank++]))) return bad_rule(r);
    if (!fits) return tni_rule_fail(r->in, "result %u has a rank over %d", o, TN_MAX_RANK);
    int64_t v;
    for (uint32_t i = 0; i < rank; i++)
      if (dims[i] != TNI_EXPR_NONE && tni_ex_is_const(r->in->x, dims[i], &v) && v < 0)
        return tni_rule_fail(r->in, "dim %u of result %u would be %lld", i, o, (long long)v);
  }
  return tni_rule_set(r->in, o, dtype, rank, dims);
}

tn_status tni_custom_shape(tni_infer *in, const char *rule) {
  reader r = {.in = in, .rule = rule, .at = rule};
  tn_status st = read_operands(&r);
  uint32_t o = 0;
  if (st != TN_OK) return st;
  if (r.unknown) {
    for (; st == TN_OK && o < in->node->pub.n_out; o++) st = tni_rule_set_unknown(in, o, TN_DT_UNDEFINED);
    return st;
  }
  do st = read_result(&r, o++);
  while (st == TN_OK && take(&r, ","));
  if (st == TN_OK && *r.at) return bad_rule(&r);
  if (st == TN_OK && in->node->pub.n_out > o)
    return tni_rule_fail(in, "it has %u results, not %u", o, in->node->pub.n_out);
  return st;
}
