/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/graph/quantized.h"
#include "runtime/graph/view.h"
#include "tests/graph/graph_test.h"

static void structure(void) {
  fixture f;
  tn_graph v;
  memset(&v, 0, sizeof v);
  fixture_init(&f);
  input(&f, "x", "batch, 4");
  node(&f, "a", "Neg", "x", "t");
  node(&f, "b", "Abs", "t", "y");
  io(&f, "x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, TN_PHASE_DECODE, &v, &f.err), TN_OK);
  CU_ASSERT_EQUAL(v.h.size, sizeof v);
  CU_ASSERT_EQUAL(v.phase, TN_PHASE_DECODE);
  CU_ASSERT_PTR_EQUAL(v.ctx->exprs, f.g->exprs);
  CU_ASSERT_TRUE(v.n_nodes == 2 && v.n_values == 3);
  for (uint32_t i = 0; i < v.n_nodes; i++) CU_ASSERT_PTR_EQUAL(v.nodes[i], &f.g->nodes[i]->pub);
  for (uint32_t i = 0; i < v.n_values; i++) CU_ASSERT_PTR_EQUAL(v.values[i], &f.g->values[i]->pub);
  CU_ASSERT_EQUAL_FATAL(v.n_symbols, 1);
  CU_ASSERT_STRING_EQUAL(v.symbols[0]->name, "batch");
  CU_ASSERT_TRUE(v.symbols[0]->lo == 0 && v.symbols[0]->hi == INT32_MAX);
  CU_ASSERT_EQUAL(v.symbols[0]->h.size, sizeof(tn_symbol));
  f.g->nodes[0]->dead = true;
  CU_ASSERT_EQUAL(tni_graph_view(f.g, TN_PHASE_DECODE, &v, &f.err), TN_E_INTERNAL);
  fixture_finish(&f);
}

static void weights(void) {
  static float w[6] = {1, 2, 3, 4, 5, 6};
  static uint16_t h[6] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
  static uint8_t q[3] = {0x21, 0x43, 0xf5}; /* int4: 1 2 3 4 5 -1 */
  const int64_t dims[] = {2, 3};
  fixture f;
  tn_graph v;
  float row[6];
  fixture_init(&f);
  input(&f, "x", "2, 3");
  const tn_id ids[] = {constant(&f, "f32", TN_DT_F32, 2, dims, w), constant(&f, "f16", TN_DT_F16, 2, dims, h),
                       constant(&f, "i4", TN_DT_I4, 2, dims, q), constant(&f, "flat", TN_DT_F32, 1, dims + 1, w)};
  io(&f, "x", "x");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, 0, &v, &f.err), TN_OK);
  for (int i = 0; i < 3; i++) {
    const tn_weight *p = v.values[ids[i]]->data;
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_TRUE(p->N == 2 && p->K == 3 && p->flags == 0 && p->h.size == sizeof *p);
    CU_ASSERT_EQUAL(p->dtype, v.values[ids[i]]->dtype);
    CU_ASSERT_PTR_EQUAL(p->raw, f.g->values[ids[i]]->tensor->data);
    CU_ASSERT_EQUAL(p->rows(p, 1, 2, row), TN_OK);
    CU_ASSERT_TRUE(row[0] == 4 && row[1] == 5 && row[2] == (i == 2 ? -1 : 6));
    CU_ASSERT_EQUAL(p->rows(p, 0, 2, row), TN_OK);
    CU_ASSERT_TRUE(row[0] == 1 && row[3] == 4);
    CU_ASSERT_EQUAL(p->rows(p, 2, 2, row), TN_OK);
    CU_ASSERT_EQUAL(p->rows(p, 0, 3, row), TN_E_INVALID);
    CU_ASSERT_EQUAL(p->rows(p, -1, 1, row), TN_E_INVALID);
    CU_ASSERT_EQUAL(p->rows(p, 2, 1, row), TN_E_INVALID);
  }
  CU_ASSERT_PTR_NULL(v.values[ids[3]]->data);
  CU_ASSERT_PTR_NULL(v.values[val(&f, "x")]->data);
  fixture_finish(&f);
}

/* Two weights a code, scales as steps below one of the row: floats, the grid and its steps say the same. */
static void levels(void) {
  static const float value[] = {-4, -1, -1, 2, 1, -2, 5, 1}, steps[] = {1, 0.5f, 0.25f}, parents[] = {2, 3};
  static const uint8_t code_bytes[] = {0xe4, 0x1b}, index_bytes[] = {0x10, 0x02}; /* 0 1 2 3, 3 2 1 0; 0 1, 2 0 */
  const tni_quantized_levels l = {4, 2, value, 3, 4, steps, index_bytes, 1};
  tni_quantized q = {.bits = 2, .zero_kind = TNI_ZERO_NONE, .N = 2, .K = 7, .block = 4, .scale_dtype = TN_DT_F32};
  q.row_bytes = 1, q.blocks = 2, q.codes = code_bytes, q.scales = (const uint8_t *)parents, q.levels = &l;
  tn_quant v;
  uint8_t codes[8], index[4];
  float scales[4], p[2], row[7];
  tni_quantized_look(&q);
  tni_quantized_view(&q, &v);
  CU_ASSERT_TRUE(v.scheme == TN_QUANT_LEVELS && v.n_levels == 4 && v.vec == 2 && v.n_steps == 3 && v.group == 4);
  CU_ASSERT_TRUE(v.levels == value && v.steps == steps && v.scale_dtype == TN_DT_F16);
  CU_ASSERT_EQUAL(v.grid(&v, 0, 2, codes, scales, NULL), TN_OK);
  CU_ASSERT_EQUAL(v.stepped(&v, 0, 2, index, p), TN_OK);
  CU_ASSERT_EQUAL(memcmp(codes, (const uint8_t[]){0, 1, 2, 3, 3, 2, 1, 0}, 8), 0);
  CU_ASSERT_EQUAL(memcmp(index, (const uint8_t[]){0, 1, 2, 0}, 4), 0);
  CU_ASSERT_EQUAL(memcmp(scales, (const float[]){2, 1, 0.75f, 3}, sizeof scales), 0);
  CU_ASSERT_EQUAL(memcmp(p, parents, sizeof p), 0);
  tni_quantized_row(&q, 0, 0, 7, row);
  CU_ASSERT_EQUAL(memcmp(row, (const float[]){-8, -2, -2, 4, 1, -2, 5}, sizeof row), 0);
  tni_quantized_row(&q, 1, 3, 5, row);
  CU_ASSERT_EQUAL(memcmp(row, (const float[]){-1.5f, -3}, 2 * sizeof *row), 0);
  CU_ASSERT_EQUAL(tni_quantized_bytes(&q), 2 * (1 + 4 + 1));
  CU_ASSERT_EQUAL(v.grid(&v, 0, 3, codes, NULL, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(v.stepped(&v, -1, 1, index, NULL), TN_E_INVALID);
}

typedef struct hash_case {
  const char *dim, *type, *value; /* of the input, the second node's operator, the name between them */
  float w;
  int64_t axis;
  uint32_t phase;
} hash_case;

static void hash_of(const hash_case *c, uint8_t *hash) {
  fixture f;
  tn_graph v;
  float w = c->w;
  tni_raw_attr axis = raw_int("axis", c->axis);
  fixture_init(&f);
  input(&f, "x", c->dim);
  constant(&f, "w", TN_DT_F32, 1, (const int64_t[]){1}, &w);
  node_raw(&f, "a", "Gather", 17, "x w", c->value, &axis, 1);
  node(&f, "b", c->type, c->value, "y");
  io(&f, "x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, c->phase, &v, &f.err), TN_OK);
  memcpy(hash, v.hash, sizeof v.hash);
  fixture_finish(&f);
}

static void hashes(void) {
  static const hash_case base = {"batch", "Neg", "t", 1, 0, 1};
  static const struct {
    hash_case c;
    bool equal;
  } rows[] = {
      {{"batch", "Neg", "t", 1, 0, 1}, true},  {{"batch", "Neg", "other", 1, 0, 1}, true},
      {{"b", "Neg", "t", 1, 0, 1}, false},     {{"batch", "Abs", "t", 1, 0, 1}, false},
      {{"batch", "Neg", "t", 2, 0, 1}, false}, {{"batch", "Neg", "t", 1, 1, 1}, false},
      {{"batch", "Neg", "t", 1, 0, 2}, false}, {{"batch", "What", "t", 1, 0, 1}, false},
  };
  uint8_t want[32], got[32];
  hash_of(&base, want);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hash_of(&rows[i].c, got);
    CU_ASSERT_EQUAL(memcmp(want, got, sizeof want) == 0, rows[i].equal);
  }
}

void add_view_suite(void) {
  CU_pSuite s = CU_add_suite("view", NULL, NULL);
  CU_add_test(s, "structure", structure);
  CU_add_test(s, "weights", weights);
  CU_add_test(s, "levels and steps", levels);
  CU_add_test(s, "hashes", hashes);
}
