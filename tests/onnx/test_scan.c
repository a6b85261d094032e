/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "runtime/onnx/wire/wire.h"
#include "suite.h"

static wbuf small_graph(void) {
  wbuf g = {0};
  wb_msg(&g, G_NODE, onnx_node("Relu", "r", "x", "y"));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,n"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, "2,n"));
  return g;
}

static tn_status scan(const wbuf *m, uint32_t graphs, uint64_t meta, tni_stripped *s, tn_error *e) {
  tni_scan_limits lim = {graphs, meta};
  tni_error_init(e);
  *s = (tni_stripped){0};
  return tni_scan(&onnx__model_proto__descriptor, m->p, m->n, &lim, "test.onnx", s, e);
}

/* Payloads leave, the marker says which is whose, and what is small stays. */
static void test_spans(void) {
  enum { BIG = 3000 };
  uint8_t data[BIG];
  wbuf g = small_graph();
  for (int i = 0; i < 3; i++) {
    char name[8] = {(char)('a' + i)};
    memset(data, i + 1, sizeof data);
    wb_msg(&g, G_INIT, onnx_tensor_raw(name, TN_DT_U8, i == 1 ? "16" : "3000", data, i == 1 ? 16 : BIG));
  }
  wbuf m = onnx_model(g, 17);
  tni_stripped s;
  tn_error e;
  CU_ASSERT_EQUAL_FATAL(scan(&m, 8, 1 << 20, &s, &e), TN_OK);
  CU_ASSERT_EQUAL(s.n_spans, 2);
  CU_ASSERT(s.bytes < m.n - 2 * BIG + 40);
  tni_arena *arena;
  ProtobufCMessage *msg;
  CU_ASSERT_EQUAL_FATAL(tni_unpack(&onnx__model_proto__descriptor, &s, 1 << 20, "t", &arena, &msg, &e), TN_OK);
  const Onnx__GraphProto *gp = ((Onnx__ModelProto *)msg)->graph;
  CU_ASSERT_EQUAL_FATAL(gp->n_initializer, 3);
  CU_ASSERT_EQUAL(gp->initializer[1]->raw_data.len, 16);
  CU_ASSERT_EQUAL(gp->initializer[1]->n_tenon_span, 0);
  for (int i = 0; i < 3; i += 2) {
    CU_ASSERT_EQUAL_FATAL(gp->initializer[i]->n_tenon_span, 1);
    const tni_payload *span = &s.spans[gp->initializer[i]->tenon_span[0]];
    CU_ASSERT_EQUAL(span->bytes, BIG);
    CU_ASSERT_EQUAL(span->field, T_RAW);
    CU_ASSERT_EQUAL(m.p[span->offset], i + 1);
    CU_ASSERT_EQUAL(m.p[span->offset + BIG - 1], i + 1);
  }
  CU_ASSERT_EQUAL(gp->n_node, 1);
  CU_ASSERT_STRING_EQUAL(gp->node[0]->op_type, "Relu");
  tni_arena_destroy(arena);
  tni_stripped_finish(&s);
  wb_free(&m);
}

/* A file cannot bring a marker of its own. */
static void test_forged_marker(void) {
  wbuf t = onnx_tensor("w", TN_DT_U8, "3000"), g = small_graph();
  wb_int(&t, 536870911, 0);
  wb_msg(&g, G_INIT, t);
  tni_model *m = import_expect(onnx_model(g, 17), TN_E_INVALID, "no data", "forged marker");
  CU_ASSERT_PTR_NULL(m);
}

/* Fields that the schema does not list do not reach the message. */
static void test_unknown_fields(void) {
  static char doc[100000];
  wbuf g = small_graph();
  memset(doc, 'd', sizeof doc - 1);
  wb_str(&g, 10, doc);
  wb_int(&g, 999, 5);
  wbuf m = onnx_model(g, 17);
  wb_str(&m, 6, doc);
  tni_stripped s;
  tn_error e;
  CU_ASSERT_EQUAL_FATAL(scan(&m, 8, 4096, &s, &e), TN_OK);
  CU_ASSERT(s.bytes < 400);
  tni_stripped_finish(&s);
  tni_model_destroy(import_expect(m, TN_OK, NULL, "unknown fields"));
}

static void test_broken(void) {
  static const struct {
    const char *label, *bytes;
    size_t n;
    const char *part;
  } rows[] = {
      {"empty", "", 0, "empty"},
      {"field 0", "\x00\x01", 2, "tag"},
      {"cut tag", "\x80", 1, "tag"},
      {"long tag", "\xff\xff\xff\xff\xff\x01", 6, "tag"},
      {"group", "\x0b", 1, "wire type"},
      {"cut varint", "\x08\x80", 2, "cut off"},
      {"varint of 11 bytes", "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12, "cut off"},
      {"graph longer than the file", "\x3a\x10\x0a", 3, "16 bytes are announced"},
      {"node longer than the graph", "\x3a\x02\x0a\x02\x08\x01", 6, "its message has 0"},
      {"length of 2^64 - 1", "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "length"},
      {"ir_version as text", "\x0a\x01x", 3, "wire type"},
      {"graph as a number", "\x38\x01", 2, "wire type"},
      {"two graphs", "\x3a\x00\x3a\x00", 4, "stands twice"},
      {"packed dims cut", "\x3a\x06\x2a\x04\x0a\x02\x01\x80", 8, "packed"},
      {"packed floats of 5 bytes", "\x3a\x09\x2a\x07\x22\x05\x00\x00\x00\x00\x00", 11, "packed"},
      {"cut float", "\x3a\x05\x2a\x03\x25\x00\x00", 7, "cut off"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    wbuf m = {0};
    wb_raw(&m, rows[i].bytes, rows[i].n);
    import_expect(m, TN_E_CORRUPT, rows[i].part, rows[i].label);
  }
}

/* n If nodes inside one another, in some ten bytes each. */
static wbuf bomb(int n) {
  wbuf g = {0};
  for (int i = 0; i < n; i++) {
    wbuf a = {0}, node = {0}, outer = {0};
    wb_msg(&a, 6, g);
    wb_msg(&node, 5, a);
    wb_msg(&outer, G_NODE, node);
    g = outer;
  }
  return onnx_model(g, 17);
}

static void test_depth(void) {
  wbuf m = bomb(3000);
  CU_ASSERT(m.n < 40000);
  import_expect(m, TN_E_LIMIT, "nest deeper than 32", "3000 subgraphs");
  tni_stripped s;
  tn_error e;
  m = bomb(31);
  CU_ASSERT_EQUAL(scan(&m, 32, 1 << 20, &s, &e), TN_OK);
  tni_stripped_finish(&s);
  wb_free(&m);
  m = bomb(32);
  CU_ASSERT_EQUAL(scan(&m, 32, 1 << 20, &s, &e), TN_E_LIMIT);
  wb_free(&m);
  /* Types nest without graphs. */
  wbuf t = {0};
  for (int i = 0; i < 3000; i++) {
    wbuf seq = {0}, type = {0};
    wb_msg(&seq, 1, t);
    wb_msg(&type, 4, seq);
    t = type;
  }
  wbuf v = {0}, g = small_graph();
  wb_str(&v, 1, "deep");
  wb_msg(&v, 2, t);
  wb_msg(&g, G_INPUT, v);
  import_expect(onnx_model(g, 17), TN_E_LIMIT, "messages nest", "3000 types");
}

static void test_budget(void) {
  wbuf g = small_graph();
  for (int i = 0; i < 2000; i++) wb_msg(&g, G_NODE, onnx_node("Relu", "node", "x", ""));
  wbuf m = onnx_model(g, 17);
  tni_stripped s;
  tn_error e;
  CU_ASSERT_EQUAL(scan(&m, 8, 10000, &s, &e), TN_E_LIMIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "10000 bytes"));
  CU_ASSERT_EQUAL_FATAL(scan(&m, 8, 1 << 20, &s, &e), TN_OK);
  tni_arena *arena;
  ProtobufCMessage *msg;
  for (uint64_t max = 64; max < 200000; max = max * 3 / 2) {
    tn_status st = tni_unpack(&onnx__model_proto__descriptor, &s, max, "t", &arena, &msg, &e);
    CU_ASSERT_EQUAL(st, TN_E_LIMIT);
    if (st == TN_OK) tni_arena_destroy(arena);
    tni_error_init(&e);
  }
  tni_stripped_finish(&s);
  tni_model *model = NULL;
  tni_import_limits lim = {.max_nodes = 1000};
  tni_error_init(&e);
  CU_ASSERT_EQUAL(tni_import_bytes(m.p, m.n, NULL, &lim, NULL, &model, &e), TN_E_LIMIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "1000 nodes"));
  wb_free(&m);
}

int suite_scan(void) {
  CU_pSuite s = CU_add_suite("onnx scan", NULL, NULL);
  return !s || !CU_add_test(s, "payload spans", test_spans) || !CU_add_test(s, "forged marker", test_forged_marker) ||
         !CU_add_test(s, "unknown fields", test_unknown_fields) || !CU_add_test(s, "broken wire", test_broken) ||
         !CU_add_test(s, "depth", test_depth) || !CU_add_test(s, "budgets", test_budget);
}
