/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel suites share: seeded values, memory between guards, the reference in double.
 */
#ifndef TENON_TESTS_KERNELS_HARNESS_H
#define TENON_TESTS_KERNELS_HARNESS_H

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <tenon/plugin.h>

#include "plugins/common/cpu/format.h"
#include "plugins/common/formats/w4g.h"
#include "tests/kit/host.h"
#if defined(__aarch64__)
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#define KERNELS tni_arm_kernels
#else
#include "plugins/cpu-avx2-lut/kernels/kernels.h"
#define KERNELS tni_x86_kernels
#endif

/* Seed of the run, printed; every buffer derives from it and a stream number. */
extern uint64_t test_seed;
/* Only kernels whose name contains one of these, commas between; "": all, and everything that is not a kernel. */
extern const char *test_only;
bool test_wants(const char *name);
/* Variants are compared with the reference's bits alone. */
extern bool test_bits;
typedef struct rng {
  uint64_t s;
} rng;
rng rng_of(uint64_t stream);
uint64_t rng_next(rng *r);
double rng_unit(rng *r); /* [0, 1) */
double rng_normal(rng *r);

/* Value patterns for weights and activations. */
enum { V_NORMAL, V_ZERO, V_MAX, V_ALTERNATING, V_DENORMAL, V_HUGE, V_OUTLIER, V_TINY_MIXED, V_ONE_SIGN, V_COUNT };
const char *pattern_name(int p);
/* amplitude: of V_HUGE */
void fill(float *x, size_t n, int pattern, float amplitude, rng *r);

/* bytes between 256-byte canaries, 64-byte aligned, at the end of its block (offset by `slack` bytes). */
typedef struct guarded {
  uint8_t *base, *p;
  size_t bytes;
} guarded;
guarded guarded_new(size_t bytes);
bool guarded_ok(const guarded *g);
void guarded_free(guarded *g);

/* Row-major float weights behind a tn_weight. */
typedef struct test_weight {
  tn_weight w;
  const float *data;
} test_weight;
void test_weight_init(test_weight *w, const float *data, int64_t N, int64_t K);
/* Packs into 64-byte aligned memory (free() it); NULL on failure. blob keeps params. */
uint8_t *pack_as(const tn_format *f, const int64_t *params, uint32_t n_params, const float *data, int64_t N, int64_t K,
                 tn_blob *blob);
uint8_t *pack_w4g(const float *data, int64_t N, int64_t K, int64_t group, tn_blob *blob);
float *unpack_all(const tn_blob *b);
const tn_numerics *numerics_of(const tn_blob *b);
/* The same for a kernel that may be one of averages, where rows of x have one scale, or with narrow codes for tables.
 */
const tn_numerics *numerics_of_kernel(const tni_clt_kernel *k, const tn_blob *b, bool by_row, bool narrow);
/* Whether rows of x may have one scale: codes in 8 bits. */
bool scales_rows(const tni_clt_format *f);

/* Quantized activations as a kernel of the table makes them; free with act_free. */
typedef struct act_buf {
  tni_clt_act a;
  guarded q, scale, zero, row;
} act_buf;
act_buf act_make(const tni_clt_kernel *k, const float *x, int64_t M, const tni_clt_geometry *g);
/* With one scale for a row of x; narrow codes for tables. */
act_buf act_make_as(const tni_clt_kernel *k, const float *x, int64_t M, const tni_clt_geometry *g, bool by_row,
                    bool narrow);
bool act_equal(const act_buf *a, const act_buf *b, int64_t M);
void act_free(act_buf *a);

/* y[M,N] and abs[M,N] (sum of magnitudes of terms) from the numerics and the unpacked weights, groups in double. */
void reference(const tn_numerics *num, const float *x, int64_t M, int64_t K, const float *w, int64_t N, double *y,
               double *abs);
/* What averages of table entries may put off one y: of x[K] and w[K]; 0 where num has none. */
double reference_averages(const tn_numerics *num, const float *x, int64_t K, const float *w);
/* |y - device| <= bound * abs, and averages: each group's term is rounded three times, and once more for each addition.
 */
double reference_bound(const tn_numerics *num, int64_t K);

const tni_clt_kernel *quant_of(uint32_t group, uint32_t features); /* of w4g */

/* What a row of the table needs beside it: the format's geometry for [N,K] and the scalar prologue that makes what the
 * kernel reads. */
typedef struct subject {
  const tni_clt_format *f;
  int64_t params[TNI_CLT_MAX_PARAMS];
  tni_clt_geometry geo;
  const tni_clt_kernel *prologue;
} subject;
void subject_init(subject *s, const tni_clt_kernel *k, int64_t N, int64_t K);
/* Of a grid: with these bits of scales and of zero points. */
void subject_way(subject *s, int64_t scale_bits, int64_t zero_bits);
/* Packs in the subject's format, which must outlive blob; NULL on failure. */
uint8_t *subject_pack(const subject *s, const float *data, tn_blob *blob);

int add_format_suite(void);
int add_lut_suite(void);
int add_dot_suite(void);
int add_kernel_suite(void);
int add_hole_suite(void);
int add_sme_suite(void); /* of cpu-neon-lut */
int add_chain_suite(void);
int add_plugin_suite(const char *so_path);
int add_fused_suite(const char *so_path);
int add_choice_suite(const char *so_path); /* of cpu-avx2-lut */

/* What kernels may need here: what the processor has and has right, and what is emulated (amx_emulated.h,
 * sme_emulated.h). */
static inline uint32_t test_cpu_features(void) {
  uint32_t has = tni_cm_cpu_features();
#ifdef TEST_SME_EMULATED
  return has & TNI_CPU_SME ? has | TNI_CPU_SME2 : has;
#elif defined(__aarch64__)
  return tni_arm_usable(has);
#endif
#ifdef TEST_AMX_EMULATED
  if (has & TNI_CPU_AVX512VNNI) has |= TNI_CPU_AMX;
#endif
  return has;
}

#endif
