/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/passes/forms.h"

#include "runtime/passes/forms/forms.h"

#define ERF "y=Gelu x {approximate=none}"
#define TANH "y=Gelu x {approximate=tanh}"
#define POLY "c=Pow x 3; d=Mul c 0.044715; f=Add x d; g=Mul f 0.7978845608; t=Tanh g; "

static const form gelu[] = {
    {"d=Div x 1.4142135381; t=Erf d; a1=Add t 1; m=Mul x a1; y=Mul m 0.5", ERF},
    {"d=Div x 1.4142135381; t=Erf d; a1=Add 1 t; m=Mul 0.5 x; y=Mul m a1", ERF},
    {"d=Mul x 0.70710677; t=Erf d; a1=Add 1 t; m=Mul 0.5 a1; y=Mul x m", ERF},
    {"d=Mul 0.70710677 x; t=Erf d; a1=Add t 1; m=Mul x a1; y=Div m 2", ERF},
    {"m=Mul x 0.5; d=Mul x 0.70710677; t=Erf d; f=Mul m t; y=Add m f", ERF},
    {"d=Mul x 0.70710677; t=Erf d; f=Mul t 0.5; g=Add f 0.5; y=Mul x g", ERF},
    {POLY "a1=Add t 1; m=Mul x 0.5; y=Mul m a1", TANH},
    {POLY "a1=Add 1 t; m=Mul x a1; y=Mul 0.5 m", TANH},
    {"p=Mul x x; c=Mul x p; d=Mul 0.044715 c; f=Add x d; g=Mul 0.7978846 f; t=Tanh g; a1=Add 1 t; m=Mul x a1; y=Mul "
     "0.5 m",
     TANH},
    {"p=Mul x x; c=Mul p 0.044715; d=Add 1 c; f=Mul x 0.7978846; g=Mul f d; t=Tanh g; a1=Add t 1; m=Mul x 0.5; y=Mul "
     "a1 m",
     TANH},
    {"p=Mul x x; c=Mul p 0.035677408; d=Add c 0.7978846; g=Mul x d; t=Tanh g; a1=Add t 1; m=Mul x 0.5; y=Mul a1 m",
     TANH},
    {POLY "a1=Add t u; m=Mul x 0.5; y=Mul m a1", ""}, /* u is not 1 */
    /* x is itself a product */
    {"n=Mul x z; d=Mul n 0.70710677; t=Erf d; a1=Add t 1; m=Mul n a1; y=Mul m 0.5",
     "n=Mul x z; y=Gelu n {approximate=none}"},
    {"n=Mul x 3; d=Mul n 0.70710677; t=Erf d; a1=Add t 1; m=Mul n a1; y=Mul m 0.5",
     "n=Mul x 3; y=Gelu n {approximate=none}"},
    {"d=Mul h 0.70710677h; t=Erf d; a1=Add t 1h; m=Mul h a1; y=Mul m 0.5h", "y=Gelu h {approximate=none}"},
    /* not this function */
    {"d=Mul x 0.7072; t=Erf d; a1=Add t 1; m=Mul x a1; y=Mul m 0.5", ""},
    {"d=Mul x 0.70710677; t=Erf d; a1=Sub t 1; m=Mul x a1; y=Mul m 0.5", ""},
    {"d=Mul x 0.70710677; t=Erf d; a1=Add t 1; m=Mul x a1; y=Mul m 0.4999", ""},
    {"d=Mul x 0.70710677; t=Erf d; a1=Add t 1; m=Mul z a1; y=Mul m 0.5", ""},
    {"d=Mul x 0.70710677; t=Erf d; a1=Add t 1; m=Mul x a1; f=Mul m x; y=Mul f 0.5", ""},
    {"d=Mul x 0.70710677; t=Tanh d; a1=Add t 1; m=Mul x a1; y=Mul m 0.5", ""},
    {"c=Pow x 2; d=Mul c 0.044715; f=Add x d; g=Mul f 0.7978845608; t=Tanh g; a1=Add t 1; m=Mul x 0.5; y=Mul m a1", ""},
    {"d=Mul x 0.70710677; t=Erf d; a1=Add t 1; m=Mul x a1; f=Mul m 0.5; y=Add f t", ""}, /* t is read elsewhere */
    {"d=Mul x 0.70710677; t=Erf d; a1=Add t 1; m=Mul x a1; f=Mul m e; y=Mul f 0.5", ""},
    {"d=Mul x 0.70710677; t=Erf d; a1=Add t 1; m=Mul x a1; y=Mul m 0.5r", ""}, /* adds an axis */
};

static const form silu[] = {
    {"g=Sigmoid x; y=Mul x g", "y=Swish x {alpha=1}"},
    {"g=Sigmoid x; y=Mul g x", "y=Swish x {alpha=1}"},
    {"f=Mul x 1.702; g=Sigmoid f; y=Mul x g", "y=Swish x {alpha=1.702}"},
    {"f=Mul 1.702 x; g=Sigmoid f; y=Mul g x", "y=Swish x {alpha=1.702}"},
    {"g=Sigmoid x; f=Mul x g; y=Mul f z", "f=Swish x {alpha=1}; y=Mul f z"},
    {"g=Sigmoid h; y=Mul h g", "y=Swish h {alpha=1}"},
    {"g=Sigmoid x; y=Mul z g", ""},
    {"f=Mul z 1.702; g=Sigmoid f; y=Mul x g", ""},
    {"g=Sigmoid x; f=Mul x g; y=Add f g", ""}, /* the gate is read twice */
    {"g=Sigmoid x; f=Neg x; y=Mul f g", ""},
    {"f=Mul x w; g=Sigmoid f; y=Mul x g", ""},
    {"f=Mul x e; g=Sigmoid f; y=Mul x g", ""}, /* another rank */
    {"f=Add x 1; g=Sigmoid f; y=Mul x g", ""},
};

static void test_gelu(void) { run_forms(gelu, sizeof gelu / sizeof gelu[0], tni_pass_gelu, 1e-5); }
static void test_silu(void) { run_forms(silu, sizeof silu / sizeof silu[0], tni_pass_silu, 1e-5); }

CU_pSuite suite_gelu(void) {
  CU_pSuite s = CU_add_suite("activations", NULL, NULL);
  if (!s || !CU_add_test(s, "gelu", test_gelu) || !CU_add_test(s, "silu", test_silu)) return NULL;
  return s;
}
