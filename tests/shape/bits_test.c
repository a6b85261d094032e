/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes keep every result bit for bit: real models run node by node on host kernels, once as the file has them and
 * once after tni_passes_run, at several sizes. The second run works as a session does: dims from the symbolic shapes,
 * STEP values from tni_step_write, no data for operands that only shape rules read.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/onnx/import.h"
#include "runtime/ops/kernel/args.h"
#include "runtime/passes/passes.h"

enum { MAX_SYMBOLS = 64, SIZES = 3 };

static const char *const models[] = {
    "onnx/exports/llama/model.onnx",         "onnx/exports/gemma/model.onnx",
    "onnx/exports/gpt2/model.onnx",          "onnx/exports/phi3/model.onnx",
    "onnx/exports/qwen2/model.onnx",         "lm/cappgpt-onnx/model.onnx",
    "lm/stories260k-onnx/model.onnx",        "lm/demo-lm/model.onnx",
    "exports/optimum-t5-encoder/model.onnx", "exports/optimum-distilbert/model.onnx",
    "exports/optimum-bert/model.onnx",       "exports/tf2onnx-transformer/model.onnx",
};
static const int64_t sizes[SIZES][3] = {{1, 3, 0}, {2, 1, 4}, {1, 4, 2}}; /* batch, sequence, past */

typedef struct bench {
  tni_model *m;
  tni_graph *g;
  tni_arena *arena;
  tni_tensor *t; /* per value; rank TNI_RANK_UNKNOWN: not there yet */
  int64_t symbols[MAX_SYMBOLS];
  uint32_t n_symbols;
  tn_error err;
} bench;

static uint64_t next(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  *s ^= *s << 17;
  return *s;
}

static bool dims_of(const bench *b, const tni_value *v, tni_tensor *t) {
  t->dtype = v->pub.dtype;
  t->rank = v->pub.rank;
  if (t->rank > TN_MAX_RANK) return false;
  for (uint32_t d = 0; d < t->rank; d++) {
    if (tni_ex_eval(b->g->exprs, v->pub.dims[d], b->symbols, b->n_symbols, &t->dims[d]) != TN_OK) return false;
  }
  int64_t n;
  return tni_dims_count(t->dims, t->rank, &n) == TN_OK && tni_dtype_bytes(t->dtype, n, &t->bytes) == TN_OK;
}

static bool fill_input(bench *b, tn_id id) {
  const tni_value *v = b->g->values[id];
  tni_tensor *t = &b->t[id];
  uint64_t seed = 88172645463325252u;
  for (const char *p = v->pub.name; *p; p++) seed = (seed ^ (unsigned char)*p) * 1099511628211u;
  if (!dims_of(b, v, t)) return false;
  t->data = tni_arena_alloc(b->arena, t->bytes + 1, 16);
  bool mask = strcmp(v->pub.name, "attention_mask") == 0;
  for (uint64_t i = 0; t->dtype == TN_DT_F32 && i < t->bytes / 4; i++) {
    ((float *)t->data)[i] = (float)(int64_t)(next(&seed) % 2001) / 1000.0f - 1.0f;
  }
  for (uint64_t i = 0; t->dtype == TN_DT_I64 && i < t->bytes / 8; i++) {
    ((int64_t *)t->data)[i] = mask ? 1 : (int64_t)(next(&seed) % 2);
  }
  for (uint64_t i = 0; t->dtype == TN_DT_I32 && i < t->bytes / 4; i++) {
    ((int32_t *)t->data)[i] = mask ? 1 : (int32_t)(next(&seed) % 2);
  }
  return t->data != NULL;
}

static void name_symbols(bench *b, const int64_t *size) {
  b->n_symbols = tni_ex_n_symbols(b->g->exprs);
  CU_ASSERT_FATAL(b->n_symbols <= MAX_SYMBOLS);
  for (uint32_t i = 0; i < b->n_symbols; i++) {
    const char *name = tni_ex_symbol_name(b->g->exprs, i);
    b->symbols[i] = strncmp(name, "past", 4) == 0 ? size[2] : strncmp(name, "batch", 5) == 0 ? size[0] : size[1];
  }
}

static bool prepare_values(bench *b) {
  b->t = TNI_NEW_ARRAY(b->arena, tni_tensor, b->g->n_values);
  for (uint32_t i = 0; b->t && i < b->g->n_values; i++) {
    const tni_value *v = b->g->values[i];
    b->t[i].rank = TNI_RANK_UNKNOWN;
    if (v->pub.kind == TN_VALUE_CONST) b->t[i] = *v->tensor;
    if (v->pub.kind == TN_VALUE_INPUT && !fill_input(b, i)) return false;
    if (v->pub.kind != TN_VALUE_STEP) continue;
    if (!dims_of(b, v, &b->t[i])) return false;
    b->t[i].data = tni_arena_alloc(b->arena, b->t[i].bytes + 1, 16);
    if (tni_step_write(b->g, i, b->symbols, b->n_symbols, b->t[i].data, b->t[i].bytes) != TN_OK) return false;
  }
  return b->t != NULL;
}

/* As a session calls a kernel: outputs made by the caller. */
static tn_status call_kernel(bench *b, const tni_node *n, const tni_tensor **in, tni_tensor *out) {
  tn_run run;
  tni_tensor **ptrs = TNI_NEW_ARRAY(b->arena, tni_tensor *, n->pub.n_out + 1u);
  tni_kernel_fn fn = tni_ops_kernel(n->op);
  if (!fn) return TN_E_UNSUPPORTED;
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    if (n->pub.out[o] == TN_NONE) continue;
    out[o].data = tni_arena_alloc(b->arena, out[o].bytes + 1, 64);
    ptrs[o] = &out[o];
  }
  tni_run_inline(&run);
  void *scratch =
      tni_arena_alloc(b->arena, tni_ops_scratch(&n->pub, in, n->pub.n_in, n->pub.n_out ? ptrs[0] : NULL, 1) + 1, 64);
  tni_kargs a = {&n->pub, in, ptrs, n->pub.n_in, n->pub.n_out, scratch, &run, &b->err, NULL, NULL, false};
  return fn(&a);
}

static tn_status run_node(bench *b, const tni_node *n, bool symbolic) {
  const tni_tensor **in = TNI_NEW_ARRAY(b->arena, const tni_tensor *, n->pub.n_in + 1u);
  tni_tensor *out = TNI_NEW_ARRAY(b->arena, tni_tensor, n->pub.n_out + 1u);
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < n->pub.n_in; i++) in[i] = n->pub.in[i] == TN_NONE ? NULL : &b->t[n->pub.in[i]];
  if (symbolic) {
    for (uint32_t i = 0; i < n->pub.n_in; i++) {
      if (!in[i] || !(n->op->shape_inputs >> i & 1)) continue;
      tni_tensor *bare = tni_arena_memdup(b->arena, in[i], sizeof *bare, 8);
      bare->data = NULL;
      in[i] = bare;
    }
    for (uint32_t o = 0; o < n->pub.n_out; o++) {
      if (n->pub.out[o] == TN_NONE) continue;
      if (!dims_of(b, b->g->values[n->pub.out[o]], &out[o])) return TN_E_INTERNAL;
    }
    st = call_kernel(b, n, in, out);
  } else {
    st = tni_ops_eval(NULL, n, in, n->pub.n_in, out, n->pub.n_out, b->arena, &b->err);
  }
  for (uint32_t o = 0; st == TN_OK && o < n->pub.n_out; o++) {
    if (n->pub.out[o] != TN_NONE) b->t[n->pub.out[o]] = out[o];
  }
  return st;
}

/* All passes but those that may round otherwise. */
static tn_status run_passes(bench *b) {
  const char *off[TNI_PASSES_MAX], *name;
  tni_passes_options opt = {.disabled = off};
  bool rounds;
  for (uint32_t i = 0; (name = tni_pass_name(i, &rounds)); i++)
    if (rounds) off[opt.n_disabled++] = name;
  return tni_passes_run(b->g, &opt, tni_ops_eval, NULL, NULL, &b->err);
}

static bool run_model(bench *b, const char *path, const int64_t *size, bool passes) {
  tni_error_init(&b->err);
  tn_status st = tni_import_file(path, NULL, NULL, &b->m, &b->err);
  b->arena = tni_arena_create();
  if (st == TN_OK) {
    b->g = b->m->graph;
    if (passes) st = run_passes(b);
  }
  if (st == TN_OK) {
    name_symbols(b, size);
    if (!prepare_values(b)) st = TN_E_INTERNAL;
  }
  for (uint32_t i = 0; st == TN_OK && i < b->g->n_nodes; i++) {
    st = run_node(b, b->g->nodes[i], passes);
    if (st != TN_OK)
      printf("\n  %s: %s '%s': %s\n", path, b->g->nodes[i]->type, b->g->nodes[i]->pub.name, b->err.message);
  }
  return st == TN_OK;
}

static void compare(const bench *a, const bench *b, const char *path) {
  CU_ASSERT_EQUAL_FATAL(a->g->n_outputs, b->g->n_outputs);
  CU_ASSERT_TRUE(b->g->n_nodes < a->g->n_nodes);
  CU_ASSERT_EQUAL(tni_shape_ops_left(b->g, NULL, 0), 0);
  for (uint32_t i = 0; i < a->g->n_outputs; i++) {
    const tni_tensor *x = &a->t[a->g->outputs[i]], *y = &b->t[b->g->outputs[i]];
    const char *name = a->g->values[a->g->outputs[i]]->pub.name;
    CU_ASSERT_STRING_EQUAL(name, b->g->values[b->g->outputs[i]]->pub.name);
    bool same = x->dtype == y->dtype && x->rank == y->rank && x->bytes == y->bytes && x->bytes > 0 &&
                memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0 && memcmp(x->data, y->data, x->bytes) == 0;
    CU_ASSERT_TRUE(same);
    if (!same) printf("\n  %s: output %s differs\n", path, name);
  }
}

static void finish(bench *b) {
  tni_arena_destroy(b->arena);
  tni_model_destroy(b->m);
}

static void test_models(void) {
  const char *data = getenv("TENON_TEST_DATA");
  for (size_t i = 0; data && i < sizeof models / sizeof models[0]; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", data, models[i]);
    if (access(path, R_OK) != 0) continue;
    for (uint32_t s = 0; s < SIZES; s++) {
      bench a = {0}, b = {0};
      bool ran = run_model(&a, path, sizes[s], false) && run_model(&b, path, sizes[s], true);
      CU_ASSERT_TRUE(ran);
      if (ran) compare(&a, &b, path);
      if (!ran) printf("\n  %s: %s%s\n", path, a.err.message, b.err.message);
      finish(&a);
      finish(&b);
    }
  }
}

static bool any_model(void) {
  const char *data = getenv("TENON_TEST_DATA");
  char path[4096];
  for (size_t i = 0; data && i < sizeof models / sizeof models[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", data, models[i]);
    if (access(path, R_OK) == 0) return true;
  }
  return false;
}

int main(void) {
  if (!any_model()) {
    printf("skipped: TENON_TEST_DATA holds none of the models\n");
    return 77;
  }
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("passes on real models", NULL, NULL);
  if (!s || !CU_add_test(s, "bit for bit", test_models)) {
    CU_cleanup_registry();
    return 1;
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
