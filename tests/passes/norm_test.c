/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include "runtime/passes/forms/forms.h"

#define MEAN_SQ "p=Pow x 2; m=ReduceMean p #-1; e1=Add m 1e-6; s=Sqrt e1; "
#define RMS_W "RMSNormalization x w {epsilon=1e-06}"

static const form rms[] = {
    {MEAN_SQ "r=Reciprocal s; n=Mul x r; y=Mul w n", "y=" RMS_W},
    {MEAN_SQ "r=Reciprocal s; n=Mul r x; y=Mul n w", "y=" RMS_W},
    {MEAN_SQ "r=Div 1 s; n=Mul x r; y=Mul w n", "y=" RMS_W},
    {MEAN_SQ "n=Div x s; y=Mul w n", "y=" RMS_W},
    {MEAN_SQ "r=Div 1 s; g=Mul r w; y=Mul x g", "y=" RMS_W},
    {"p=Mul x x; m=ReduceMean p #2; e1=Add 1e-6 m; r=Pow e1 -0.5; n=Mul x r; y=Mul n w", "y=" RMS_W},
    {"p=Pow x 2; m=ReduceMean p #-1; e1=Add m 1e-6; r=Pow e1 0.5; n=Div x r; y=Mul n w", "y=" RMS_W},
    {MEAN_SQ "n=Div x s; y=Mul n k", "y=RMSNormalization x const {epsilon=1e-06}"}, /* [1,1,8] as a vector */
    {MEAN_SQ "n=Div x s; y=Neg n", "n=RMSNormalization x ones {epsilon=1e-06}; y=Neg n"},
    {MEAN_SQ "n=Div x s; y=Mul n z", "n=RMSNormalization x ones {epsilon=1e-06}; y=Mul n z"}, /* z is no weight */
    {MEAN_SQ "n=Div x s; y=Mul n u", "n=RMSNormalization x ones {epsilon=1e-06}; y=Mul n u"},
    /* one core, two scales */
    {MEAN_SQ "n=Div x s; c=Mul n w; d=Mul n v; y=Add c d",
     "c=RMSNormalization x w {epsilon=1e-06}; d=RMSNormalization x v {epsilon=1e-06}; y=Add c d"},
    /* what somebody else reads stays */
    {MEAN_SQ "n=Div x s; c=Mul n w; y=Add c s",
     "p=Pow x 2; m=ReduceMean p #-1; e1=Add m 1e-6; s=Sqrt e1; c=RMSNormalization x w {epsilon=1e-06}; y=Add c s"},
    /* halves around a float norm */
    {"c=Cast h {to=1}; p=Pow c 2; m=ReduceMean p #-1; e1=Add m 1e-5; s=Sqrt e1; n=Div c s; d=Cast n {to=10}; y=Mul hw "
     "d",
     "y=RMSNormalization h hw {epsilon=1e-05}"},
    {"c=Cast h {to=1}; p=Pow c 2; m=ReduceMean p #-1; e1=Add m 1e-5; s=Sqrt e1; n=Div c s; d=Mul n w; y=Cast d {to=10}",
     "c=Cast h {to=1}; d=RMSNormalization c w {epsilon=1e-05}; y=Cast d {to=10}"},
    /* not this norm */
    {"p=Pow x 4; m=ReduceMean p #-1; e1=Add m 1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {"p=Pow x 2; m=ReduceMean p #1; e1=Add m 1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {"p=Pow x 2; m=ReduceMean p #1,2; e1=Add m 1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {"p=Pow z 2; m=ReduceMean p #-1; e1=Add m 1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {"p=Mul x x; q1=Abs p; m=ReduceMean q1 #-1; e1=Add m 1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {"p=Pow x 2; m=ReduceSum p #-1; e1=Add m 1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {"p=Pow x 2; m=ReduceMean p #-1; e1=Sub m -1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {MEAN_SQ "r=Div 2 s; n=Mul x r; y=Mul w n", ""},
    {MEAN_SQ "n=Div s x; y=Mul w n", ""},
    {"p=Pow x 2; m=ReduceMean p #-1; e1=Add m -1e-6; s=Sqrt e1; n=Div x s; y=Mul w n", ""},
    {"p=Pow x 2; m=ReduceMean p #-1; e1=Add m e; s=Sqrt e1; n=Div x s; y=Mul w n", ""}, /* eps adds an axis */
};

#define CENTRED "c=ReduceMean x #-1; d=Sub x c; p=Pow d 2; m=ReduceMean p #-1; e1=Add m 1e-5; s=Sqrt e1; "
#define TF "c=ReduceMean x #2; d=Sub x c; p=Mul d d; m=ReduceMean p #2; e1=Add m 1e-5; s=Sqrt e1; r=Reciprocal s; "

static const form layer[] = {
    {CENTRED "n=Div d s; g=Mul n w; y=Add g v", "y=LayerNormalization x w v {epsilon=1e-05}"},
    {CENTRED "n=Div d s; g=Mul w n; y=Add v g", "y=LayerNormalization x w v {epsilon=1e-05}"},
    {CENTRED "r=Div 1 s; n=Mul d r; g=Mul n w; y=Add g v", "y=LayerNormalization x w v {epsilon=1e-05}"},
    {CENTRED "r=Reciprocal s; b1=Mul r w; g=Mul d b1; y=Add g v", "y=LayerNormalization x w v {epsilon=1e-05}"},
    {CENTRED "n=Div d s; g=Mul n w; y=Neg g", "g=LayerNormalization x w {epsilon=1e-05}; y=Neg g"},
    {CENTRED "n=Div d s; y=Add n v", "y=LayerNormalization x ones v {epsilon=1e-05}"},
    {CENTRED "n=Div d s; y=Neg n", "n=LayerNormalization x ones {epsilon=1e-05}; y=Neg n"},
    {CENTRED "n=Div d s; g=Mul n k; y=Add g k", "y=LayerNormalization x const const {epsilon=1e-05}"},
    {CENTRED "n=Div d s; g=Mul n w; y=Add g z", "g=LayerNormalization x w {epsilon=1e-05}; y=Add g z"},
    {CENTRED "n=Div d s; g=Mul n w; a1=Add g v; f=Mul n v; j=Add f w; y=Add a1 j",
     "a1=LayerNormalization x w v {epsilon=1e-05}; j=LayerNormalization x v w {epsilon=1e-05}; y=Add a1 j"},
    {TF "g=Mul r w; f=Mul x g; j=Mul c g; t=Sub v j; y=Add f t", "y=LayerNormalization x w v {epsilon=1e-05}"},
    {TF "g=Mul w r; f=Mul g x; j=Mul g c; t=Sub v j; y=Add t f", "y=LayerNormalization x w v {epsilon=1e-05}"},
    {TF "f=Mul x r; j=Mul c r; t=Sub v j; y=Add f t", "y=LayerNormalization x ones v {epsilon=1e-05}"},
    /* not this norm */
    {TF "g=Mul r w; f=Mul x g; j=Mul c g; t=Sub j v; y=Add f t", ""},
    {TF "g=Mul r w; f=Mul z g; j=Mul c g; t=Sub v j; y=Add f t", ""},
    {TF "g=Mul r w; b1=Mul r v; f=Mul x g; j=Mul c b1; t=Sub v j; y=Add f t", ""},
    {"c=ReduceMean x #1; d=Sub x c; p=Pow d 2; m=ReduceMean p #-1; e1=Add m 1e-5; s=Sqrt e1; n=Div d s; y=Mul n w", ""},
    {"c=ReduceMean x #-1; d=Sub c x; p=Pow d 2; m=ReduceMean p #-1; e1=Add m 1e-5; s=Sqrt e1; n=Div d s; y=Mul n w",
     ""},
    {"c=ReduceMean z #-1; d=Sub x c; p=Pow d 2; m=ReduceMean p #-1; e1=Add m 1e-5; s=Sqrt e1; n=Div d s; y=Mul n w",
     ""},
};

static void test_rms(void) { run_forms(rms, sizeof rms / sizeof rms[0], tni_pass_rms_norm, 1e-5); }
static void test_layer(void) { run_forms(layer, sizeof layer / sizeof layer[0], tni_pass_layer_norm, 1e-5); }

CU_pSuite suite_norm(void) {
  CU_pSuite s = CU_add_suite("norms", NULL, NULL);
  if (!s || !CU_add_test(s, "rms_norm", test_rms) || !CU_add_test(s, "layer_norm", test_layer)) return NULL;
  return s;
}
