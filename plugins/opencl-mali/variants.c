/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/opencl-mali/variants.h"

#include "mali_sources.h"

enum { WAVE = 16, NORM_GROUP = 64, WIDE_N = 32768 };

static size_t mali_round_up(int64_t n, int64_t unit, size_t group) {
  size_t items = (size_t)((n + unit - 1) / unit);
  return (items + group - 1) / group * group;
}

static void mali_sizes(size_t global[3], size_t local[3], size_t gx, size_t gy, size_t gz, size_t lx, size_t ly) {
  global[0] = gx;
  global[1] = gy;
  global[2] = gz;
  local[0] = lx;
  local[1] = ly;
  local[2] = 1;
}

static bool half_x(const tni_cl_info *i, const tni_cl_shape *s) {
  (void)i;
  return s->types[0] == TN_DT_F16;
}

static bool floats4(uint32_t type) { return type == TN_DT_F32 || type == TN_DT_F16; }

/* --- products: 4 columns per item --- */

/* Few columns do not fill the device: two lanes share them. */
static bool fits_gemv_split(const tni_cl_info *i, const tni_cl_shape *s) {
  return half_x(i, s) && s->ints[TNI_CLI_N] < WIDE_N;
}

static void gemv_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, mali_round_up(s->ints[TNI_CLI_N], 4, 64), (size_t)s->ints[TNI_CLI_M], 1, 64, 1);
}

static void gemv_split_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, mali_round_up(s->ints[TNI_CLI_N], 2, 64), (size_t)s->ints[TNI_CLI_M], 1, 64, 1);
}

static void gemm_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, mali_round_up(s->ints[TNI_CLI_N], 4, 4), mali_round_up(s->ints[TNI_CLI_M], 4, 16), 1, 4,
             16);
}

/* --- rows --- */

/* Collectives of a work-group come with OpenCL C 2.0, on such devices beside sub-groups. */

static bool fits_norm(const tni_cl_info *i, const tni_cl_shape *s) {
  const uint32_t *t = s->types;
  return i->cl_major >= 2 && floats4(t[0]) && floats4(t[3]) && (!t[1] || floats4(t[1])) && (!t[2] || floats4(t[2]));
}

static void norm_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, (size_t)s->ints[TNI_CLI_ROWS] * NORM_GROUP, 1, 1, NORM_GROUP, 1);
}

static bool fits_gather(const tni_cl_info *i, const tni_cl_shape *s) {
  (void)i;
  return floats4(s->types[0]) && floats4(s->types[2]);
}

static void gather_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, mali_round_up(s->ints[TNI_CLI_D], 4, WAVE), (size_t)s->ints[TNI_CLI_ROWS], 1, WAVE, 1);
}

/* ints: B, S, H, D of a rotary embedding and of an append. */
enum { I_B = 0, I_S = 1, I_H = 2, I_D = 3 };

static void rotary_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, mali_round_up(s->ints[I_D], 2, WAVE), (size_t)s->ints[I_H],
             (size_t)s->ints[I_B] * (size_t)s->ints[I_S], WAVE, 1);
}

static bool fits_append(const tni_cl_info *i, const tni_cl_shape *s) {
  (void)i;
  return s->ints[I_D] % 4 == 0 && floats4(s->types[0]) && floats4(s->types[2]);
}

static void append_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, mali_round_up(s->ints[I_D], 4, WAVE), (size_t)s->ints[I_H],
             (size_t)s->ints[I_B] * (size_t)s->ints[I_S], WAVE, 1);
}

/* ints of attention: B, S, H, KVH, D, DV, T. */
enum { A_D = 4, A_DV = 5, A_MOST = 256 };

static bool fits_attention(const tni_cl_info *i, const tni_cl_shape *s) {
  (void)i;
  int32_t d = s->ints[A_D], dv = s->ints[A_DV];
  return d % 4 == 0 && dv % 4 == 0 && d <= A_MOST && dv <= A_MOST && floats4(s->types[0]) && floats4(s->types[1]) &&
         floats4(s->types[2]) && floats4(s->types[5]);
}

static void attention_geometry(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  mali_sizes(global, local, WAVE, (size_t)s->ints[I_H], (size_t)s->ints[I_B] * (size_t)s->ints[I_S], WAVE, 1);
}

enum { SPLIT = TNI_CLF_SUBGROUPS | TNI_CLF_SUBGROUP_SHUFFLE };

const tni_cl_variant tni_mali_variants[TNI_MALI_N_VARIANTS] = {
    {.kind = TNI_CLK_GEMV,
     .name = "mali_gemv",
     .source = tni_src_mali_products,
     .options = "-cl-std=CL3.0 -DROWS=1 -DSLICES=2",
     .needs = SPLIT,
     .fits = fits_gemv_split,
     .geometry = gemv_split_geometry},
    {.kind = TNI_CLK_GEMV,
     .name = "mali_gemv",
     .source = tni_src_mali_products,
     .options = "-DROWS=1 -DSLICES=1",
     .fits = half_x,
     .geometry = gemv_geometry},
    {.kind = TNI_CLK_GEMM,
     .flags = TNI_CLV_W_IMAGE2D,
     .name = "mali_gemm",
     .source = tni_src_mali_products,
     .options = "-DROWS=4 -DIMAGE=1",
     .needs = TNI_CLF_FP16 | TNI_CLF_IMAGE2D_BUF,
     .fits = half_x,
     .geometry = gemm_geometry},
    {.kind = TNI_CLK_GEMM,
     .name = "mali_gemm",
     .source = tni_src_mali_products,
     .options = "-DROWS=4 -DIMAGE=0",
     .fits = half_x,
     .geometry = gemm_geometry},
    {.kind = TNI_CLK_NORM,
     .name = "mali_norm",
     .source = tni_src_mali_norm,
     .options = "-cl-std=CL3.0",
     .needs = TNI_CLF_SUBGROUPS,
     .fits = fits_norm,
     .geometry = norm_geometry},
    {.kind = TNI_CLK_GATHER,
     .name = "mali_gather",
     .source = tni_src_mali_gather,
     .options = "",
     .fits = fits_gather,
     .geometry = gather_geometry},
    {.kind = TNI_CLK_ROTARY,
     .name = "mali_rotary",
     .source = tni_src_mali_rotary,
     .options = "",
     .geometry = rotary_geometry},
    {.kind = TNI_CLK_APPEND,
     .name = "mali_append",
     .source = tni_src_mali_append,
     .options = "",
     .fits = fits_append,
     .geometry = append_geometry},
    {.kind = TNI_CLK_ATTN,
     .name = "mali_attention",
     .source = tni_src_mali_attention,
     .options = "-cl-std=CL3.0",
     .needs = TNI_CLF_SUBGROUPS,
     .fits = fits_attention,
     .geometry = attention_geometry},
};
