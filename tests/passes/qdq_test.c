/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include "runtime/passes/quant/quant.h"

#define X "qx=QuantizeLinear x 0.05 128b"
#define DX "; dx=DequantizeLinear qx 0.05 128b; "
#define Z "qz=QuantizeLinear z 0.04 -3c"
#define DZ "; dz=DequantizeLinear qz 0.04 -3c; "
#define Q "qq=QuantizeLinear q 0.05 100b"
#define DQ "; dq=DequantizeLinear qq 0.05 100b; "

/* Every bit stays. */
static const form exact[] = {
    {X DX "y=QuantizeLinear dx 0.05 128b", X "; y=Identity qx"},
    {X DX "t=Transpose dx {perm=0,2,1}; y=QuantizeLinear t 0.05 128b", X "; ?=Transpose qx {perm=0,2,1}; y=Identity ?"},
    {X DX "y=QuantizeLinear dx 0.1 -5c",
     X "; ?=DequantizeLinear const 0.05 128b; ?=QuantizeLinear ? 0.1 -5c; y=ByteLookup qx ?"},
    {X DX "s=Sigmoid dx; y=QuantizeLinear s 0.004 0b",
     X "; ?=DequantizeLinear const 0.05 128b; ?=Sigmoid ?; ?=QuantizeLinear ? 0.004 0b; y=ByteLookup qx ?"},
    {X DX "s=Sigmoid dx; m=Mul dx s; y=QuantizeLinear m 0.02 20b",
     X "; ?=DequantizeLinear const 0.05 128b; ?=Sigmoid ?; ?=Mul ? ?; ?=QuantizeLinear ? 0.02 20b; y=ByteLookup qx ?"},
    {X DX Z DZ "n=Add dx dz; y=QuantizeLinear n 0.1 10b",
     X "; " Z "; y=QLinearBinary qx 0.05 128b qz 0.04 -3c 0.1 10b"},
    {X DX Z DZ "n=Mul dx dz; r=Relu n; y=QuantizeLinear r 0.1 10b",
     X "; " Z "; ?=QLinearBinary qx 0.05 128b qz 0.04 -3c 0.1 10b; y=Clip ? const const"},
    {X DX Z DZ "n=Concat dx dz {axis=1}; y=QuantizeLinear n 0.05 128b",
     X "; " Z "; ?=DequantizeLinear const 0.04 -3c; ?=QuantizeLinear ? 0.05 128b; ?=ByteLookup qz ?; y=Concat qx ?"},
    {Q DQ "m=MaxPool dq {kernel_shape=2,2&pads=1,1,0,0}; y=QuantizeLinear m 0.05 100b",
     Q "; ?=MaxPool qq; y=Identity ?"},
};

/* Sums are exact that were rounded. */
static const form sums[] = {
    {Q DQ "w=DequantizeLinear wk 0.01; n=Conv dq w {pads=1,0,1,0}; y=QuantizeLinear n 0.1 128b",
     Q "; y=QLinearConv qq 0.05 100b wk 0.01 const 0.1 128b"},
    {Q DQ "w=DequantizeLinear wk cs zs {axis=0}; n=Conv dq w c2; r=Relu n; y=QuantizeLinear r 0.1 0b",
     Q "; y=QLinearConv qq 0.05 100b wk cs zs 0.1 0b const"},
    {Q DQ "w=DequantizeLinear wk cs zs {axis=0}; c=DequantizeLinear bi 0.0005; n=Conv dq w c; r=Clip n -0.5 0.5; "
          "y=QuantizeLinear r "
          "0.1 3c",
     Q "; ?=QLinearConv qq 0.05 100b wk cs zs 0.1 3c const; y=Clip ? const const"},
    {X DX "w=DequantizeLinear wi 0.01; n=MatMul dx w; y=QuantizeLinear n 0.1 128b",
     X "; y=QLinearMatMul qx 0.05 128b wi 0.01 const 0.1 128b"},
    {X DX "w=DequantizeLinear wi 0.01; n=MatMul dx w; m=Add b12 n; y=QuantizeLinear m 0.1 128b",
     X "; y=QLinearGemm qx 0.05 128b wi 0.01 const 0.1 128b const"},
    {X DX "f=Reshape dx #-1,8; w=DequantizeLinear wt 0.01 7b; n=Gemm f w b12 {transB=1}; y=QuantizeLinear n 0.1 1c",
     X "; ?=Reshape qx #-1,8; y=QLinearGemm ? 0.05 128b wt 0.01 7b 0.1 1c const"},
    {X DX Z DZ "t=Transpose dz {perm=0,2,1}; n=MatMul dx t; y=QuantizeLinear n 0.5 1c",
     X "; " Z "; ?=Transpose qz {perm=0,2,1}; y=QLinearMatMul qx 0.05 128b ? 0.04 -3c 0.5 1c"},
    {Q DQ "n=GlobalAveragePool dq; y=QuantizeLinear n 0.02 1c", Q "; y=QLinearGlobalAveragePool qq 0.05 100b 0.02 1c"},
    {Q DQ "n=ReduceMean dq #2,-1 {keepdims=0}; y=QuantizeLinear n 0.02 1c",
     Q "; ?=QLinearGlobalAveragePool qq 0.05 100b 0.02 1c; y=Squeeze ? #2,-1"},
};

/* Nothing is changed. */
static const form kept[] = {
    {X DX "w=DequantizeLinear wi 0.01; !n=MatMul dx w; y=QuantizeLinear n 0.1 128b", ""}, /* an output */
    {X DX "w=DequantizeLinear wi 0.01; n=MatMul dx w; r=Relu n; m=Neg n; !k=Exp m; y=QuantizeLinear r 0.1 128b",
     ""},                                                                              /* read elsewhere */
    {X DX "n=MatMul dx w12; y=QuantizeLinear n 0.1 128b", ""},                         /* float weights */
    {X "; w=DequantizeLinear wi 0.01; n=MatMul z w; y=QuantizeLinear n 0.1 128b", ""}, /* float activations */
    {Q DQ "w=DequantizeLinear wk cs {axis=0}; n=Conv dq w c2; y=QuantizeLinear n 0.0001 1c", ""}, /* a coarse bias */
    {X DX "n=Softmax dx; y=QuantizeLinear n 0.004 0b", ""},
    {X DX "n=Add dx z; y=QuantizeLinear n 0.1 1c", ""},
    {X DX "n=ReduceMean dx #1; y=QuantizeLinear n 0.1 1c", ""},      /* one of two axes, or a batch */
    {X DX "n=Add dx k; m=Sigmoid n; y=QuantizeLinear m 0.1 1c", ""}, /* of several values */
};

static void test_exact(void) { run_forms(exact, sizeof exact / sizeof exact[0], tni_pass_qdq, 0); }
static void test_sums(void) { run_forms(sums, sizeof sums / sizeof sums[0], tni_pass_qdq, 1. / 64); }
static void test_kept(void) { run_forms(kept, sizeof kept / sizeof kept[0], tni_pass_qdq, 0); }

CU_pSuite suite_qdq(void) {
  CU_pSuite s = CU_add_suite("quantized graphs", NULL, NULL);
  return s && CU_add_test(s, "bits stay", test_exact) && CU_add_test(s, "codes stay but at ties", test_sums) &&
                 CU_add_test(s, "nothing is changed", test_kept)
             ? s
             : NULL;
}
