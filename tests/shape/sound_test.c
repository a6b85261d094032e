/* SPDX-License-Identifier: Apache-2.0
 *
 * Soundness: random nodes over symbolic operands against the same nodes with the symbols' values put in. Whatever
 * symbolic inference states must hold for the values; what it calls impossible must be impossible.
 *
 * TENON_TEST_SEED and TENON_TEST_CASES choose the run; the seed is printed.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shape/table.h"

enum { MAX_OPERANDS = 9, TEXT = 512 };

static const char *const dim_pool[] = {"1", "1", "2", "3", "4", "6", "0", "b", "s", "b", "s", "b+s", "2*b", "s+1", "?"};
static const char *const elem_pool[] = {
    "0", "1", "-1", "2", "3", "4", "-2", "b", "s", "b+s", "s-1", "2*b", "?", "9223372036854775807", "-3"};
/* Operators whose operands beyond the first are small integer vectors (or, with 's', all of them scalars or vectors).
 */
static const struct {
  const char *op;
  char how;
} shaped[] = {{"Reshape", 'v'},   {"Squeeze", 'v'},    {"Unsqueeze", 'v'}, {"Split", 'v'},
              {"Slice", 'v'},     {"Expand", 'v'},     {"Tile", 'v'},      {"Pad", 'v'},
              {"ReduceSum", 'v'}, {"ReduceMax", 'v'},  {"TopK", 'v'},      {"ConstantOfShape", 'a'},
              {"Range", 's'},     {"ReduceProd", 'v'}, {"ReduceMin", 'v'}, {"Gather", 'v'},
              {"Concat", 'a'},    {"Where", 'w'}};

typedef struct operand {
  char symbolic[TEXT], concrete[TEXT];
  bool vanishes; /* a symbolic element is 0 or less */
} operand;

static uint64_t state;
static uint32_t pick(uint32_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)((state >> 33) % n);
}

static int64_t value_of(const char *s, int64_t b, int64_t n) {
  if (strcmp(s, "b") == 0) return b;
  if (strcmp(s, "s") == 0) return n;
  if (strcmp(s, "b+s") == 0) return b + n;
  if (strcmp(s, "2*b") == 0) return 2 * b;
  if (strcmp(s, "s+1") == 0) return n + 1;
  if (strcmp(s, "s-1") == 0) return n - 1;
  if (strcmp(s, "?") == 0) return (int64_t)pick(4);
  return strtoll(s, NULL, 10);
}

static void append(operand *o, const char *sym, const char *con) {
  strncat(o->symbolic, sym, TEXT - strlen(o->symbolic) - 1);
  strncat(o->concrete, con, TEXT - strlen(o->concrete) - 1);
}

/* "DTYPE[dims]" and, for integers with constant dims, elements. */
static operand make(const char *dtype, bool vector, bool scalar, int64_t b, int64_t n) {
  operand o = {.symbolic = ""};
  char text[32];
  bool whole = true, small = vector || scalar;
  int64_t count = 1;
  uint32_t rank = scalar ? 0 : vector ? 1 : pick(4);
  append(&o, dtype, dtype);
  append(&o, "[", "[");
  for (uint32_t d = 0; d < rank; d++) {
    const char *dim = small ? dim_pool[pick(5)] : dim_pool[pick(sizeof dim_pool / sizeof *dim_pool)];
    int64_t v = value_of(dim, b, n);
    char *end;
    (void)strtoll(dim, &end, 10);
    whole = whole && *end == 0;
    count *= v;
    snprintf(text, sizeof text, "%s%lld", d ? "," : "", (long long)v);
    if (d) append(&o, ",", "");
    append(&o, dim, text);
  }
  append(&o, "]", "]");
  if (dtype[0] == 'f' || !whole || count > 8 || (!small && pick(2))) return o;
  append(&o, "={", "=");
  for (int64_t i = 0; i < count; i++) {
    bool flag = dtype[0] == 'b';
    const char *e = flag ? (pick(2) ? "0" : "1") : elem_pool[pick(sizeof elem_pool / sizeof *elem_pool)];
    int64_t v = value_of(e, b, n);
    char *end;
    (void)strtoll(e, &end, 10);
    o.vanishes = o.vanishes || (*end != 0 && v <= 0);
    snprintf(text, sizeof text, "%s%lld", i ? "," : "", (long long)v);
    if (i) append(&o, ",", "");
    append(&o, e, text);
  }
  append(&o, "}", "");
  return o;
}

static void random_attrs(const tni_op *op, char *out) {
  out[0] = 0;
  for (uint32_t i = 0; i < op->n_attrs; i++) {
    const tni_attr_spec *a = &op->attrs[i];
    char text[64];
    if (!a->required && pick(2)) continue;
    if (a->type == TN_ATTR_INT && strcmp(a->name, "to") == 0) {
      snprintf(text, sizeof text, "to=%u;", pick(2) ? 7u : 6u);
    } else if (a->type == TN_ATTR_INT &&
               (strstr(a->name, "axis") || strcmp(a->name, "start") == 0 || strcmp(a->name, "end") == 0)) {
      snprintf(text, sizeof text, "%s=%d;", a->name, (int)pick(7) - 3);
    } else if (a->type == TN_ATTR_INT && strcmp(a->name, "dtype") != 0) {
      snprintf(text, sizeof text, "%s=%u;", a->name, pick(2));
    } else if (a->type == TN_ATTR_INTS) {
      snprintf(text, sizeof text, "%s", pick(2) ? "perm=1,0;" : "perm=2,0,1;");
    } else {
      continue;
    }
    strcat(out, text);
  }
}

static tni_graph *build(const tni_op *op, const operand *o, uint32_t n, bool symbolic, const char *attrs,
                        uint32_t n_out, tn_status *st) {
  tni_graph *g = NULL;
  tn_error err;
  char in[128] = "", out[128] = "", name[16];
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_ex_sym(g->exprs, "b") + 1u > 0 && tni_ex_sym(g->exprs, "s") + 1u > 0, 1);
  for (uint32_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "x%u ", i);
    strcat(in, name);
    name[strlen(name) - 1] = 0;
    (void)add_word(g, name, symbolic ? o[i].symbolic : o[i].concrete);
  }
  for (uint32_t i = 0; i < n_out; i++) {
    snprintf(name, sizeof name, "y%u ", i);
    strcat(out, name);
  }
  *st = add_op(g, op->name, (int)op->since, in, out, attrs, &err);
  if (*st == TN_OK) *st = tni_infer_graph(g, &err);
  return g;
}

static bool holds(const tni_graph *g, tn_expr e, const tni_graph *c, tn_expr f, const int64_t *v) {
  int64_t want, got;
  if (e == TNI_EXPR_NONE || f == TNI_EXPR_NONE || !tni_ex_is_const(c->exprs, f, &want)) return true;
  /* Sizes only the data know, and quotients of nothing. */
  if (tni_ex_eval(g->exprs, e, v, 2, &got) != TN_OK) return true;
  return got == want;
}

static bool agree(const tni_graph *g, const tni_graph *c, uint32_t n_out, const int64_t *v) {
  for (uint32_t i = 0; i < n_out; i++) {
    char name[16];
    snprintf(name, sizeof name, "y%u", i);
    const tni_value *a = tni_graph_value(g, tni_graph_find(g, name)), *b = tni_graph_value(c, tni_graph_find(c, name));
    if (a->pub.rank == TNI_RANK_UNKNOWN || b->pub.rank == TNI_RANK_UNKNOWN) continue;
    if (a->pub.rank != b->pub.rank || a->pub.dtype != b->pub.dtype) return false;
    for (uint32_t d = 0; d < a->pub.rank; d++) {
      if (!holds(g, a->pub.dims[d], c, b->pub.dims[d], v)) return false;
    }
    for (uint32_t k = 0; a->elems && b->elems && k < a->n_elems; k++) {
      if (a->n_elems != b->n_elems || !holds(g, a->elems[k], c, b->elems[k], v)) return false;
    }
  }
  return true;
}

typedef struct tally {
  uint32_t valid, refused, symbolic_refused, wrong;
} tally;

/* An axis of size 0 in "i64[3,0]". */
static bool has_zero(const char *word) {
  const char *p = strchr(word, '[');
  for (; p && *p && *p != ']'; p++)
    if ((*p == '[' || *p == ',') && p[1] == '0' && (p[2] == ',' || p[2] == ']')) return true;
  return false;
}

static void one_case(const tni_op *op, tally *t) {
  int64_t v[2] = {(int64_t)pick(5), (int64_t)pick(5)};
  uint32_t max = op->in_max > MAX_OPERANDS ? MAX_OPERANDS : op->in_max;
  uint32_t n = op->in_min + pick(max - op->in_min + 1), n_out = op->out_min;
  char how = 0, attrs[256];
  operand o[MAX_OPERANDS];
  bool vanishes = false;
  for (size_t i = 0; i < sizeof shaped / sizeof *shaped; i++) {
    if (strcmp(shaped[i].op, op->name) == 0) how = shaped[i].how;
  }
  const char *dtype = how == 'a' || how == 's' || pick(3) ? "i64" : "f32";
  bool all = how && how != 'w' && pick(2);
  for (uint32_t i = 0; i < n; i++) {
    const char *own = i && how == 'v' ? "i64" : dtype;
    if ((op->id >= TN_OP_AND && op->id <= TN_OP_XOR) || op->id == TN_OP_NOT || (how == 'w' && i == 0)) own = "bool";
    o[i] = make(own, how == 'a' || (how == 'v' && (i || all)), how == 's', v[0], v[1]);
    vanishes = vanishes || (i && o[i].vanishes);
  }
  /* A size of 0 is meant, not "copy"; and what is stated of a tensor without elements may be more than it says. */
  if (op->id == TN_OP_RESHAPE && (vanishes || has_zero(o[0].concrete))) return;
  if (op->id == TN_OP_SPLIT) n_out = 1 + pick(3);
  random_attrs(op, attrs);
  tn_status sym, con;
  tni_graph *g = build(op, o, n, true, attrs, n_out, &sym), *c = build(op, o, n, false, attrs, n_out, &con);
  t->valid += con == TN_OK;
  t->refused += con != TN_OK;
  t->symbolic_refused += sym != TN_OK;
  bool ok = con != TN_OK || (sym == TN_OK && agree(g, c, n_out, v));
  CU_ASSERT_TRUE(ok);
  if (!ok && t->wrong++ < 20) {
    printf("\n  %s {%s} b=%lld s=%lld:", op->name, attrs, (long long)v[0], (long long)v[1]);
    for (uint32_t i = 0; i < n; i++) printf(" %s (%s)", o[i].symbolic, o[i].concrete);
    printf(": %s\n", sym == TN_OK ? "states something else" : "calls it impossible");
  }
  tni_graph_destroy(g);
  tni_graph_destroy(c);
}

static void test_sound(void) {
  const char *seed = getenv("TENON_TEST_SEED"), *cases = getenv("TENON_TEST_CASES");
  uint64_t chosen = seed ? strtoull(seed, NULL, 10) : 20260101;
  uint32_t count = cases ? (uint32_t)strtoul(cases, NULL, 10) : 60000, rows;
  const tni_op *table = tni_op_table(&rows);
  tally t = {0, 0, 0, 0};
  state = chosen * 2654435761u + 1;
  printf("seed %llu ", (unsigned long long)chosen);
  for (uint32_t i = 0; i < count; i++) {
    const tni_op *op = &table[pick(rows)];
    if (op->id == TN_OP_CONSTANT || (op->flags & TNI_OPF_CONTROL)) continue;
    one_case(op, &t);
  }
  printf("%u valid, %u impossible (%u of them seen with symbols) ", t.valid, t.refused, t.symbolic_refused);
  CU_ASSERT_TRUE(t.valid > count / 5);
  CU_ASSERT_TRUE(t.symbolic_refused > 0);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("soundness", NULL, NULL);
  if (!s || !CU_add_test(s, "random nodes", test_sound)) {
    CU_cleanup_registry();
    return 1;
  }
  CU_basic_set_mode(CU_BRM_NORMAL);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
