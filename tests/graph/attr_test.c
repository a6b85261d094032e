/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/graph/graph_test.h"

static const tn_node *only(const fixture *f) { return &f->g->nodes[0]->pub; }

static void defaults(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "x", "4, 4");
  CU_ASSERT_EQUAL_FATAL(node(&f, "g", "Gemm", "x x", "y"), TN_OK);
  const tn_node *n = only(&f);
  CU_ASSERT_EQUAL(n->n_attr, 4);
  CU_ASSERT_EQUAL(n->attr[TN_GEMM_ALPHA]->type, TN_ATTR_FLOAT);
  CU_ASSERT_EQUAL(n->attr[TN_GEMM_ALPHA]->u.f, 1.0);
  CU_ASSERT_EQUAL(n->attr[TN_GEMM_TRANS_B]->u.i, 0);
  CU_ASSERT_EQUAL(n->attr[TN_GEMM_TRANS_B]->n, 1);
  CU_ASSERT_EQUAL(tni_attr_i(n, "transB", 7), 0);
  CU_ASSERT_EQUAL(tni_attr_i(n, "nothing", 7), 7);
  CU_ASSERT_EQUAL(tni_attr_i(n, "alpha", 7), 7); /* of another type */
  CU_ASSERT_PTR_NULL(tni_attr(n, "nothing"));
  fixture_finish(&f);
}

static void written(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "x", "4, 4");
  char alpha[] = "alpha";
  tni_raw_attr raw[] = {raw_int("transB", 1), raw_float(alpha, 0.5)};
  CU_ASSERT_EQUAL_FATAL(node_raw(&f, "g", "Gemm", 17, "x x", "y", raw, 2), TN_OK);
  memset(alpha, '?', sizeof alpha - 1); /* names are copied */
  CU_ASSERT_EQUAL(tni_attr_i(only(&f), "transB", 0), 1);
  CU_ASSERT_EQUAL(tni_attr_f(only(&f), "alpha", 0), 0.5);
  CU_ASSERT_EQUAL(tni_attr_f(only(&f), "beta", 0), 1.0);
  CU_ASSERT_STRING_EQUAL(f.g->nodes[0]->raw[1].name, "alpha");
  fixture_finish(&f);
}

/* Absent, empty and written can be told apart. */
static void absence(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "x", "4, 4");
  int64_t perm[] = {1, 0};
  const int64_t *v;
  tni_raw_attr end = raw_int("end", -1), some = raw_ints("perm", perm, 2), empty = raw_ints("perm", NULL, 0);
  tni_raw_attr reduction = raw_string("reduction", "add");
  CU_ASSERT_EQUAL(node(&f, "a", "Shape", "x", "a"), TN_OK);
  CU_ASSERT_EQUAL(node_raw(&f, "b", "Shape", 17, "x", "b", &end, 1), TN_OK);
  CU_ASSERT_EQUAL(node(&f, "c", "Transpose", "x", "c"), TN_OK);
  CU_ASSERT_EQUAL(node_raw(&f, "d", "Transpose", 17, "x", "d", &some, 1), TN_OK);
  CU_ASSERT_EQUAL(node_raw(&f, "e", "Transpose", 17, "x", "e", &empty, 1), TN_OK);
  CU_ASSERT_EQUAL(node(&f, "f", "ScatterND", "x x x", "f"), TN_OK);
  CU_ASSERT_EQUAL(node_raw(&f, "g", "ScatterND", 17, "x x x", "g", &reduction, 1), TN_OK);
  CU_ASSERT_EQUAL(node(&f, "h", "ConstantOfShape", "a", "h"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(f.g->n_nodes, 8);
  perm[0] = 99; /* lists are copied */
  tni_node **n = f.g->nodes;
  CU_ASSERT_EQUAL(tni_attr(&n[0]->pub, "end")->n, 0);
  CU_ASSERT_EQUAL(tni_attr(&n[0]->pub, "start")->n, 1);
  CU_ASSERT_EQUAL(tni_attr_i(&n[0]->pub, "end", 1234), 1234);
  CU_ASSERT_EQUAL(tni_attr(&n[1]->pub, "end")->n, 1);
  CU_ASSERT_EQUAL(tni_attr_i(&n[1]->pub, "end", 1234), -1);
  CU_ASSERT_EQUAL(tni_attr_ints(&n[2]->pub, "perm", &v), 0);
  CU_ASSERT_PTR_NULL(v);
  CU_ASSERT_EQUAL(tni_attr_ints(&n[3]->pub, "perm", &v), 2);
  CU_ASSERT_TRUE(v && v[0] == 1 && v[1] == 0);
  CU_ASSERT_EQUAL(tni_attr_ints(&n[4]->pub, "perm", &v), 0);
  CU_ASSERT_PTR_NOT_NULL(v);
  CU_ASSERT_STRING_EQUAL(tni_attr_s(&n[5]->pub, "reduction", "?"), "none");
  CU_ASSERT_STRING_EQUAL(tni_attr_s(&n[6]->pub, "reduction", "?"), "add");
  CU_ASSERT_PTR_NULL(tni_attr_tensor(&n[7]->pub, "value"));
  fixture_finish(&f);
}

static void tensors(void) {
  fixture f;
  fixture_init(&f);
  float one = 1;
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 1, .dims = {1}, .data = &one, .bytes = 4};
  tni_raw_attr raw = {.name = "value", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_TENSOR}, .tensor = &t};
  CU_ASSERT_EQUAL_FATAL(node_raw(&f, "c", "Constant", 17, "", "y", &raw, 1), TN_OK);
  CU_ASSERT_PTR_EQUAL(tni_attr_tensor(only(&f), "value"), &t);
  CU_ASSERT_EQUAL(only(&f)->attr[0]->n, 1);
  CU_ASSERT_EQUAL(tni_attr(only(&f), "value_int")->n, 0);
  raw.tensor = NULL;
  CU_ASSERT_EQUAL(node_raw(&f, "d", "Constant", 17, "", "z", &raw, 1), TN_E_INVALID);
  CU_ASSERT_TRUE(err_has(&f.err, "'value' has no tensor|node 'd' (Constant)"));
  t.rank = 9;
  raw.tensor = &t;
  tni_error_init(&f.err);
  CU_ASSERT_EQUAL(node_raw(&f, "e", "Constant", 17, "", "z", &raw, 1), TN_E_LIMIT);
  CU_ASSERT_TRUE(err_has(&f.err, "'value'|rank 9 is above 8|node 'e' (Constant)"));
  t.rank = 1;
  t.dims[0] = 2;
  tni_error_init(&f.err);
  CU_ASSERT_EQUAL(node_raw(&f, "e", "Constant", 17, "", "z", &raw, 1), TN_E_INVALID);
  CU_ASSERT_TRUE(err_has(&f.err, "'value'|4 bytes|need 8|node 'e' (Constant)"));
  fixture_finish(&f);
}

static void strings(void) {
  fixture f;
  fixture_init(&f);
  char one[] = "one";
  const char *list[] = {one, ""};
  tni_raw_attr raw = {.name = "value_strings", .a = {.type = TN_ATTR_STRINGS, .n = 2, .u.strings = list}};
  CU_ASSERT_EQUAL_FATAL(node_raw(&f, "c", "Constant", 17, "", "y", &raw, 1), TN_OK);
  one[0] = '?';
  const tn_attr *a = tni_attr(only(&f), "value_strings");
  CU_ASSERT_EQUAL(a->h.size, sizeof *a);
  CU_ASSERT_EQUAL(a->n, 2);
  CU_ASSERT_STRING_EQUAL(a->u.strings[0], "one");
  CU_ASSERT_STRING_EQUAL(a->u.strings[1], "");
  fixture_finish(&f);
}

static void unknown_op_keeps_raw(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "x", "4");
  tni_raw_attr raw = raw_int("k", 5);
  CU_ASSERT_EQUAL_FATAL(node_raw(&f, "n", "Mystery", 17, "x", "y", &raw, 1), TN_OK);
  CU_ASSERT_PTR_NULL(f.g->nodes[0]->op);
  CU_ASSERT_EQUAL(only(&f)->op, TN_OP_UNKNOWN);
  CU_ASSERT_EQUAL_FATAL(only(&f)->n_attr, 1); /* as the model wrote it */
  CU_ASSERT_STRING_EQUAL(only(&f)->attr[0]->name, "k");
  CU_ASSERT_EQUAL(only(&f)->attr[0]->u.i, 5);
  CU_ASSERT_STRING_EQUAL(only(&f)->type, "Mystery");
  CU_ASSERT_EQUAL(tni_attr_i(only(&f), "k", 0), 5);
  CU_ASSERT_PTR_NULL(tni_attr(only(&f), "j"));
  fixture_finish(&f);
}

static void errors(void) {
  tni_raw_attr twice[] = {raw_int("axis", 1), raw_int("axis", 1)};
  tni_raw_attr typed = raw_float("axis", 1), other = raw_int("axes", 1);
  tni_raw_attr sparse = {.name = "sparse_value", .a = {.type = TN_ATTR_NONE}};
  tni_raw_attr no_graph = {.name = "then_branch", .a = {.type = TN_ATTR_GRAPH}};
  const struct {
    const char *type;
    const tni_raw_attr *raw;
    uint32_t n;
    tn_status st;
    const char *text;
  } rows[] = {
      {"Concat", NULL, 0, TN_E_INVALID, "'axis' is required|node 'n' (Concat)"},
      {"Concat", &typed, 1, TN_E_INVALID, "'axis' is FLOAT, must be INT|node 'n'"},
      {"Concat", twice, 2, TN_E_INVALID, "'axis' stands twice|node 'n'"},
      {"Gather", &other, 1, TN_E_INVALID, "'axes' is not one of Gather|opset 17|node 'n'"},
      {"Add", &other, 1, TN_E_INVALID, "'axes' is not one of Add|node 'n'"},
      {"Constant", &sparse, 1, TN_E_UNSUPPORTED, "'sparse_value' is not supported|node 'n'"},
      {"If", &no_graph, 1, TN_E_INVALID, "'then_branch' has 0 graphs|node 'n'"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    fixture_init(&f);
    input(&f, "x", "4");
    CU_ASSERT_EQUAL(node_raw(&f, "n", rows[i].type, 17, "x", "y", rows[i].raw, rows[i].n), rows[i].st);
    CU_ASSERT_TRUE(err_has(&f.err, rows[i].text));
    CU_ASSERT_EQUAL(f.err.node, 0);
    CU_ASSERT_EQUAL(f.g->n_nodes, 0);
    fixture_finish(&f);
  }
}

/* What ONNX's texts list for every attribute that takes words, by hand; tf_half_pixel_for_nn is Resize's before 13. */
static const struct {
  const char *op, *attr, *words;
} listed[] = {
    {"AveragePool", "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"BitShift", "direction", "LEFT RIGHT"},
    {"Cast", "round_mode", "up down nearest"},
    {"CastLike", "round_mode", "up down nearest"},
    {"CausalConvWithState", "activation", "none silu swish"},
    {"Conv", "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"ConvInteger", "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"ConvTranspose", "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"DepthToSpace", "mode", "DCR CRD"},
    {"GRU", "activations",
     "Relu Tanh Sigmoid Affine LeakyRelu ThresholdedRelu ScaledTanh HardSigmoid Elu Softsign Softplus tanh sigmoid"},
    {"GRU", "direction", "forward reverse bidirectional"},
    {"Gelu", "approximate", "none tanh"},
    {"GridSample", "mode", "linear nearest cubic"},
    {"GridSample", "padding_mode", "zeros border reflection"},
    {"LSTM", "activations",
     "Relu Tanh Sigmoid Affine LeakyRelu ThresholdedRelu ScaledTanh HardSigmoid Elu Softsign Softplus relu"},
    {"LSTM", "direction", "forward reverse bidirectional"},
    {"LinearAttention", "update_rule", "linear gated delta gated_delta"},
    {"LpPool", "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"MaxPool", "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"NegativeLogLikelihoodLoss", "reduction", "none sum mean"},
    {"Pad", "mode", "constant reflect edge wrap"},
    {"QLinearConv", "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"RNN", "activations",
     "Relu Tanh Sigmoid Affine LeakyRelu ThresholdedRelu ScaledTanh HardSigmoid Elu Softsign Softplus TANH"},
    {"RNN", "direction", "forward reverse bidirectional"},
    {"Resize", "coordinate_transformation_mode",
     "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_crop_and_resize "
     "tf_half_pixel_for_nn"},
    {"Resize", "keep_aspect_ratio_policy", "stretch not_larger not_smaller"},
    {"Resize", "mode", "nearest linear cubic"},
    {"Resize", "nearest_mode", "round_prefer_floor round_prefer_ceil floor ceil"},
    {"RoiAlign", "coordinate_transformation_mode", "half_pixel output_half_pixel"},
    {"RoiAlign", "mode", "avg max"},
    {"ScatterElements", "reduction", "none add mul max min"},
    {"ScatterND", "reduction", "none add mul max min"},
    {"SoftmaxCrossEntropyLoss", "reduction", "none sum mean"},
    {"SpaceToDepth", "mode", "DCR CRD"},
    {"TensorScatter", "mode", "linear circular"},
};
enum { N_LISTED = sizeof listed / sizeof *listed };

/* A node of this operator with this one attribute; text is what the error must say, NULL: nothing about its value. */
static void try_attr(const tni_op *op, const tni_raw_attr *raw, const char *text) {
  fixture f;
  tn_id in[16];
  fixture_init(&f);
  input(&f, "x", "4");
  for (uint32_t i = 0; i < op->in_min; i++) in[i] = 0;
  const tn_id y = tni_graph_add_value(f.g, "y", TN_VALUE_ACT, TN_DT_UNDEFINED);
  const tn_status st = tni_graph_add_node(f.g, "n", op->domain, op->name, op->until ? op->until : *op->domain ? 1 : 28, in,
                                          op->in_min, &y, 1, raw, 1, NULL, &f.err);
  if (text) {
    CU_ASSERT_EQUAL(st, TN_E_INVALID);
    CU_ASSERT_TRUE(err_has(&f.err, text));
    CU_ASSERT_TRUE(err_has(&f.err, raw->name));
    CU_ASSERT_TRUE(err_has(&f.err, "node 'n'"));
  } else {
    CU_ASSERT_PTR_NULL(strstr(f.err.message, ", must be"));
  }
  fixture_finish(&f);
}

static void try_word(const tni_op *op, const tni_attr_spec *s, const char *word, bool good) {
  tni_raw_attr raw = raw_string(s->name, word);
  if (s->type == TN_ATTR_STRINGS) {
    raw.a.type = TN_ATTR_STRINGS;
    raw.a.n = 1;
    raw.a.u.strings = &word;
  }
  try_attr(op, &raw, good ? NULL : "must be one of ");
}

/* Every attribute with words is listed above, takes what is listed and nothing else. */
static void words(void) {
  uint32_t n, found = 0;
  const tni_op *table = tni_op_table(&n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < table[i].n_attrs; k++) {
      const tni_attr_spec *s = &table[i].attrs[k];
      if (s->type != TN_ATTR_STRING && s->type != TN_ATTR_STRINGS) continue;
      const char *free_text[] = {"equation", "value_string", "value_strings"};
      bool any = false;
      for (size_t j = 0; j < 3; j++) any = any || strcmp(s->name, free_text[j]) == 0;
      uint32_t at = 0;
      while (at < N_LISTED && (strcmp(listed[at].op, table[i].name) != 0 || strcmp(listed[at].attr, s->name) != 0))
        at++;
      CU_ASSERT_EQUAL(at < N_LISTED, !any);
      CU_ASSERT_EQUAL(s->words == NULL, any);
      if (any || at == N_LISTED) continue;
      found++;
      size_t bars = 1, words_n = 0;
      for (const char *c = s->words; *c; c++) bars += *c == '|';
      for (const char *c = listed[at].words; *c; words_n++) {
        char word[64];
        const size_t len = strcspn(c, " ");
        snprintf(word, sizeof word, "%.*s", (int)len, c);
        try_word(&table[i], s, word, true);
        c += len + (c[len] == ' ');
      }
      if (s->type == TN_ATTR_STRING) CU_ASSERT_EQUAL(bars, words_n);
      try_word(&table[i], s, "", false);
      try_word(&table[i], s, "nothing", false);
      try_word(&table[i], s, s->words, false); /* not several at once */
    }
  CU_ASSERT_EQUAL(found, N_LISTED);
}

/* Numbers: the ends of the range and what is beyond them, of every attribute that has a range. */
static void ranges(void) {
  uint32_t n, found = 0;
  const tni_op *table = tni_op_table(&n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < table[i].n_attrs; k++) {
      const tni_attr_spec *s = &table[i].attrs[k];
      if (s->lo == s->hi) continue;
      found++;
      const int64_t v[] = {s->lo, s->hi, s->lo - 1, s->hi == INT64_MAX ? INT64_MIN : s->hi + 1};
      for (uint32_t j = 0; j < 4; j++) {
        tni_raw_attr one = raw_int(s->name, v[j]), list = raw_ints(s->name, &v[j], 1);
        try_attr(&table[i], s->type == TN_ATTR_INT ? &one : &list, j < 2 ? NULL : ", must be");
      }
    }
  CU_ASSERT_TRUE(found > 50);
}

void add_attr_suite(void) {
  CU_add_test(CU_add_suite("attribute values", NULL, NULL), "words", words);
  CU_add_test(CU_get_suite("attribute values"), "ranges", ranges);
  CU_pSuite s = CU_add_suite("attributes", NULL, NULL);
  CU_add_test(s, "defaults", defaults);
  CU_add_test(s, "written", written);
  CU_add_test(s, "absence", absence);
  CU_add_test(s, "tensors", tensors);
  CU_add_test(s, "strings", strings);
  CU_add_test(s, "unknown op keeps raw attributes", unknown_op_keeps_raw);
  CU_add_test(s, "errors", errors);
}
