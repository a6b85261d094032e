/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include "runtime/passes/forms/forms.h"

#define CONV "n=Conv q cw {pads=1,0,1,0}; "
#define BIASED "n=Conv q cw c2 {pads=1,0,1,0}; "
#define AFTER "y=Conv q const const"

static const form scale[] = {
    {CONV "y=BatchNormalization n c1 c2 c3 cv", AFTER},
    {BIASED "y=BatchNormalization n c1 c2 c3 cv {epsilon=0.5}", AFTER},
    {"n=Conv q cg c3 {group=2}; y=BatchNormalization n c1 c2 c3 cv", AFTER},
    {"n=ConvTranspose q ct {group=2}; y=BatchNormalization n c1 c2 c3 cv", "y=ConvTranspose q const const"},
    {"n=ConvTranspose q ct {strides=2,2}; y=Mul n sk4", "y=ConvTranspose q const const"},
    {CONV "y=Mul n c4", AFTER},
    {BIASED "y=Mul cx n", AFTER},
    {CONV "y=Add n c4", AFTER},
    {CONV "y=Mul n 0.5", AFTER},
    {CONV "y=Add e n", AFTER},
    {CONV "m=Mul n c4; y=Add m cx", AFTER},
    {CONV "m=BatchNormalization n c1 c2 c3 cv; r=Relu m; y=Mul r c4", "m=Conv q const const; r=Relu m; y=Mul r c4"},
    /* not a factor and summand per channel, or not known before the run */
    {CONV "y=Mul n w", ""},                          /* along the last axis */
    {CONV "y=Mul n n", ""},                          /* read twice */
    {"!n=Conv q cw {pads=1,0,1,0}; y=Mul n c4", ""}, /* an output */
    {CONV "m=Mul n c4; y=Add m n", ""},              /* read elsewhere */
    {CONV "y=BatchNormalization n c1 c2 c3 cv {training_mode=1}", ""},
    {CONV "m=Relu n; y=BatchNormalization m c1 c2 c3 cv", ""},
    {"m=Neg cw; n=Conv q m {pads=1,0,1,0}; y=Mul n c4", ""}, /* a weight that a node makes */
    {CONV "y=Div n c4", ""},
};

static void test_scale(void) { run_forms(scale, sizeof scale / sizeof scale[0], tni_pass_conv_scale, 1e-5); }

CU_pSuite suite_conv(void) {
  CU_pSuite s = CU_add_suite("convolutions", NULL, NULL);
  return s && CU_add_test(s, "conv_scale", test_scale) ? s : NULL;
}
