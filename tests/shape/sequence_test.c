/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent, quantized and stateful operators; what is known of a sequence's elements.
 */
#include <string.h>

#include "tests/shape/table.h"

static const rule_case recurrent[] = {
    {"RNN", 14, "f32[t,b,i] f32[1,h,i] f32[1,h,h]", "", "f32[t,1,b,h] f32[1,b,h]"},
    {"GRU", 14, "f32[t,b,i] f32[2,3*h,i] f32[2,3*h,h]", "direction=\"bidirectional\"", "f32[t,2,b,h] f32[2,b,h]"},
    {"LSTM", 14, "f32[b,t,i] f32[1,24,i] f32[1,24,6]", "layout=1", "f32[b,t,1,6] f32[b,1,6] f32[b,1,6]"},
    {"LSTM", 14, "f64[t,b,i] f64[1,24,i] f64[...]", "hidden_size=6", "f64[t,1,b,6] f64[1,b,6] f64[1,b,6]"},
    {"GRU", 14, "f32[...] f32[...] f32[...]", "", "f32[?,1,?,?] f32[1,?,?]"},
    {"RNN", 14, "f32[t,b] f32[1,h,i] f32[1,h,h]", "", "!!operand 0 has rank 2"},
    {"LinearAttention", 27, "f32[b,t,32] f32[b,t,16] f32[b,t,24]",
     "q_num_heads=4;kv_num_heads=2;update_rule=\"linear\"", "f32[b,t,48] f32[b,2,8,12]"},
    {"LinearAttention", 27, "f32[b,t,n] f32[b,t,n] f32[b,t,n] f64[b,1,n,n]", "q_num_heads=1;kv_num_heads=1",
     "f32[b,t,n] f64[b,1,n,n]"},
    {"LinearAttention", 27, "f32[b,t,8] f32[b,t,8] f32[b,t,8]", "q_num_heads=3;kv_num_heads=2", "!!3 query heads"},
    {"CausalConvWithState", 27, "f32[b,c,l] f32[c,1,4]", "", "f32[b,c,l] f32[b,c,3]"},
    {"CausalConvWithState", 27, "f32[b,?,l] f32[c,1,k]", "", "f32[b,c,l] f32[b,c,k-1]"},
    {"CausalConvWithState", 27, "f32[b,c] f32[c,1,4]", "", "!!rank 2"},
};

static const rule_case quantized[] = {
    {"QuantizeLinear", 21, "f32[b,s] f32[]", "", "u8[b,s]"},
    {"QuantizeLinear", 21, "f32[b,s] f32[] i8[]", "", "i8[b,s]"},
    {"QuantizeLinear", 21, "f32[b,s] f32[]", "output_dtype=3", "i8[b,s]"},
    {"QuantizeLinear", 21, "f32[...] f32[] i8[]", "", "i8[...]"},
    {"QuantizeLinear", 21, "f32[b] f32[] i8[]", "output_dtype=2", "!the zero point is int8"},
    {"QuantizeLinear", 21, "f32[b] f32[]", "output_dtype=99", "!'output_dtype' is 99"},
    {"DequantizeLinear", 23, "u8[b,s] f32[s]", "", "f32[b,s]"},
    {"DequantizeLinear", 23, "u8[b,s] f32[s]", "output_dtype=11", "f64[b,s]"},
    {"MatMulInteger", 10, "u8[b,m,k] i8[k,n]", "", "i32[b,m,n]"},
    {"MatMulInteger", 10, "u8[2,3] i8[4,5]", "", "!the inner dimensions differ"},
    {"QLinearMatMul", 21, "u8[b,m,k] f32[] u8[] i8[k,n] f32[] i8[] f32[] i8[]", "", "i8[b,m,n]"},
    {"ConvInteger", 10, "u8[b,3,h,w] i8[8,3,3,3]", "pads=1,1,1,1", "i32[b,8,h,w]"},
    {"QLinearConv", 10, "u8[b,4,8,9] f32[] u8[] i8[8,4,3,3] f32[] i8[] f32[] u8[]", "", "u8[b,8,6,7]"},
    {"QLinearConv", 10, "u8[b,4,8,9] f32[] u8[] i8[8,4,3,3] f32[] i8[] f32[] u8[] i32[7]", "", "!the bias"},
};

static void test_recurrent(void) { RUN(recurrent); }
static void test_quantized(void) { RUN(quantized); }

/* A chain of operators over x [n,4] and y [m,4]; each line: a node and what its output is then. A sequence or optional
 * shows as its element. */
typedef struct line {
  const char *op, *in, *out, *attrs, *want;
} line;
static const line lines[] = {
    {"SequenceConstruct", "x x", "same", "", "f32[n,4]"},
    {"SequenceConstruct", "x y", "mixed", "", "f32[?,4]"},
    {"SequenceConstruct", "x z", "ranks", "", "f32[...]"},
    {"SequenceAt", "same i", "a", "", "f32[n,4]"},
    {"SequenceAt", "ranks i", "c", "", "f32[...]"},
    {"SequenceInsert", "same x", "more", "", "f32[n,4]"},
    {"SequenceInsert", "same y", "other", "", "f32[?,4]"},
    {"SequenceErase", "more", "less", "", "f32[n,4]"},
    {"SequenceLength", "less", "len", "", "i64[]"},
    {"SequenceEmpty", "", "none", "dtype=7", "i64[...]"},
    {"SplitToSequence", "x", "rows", "keepdims=0", "f32[4]"},
    {"SplitToSequence", "x", "columns", "axis=-1", "f32[n,1]"},
    {"SplitToSequence", "x two", "pairs", "axis=1", "f32[n,?]"},
    {"ConcatFromSequence", "rows", "stacked", "axis=-1;new_axis=1", "f32[4,stacked.1]"},
    {"ConcatFromSequence", "mixed", "joined", "axis=0", "f32[joined.0,4]"},
    {"Optional", "same", "opt", "", "f32[n,4]"},
    {"OptionalGetElement", "opt", "seq", "", "f32[n,4]"},
    {"OptionalGetElement", "x", "plain", "", "f32[n,4]"},
    {"OptionalHasElement", "opt", "has", "", "bool[]"},
    {"Identity", "opt", "copy", "", "f32[n,4]"},
};

static bool is_as(const tni_graph *g, const char *name, const char *want) {
  const tni_value *v = tni_graph_value(g, tni_graph_find(g, name));
  const tni_type *t = v->type;
  while (t && t->elem) t = t->elem;
  if (!t) return matches(g, v, want);
  if (v->pub.dtype != TN_DT_UNDEFINED || v->pub.rank != TNI_RANK_UNKNOWN)
    return false; /* a device would see a tensor */
  tni_value inner = {.pub = {.h = TN_HDR(tn_value), .name = "", .dtype = t->dtype, .rank = t->rank, .dims = t->dims}};
  return matches(g, &inner, want);
}

static void test_elements(void) {
  tni_graph *g = NULL;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "sequences", &g, &err), TN_OK);
  (void)add_word(g, "x", "f32[n,4]");
  (void)add_word(g, "y", "f32[m,4]");
  (void)add_word(g, "z", "f32[n]");
  (void)add_word(g, "i", "i64[]");
  (void)add_word(g, "two", "i64[]=2");
  for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
    const line *l = &lines[k];
    CU_ASSERT_EQUAL_FATAL(add_op(g, l->op, 18, l->in, l->out, l->attrs, &err), TN_OK);
  }
  for (int round = 0; round < 2; round++) { /* what was found stays */
    CU_ASSERT_EQUAL_FATAL(tni_infer_graph(g, &err), TN_OK);
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
      const bool ok = is_as(g, lines[k].out, lines[k].want);
      if (!ok) printf("\n%s -> %s is not %s\n", lines[k].op, lines[k].out, lines[k].want);
      CU_ASSERT(ok);
    }
  }
  CU_ASSERT_EQUAL(add_op(g, "ConcatFromSequence", 18, "same", "bad", "axis=2", &err), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "axis 2 of elements of rank 2"));
  tni_graph_destroy(g);
}

CU_pSuite suite_sequence(void) {
  CU_pSuite s = CU_add_suite("sequence", NULL, NULL);
  if (!s || !CU_add_test(s, "recurrent", test_recurrent) || !CU_add_test(s, "quantized", test_quantized) ||
      !CU_add_test(s, "elements of sequences", test_elements))
    return NULL;
  return s;
}
