/* SPDX-License-Identifier: Apache-2.0
 *
 * shape-run PROFILE_DIR FOLDER...
 *
 * Each folder has model.onnx and runs 0, 1, ... with one file per input (RUN/NAME.npy). Outputs go to RUN/out/NAME.npy.
 * Prints, tab separated:
 *   ok FOLDER RUN       or  fail FOLDER RUN MESSAGE        (RUN -: the model does not load)
 *   dims FOLDER RUN NAME 2,?,3                             what inference claims of every value of the file, with the
 *   elems FOLDER RUN NAME 1,?,7                            symbols that the inputs give
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenon/tenon.h>

#include "runtime/onnx/import.h"
#include "runtime/shape/infer.h"

enum { MAX_IO = 64 };

typedef struct item {
  const char *folder;
  tn_model *model;
  tni_model *raw; /* inferred, no passes */
  tn_tensor *in[MAX_IO];
  uint32_t n_in;
  int run;
} item;

static bool read_inputs(item *t) {
  for (uint32_t i = 0; i < tn_model_n_inputs(t->model) && i < MAX_IO; i++) {
    char path[600];
    const char *name = tn_model_input(t->model, i)->name;
    snprintf(path, sizeof path, "%s/%d/%s.npy", t->folder, t->run, name);
    if (access(path, R_OK) != 0 || tn_tensor_load(path, &t->in[i], NULL) != TN_OK) return false;
    t->in[i]->name = name;
    t->n_in++;
  }
  return true;
}

static void free_inputs(item *t) {
  for (uint32_t i = 0; i < t->n_in; i++) tn_free(t->in[i]);
  t->n_in = 0;
}

static void print_claim(const item *t, const char *what, const char *name, const tn_expr *e, uint32_t n,
                        const int64_t *v, uint32_t n_v) {
  printf("%s\t%s\t%d\t%s\t", what, t->folder, t->run, name);
  for (uint32_t i = 0; i < n; i++) {
    int64_t x;
    if (i) printf(",");
    if (e[i] != TNI_EXPR_NONE && tni_ex_eval(t->raw->graph->exprs, e[i], v, n_v, &x) == TN_OK)
      printf("%lld", (long long)x);
    else
      printf("?");
  }
  printf("\n");
}

/* Symbols that no input gives stay -1, which no evaluation accepts as a size; those that use them are not printed. */
static bool knows(void *ctx, tn_id sym) { return ((const int64_t *)ctx)[sym] >= 0; }

static void claims(const item *t) {
  const tni_graph *g = t->raw->graph;
  const uint32_t n = tni_ex_n_symbols(g->exprs);
  int64_t *v = calloc(n + 1, sizeof *v);
  tn_id s;
  for (uint32_t i = 0; v && i < n; i++) v[i] = -1;
  for (uint32_t i = 0; v && i < g->n_inputs && i < t->n_in; i++) {
    const tni_value *x = tni_graph_value(g, g->inputs[i]);
    for (uint32_t d = 0; d < x->pub.rank && x->pub.rank == t->in[i]->rank; d++)
      if (tni_ex_is_sym(g->exprs, x->pub.dims[d], &s)) v[s] = t->in[i]->dims[d];
  }
  for (uint32_t i = 0; v && i < g->n_values; i++) {
    const tni_value *x = g->values[i];
    tn_expr e[1024];
    if (x->pub.rank == TNI_RANK_UNKNOWN || x->n_elems > 1024) continue;
    for (uint32_t d = 0; d < x->pub.rank; d++)
      e[d] = tni_ex_each_symbol(g->exprs, x->pub.dims[d], knows, v) ? x->pub.dims[d] : TNI_EXPR_NONE;
    print_claim(t, "dims", x->pub.name, e, x->pub.rank, v, n);
    for (uint32_t d = 0; x->elems && d < x->n_elems; d++)
      e[d] = tni_ex_each_symbol(g->exprs, x->elems[d], knows, v) ? x->elems[d] : TNI_EXPR_NONE;
    if (x->elems && x->pub.kind != TN_VALUE_CONST) print_claim(t, "elems", x->pub.name, e, x->n_elems, v, n);
  }
  free(v);
}

static tn_status save(const item *t, const tn_tensor *out, uint32_t n, tn_error *err) {
  char path[600];
  snprintf(path, sizeof path, "%s/%d/out", t->folder, t->run);
  (void)mkdir(path, 0777);
  for (uint32_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%d/out/%s.npy", t->folder, t->run, out[i].name);
    tn_status st = tn_tensor_save(&out[i], path, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static void runs(item *t, tn_session *s) {
  const uint32_t n_out = tn_model_n_outputs(t->model);
  for (t->run = 0; read_inputs(t); t->run++) {
    tn_tensor out[MAX_IO] = {0};
    tn_error err = {.h = TN_HDR(tn_error)};
    tn_status st = n_out <= MAX_IO ? TN_OK : TN_E_LIMIT;
    for (uint32_t o = 0; o < n_out; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
    if (st == TN_OK) st = tn_session_run(s, TN_PHASE_ANY, (const tn_tensor *const *)t->in, t->n_in, out, n_out, &err);
    if (st == TN_OK) st = save(t, out, n_out, &err);
    if (st == TN_OK)
      printf("ok\t%s\t%d\n", t->folder, t->run);
    else
      printf("fail\t%s\t%d\t%s\n", t->folder, t->run, err.message);
    claims(t);
    free_inputs(t);
  }
  free_inputs(t);
}

static void one(tn_runtime *rt, const char *folder) {
  item t = {.folder = folder};
  tn_session *s = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  char path[600];
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  tn_status st = tn_model_load(rt, path, NULL, &t.model, &err);
  if (st == TN_OK) st = tn_session_create(t.model, &s, &err);
  if (st == TN_OK) st = tni_import_file(path, NULL, NULL, &t.raw, &err);
  if (st == TN_OK) st = tni_infer_graph(t.raw->graph, &err);
  if (st == TN_OK)
    runs(&t, s);
  else
    printf("fail\t%s\t-\t%s\n", folder, err.message);
  tni_model_destroy(t.raw);
  tn_session_destroy(s);
  tn_model_destroy(t.model);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const char *dirs[] = {argv[1]};
  tn_error err = {.h = TN_HDR(tn_error)};
  tn_runtime_opts o = {
      .h = {sizeof o, 1, 0}, .profile = "host", .profile_dirs = dirs, .n_profile_dirs = 1, .threads = 1};
  tn_runtime *rt = NULL;
  if (tn_runtime_create(&o, &rt, &err) != TN_OK) {
    fprintf(stderr, "shape-run: %s\n", err.message);
    return 1;
  }
  for (int i = 2; i < argc; i++) one(rt, argv[i]);
  tn_runtime_destroy(rt);
  return 0;
}
