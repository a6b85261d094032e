/* SPDX-License-Identifier: Apache-2.0
 *
 * shape-dump MODEL [--raw] [SYMBOL=VALUE ...]
 *
 * Prints what inference found, one line each, tab separated:
 *   value  NAME  KIND  DTYPE  DIMS        dims as expressions, or as numbers when symbols are given ("?" unknown)
 *   elems  NAME  ELEMENTS                 STEP values, under the given symbols
 *   input  NAME  DIMS                     as expressions
 *   node   OP  NAME                       what is left
 *   pass   NAME  FIRED     left  SHAPE_OP NAME     unknown  VALUE
 * --raw: inference only, no pass (every value of the file keeps its name).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/onnx/import.h"
#include "runtime/ops/kernel/args.h"
#include "runtime/passes/passes.h"

enum { MAX_SYMBOLS = 4096 };

typedef struct dump {
  tni_graph *g;
  bool concrete;
  int64_t v[2][MAX_SYMBOLS]; /* symbols that are not given differ in the two */
  uint32_t n;
} dump;

static void print_expr(const dump *d, tn_expr e) {
  char buf[512];
  int64_t v, other;
  if (e == TNI_EXPR_NONE) {
    printf("?");
  } else if (d->concrete) {
    if (tni_ex_eval(d->g->exprs, e, d->v[0], d->n, &v) == TN_OK &&
        tni_ex_eval(d->g->exprs, e, d->v[1], d->n, &other) == TN_OK && v == other) {
      printf("%lld", (long long)v);
    } else {
      printf("?");
    }
  } else {
    tni_ex_print(d->g->exprs, e, buf, sizeof buf);
    printf("%s", buf);
  }
}

static void print_list(const dump *d, const tn_expr *e, uint32_t n) {
  printf("[");
  for (uint32_t i = 0; i < n; i++) {
    if (i) printf(",");
    print_expr(d, e[i]);
  }
  printf("]");
}

static bool is_known(const tni_value *v) {
  if (v->pub.rank == TNI_RANK_UNKNOWN) return false;
  for (uint32_t k = 0; k < v->pub.rank; k++) {
    if (v->pub.dims[k] == TNI_EXPR_NONE) return false;
  }
  return true;
}

static void print_values(const dump *d) {
  static const char *const kinds[] = {"?", "INPUT", "CONST", "ACT", "OUTPUT", "STATE", "STEP"};
  for (uint32_t i = 0; i < d->g->n_values; i++) {
    const tni_value *v = d->g->values[i];
    if (v->pub.kind == TN_VALUE_INPUT) {
      dump symbolic = {.g = d->g};
      printf("input\t%s\t", v->pub.name);
      print_list(&symbolic, v->pub.dims, v->pub.rank == TNI_RANK_UNKNOWN ? 0 : v->pub.rank);
      printf("\n");
    }
    printf("value\t%s\t%s\t%s\t", v->pub.name, kinds[v->pub.kind <= 6 ? v->pub.kind : 0], tni_dtype_name(v->pub.dtype));
    if (v->pub.rank == TNI_RANK_UNKNOWN) {
      printf("?\n");
    } else {
      print_list(d, v->pub.dims, v->pub.rank);
      printf("\n");
    }
    if (v->elems && v->pub.kind != TN_VALUE_CONST) {
      printf("elems\t%s\t", v->pub.name);
      print_list(d, v->elems, v->n_elems);
      printf("\n");
    }
    if (!is_known(v) && v->pub.kind != TN_VALUE_INPUT) printf("unknown\t%s\n", v->pub.name);
  }
}

static bool set_symbols(dump *d, int argc, char **argv) {
  d->n = tni_ex_n_symbols(d->g->exprs);
  if (d->n > MAX_SYMBOLS) return false;
  for (uint32_t s = 0; s < d->n; s++) {
    d->v[0][s] = 7919;
    d->v[1][s] = 104729;
  }
  for (int i = 2; i < argc; i++) {
    char *eq = strrchr(argv[i], '=');
    if (!eq) continue;
    d->concrete = true;
    for (uint32_t s = 0; s < d->n; s++) {
      const char *name = tni_ex_symbol_name(d->g->exprs, s);
      if (strlen(name) == (size_t)(eq - argv[i]) && strncmp(name, argv[i], (size_t)(eq - argv[i])) == 0) {
        d->v[0][s] = d->v[1][s] = strtoll(eq + 1, NULL, 10);
      }
    }
  }
  return true;
}

static tn_status work(tni_graph *g, bool raw, tni_passes_report *report, tn_error *err) {
  if (raw) return tni_infer_graph(g, err);
  return tni_passes_run(g, NULL, tni_ops_eval, NULL, report, err);
}

int main(int argc, char **argv) {
  tni_model *m = NULL;
  tn_error err;
  tni_passes_report report = {.n = 0};
  dump d = {.concrete = false};
  tn_id left[256];
  if (argc < 2) return 2;
  bool raw = argc > 2 && strcmp(argv[2], "--raw") == 0;
  tni_error_init(&err);
  tn_status st = tni_import_file(argv[1], NULL, NULL, &m, &err);
  if (st == TN_OK) st = work(m->graph, raw, &report, &err);
  if (st != TN_OK) {
    fprintf(stderr, "shape-dump: %s: %s: %s (%s)\n", argv[1], tni_status_name(st), err.message, err.where);
    tni_model_destroy(m);
    return 1;
  }
  d.g = m->graph;
  if (!set_symbols(&d, argc, argv)) return 1;
  print_values(&d);
  for (uint32_t i = 0; i < d.g->n_nodes; i++) {
    const tni_node *n = d.g->nodes[i];
    if (!n->dead) printf("node\t%s\t%s\n", n->type, n->pub.name);
  }
  for (uint32_t i = 0; i < report.n; i++) {
    printf("pass\t%s\t%llu\n", report.entries[i].name, (unsigned long long)report.entries[i].fired);
  }
  uint32_t n = tni_shape_ops_left(d.g, left, 256);
  for (uint32_t i = 0; i < n && i < 256; i++) {
    printf("left\t%s\t%s\n", d.g->nodes[left[i]]->type, d.g->nodes[left[i]]->pub.name);
  }
  tni_model_destroy(m);
  return 0;
}
