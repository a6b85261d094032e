/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of OpenCL plugins: kinds, the arguments that each kind takes, variants, programs.
 *
 * A kind is one operation with fixed arguments; a variant is one kernel that computes it. A plugin has a table of
 * variants, best first; after them stand the floor variants of plugins/common/opencl/kernels, which need nothing but
 * OpenCL C 1.2 and buffers. The first variant whose features are there, that fits the sizes, that builds, and whose
 * self-test agrees with C is used. One program per kernel.
 *
 * Arguments. For each operand of the kind, in order: `__global uchar *p` (or an image, see flags) and `uint p_o`, where
 * it begins, in elements (w and s of products: in units of 128 bytes). Then the kind's ints, then its floats. An absent
 * operand has type 0 and any pointer. Types of operands are macros when a program is built, T_X, T_Y ... as listed,
 * with values of TN_DT_*; FP16 is 1 where half arithmetic may be used; of products BITS is how many a code has. prologue.cl stands before every source:
 *   LD(T, p, i) one element as float (of integer types: as int, of TN_DT_I64: as long); LD4(T, p, i) float4 at element
 * i, any alignment; ST(T, v, p, i), ST4(T, v, p, i). p already has its offset: p = AT(T, p, p_o). "pitch" is the
 * distance of rows in elements. All ints are int32; lowering refuses what does not fit.
 */
#ifndef TENON_COMMON_OPENCL_CLKERN_H
#define TENON_COMMON_OPENCL_CLKERN_H

#include "plugins/common/opencl/cldev.h"

enum {
  TNI_CLK_GATHER = 0, /* y[r,:] = table[ids[r],:]; out of range: zeros, negative: from the end
                       *   table T_T, ids T_I, y T_Y | rows, D, V, y_pitch */
  TNI_CLK_NORM = 1,   /* RMS or layer normalization over the last axis, sums in float
                       *   x T_X, scale T_S, bias T_B, y T_Y | rows, D, x_pitch, y_pitch, layer | eps */
  TNI_CLK_GEMV = 2,   /* y[m,n] = sum_k x[m,k] w[n,k], few rows; w: e0m.h, one part, codes of BITS bits
                       *   x T_X (half), w, s, y T_Y | M, N, K, Pn, x_pitch, y_pitch   N: columns wanted, <= Pn */
  TNI_CLK_GEMM = 3,   /* the same, many rows */
  TNI_CLK_EW = 4,     /* element-wise chains and strided copies; source is generated (clew.h) */
  TNI_CLK_ROTARY = 5, /* x T_X, cos T_C, sin T_C, pos T_P (absent: row of x), y T_Y
                       *   | B, S, H, D, R, interleaved, xb, xs, xh, yb, ys, yh, cb, cs, pos_rows
                       *   R: rotated pairs (rotary dim / 2). Strides in elements of batch, row, head. */
  TNI_CLK_APPEND = 6, /* cache[b, pos[b] + s, h, :] = x[b, s, h, :]; rows at or beyond `rows` are dropped
                       *   x T_X, pos (int64), cache T_Y | B, S, H, D, xb, xs, xh, cb, cs, ch, rows */
  TNI_CLK_ATTN = 7,   /* y = softmax(scale q k^T ...) v, sums in float; a query without keys gives zeros
                       *   q T_Q, k T_K, v T_K, mask T_M (bool: 1 keeps; float: added), valid T_V (int64 [B]), y T_Y
                       *   | B, S, H, KVH, D, DV, T, qb, qs, qh, kb, ks, kh, vb, vs, vh, mb, mh, ms, mask_len, yb, ys,
                       *     yh, causal, left, right, past | scale, cap
                       *   query s sits at past + s, with `valid` at valid[b] - S + s; left, right -1: no window. */
  TNI_CLK_MATMUL = 8, /* float product of two activations: a T_A, b T_B, y T_Y
                       *   | M, N, K, n0, n1, ar, ac, a0, a1, br, bc, b0, b1, y_pitch
                       *   batch n0 x n1 with strides a0, a1, b0, b1; row and column strides ar, ac, br, bc;
                       *   y is [n0, n1, M] rows of y_pitch */
  TNI_CLK_COUNT = 9
};

enum { TNI_CL_MAX_OPERANDS = 34, TNI_CL_MAX_INTS = 28, TNI_CL_MAX_FLOATS = 2 };
enum { TNI_CL_GEMV_ROWS = 4 }; /* M up to this is a GEMV */

/* Indices into a kind's ints. */
enum { TNI_CLI_M = 0, TNI_CLI_N = 1, TNI_CLI_K = 2, TNI_CLI_PN = 3 };
enum { TNI_CLI_ROWS = 0, TNI_CLI_D = 1 };

/* Concrete sizes of one launch; types[i] of operand i as TN_DT_*, 0 absent. */
typedef struct tni_cl_shape {
  uint32_t kind, n_operands, n_ints, n_floats;
  uint32_t no_image; /* 1: the weights of this launch have no image */
  uint32_t bits;     /* of a code of the weights; 0: no product */
  uint32_t types[TNI_CL_MAX_OPERANDS];
  int32_t ints[TNI_CL_MAX_INTS];
  float floats[TNI_CL_MAX_FLOATS];
} tni_cl_shape;

/* What w of a product is to this variant. */
enum {
  TNI_CLV_W_IMAGE2D = 1, /* image2d_t R32UI over the buffer, Pn / 2 wide, as high as W has rows: 2 columns in a texel */
  TNI_CLV_W_IMAGE1D = 2  /* image1d_buffer_t R32UI over the whole blob; w_o counts texels */
};

typedef struct tni_cl_variant {
  uint32_t kind, flags; /* TNI_CLK_*, TNI_CLV_* */
  const char *name;     /* of the __kernel */
  const char *source;
  const char *options; /* more -D, or "" */
  uint32_t needs;      /* TNI_CLF_* */
  uint32_t reserved;
  /* Whether it computes this; NULL: everything of its kind. */
  bool (*fits)(const tni_cl_info *i, const tni_cl_shape *s);
  /* Sizes of the launch; local[0] 0: the driver's choice. global is a multiple of local. */
  void (*geometry)(const tni_cl_info *i, const tni_cl_shape *s, size_t global[3], size_t local[3]);
} tni_cl_variant;

/* The floor: TNI_CLK_GATHER .. MATMUL, all that is needed to run a decoder. */
extern const tni_cl_variant tni_cl_floor[];
extern const uint32_t tni_cl_n_floor;

/* --- programs --- */

/* A built program; kernels are made from it for each launch, because a kernel's arguments are state of its object. */
typedef struct tni_cl_program {
  const tni_cl_variant *variant; /* NULL: generated */
  cl_program program;
  const char *name; /* of the kernel */
  const char *why;  /* why it cannot be used, or NULL */
  struct tni_cl_program *next;
  char *options, *source; /* identity */
  bool tested;
} tni_cl_program;

typedef struct tni_cl_kernels {
  const tni_cl_context *c;
  const tn_host *host;
  const tni_cl_variant *const *tables; /* the plugin's variants, then the floor; [2] with counts n */
  const uint32_t *n;
  tni_cl_program *first;
  tni_cm_mem mem;
  uint32_t features; /* of the device, cut by options */
  bool self_test;
  uint32_t source_builds, binary_builds, skipped;
} tni_cl_kernels;

/* The program for a shape; builds and tests it on first use. TN_E_UNAVAILABLE with all reasons where no variant works.
 */
TN_MUST_CHECK tn_status tni_cl_kernel_for(tni_cl_kernels *k, const tni_cl_shape *s, tni_cl_program **out,
                                          tn_error *err);
/* A program from a generated source, untested (clew.h). */
TN_MUST_CHECK tn_status tni_cl_kernel_of_source(tni_cl_kernels *k, const char *name, const char *source,
                                                const char *options, tni_cl_program **out, tn_error *err);
/* Asks fn once for a program that has not been tested, and remembers what it says; false where the program cannot be
 * used (p->why). */
typedef const char *(*tni_cl_test_fn)(tni_cl_kernels *k, const tni_cl_program *p, const void *like, bool *wrong);
bool tni_cl_kernel_tested(tni_cl_kernels *k, tni_cl_program *p, tni_cl_test_fn fn, const void *like);
void tni_cl_kernels_finish(tni_cl_kernels *k);

/* --- C --- */

/* What a launch must give, in C: operand i begins at p[i] (offsets added). The oracle of self-tests and tests. w of a
 * product is the part's W, s its S. */
void tni_cl_reference(const tni_cl_shape *s, void *const *p);
/* Runs a small case of this program against tni_cl_reference, like a tni_cl_shape; NULL, or what failed (static text).
 * *wrong: the results, not the attempt. */
const char *tni_cl_self_test(tni_cl_kernels *k, const tni_cl_program *p, const void *like, bool *wrong);

#endif
