/* SPDX-License-Identifier: Apache-2.0
 *
 * What the products of bytes share: operands with zero points and scales, and sums on their way out.
 */
#ifndef TENON_OPS_QUANT_QPRODUCT_H
#define TENON_OPS_QUANT_QPRODUCT_H

#include "runtime/ops/gemm/gemm.h"
#include "runtime/ops/conv/conv.h"

typedef struct tni_qoperand {
  const tni_tensor *t, *zero, *scale; /* zero, scale: NULL: 0, none */
} tni_qoperand;

typedef struct tni_qproduct {
  tni_qoperand a, b;
  const tni_tensor *y_scale, *y_zero, *bias; /* y_scale NULL: y is the sums, int32; bias NULL: none */
  const tni_tensor *to_float, *float_bias; /* not NULL: y is the sums as f32 times to_float, plus the bias */
  tni_tensor *y;
  bool trans_b;
  int64_t M, N, K, batch_rank, batch_dims[TN_MAX_RANK], a_st[TN_MAX_RANK], b_st[TN_MAX_RANK]; /* in matrices */
  tni_im2col im;                                                                              /* of a convolution */
  int64_t groups, group_outs;
  const tni_hot *hot;
  void *scratch;
  tni_to_byte to; /* of y's bytes */
  /* Of scales in f32, a's and y's of one element; b_scale NULL: tni_qfactor works them out. */
  const f32u *b_scale;
  float a_scale, y_one;
  bool b_many;
} tni_qproduct;

static inline bool tni_qis_byte(const tni_tensor *t) { return t->dtype == TN_DT_I8 || t->dtype == TN_DT_U8; }
static inline int32_t tni_qbyte(const tni_tensor *t, int64_t i) {
  return t->dtype == TN_DT_I8 ? ((const i8u *)t->data)[i] : ((const u8u *)t->data)[i];
}
/* Parameter i: a tensor's only one, or one per index. */
static inline int64_t tni_qparam(const tni_tensor *p, int64_t i) { return tni_knumel(p) == 1 ? 0 : i; }
static inline int32_t tni_qzero(const tni_tensor *p, int64_t i) { return p ? tni_qbyte(p, tni_qparam(p, i)) : 0; }
/* How bytes of t with this zero point are widened, how those of t are made. */
static inline tni_of_byte tni_qof(const tni_tensor *t, int32_t zero) {
  const bool is_signed = t->dtype == TN_DT_I8;
  return (tni_of_byte){is_signed ? 128u : 0u, is_signed ? zero + 128 : zero};
}
/* Signed bytes instead (bgemm.h): what makes them of t's, and of a zero point. */
static inline uint8_t tni_qflip(const tni_tensor *t) { return t->dtype == TN_DT_I8 ? 0 : 128; }
static inline int32_t tni_qsigned(const tni_tensor *t, int32_t zero) { return zero - tni_qflip(t); }
/* n <= TNI_BGEMM_KC of them from `at` on, 0 up to ld, and their sum. */
static inline int32_t tni_qline(const tni_tensor *t, int64_t at, int64_t n, int64_t ld, int8_t *dst) {
  const u8u *from = (const u8u *)t->data + at;
  const uint8_t flip = tni_qflip(t);
  int32_t sum = 0;
  for (int64_t i = 0; i < n; i++) dst[i] = (int8_t)(from[i] ^ flip);
  memset(dst + n, 0, (size_t)(ld - n));
  for (int64_t i = 0; i < ld; i++) sum += dst[i];
  return sum;
}
static inline tni_to_byte tni_qto(const tni_tensor *t, int32_t zero) {
  const bool is_signed = t->dtype == TN_DT_I8;
  return (tni_to_byte){(float)zero, is_signed ? -128.f : 0.f, is_signed ? 127.f : 255.f};
}

/* a_scale * b_scale / y_scale of parameters a and b, in the scales' own type, as ONNX's functions do it. 1: no y_scale.
 */
float tni_qfactor(const tni_qproduct *p, int64_t a, int64_t b);
/* Fills in what comes of the operands: to, and the scales where they are plain. */
void tni_qsettle(tni_qproduct *p);
/* The factor of parameter b of the second operand. */
static inline float tni_qscale(const tni_qproduct *p, int64_t b) {
  return p->b_scale ? p->a_scale * p->b_scale[p->b_many ? b : 0] / p->y_one : tni_qfactor(p, 0, b);
}
/* n sums to y from element `at` on; scale: one, or n where per is not 0. */
void tni_qgive(const tni_qproduct *p, const int32_t *sums, const float *scale, int per, int64_t at, int64_t n);
/* One parameter, one per row (column), or one per row (column) of every matrix; NULL fits. */
bool tni_qparams_fit(const tni_tensor *p, int64_t per, int64_t all);

/* Columns for bgemm.h's bytes_b: row(ctx, k, room), k ascending from 0 to kc, is where row k lies, or puts it into room
 * of TNI_BGEMM_COLS bytes. nb rounded up to panels of each are read. */
typedef struct tni_qrows {
  void *ctx;
  const uint8_t *(*row)(void *ctx, int64_t k, uint8_t *room);
} tni_qrows;
void tni_qcolumns(const tni_dots *dots, const tni_qrows *rows, uint8_t flip, int64_t kc, int64_t ld, int64_t nb,
                  int8_t *dst);
/* nb bytes from there on, or a copy, if reading whole panels of them would reach past the end. */
static inline const uint8_t *tni_qrow_from(const uint8_t *from, int64_t nb, uint8_t *room) {
  return nb % TNI_NR ? memcpy(room, from, (size_t)nb) : from;
}

/* The convolution of p->a with p->b; p's operands have been checked for their types. */
tn_status tni_qconv(const tni_kargs *a, tni_qproduct *p);

#endif
