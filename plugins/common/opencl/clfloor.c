/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor: kernels that need OpenCL C 1.2 and buffers, half as storage only.
 */
#include "cl_floor_src.h"
#include "plugins/common/opencl/clkern.h"
#include "plugins/common/opencl/clsource.h"

const char *const tni_cl_prologue = tni_src_prologue;

static size_t floor_round_up(int64_t n, size_t unit) { return n < 1 ? unit : ((size_t)n + unit - 1) / unit * unit; }

static void floor_sizes(size_t v[3], size_t a, size_t b, size_t c) {
  v[0] = a;
  v[1] = b;
  v[2] = c;
}

static void floor_gather_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  floor_sizes(global, floor_round_up(s->ints[1], 32), floor_round_up(s->ints[0], 1), 1);
  floor_sizes(local, 32, 1, 1);
}

static void floor_norm_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  floor_sizes(global, 64 * floor_round_up(s->ints[0], 1), 1, 1);
  floor_sizes(local, 64, 1, 1);
}

static void floor_gemv_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  floor_sizes(global, floor_round_up((s->ints[TNI_CLI_N] + 1) / 2, 16), floor_round_up(s->ints[TNI_CLI_M], 1), 1);
  floor_sizes(local, 16, 1, 1);
}

static void floor_gemm_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  floor_sizes(global, floor_round_up((s->ints[TNI_CLI_N] + 1) / 2, 16), floor_round_up((s->ints[TNI_CLI_M] + 3) / 4, 1),
              1);
  floor_sizes(local, 16, 1, 1);
}

/* Kinds whose ints begin with B, S, H, D. */
static void floor_heads_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  floor_sizes(global, floor_round_up(s->ints[3], 8), floor_round_up(s->ints[2], 1),
              (size_t)s->ints[0] * (size_t)s->ints[1]);
  floor_sizes(local, 8, 1, 1);
}

static bool attn_fits(const tni_cl_info *i, const tni_cl_shape *s) {
  (void)i;
  return s->ints[4] <= 256 && s->ints[5] <= 256;
}

static void attention_floor(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  floor_sizes(global, 64 * (size_t)s->ints[1], (size_t)s->ints[2], (size_t)s->ints[0]);
  floor_sizes(local, 64, 1, 1);
}

static void floor_matmul_size(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]) {
  (void)i;
  floor_sizes(global, floor_round_up(s->ints[1], 8), floor_round_up(s->ints[0], 1),
              (size_t)s->ints[3] * (size_t)s->ints[4]);
  floor_sizes(local, 8, 1, 1);
}

const tni_cl_variant tni_cl_floor[] = {
    {.kind = TNI_CLK_GATHER, .name = "gather", .source = tni_src_gather, .geometry = floor_gather_size},
    {.kind = TNI_CLK_NORM, .name = "norm", .source = tni_src_norm, .geometry = floor_norm_size},
    {.kind = TNI_CLK_GEMV, .name = "gemv", .source = tni_src_gemv, .geometry = floor_gemv_size},
    {.kind = TNI_CLK_GEMM, .name = "gemm", .source = tni_src_gemm, .geometry = floor_gemm_size},
    {.kind = TNI_CLK_ROTARY, .name = "rotary", .source = tni_src_rotary, .geometry = floor_heads_size},
    {.kind = TNI_CLK_APPEND, .name = "append", .source = tni_src_append, .geometry = floor_heads_size},
    {.kind = TNI_CLK_ATTN, .name = "attn", .source = tni_src_attn, .fits = attn_fits, .geometry = attention_floor},
    {.kind = TNI_CLK_MATMUL, .name = "matmul", .source = tni_src_matmul, .geometry = floor_matmul_size},
};
const uint32_t tni_cl_n_floor = sizeof tni_cl_floor / sizeof *tni_cl_floor;
