/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated element-wise kernels: those of all operators and types, of starts, of chains as models have them and of
 * random ones pass their self-test, which is against C; sources with one thing changed do not. Arguments: library,
 * seed.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/opencl/clew.h"
#include "tests/opencl/rig.h"

enum { RANDOM = 6 };

static rig R;
static uint64_t seed = 1;

static uint32_t next(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 33);
}

static tni_cl_kernels kernels(void) {
  static const tni_cl_variant *const none[2] = {NULL, NULL};
  static const uint32_t n[2] = {0, 0};
  return (tni_cl_kernels){.c = &R.context,
                          .host = &R.host,
                          .tables = none,
                          .n = n,
                          .mem = {.host = &R.host},
                          .features = R.info.features,
                          .self_test = true};
}

/* --- chains ------------------------------------------------------------------------------------------------------ */

static tni_cl_ew begin(uint32_t n_in, const uint32_t *types) {
  tni_cl_ew e = {.n_in = n_in, .wide = 1};
  memcpy(e.types, types, n_in * sizeof *types);
  for (uint32_t i = 0; i < n_in; i++) e.wide = e.wide && types[i] != TN_DT_F32 && types[i] != TN_DT_F16;
  return e;
}

static uint32_t op(tni_cl_ew *e, uint32_t what, uint32_t a, uint32_t b, float value) {
  e->ops[e->n_ops] = (tni_cm_instr){.op = what, .a = a, .b = b, .value = value};
  return e->n_in + e->n_ops++;
}

static void give(tni_cl_ew *e, uint32_t reg, uint32_t type) {
  e->wide = e->wide && type != TN_DT_F32 && type != TN_DT_F16;
  e->types[e->n_in + e->n_out] = type;
  e->results[e->n_out++] = reg;
}

static void passes(const tni_cl_ew *e, const char *what) {
  tni_cl_kernels k = kernels();
  tni_cl_program *p = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  const tn_status st = tni_cl_kernel_of_ew(&k, e, &p, &err);
  if (st != TN_OK) fprintf(stderr, "%s: %s\n", what, err.message);
  CU_ASSERT(st == TN_OK && p && p->tested && !strstr(p->options, "opt-disable"));
  tni_cl_kernels_finish(&k);
}

static const uint32_t unary[] = {TN_OP_NEG,  TN_OP_ABS,     TN_OP_SQRT, TN_OP_EXP,     TN_OP_LOG,   TN_OP_COS,
                                 TN_OP_SIN,  TN_OP_RELU,    TN_OP_TANH, TN_OP_ERF,     TN_OP_SWISH, TN_OP_RECIPROCAL,
                                 TN_OP_GELU, TN_OP_SIGMOID, TN_OP_CAST, TN_OP_IDENTITY};
static const uint32_t binary[] = {TN_OP_ADD, TN_OP_SUB, TN_OP_MUL, TN_OP_DIV, TN_OP_MIN, TN_OP_MAX};

/* Each operator is a result of its own. */
static void operators(void) {
  static const uint32_t types[][3] = {{TN_DT_F32, TN_DT_F32, TN_DT_F32},
                                      {TN_DT_F16, TN_DT_F16, TN_DT_F16},
                                      {TN_DT_F16, TN_DT_F32, TN_DT_F16},
                                      {TN_DT_I64, TN_DT_F32, TN_DT_F32}};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    tni_cl_ew one = begin(2, types[t]), two = begin(2, types[t]);
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
      give(&one, op(&one, unary[i], i & 1, TN_NONE, i % 3 ? 1.0f : 0.5f), types[t][2]);
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) give(&two, op(&two, binary[i], 0, 1, 0), types[t][2]);
    give(&two, op(&two, TN_OP_GELU, 0, TN_NONE, 0), types[t][2]);
    give(&two, op(&two, TN_OP_GELU, 0, TN_NONE, 1), types[t][2]);
    passes(&one, "unary operators");
    passes(&two, "binary operators");
  }
}

static void integers(void) {
  static const uint32_t types[][3] = {
      {TN_DT_I64, TN_DT_I64, TN_DT_I64}, {TN_DT_I32, TN_DT_I64, TN_DT_I32}, {TN_DT_BOOL, TN_DT_I32, TN_DT_I64}};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    tni_cl_ew e = begin(2, types[t]);
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) give(&e, op(&e, binary[i], 0, 1, 0), types[t][2]);
    give(&e, op(&e, TN_OP_NEG, 1, TN_NONE, 0), types[t][2]);
    give(&e, op(&e, TN_OP_RELU, 0, TN_NONE, 0), TN_DT_BOOL);
    passes(&e, "integers");
  }
}

/* Copies of other types, with and without a start that is read when the kernel runs. */
static void copies(void) {
  static const uint32_t types[][2] = {{TN_DT_F32, TN_DT_F16},  {TN_DT_F16, TN_DT_F32}, {TN_DT_I64, TN_DT_I64},
                                      {TN_DT_BOOL, TN_DT_F32}, {TN_DT_I32, TN_DT_F16}, {TN_DT_I64, TN_DT_BOOL}};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (uint32_t dynamic = 0; dynamic < 2; dynamic++) {
      tni_cl_ew e = begin(1, types[t]);
      give(&e, 0, types[t][1]);
      e.dynamic = dynamic;
      passes(&e, dynamic ? "a slice" : "a copy");
    }
}

static void chains(void) {
  const uint32_t types[3] = {TN_DT_F16, TN_DT_F16, TN_DT_F32};
  tni_cl_ew e = begin(3, types);
  const uint32_t gate = op(&e, TN_OP_SWISH, 0, TN_NONE, 1), product = op(&e, TN_OP_MUL, gate, 1, 0);
  give(&e, op(&e, TN_OP_ADD, product, 2, 0), TN_DT_F16);
  give(&e, product, TN_DT_F32);
  passes(&e, "a gated product and its residual");
  for (int i = 0; i < RANDOM; i++) {
    static const uint32_t of[] = {TN_DT_F32, TN_DT_F16, TN_DT_F16, TN_DT_BOOL};
    uint32_t in[5];
    const uint32_t n = 1 + next() % 5, n_ops = 1 + next() % 14;
    in[0] = of[next() % 3];
    for (uint32_t k = 1; k < n; k++) in[k] = of[next() % 4];
    tni_cl_ew r = begin(n, in);
    for (uint32_t k = 0; k < n_ops; k++) {
      const uint32_t a = next() % (n + k), b = next() % (n + k), two = next() % 2;
      op(&r, two ? binary[next() % 6] : unary[next() % 16], a, two ? b : TN_NONE, 1);
    }
    give(&r, n + n_ops - 1, of[next() % 3]);
    give(&r, next() % (n + n_ops), of[next() % 3]);
    passes(&r, "a random chain");
  }
}

/* --- sources with one thing changed ------------------------------------------------------------------------------ */

static char *changed(const char *source, const char *from, const char *to) {
  const char *at = strstr(source, from);
  char *copy = malloc(strlen(source) + strlen(to) + 1);
  if (!at || !copy) abort();
  const size_t before = (size_t)(at - source);
  memcpy(copy, source, before);
  strcpy(copy + before, to);
  strcat(copy, at + strlen(from));
  return copy;
}

static bool sound; /* changed sources are left out */

static void broken(void) {
  if (sound) return;
  static const char *const changes[][2] = {{"a + b", "a - b"},
                                           {"a / (1.0f + exp(-v * a))", "a / (1.0f + exp(v * a))"},
                                           {"as_float(0x3f800000u)", "as_float(0x40000000u)"}, /* of Swish */
                                           {"(long)i1 * m[5]", "(long)i0 * m[5]"},   /* rows of the first input */
                                           {"(long)i3 * m[15]", "(long)i2 * m[15]"}, /* planes of the third */
                                           {"(long)i1 * m[17]", "(long)i1 * m[16]"}, /* rows of the output */
                                           {"i0 >= m[0]", "i0 + 1 >= m[0]"},
                                           {"i23 % m[2]", "i23 / m[2]"},
                                           {"AT(10, x1, x1_o)", "AT(10, x1, 0)"},
                                           {"i0 >= m[0] ||", ""},
                                           {"clamp(s, (long)0, (long)(m[21] - m[22]))", "max(s, (long)0)"},
                                           {"if (s < 0) s += m[21];", ""}};
  const uint32_t types[3] = {TN_DT_F32, TN_DT_F16, TN_DT_F16};
  tni_cl_ew e = begin(3, types);
  const uint32_t gate = op(&e, TN_OP_SWISH, 0, TN_NONE, 1);
  give(&e, op(&e, TN_OP_ADD, op(&e, TN_OP_MUL, gate, 1, 0), 2, 0), TN_DT_F16);
  e.dynamic = 1;
  char *source = malloc(TNI_CL_EW_SOURCE);
  CU_ASSERT_FATAL(source && tni_cl_ew_source(&e, source, TNI_CL_EW_SOURCE));
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    tni_cl_kernels k = kernels();
    tni_cl_program *p = NULL;
    tn_error err = {.h = TN_HDR(tn_error)};
    bool wrong = false;
    char *other = changed(source, changes[i][0], changes[i][1]);
    CU_ASSERT_FATAL(tni_cl_kernel_of_source(&k, "ew", other, "", &p, &err) == TN_OK);
    const char *why = tni_cl_ew_self_test(&k, p, &e, &wrong);
    if (!why || !wrong) fprintf(stderr, "not seen: '%s' for '%s'\n", changes[i][1], changes[i][0]);
    CU_ASSERT(why && wrong);
    free(other);
    tni_cl_kernels_finish(&k);
  }
  free(source);
}

int main(int argc, char **argv) {
  if (argc > 2) seed = strtoull(argv[2], NULL, 0);
  sound = argc > 3 && !strcmp(argv[3], "sound");
  if (!rig_open(&R, argc > 1 ? argv[1] : "libOpenCL.so.1")) return 77;
  CU_TestInfo tests[] = {{"operators", operators}, {"integers", integers}, {"copies", copies},
                         {"chains", chains},       {"broken", broken},     CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"generated kernels", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) return 2;
  printf("%s, seed %llu\n", R.info.name, (unsigned long long)seed);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures(), ran = CU_get_number_of_tests_run();
  CU_cleanup_registry();
  rig_close(&R);
  return failed || !ran;
}
