/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting points from public engines that run on these devices: two columns per item and four waves of 64 over K for
 * one row, eight rows by two columns with sums in half for many; weights through the texture cache.
 */
#include "plugins/opencl-adreno/variants.h"

#include "adreno_src.h"

enum { WIDE_N = 32768 }; /* from here on the image kernel loses: its rows no longer stay in the cache */

static size_t adreno_round_up(int64_t n, size_t unit) { return n < 1 ? unit : ((size_t)n + unit - 1) / unit * unit; }

static void adreno_gemv_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  global[0] = adreno_round_up((s->ints[TNI_CLI_N] + 1) / 2, 64);
  global[1] = 4;
  global[2] = adreno_round_up(s->ints[TNI_CLI_M], 1);
  local[0] = 64;
  local[1] = 4;
  local[2] = 1;
}

static void adreno_gemm_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  global[0] = adreno_round_up((s->ints[TNI_CLI_N] + 1) / 2, 16);
  global[1] = adreno_round_up((s->ints[TNI_CLI_M] + 7) / 8, 4);
  global[2] = 1;
  local[0] = 16;
  local[1] = 4;
  local[2] = 1;
}

static bool group_of_256(const tni_cl_info *i, const tni_cl_shape *s) {
  (void)s;
  return i->max_group >= 256;
}

static bool is_narrow(const tni_cl_info *i, const tni_cl_shape *s) {
  return i->max_group >= 256 && s->ints[TNI_CLI_N] < WIDE_N;
}

static bool half_x(const tni_cl_info *i, const tni_cl_shape *s) {
  (void)i;
  return s->types[0] == TN_DT_F16;
}

const tni_cl_variant tni_adreno_variants[] = {
    {.kind = TNI_CLK_GEMV,
     .name = "adreno_gemv",
     .source = tni_src_adreno_gemv,
     .options = "-DIMAGE=1",
     .needs = TNI_CLF_IMAGES | TNI_CLF_IMAGE2D_BUF,
     .flags = TNI_CLV_W_IMAGE2D,
     .fits = is_narrow,
     .geometry = adreno_gemv_size},
    {.kind = TNI_CLK_GEMV,
     .name = "adreno_gemv",
     .source = tni_src_adreno_gemv,
     .options = "-DIMAGE=0",
     .fits = group_of_256,
     .geometry = adreno_gemv_size},
    {.kind = TNI_CLK_GEMM,
     .name = "adreno_gemm",
     .source = tni_src_adreno_gemm,
     .options = "-DIMAGE=1",
     .needs = TNI_CLF_FP16 | TNI_CLF_IMAGES | TNI_CLF_IMAGE2D_BUF,
     .flags = TNI_CLV_W_IMAGE2D,
     .fits = half_x,
     .geometry = adreno_gemm_size},
    {.kind = TNI_CLK_GEMM,
     .name = "adreno_gemm",
     .source = tni_src_adreno_gemm,
     .options = "-DIMAGE=0",
     .needs = TNI_CLF_FP16,
     .fits = half_x,
     .geometry = adreno_gemm_size},
};
