/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what check_ops.py and check_dtypes.py compare with PyPI's onnx, numpy and ml_dtypes.
 *   print_tables ops      one JSON object a line, per row of the op table
 *   print_tables dtypes   one line a result: WHAT CODE BITS
 *   print_tables dot      a graph with awkward names and a subgraph, for graphviz
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph.h"

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

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "ops") == 0) {
    print_ops();
  } else if (argc == 2 && strcmp(argv[1], "dtypes") == 0) {
    print_decodings();
    print_encodings();
  } else if (argc == 2 && strcmp(argv[1], "dot") == 0) {
    return print_dot();
  } else {
    fprintf(stderr, "usage: print_tables ops|dtypes|dot\n");
    return 2;
  }
  return 0;
}
