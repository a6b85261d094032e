/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what check_ops.py and check_dtypes.py compare with PyPI's onnx, numpy and ml_dtypes.
 *   print_tables ops      one JSON object a line, per row of the op table
 *   print_tables dtypes   one line a result: WHAT CODE BITS
 *   print_tables dot      a graph with awkward names and a subgraph, for graphviz
 * and the files that are made from the op table, which check_attrs.sh compares with those in the tree:
 *   print_tables attrs    include/tenon/attrs.h
 *   print_tables names    runtime/graph/attr_names.h
 *   print_tables places   runtime/graph/attr_places.h
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/graph/ir.h"

static void print_attr(const tni_attr_spec *a) {
  printf("{\"name\": \"%s\", \"type\": %u, \"required\": %s, \"default\": ", a->name, a->type,
         a->required ? "true" : "false");
  if (a->required || a->absent)
    printf("null");
  else if (a->type == TN_ATTR_INT)
    printf("%" PRId64, a->dflt.i);
  else if (a->type == TN_ATTR_FLOAT)
    printf("%.17g", a->dflt.f);
  else if (a->type == TN_ATTR_STRING)
    printf("\"%s\"", a->dflt.s);
  else
    printf("null");
  printf("}");
}

static void print_ops(void) {
  uint32_t n;
  const tni_op *t = tni_op_table(&n);
  for (uint32_t i = 0; i < n; i++) {
    printf(
        "{\"domain\": \"%s\", \"name\": \"%s\", \"id\": %u, \"since\": %u, \"until\": %u, \"in\": [%u, %u], "
        "\"out\": [%u, %u], \"attrs\": [",
        t[i].domain, t[i].name, t[i].id, t[i].since, t[i].until, t[i].in_min, t[i].in_max, t[i].out_min, t[i].out_max);
    for (uint32_t k = 0; k < t[i].n_attrs; k++) {
      if (k) printf(", ");
      print_attr(&t[i].attrs[k]);
    }
    printf("]}\n");
  }
}

static uint32_t bits_of(float f) {
  uint32_t b;
  memcpy(&b, &f, sizeof b);
  return b;
}

/* All codes of every dtype of at most 16 bits. */
static void print_decodings(void) {
  for (uint32_t dt = 1; dt < TN_DT_COUNT; dt++) {
    uint32_t bits = tni_dtype_bits(dt);
    if (bits == 0 || bits > 16) continue;
    for (uint32_t code = 0; code < 1u << bits; code++) {
      uint16_t cell = (uint16_t)code;
      float f;
      tni_tensor t = {.dtype = dt, .rank = 1, .dims = {1}, .data = &cell, .bytes = 2};
      tni_tensor_to_f32(&t, 0, 1, &f);
      printf("%s %u %u\n", tni_dtype_name(dt), code, bits_of(f));
    }
  }
}

/* Floats over the whole range of bit patterns, the step prime so that mantissas vary. */
static void print_encodings(void) {
  for (uint64_t b = 0; b <= UINT32_MAX; b += 16411) {
    uint32_t bits = (uint32_t)b;
    float f;
    memcpy(&f, &bits, sizeof f);
    printf("f16 %u %u\nbf16 %u %u\n", bits, tni_f32_to_f16(f), bits, tni_f32_to_bf16(f));
  }
}

static tn_id value(tni_graph *g, const char *name) {
  tn_id v = tni_graph_find(g, name);
  return v != TN_NONE ? v : tni_graph_add_value(g, name, TN_VALUE_ACT, TN_DT_F32);
}

static tn_status add(tni_graph *g, const char *name, const char *type, const char *in, const char *out,
                     const tni_raw_attr *raw, uint32_t n_raw) {
  tn_id i = value(g, in), o = value(g, out);
  return tni_graph_add_node(g, name, "", type, 17, &i, 1, &o, 1, raw, n_raw, NULL, NULL);
}

static int print_dot(void) {
  static const char odd[] = "a \"b\" \\ <c> {d|e}\n\x01 -> \xc3\xa9";
  tni_graph *g, *t, *e;
  if (tni_graph_create(NULL, odd, &g, NULL) != TN_OK) return 1;
  if (tni_graph_create(g->exprs, odd, &t, NULL) != TN_OK || tni_graph_create(g->exprs, "", &e, NULL) != TN_OK) return 1;
  tn_id x = tni_graph_add_value(g, odd, TN_VALUE_INPUT, TN_DT_F32), y = value(g, "y"), r;
  tn_expr dims[] = {tni_ex_sym(g->exprs, odd), TNI_EXPR_NONE};
  tni_raw_attr raw[] = {
      {.name = "then_branch", .a = {.type = TN_ATTR_GRAPH, .n = 1}, .graphs = &t, .n_graphs = 1},
      {.name = "else_branch", .a = {.type = TN_ATTR_GRAPH, .n = 1}, .graphs = &e, .n_graphs = 1},
  };
  int bad = tni_value_set_dims(g, x, 2, dims) != TN_OK;
  bad |= add(t, odd, "Neg", odd, "r", NULL, 0) != TN_OK || add(e, odd, "What\"?", odd, "r", NULL, 0) != TN_OK;
  r = value(t, "r");
  bad |= tni_graph_set_io(t, NULL, 0, &r, 1) != TN_OK;
  r = value(e, "r");
  bad |= tni_graph_set_io(e, NULL, 0, &r, 1) != TN_OK;
  bad |= add(g, odd, "If", odd, "y", raw, 2) != TN_OK;
  bad |= tni_graph_set_io(g, &x, 1, &y, 1) != TN_OK || tni_graph_finish(g, NULL) != TN_OK;
  tni_graph_dump_dot(g, stdout);
  tni_graph_destroy(g);
  return bad;
}

/* --- the order of attributes as C */

static const char *const id_texts[] = {
#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
#id,
#include "runtime/graph/ops.def"
#undef TNI_OP
};

static const char *const type_texts[] = {"refused", "INT",    "FLOAT", "STRING", "INTS",
                                         "FLOATS",  "TENSOR", "GRAPH", "STRINGS"};

/* Every letter large: transB and trans_b are two names. */
static void print_large(const char *s) {
  for (; *s; s++) putchar(toupper((unsigned char)*s));
}

/* transA: TRANS_A; HardSigmoid: HARD_SIGMOID; kernel_shape: KERNEL_SHAPE. */
static void print_upper(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (i && isupper((unsigned char)s[i]) && islower((unsigned char)s[i - 1])) putchar('_');
    putchar(toupper((unsigned char)s[i]));
  }
}

/* The row that says an operator's order: the current one. */
static bool is_current(const tni_op *op) { return op->until == 0 && op->n_attrs != 0; }

static void print_words(const tni_op *op, const tni_attr_spec *a) {
  uint32_t i = 0;
  printf("enum {");
  for (const char *w = a->words; *w;) {
    const size_t n = strcspn(w, "|");
    printf("%s\n  TN_WORD_%s_", i++ ? "," : "", id_texts[op->row]);
    print_upper(a->name, strlen(a->name));
    putchar('_');
    print_upper(w, n);
    printf(" = %u", i);
    w += n + (w[n] == '|');
  }
  printf("\n};\n");
}

static int print_attrs(void) {
  uint32_t n;
  const tni_op *t = tni_op_table(&n);
  printf(
      "/* SPDX-License-Identifier: Apache-2.0\n"
      " *\n"
      " * Made by `print_tables attrs` (tests/graph) from the op table.\n"
      " *\n"
      " * The order of each operator's attributes: tn_node.attr[TN_AT_<operator>_<attribute>] is that attribute, with "
      "its\n"
      " * default where the model says nothing. It has the type that stands beside it; attributes that are `refused` "
      "are\n"
      " * never there. TN_WORD_* is what tn_attr.word says of a STRING that has few values; of STRINGS, value i is\n"
      " * (word >> 5 * i) & 31.\n"
      " */\n"
      "#ifndef TENON_ATTRS_H\n"
      "#define TENON_ATTRS_H\n"
      "/* clang-format off */\n");
  for (uint32_t i = 0; i < n; i++) {
    if (!is_current(&t[i])) continue;
    printf("\n/* %s.%s */\nenum {\n", t[i].domain[0] ? t[i].domain : "ai.onnx", t[i].name);
    for (uint32_t k = 0; k < t[i].n_attrs; k++) {
      printf("  TN_AT_%s_", id_texts[t[i].row]);
      print_upper(t[i].attrs[k].name, strlen(t[i].attrs[k].name));
      printf(" = %u%s /* %s */\n", k, k + 1 < t[i].n_attrs ? "," : "", type_texts[t[i].attrs[k].type]);
    }
    printf("};\n");
    for (uint32_t k = 0; k < t[i].n_attrs; k++)
      if (t[i].attrs[k].words) print_words(&t[i], &t[i].attrs[k]);
  }
  printf("\n#endif\n");
  return 0;
}

enum { MAX_NAMES = 256 };

/* Every attribute name once, in alphabetical order. */
static uint32_t collect_names(const char **names) {
  uint32_t n, count = 0;
  const tni_op *t = tni_op_table(&n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < t[i].n_attrs; k++) {
      uint32_t at = 0;
      while (at < count && strcmp(names[at], t[i].attrs[k].name) < 0) at++;
      if (at < count && strcmp(names[at], t[i].attrs[k].name) == 0) continue;
      if (count == MAX_NAMES) return 0;
      memmove(names + at + 1, names + at, (count - at) * sizeof *names);
      names[at] = t[i].attrs[k].name;
      count++;
    }
  return count;
}

static int print_names(void) {
  const char *names[MAX_NAMES];
  const uint32_t n = collect_names(names);
  printf(
      "/* SPDX-License-Identifier: Apache-2.0\n"
      " *\n"
      " * Made by `print_tables names` (tests/graph) from the op table: every attribute's name as a number.\n"
      " */\n"
      "#ifndef TENON_GRAPH_ATTR_NAMES_H\n"
      "#define TENON_GRAPH_ATTR_NAMES_H\n"
      "/* clang-format off */\n"
      "\n"
      "enum {\n");
  for (uint32_t i = 0; i < n; i++) {
    printf("  TNI_A_");
    print_large(names[i]);
    printf(",\n");
  }
  printf("  TNI_A_COUNT\n};\n\n#endif\n");
  return n == 0;
}

static bool same_names(const tni_op *a, const tni_op *b) {
  if (a->n_attrs != b->n_attrs) return false;
  for (uint32_t k = 0; k < a->n_attrs; k++)
    if (strcmp(a->attrs[k].name, b->attrs[k].name) != 0) return false;
  return true;
}

/* Rows of one operator must agree: a tn_node says the operator, not the version. Control flow never asks. */
static bool agrees(const tni_op *t, uint32_t n, const tni_op *op) {
  for (uint32_t i = 0; i < n; i++)
    if (t[i].id == op->id && !(op->flags & TNI_OPF_CONTROL) && !same_names(&t[i], op)) {
      fprintf(stderr, "%s: its rows order their attributes differently\n", op->name);
      return false;
    }
  return true;
}

static int print_places(void) {
  uint32_t n, sets = 0;
  const tni_op *t = tni_op_table(&n);
  printf(
      "/* SPDX-License-Identifier: Apache-2.0\n"
      " *\n"
      " * Made by `print_tables places` (tests/graph) from the op table. Included by attr_place.c only: 1 + the place "
      "of an\n"
      " * attribute in its operator's order, by set and name, 0: it has none of that name; and the set of each "
      "operator.\n"
      " */\n"
      "/* clang-format off */\n"
      "static const uint8_t attr_places_of_op[][TNI_A_COUNT] = {\n    {0},\n");
  uint32_t set_of[1024] = {0};
  for (uint32_t i = 0; i < n; i++) {
    if (!is_current(&t[i])) continue;
    if (i >= 1024 || !agrees(t, n, &t[i])) return 1;
    for (uint32_t j = 0; j < i && !set_of[i]; j++)
      if (is_current(&t[j]) && same_names(&t[i], &t[j])) set_of[i] = set_of[j];
    if (set_of[i]) continue;
    set_of[i] = ++sets;
    printf("    {");
    for (uint32_t k = 0; k < t[i].n_attrs; k++) {
      printf("%s[TNI_A_", k ? ", " : "");
      print_large(t[i].attrs[k].name);
      printf("] = %u", k + 1);
    }
    printf("},\n");
  }
  printf("};\n\nstatic const uint8_t attr_sets[] = {\n");
  for (uint32_t i = 0; i < n; i++)
    if (set_of[i]) printf("    [TN_OP_%s] = %u,\n", id_texts[i], set_of[i]);
  printf("};\n");
  return sets > UINT8_MAX;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "ops") == 0) {
    print_ops();
  } else if (argc == 2 && strcmp(argv[1], "dtypes") == 0) {
    print_decodings();
    print_encodings();
  } else if (argc == 2 && strcmp(argv[1], "dot") == 0) {
    return print_dot();
  } else if (argc == 2 && strcmp(argv[1], "attrs") == 0) {
    return print_attrs();
  } else if (argc == 2 && strcmp(argv[1], "names") == 0) {
    return print_names();
  } else if (argc == 2 && strcmp(argv[1], "places") == 0) {
    return print_places();
  } else {
    fprintf(stderr, "usage: print_tables ops|dtypes|dot|attrs|names|places\n");
    return 2;
  }
  return 0;
}
