/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

tni_model *import_expect(wbuf m, tn_status expected, const char *part, const char *label) {
  tni_model *model = NULL;
  tn_error e;
  tni_error_init(&e);
  /* An exact allocation, so that a sanitizer sees reads past the end; it lives as long as the process. */
  static void *keep[4096];
  static size_t n_keep;
  uint8_t *exact = malloc(m.n ? m.n : 1);
  if (!exact || n_keep == sizeof keep / sizeof *keep) abort();
  if (m.n) memcpy(exact, m.p, m.n);
  keep[n_keep++] = exact;
  tn_status st = tni_import_bytes(exact, m.n, NULL, NULL, NULL, &model, &e);
  wb_free(&m);
  CU_ASSERT_EQUAL(st, expected);
  if (st != expected) printf("\n  %s: %s: %s\n", label, tni_status_name(st), e.message);
  if (expected != TN_OK) {
    bool said = e.code == st && *e.message && (!part || strstr(e.message, part) || strstr(e.where, part));
    CU_ASSERT(said);
    if (!said) printf("\n  %s: '%s' [%s] lacks '%s'\n", label, e.message, e.where, part ? part : "");
    CU_ASSERT_PTR_NULL(model);
  }
  if (st == TN_OK && expected != TN_OK) {
    tni_model_destroy(model);
    return NULL;
  }
  return model;
}

const char *data_path(const char *name) {
  static char path[4096];
  const char *dir = getenv("TENON_TEST_DATA");
  if (!dir) return NULL;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

uint8_t *read_file(const char *path, size_t *n) {
  FILE *f = path ? fopen(path, "rb") : NULL;
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  uint8_t *p = size >= 0 ? malloc((size_t)size + 1) : NULL;
  *n = p ? fread(p, 1, (size_t)size, f) : 0;
  fclose(f);
  return p;
}

const tni_value *value_named(const tni_graph *g, const char *name) {
  return tni_graph_value(g, tni_graph_find(g, name));
}

const tni_node *node_named(const tni_graph *g, const char *name) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (strcmp(g->nodes[i]->pub.name, name) == 0) return g->nodes[i];
  return NULL;
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  int bad = suite_scan() | suite_tensor() | suite_external() | suite_graph() | suite_function() | suite_upgrade() |
            suite_real() | suite_fuzz() | suite_memory();
  if (bad) return 2;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
