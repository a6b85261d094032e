/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/shape/table.h"

static const rule_case reduce[] = {
    {"ReduceMean", 18, "f32[b,s,64] i64[1]=-1", "", "f32[b,s,1]"},
    {"ReduceMean", 18, "f32[b,s,64] i64[2]=0,2", "keepdims=0", "f32[s]"},
    {"ReduceMean", 18, "f32[b,s,64]", "", "f32[1,1,1]"},
    {"ReduceMean", 18, "f32[b,s,64]", "keepdims=0", "f32[]"},
    {"ReduceMean", 18, "f32[b,s,64] i64[0]=", "keepdims=0", "f32[]"},
    {"ReduceMean", 18, "f32[b,s,64]", "noop_with_empty_axes=1", "f32[b,s,64]"},
    {"ReduceMean", 18, "f32[b,s,64] i64[1]", "", "f32[?,?,?]"},
    {"ReduceMean", 18, "f32[b,s,64] i64[1]", "keepdims=0", "f32[...]"},
    {"ReduceMean", 18, "f32[...] i64[1]=0", "", "f32[...]"},
    {"ReduceSum", 18, "i64[3]={b,s,4}", "keepdims=0", "i64[]={b+s+4}"},
    {"ReduceProd", 18, "i64[3]={b,s,4} i64[1]=0", "", "i64[1]={4*b*s}"},
    {"ReduceProd", 18, "i64[2]={b,?}", "keepdims=0", "i64[]"},
    {"ReduceProd", 18, "i64[0]=", "keepdims=0", "i64[]={1}"},
    {"ReduceMax", 18, "i64[2]={b,0}", "keepdims=0", "i64[]={b}"},
    {"ReduceMin", 18, "i64[2,2]={a,b,c,d} i64[1]=1", "keepdims=0", "i64[2]={min(a,b),min(c,d)}"},
    {"ReduceSum", 18, "f32[b,s] i64[1]=2", "", "!axis 2 is outside rank 2"},
    {"ArgMax", 13, "f32[b,s,64]", "axis=-1;keepdims=0", "i64[b,s]"},
    {"ArgMin", 13, "f32[b,s,64]", "", "i64[1,s,64]"},
    {"ArgMax", 13, "f32[b,s]", "axis=2", "!axis 2 is outside rank 2"},
    {"TopK", 11, "f32[b,s] i64[1]=5", "axis=0", "f32[5,s] i64[5,s]"},
    {"TopK", 11, "f32[b,s] i64[1]={k}", "", "f32[b,k] i64[b,k]"},
    {"TopK", 11, "f32[b,s] i64[1]", "", "f32[b,y0.1] i64[b,y0.1]"},
    {"TopK", 11, "f32[b,4] i64[1]=5", "", "!k = 5"},
};

static const rule_case norm[] = {
    {"LayerNormalization", 17, "f32[b,s,64] f32[64] f32[64]", "", "f32[b,s,64] f32[b,s,1] f32[b,s,1]"},
    {"LayerNormalization", 17, "f32[b,s,64] f32[s,64]", "axis=1", "f32[b,s,64] f32[b,1,1]"},
    {"LayerNormalization", 17, "f32[...] f32[64]", "", "f32[...] f32[...]"},
    {"LayerNormalization", 17, "f32[b,s,64] f32[32]", "", "!operand 1 does not broadcast"},
    {"LayerNormalization", 17, "f32[b,64] f32[2,1,64]", "", "!operand 1 has a higher rank"},
    {"LayerNormalization", 17, "f32[b,64] f32[64]", "axis=2", "!axis 2 is outside rank 2"},
    {"LayerNormalization", 17, "f16[b,64] f16[64]", "stash_type=11", "f16[b,64] f64[b,1]"},
    {"LayerNormalization", 17, "f32[b,64] f32[64]", "stash_type=9", "!stash_type is bool"},
    {"RMSNormalization", 23, "f32[b,s,64] f32[64]", "", "f32[b,s,64]"},
};

static const rule_case product[] = {
    {"MatMul", 13, "f32[b,s,64] f32[64,256]", "", "f32[b,s,256]"},
    {"MatMul", 13, "f32[b,4,s,16] f32[b,4,16,past+s]", "", "f32[b,4,s,past+s]"},
    {"MatMul", 13, "f32[1,s,16] f32[b,16,s]", "", "f32[b,s,s]"},
    {"MatMul", 13, "f32[16] f32[b,16,s]", "", "f32[b,s]"},
    {"MatMul", 13, "f32[b,s,16] f32[16]", "", "f32[b,s]"},
    {"MatMul", 13, "f32[16] f32[16]", "", "f32[]"},
    {"MatMul", 13, "f32[?,16] f32[?,4]", "", "f32[?,4]"},
    {"MatMul", 13, "f32[...] f32[16,4]", "", "f32[...]"},
    {"MatMul", 13, "f32[b,64] f32[63,4]", "", "!the inner dimensions differ"},
    {"MatMul", 13, "f32[b,s] f32[s+1,4]", "", "!the inner dimensions differ"},
    {"MatMul", 13, "f32[2,1,4] f32[3,4,1]", "", "!the batch axes do not broadcast at 0"},
    {"MatMul", 13, "f32[] f32[4]", "", "!scalar"},
    {"Gemm", 13, "f32[b,64] f32[64,256] f32[256]", "", "f32[b,256]"},
    {"Gemm", 13, "f32[64,b] f32[256,64]", "transA=1;transB=1", "f32[b,256]"},
    {"Gemm", 13, "f32[...] f32[64,256]", "", "f32[?,256]"},
    {"Gemm", 13, "f32[b,64] f32[64,256]", "transB=1", "!the inner dimensions differ"},
    {"Gemm", 13, "f32[b,64] f32[64,256] f32[255]", "", "!operand 2 does not broadcast"},
    {"Gemm", 13, "f32[b,s,64] f32[64,256]", "", "!no matrix"},
};

static void test_reduce(void) { RUN(reduce); }
static void test_norm(void) { RUN(norm); }
static void test_product(void) { RUN(product); }

CU_pSuite suite_reduce(void) {
  CU_pSuite s = CU_add_suite("reduce", NULL, NULL);
  if (!s || !CU_add_test(s, "reductions", test_reduce) || !CU_add_test(s, "normalizations", test_norm) ||
      !CU_add_test(s, "products", test_product)) {
    return NULL;
  }
  return s;
}
