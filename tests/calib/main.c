/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib_test.h"

static float small[16], large[128 * 256];

void salt_constants(float salt) {
  for (int i = 0; i < 16; i++) small[i] = (float)i + salt;
  for (int i = 0; i < 128 * 256; i++) large[i] = (float)(i % 97) + salt;
}

static tn_id value_of(tni_graph *g, const char *name, int64_t width) {
  tn_id v = tni_graph_find(g, name);
  if (v != TN_NONE) return v;
  const uint32_t kind = *name == 'x' ? TN_VALUE_INPUT : TN_VALUE_ACT;
  v = tni_graph_add_value(g, name, kind, TN_DT_F32);
  const tn_expr dims[] = {tni_ex_const(g->exprs, 2), tni_ex_const(g->exprs, width)};
  tn_status st = tni_value_set_dims(g, v, 2, dims);
  tni_tensor s = {.dtype = TN_DT_F32, .rank = 2, .dims = {4, 4}, .data = small, .bytes = sizeof small};
  tni_tensor l = {.dtype = TN_DT_F32, .rank = 2, .dims = {128, 256}, .data = large, .bytes = sizeof large};
  if (*name == 'w') st = tni_value_set_tensor(g, v, &s, NULL);
  if (*name == 'W') st = tni_value_set_tensor(g, v, &l, NULL);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  return v;
}

static tn_id add_product(tni_graph *g, const char *type, const char *x, const char *w, const char *y) {
  const tni_raw_attr trans = {.name = "transA", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1}};
  const bool a = strcmp(type, "GemmA") == 0, one = strcmp(type, "Relu") == 0, big = *w == 'W';
  const tn_id in[] = {value_of(g, x, big ? 128 : 4), one ? TN_NONE : value_of(g, w, 4)};
  const tn_id out[] = {value_of(g, y, big ? 256 : 4)};
  tn_error err = {0};
  tn_status st =
      tni_graph_add_node(g, "", "", a ? "Gemm" : type, 13, in, one ? 1 : 2, out, 1, a ? &trans : NULL, a, NULL, &err);
  if (st != TN_OK) printf("\n  %s\n", err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  return out[0];
}

tni_graph *graph_of(const char *nodes) {
  tni_graph *g = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "test", &g, &err), TN_OK);
  char *text = strdup(nodes), *save = NULL;
  tn_id in[16], out[16];
  uint32_t n_in = 0, n_out = 0;
  for (char *p = strtok_r(text, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
    char type[16], x[16], w[16], y[16];
    CU_ASSERT_EQUAL_FATAL(sscanf(p, "%15s %15s %15s %15s", type, x, w, y), 4);
    out[n_out++] = add_product(g, type, x, w, y);
  }
  free(text);
  for (tn_id v = 0; v < g->n_values; v++)
    if (g->values[v]->pub.kind == TN_VALUE_INPUT) in[n_in++] = v;
  CU_ASSERT_EQUAL_FATAL(tni_graph_set_io(g, in, n_in, out, n_out), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(g, &err), TN_OK);
  return g;
}

int says(const tn_error *e, const char *text) {
  if (strstr(e->message, text) || strstr(e->where, text)) return 1;
  printf("\n  not '%s': '%s' at '%s'\n", text, e->message, e->where);
  return 0;
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  salt_constants(0);
  suite_record();
  suite_file();
  suite_attach();
  suite_keep();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
