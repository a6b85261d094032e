/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/graph/graph_test.h"

void fixture_init(fixture *f) {
  tni_error_init(&f->err);
  f->g = NULL;
  if (tni_graph_create(NULL, "test", &f->g, &f->err) != TN_OK) CU_FAIL_FATAL("graph");
}

void fixture_finish(fixture *f) {
  tni_graph_destroy(f->g);
  f->g = NULL;
}

tn_id val(fixture *f, const char *name) {
  if (!name || strcmp(name, "-") == 0) return TN_NONE;
  tn_id v = tni_graph_find(f->g, name);
  return v != TN_NONE ? v : tni_graph_add_value(f->g, name, TN_VALUE_ACT, TN_DT_F32);
}

/* Cuts the next word of *s into buf. */
static int word(const char **s, const char *sep, char *buf, size_t n) {
  *s += strspn(*s, sep);
  size_t len = strcspn(*s, sep);
  if (len == 0 || len >= n) return 0;
  memcpy(buf, *s, len);
  buf[len] = '\0';
  *s += len;
  return 1;
}

static uint32_t ids(fixture *f, const char *names, tn_id *out) {
  char buf[128];
  uint32_t n = 0;
  while (word(&names, " ", buf, sizeof buf)) out[n++] = val(f, buf);
  return n;
}

tn_id input(fixture *f, const char *name, const char *dims) {
  tn_expr e[16];
  char buf[128];
  uint32_t n = 0;
  tn_id v = tni_graph_add_value(f->g, name, TN_VALUE_INPUT, TN_DT_F32);
  if (!dims) return v;
  while (word(&dims, ", ", buf, sizeof buf)) e[n++] = strcmp(buf, "?") ? tni_ex_parse(f->g->exprs, buf) : TNI_EXPR_NONE;
  CU_ASSERT_EQUAL(tni_value_set_dims(f->g, v, n, e), TN_OK);
  return v;
}

tn_id constant(fixture *f, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dims, void *data) {
  tn_id v = tni_graph_add_value(f->g, name, TN_VALUE_CONST, dtype);
  tni_tensor t = {.dtype = dtype, .rank = rank, .data = data};
  int64_t count;
  for (uint32_t i = 0; i < rank; i++) t.dims[i] = dims[i];
  CU_ASSERT_EQUAL(tni_dims_count(dims, rank, &count), TN_OK);
  CU_ASSERT_EQUAL(tni_dtype_bytes(dtype, count, &t.bytes), TN_OK);
  CU_ASSERT_EQUAL(tni_value_set_tensor(f->g, v, &t, NULL), TN_OK);
  return v;
}

tn_status node_raw(fixture *f, const char *name, const char *type, int64_t version, const char *in, const char *out,
                   const tni_raw_attr *raw, uint32_t n_raw) {
  tn_id i[64], o[64];
  uint32_t n_in = ids(f, in, i), n_out = ids(f, out, o);
  return tni_graph_add_node(f->g, name, "", type, version, i, n_in, o, n_out, raw, n_raw, NULL, &f->err);
}

tn_status node(fixture *f, const char *name, const char *type, const char *in, const char *out) {
  return node_raw(f, name, type, 17, in, out, NULL, 0);
}

void io(fixture *f, const char *in, const char *out) {
  tn_id i[64], o[64];
  uint32_t n_in = ids(f, in, i), n_out = ids(f, out, o);
  CU_ASSERT_EQUAL(tni_graph_set_io(f->g, i, n_in, o, n_out), TN_OK);
}

tn_id node_id(const fixture *f, const char *name) {
  for (tn_id i = 0; i < f->g->n_nodes; i++)
    if (strcmp(f->g->nodes[i]->pub.name, name) == 0) return i;
  return TN_NONE;
}

const char *order_of(const fixture *f, char *buf, size_t n) {
  size_t used = 0;
  buf[0] = '\0';
  for (tn_id i = 0; i < f->g->n_nodes && used < n; i++)
    if (!f->g->nodes[i]->dead)
      used += (size_t)snprintf(buf + used, n - used, "%s%s", used ? " " : "", f->g->nodes[i]->pub.name);
  return buf;
}

int err_has(const tn_error *e, const char *parts) {
  char text[512], part[256];
  snprintf(text, sizeof text, "%s @ %s", e->message, e->where);
  while (word(&parts, "|", part, sizeof part)) {
    if (strstr(text, part)) continue;
    fprintf(stderr, "\nno '%s' in: %s\n", part, text);
    return 0;
  }
  return 1;
}

tni_raw_attr raw_int(const char *name, int64_t v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = v}};
}

tni_raw_attr raw_float(const char *name, double v) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOAT, .n = 1, .u.f = v}};
}

tni_raw_attr raw_string(const char *name, const char *s) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_STRING, .n = strlen(s), .u.s = s}};
}

tni_raw_attr raw_ints(const char *name, const int64_t *v, uint64_t n) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = n, .u.ints = v}};
}

tni_raw_attr raw_graph(const char *name, tni_graph **g) {
  return (tni_raw_attr){
      .name = name, .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_GRAPH, .n = 1}, .graphs = g, .n_graphs = 1};
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  add_op_suite();
  add_attr_suite();
  add_build_suite();
  add_subgraph_suite();
  add_edit_suite();
  add_view_suite();
  add_dump_suite();
  add_dtype_suite();
  add_random_suite();
  add_memory_suite();
  add_state_suite();
  CU_basic_set_mode(CU_BRM_NORMAL);
  CU_basic_run_tests();
  int failed = CU_get_number_of_failures() != 0 || CU_get_error() != CUE_SUCCESS;
  CU_cleanup_registry();
  return failed;
}
