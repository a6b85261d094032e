/* SPDX-License-Identifier: Apache-2.0
 *
 * Random expressions against exact arithmetic. Each is built twice: through the builders, and as a plain tree that is
 * evaluated in 128 bits at random points which obey the bounds and facts. One table serves a batch of expressions made
 * from each other, so that equal ids, sharing and comparisons between them occur.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/expr/expressions.h"
#include "tests/expr/test_expr.h"

__extension__ typedef __int128 wide;

enum { SYMBOLS = 5, BATCH = 64, POINTS = 8 };

typedef struct tree {
  tni_ex_kind kind;
  int a, b; /* indices of earlier trees */
  int64_t v;
  tn_expr e;
  bool fresh_facts; /* it and all it was made from were built under the facts that hold now */
} tree;

/* A value, or why there is none. size bounds what a term of the expanded polynomial may be: past 2^62, evaluation in 64
 * bits may overflow although the value fits. */
typedef struct exact {
  wide v;
  bool defined;
  double size;
} exact;

typedef struct batch {
  tni_exprs *x;
  tree t[BATCH];
  int n;
  int64_t lo[SYMBOLS], hi[SYMBOLS], point[POINTS][SYMBOLS];
  bool ordered, defined; /* s0 <= s1; s4 = s0 + 2*s2 */
  exact value[BATCH][POINTS];
} batch;

static uint64_t rng;
static long failures, checked_values, overflowed, none_built;

static uint64_t next(void) { /* splitmix64 */
  uint64_t z = (rng += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static int64_t between(int64_t lo, int64_t hi) { return lo + (int64_t)(next() % (uint64_t)(hi - lo + 1)); }

static void show(const batch *s, int i) {
  const tree *t = &s->t[i];
  static const char *const names[] = {"", "", "add", "mul", "floordiv", "mod", "min", "max", "exactdiv"};
  if (t->kind == TNI_EX_CONST) {
    printf("%lld", (long long)t->v);
  } else if (t->kind == TNI_EX_SYM) {
    printf("s%lld", (long long)t->v);
  } else {
    printf("%s(", t->kind == TNI_EX_ADD && t->v < 0 ? "sub" : names[t->kind]);
    show(s, t->a);
    printf(", ");
    show(s, t->b);
    printf(")");
  }
}

static void complain(const batch *s, const char *what, int i, int j, int point) {
  char text[512];
  if (failures++ >= 10) return;
  printf("\n  %s\n    a = ", what);
  show(s, i);
  tni_ex_print(s->x, s->t[i].e, text, sizeof text);
  printf("\n      = %s\n", text);
  if (j >= 0) {
    printf("    b = ");
    show(s, j);
    tni_ex_print(s->x, s->t[j].e, text, sizeof text);
    printf("\n      = %s\n", text);
  }
  for (int k = 0; k < SYMBOLS; k++) printf("    s%d in [%lld, %lld]", k, (long long)s->lo[k], (long long)s->hi[k]);
  if (point >= 0)
    for (int k = 0; k < SYMBOLS; k++) printf("    s%d = %lld", k, (long long)s->point[point][k]);
  printf("%s%s\n", s->ordered ? " s0<=s1" : "", s->defined ? " s4=s0+2*s2" : "");
}

static wide floor_wide(wide a, wide b) {
  wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static exact combine(const tree *t, exact a, exact b) {
  const wide limit = (wide)1 << 62;
  exact r = {.defined = a.defined && b.defined, .size = a.size + b.size};
  if (!r.defined) return r;
  switch (t->kind) {
    case TNI_EX_ADD:
      r.v = a.v + t->v * b.v;
      break;
    case TNI_EX_MUL:
      r.v = a.v * b.v;
      break;
    case TNI_EX_MIN:
      r.v = a.v < b.v ? a.v : b.v;
      break;
    case TNI_EX_MAX:
      r.v = a.v > b.v ? a.v : b.v;
      break;
    default:
      r.defined = b.v != 0 && (t->kind != TNI_EX_EXACTDIV || a.v % b.v == 0);
      if (!r.defined) return r;
      r.v = floor_wide(a.v, b.v);
      if (t->kind == TNI_EX_MOD) r.v = a.v - r.v * b.v;
  }
  if (r.v > limit || r.v < -limit) r.defined = false;
  if (t->kind != TNI_EX_ADD && t->kind != TNI_EX_MIN && t->kind != TNI_EX_MAX) r.size = a.size * b.size;
  return r;
}

/* Symbols: small, large, negative or wide ranges. */
static void choose_bounds(batch *s) {
  for (int i = 0; i < SYMBOLS; i++) {
    static const int64_t lows[] = {0, 1, 1, 0, -10, 2, -1000, 16};
    s->lo[i] = lows[next() % 8];
    s->hi[i] = s->lo[i] + between(0, next() % 3 ? 20 : 5000);
    char name[8];
    snprintf(name, sizeof name, "s%d", i);
    tn_id id = TN_NONE;
    CU_ASSERT_FATAL(tni_ex_is_sym(s->x, tni_ex_sym(s->x, name), &id) && id == (tn_id)i);
    CU_ASSERT_EQUAL_FATAL(tni_ex_bound(s->x, id, s->lo[i], s->hi[i]), TN_OK);
  }
  if (next() % 3 == 0 && s->hi[1] >= s->hi[0]) {
    s->ordered = true;
    if (s->lo[1] < s->lo[0]) s->ordered = false;
  }
}

static void choose_points(batch *s) {
  for (int p = 0; p < POINTS; p++) {
    for (int i = 0; i < SYMBOLS; i++) {
      uint64_t r = next() % 6;
      s->point[p][i] = r == 0 ? s->lo[i] : r == 1 ? s->hi[i] : between(s->lo[i], s->hi[i]);
    }
    int64_t *v = s->point[p];
    if (s->ordered && v[0] > v[1]) {
      int64_t t = v[0];
      v[0] = v[1] <= s->hi[0] && v[1] >= s->lo[0] ? v[1] : s->lo[0];
      v[1] = t <= s->hi[1] && t >= s->lo[1] ? t : s->hi[1];
    }
    if (s->defined) v[4] = v[0] + 2 * v[2];
  }
}

static exact leaf(const batch *s, const tree *t, const int64_t *point) {
  exact v = {.v = t->kind == TNI_EX_CONST ? t->v : point[t->v], .defined = true};
  v.size = 1 + (v.v < 0 ? -(double)v.v : (double)v.v);
  if (s->defined && t->kind == TNI_EX_SYM && t->v == 4) v.size += 3 * 10000.0; /* s0 + 2*s2 */
  return v;
}

static int put(batch *s, tree t) {
  for (int p = 0; p < POINTS; p++)
    s->value[s->n][p] = t.kind == TNI_EX_CONST || t.kind == TNI_EX_SYM
                            ? leaf(s, &t, s->point[p])
                            : combine(&t, s->value[t.a][p], s->value[t.b][p]);
  t.fresh_facts = t.kind == TNI_EX_CONST || t.kind == TNI_EX_SYM || (s->t[t.a].fresh_facts && s->t[t.b].fresh_facts);
  s->t[s->n] = t;
  return s->n++;
}

static int put_leaf(batch *s) {
  if (next() % 3) {
    int64_t k = (int64_t)(next() % SYMBOLS);
    char name[8];
    snprintf(name, sizeof name, "s%lld", (long long)k);
    return put(s, (tree){.kind = TNI_EX_SYM, .v = k, .e = tni_ex_sym(s->x, name)});
  }
  static const int64_t consts[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 64, -1, -2, -4, -7, 5, 1000};
  int64_t v = consts[next() % 16];
  return put(s, (tree){.kind = TNI_EX_CONST, .v = v, .e = tni_ex_const(s->x, v)});
}

static int put_op(batch *s, tni_ex_kind kind, int64_t sign, int a, int b) {
  tn_expr ea = s->t[a].e, eb = s->t[b].e, e;
  switch (kind) {
    case TNI_EX_ADD:
      e = sign > 0 ? tni_ex_add(s->x, ea, eb) : tni_ex_sub(s->x, ea, eb);
      break;
    case TNI_EX_MUL:
      e = tni_ex_mul(s->x, ea, eb);
      break;
    case TNI_EX_FLOORDIV:
      e = tni_ex_floordiv(s->x, ea, eb);
      break;
    case TNI_EX_MOD:
      e = tni_ex_mod(s->x, ea, eb);
      break;
    case TNI_EX_MIN:
      e = tni_ex_min(s->x, ea, eb);
      break;
    case TNI_EX_MAX:
      e = tni_ex_max(s->x, ea, eb);
      break;
    default:
      e = tni_ex_exactdiv(s->x, ea, eb);
      break;
  }
  return put(s, (tree){.kind = kind, .v = sign, .a = a, .b = b, .e = e});
}

static void check_values(batch *s, int i) {
  const tree *t = &s->t[i];
  int64_t lo, hi, got = 0;
  tni_ex_range(s->x, t->e, &lo, &hi);
  for (int p = 0; p < POINTS; p++) {
    const exact *v = &s->value[i][p];
    if (!v->defined) continue;
    checked_values++;
    tn_status st = tni_ex_eval(s->x, t->e, s->point[p], SYMBOLS, &got);
    overflowed += st != TN_OK;
    if (st != TN_OK ? v->size < 0x1p62 : got != (int64_t)v->v) complain(s, "value changed", i, -1, p);
    if ((lo != INT64_MIN && v->v < lo) || (hi != INT64_MAX && v->v > hi)) complain(s, "out of range", i, -1, p);
  }
}

static void check_round_trip(batch *s, int i) {
  char text[8192];
  if (!s->t[i].fresh_facts) return;
  size_t n = tni_ex_print(s->x, s->t[i].e, text, sizeof text);
  if (n < sizeof text && tni_ex_parse(s->x, text) != s->t[i].e) complain(s, "print and parse differ", i, -1, -1);
}

static void check_divides(batch *s, int i) {
  static const int64_t cs[] = {2, 3, 4, 8, -2, 12, 1, 0, 64};
  int64_t c = cs[next() % 9];
  int answer = tni_ex_divides(s->x, s->t[i].e, c);
  for (int p = 0; p < POINTS && answer >= 0; p++) {
    const exact *v = &s->value[i][p];
    if (v->defined && (c ? v->v % c == 0 : v->v == 0) != (answer == 1)) complain(s, "divides is wrong", i, -1, p);
  }
}

static void check_pair(batch *s, int i, int j) {
  int order = tni_ex_order(s->x, s->t[i].e, s->t[j].e);
  bool le = tni_ex_proves_le(s->x, s->t[i].e, s->t[j].e), same = s->t[i].e == s->t[j].e;
  for (int p = 0; p < POINTS; p++) {
    const exact *a = &s->value[i][p], *b = &s->value[j][p];
    if (!a->defined || !b->defined) continue;
    int real = a->v < b->v ? -1 : a->v > b->v;
    if (order != 2 && order != real) complain(s, "order is wrong", i, j, p);
    if (le && real > 0) complain(s, "proves_le is wrong", i, j, p);
    if (same && real != 0) complain(s, "equal ids, different values", i, j, p);
  }
}

static void check_last(batch *s) {
  int i = s->n - 1;
  if (s->t[i].e == TNI_EXPR_NONE) {
    none_built++;
    s->n--;
    return;
  }
  check_values(s, i);
  check_round_trip(s, i);
  check_divides(s, i);
  for (int k = 0; k < 3; k++) check_pair(s, i, (int)(next() % (uint64_t)s->n));
  for (int j = 0; j < i; j++)
    if (s->t[j].e == s->t[i].e) check_pair(s, i, j);
}

/* One random expression from what is there; exactdiv mostly of products that divide. */
static void grow(batch *s) {
  static const tni_ex_kind kinds[] = {TNI_EX_ADD, TNI_EX_ADD,      TNI_EX_ADD,     TNI_EX_MUL,
                                      TNI_EX_MUL, TNI_EX_FLOORDIV, TNI_EX_MOD,     TNI_EX_MIN,
                                      TNI_EX_MAX, TNI_EX_FLOORDIV, TNI_EX_EXACTDIV};
  tni_ex_kind kind = kinds[next() % 11];
  int a = (int)(next() % (uint64_t)s->n), b = (int)(next() % (uint64_t)s->n);
  if (kind == TNI_EX_EXACTDIV && next() % 4 && s->n + 2 < BATCH) {
    int product = put_op(s, TNI_EX_MUL, 1, a, b);
    check_last(s);
    if (s->n == product) return;
    a = product;
  }
  put_op(s, kind, next() % 2 ? 1 : -1, a, b);
  check_last(s);
}

/* Facts that arrive when half of the batch is built. The points obeyed them from the start. */
static void add_facts(batch *s) {
  if (s->ordered) CU_ASSERT_EQUAL(tni_ex_assume_le(s->x, tni_ex_sym(s->x, "s0"), tni_ex_sym(s->x, "s1")), TN_OK);
  if (s->defined) CU_ASSERT_EQUAL(tni_ex_define(s->x, 4, tni_ex_parse(s->x, "s0 + 2*s2")), TN_OK);
  if (s->ordered || s->defined)
    for (int i = 0; i < s->n; i++) s->t[i].fresh_facts = false;
}

static void run_batch(long *left) {
  static batch storage;
  batch *s = &storage;
  memset(s, 0, sizeof *s);
  s->x = tni_exprs_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(s->x);
  choose_bounds(s);
  if (next() % 4 == 0) { /* s4's bounds must hold its definition */
    s->defined = true;
    s->lo[4] = s->lo[0] + 2 * s->lo[2];
    s->hi[4] = s->hi[0] + 2 * s->hi[2];
    CU_ASSERT_EQUAL_FATAL(tni_ex_bound(s->x, 4, s->lo[4], s->hi[4]), TN_OK);
  }
  choose_points(s);
  int half = next() % 2 ? BATCH / 2 : 10;
  while (s->n < 10) put_leaf(s);
  for (int tries = 0; s->n < BATCH - 2 && tries < 4 * BATCH; tries++, (*left)--) {
    if (s->n >= half && half) {
      add_facts(s);
      half = 0;
    }
    grow(s);
  }
  for (int i = 0; i < s->n; i++) check_values(s, i); /* also under the facts that came later */
  tni_exprs_destroy(s->x);
}

static void test_random(void) {
  rng = test_opts.seed;
  printf(" seed %llu, %ld expressions ", (unsigned long long)test_opts.seed, test_opts.count);
  for (long left = test_opts.count; left > 0 && failures < 10;) run_batch(&left);
  printf("(%ld values, %ld overflowed, %ld too big) ", checked_values, overflowed, none_built);
  CU_ASSERT_EQUAL(failures, 0);
  CU_ASSERT_TRUE(none_built < test_opts.count / 4);
  CU_ASSERT_TRUE(overflowed < checked_values / 50);
  CU_ASSERT_TRUE(checked_values > test_opts.count * 2);
}

/* Random text never crashes the parser, and what it gives prints and parses to itself. */
static void test_random_text(void) {
  static const char *const parts[] = {"a", "b", "+",  "-",    "*",    "/",      "//",        "%",
                                      "(", ")", ",",  "min(", "max(", "floor(", "12",        "3",
                                      "0", " ", "**", "`",    "\\",   "Mod(",   "exactdiv(", "9223372036854775807"};
  tni_exprs *x = tni_exprs_create();
  for (long i = 0; i < test_opts.count / 4; i++) {
    char text[256] = "", back[4096];
    for (uint64_t k = 0, n = 1 + next() % 12; k < n; k++) strcat(text, parts[next() % (sizeof parts / sizeof *parts)]);
    tn_expr e = tni_ex_parse(x, text);
    CU_ASSERT_NOT_EQUAL(e, TNI_EXPR_NONE);
    tni_ex_print(x, e, back, sizeof back);
    tn_expr again = tni_ex_parse(x, back);
    if (again != e) printf("\n  '%s' prints as '%s'\n", text, back);
    CU_ASSERT_EQUAL(again, e);
  }
  tni_exprs_destroy(x);
}

void test_random_suite(void) {
  CU_pSuite s = CU_add_suite("expr random", NULL, NULL);
  CU_add_test(s, "expressions", test_random);
  CU_add_test(s, "texts", test_random_text);
}
