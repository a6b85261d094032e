/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight format "e0m4" version 1, params [zero_exact]: the four fraction bits of a half between 1 and 2, groups of 128
 * along K (the E0M4 of Transformer-Lite). w[n,k] = s * (h - c), h = 1 + code / 16 = as_half(0x3C00 | code << 6), with
 * one pair of halves {s, c} per row and group. c lies in [1, 2), so h - c is exact in half and lies in (-1, 1): sums in
 * half are sums of centred values, and no sum of x is needed beside them. zero_exact 1: c is a multiple of 1/16, so a
 * weight of 0 stays 0.
 *
 * The blob serves every OpenCL plugin. Np = N rounded up to 128, Kp = K to 128, cut along N into parts of Pn columns
 * (the whole where that is at most TNI_E0M4_PART_BYTES, else the largest multiple of 128 that keeps a part within it);
 * parts one after the other, align 128 (a base address of images and sub-buffers on the phones known). A part is
 *
 * - W: Kp/4 x Pn uint16, little endian: code(k,n) in bits 4*(k%4) .. +3 of W[k/4][n];
 * - S: Kp/128 x Pn pairs {half s, half c}.
 *
 * Rows beyond N have s = 0. Within the last group elements beyond K have code 8 and mean nothing: kernels take no x
 * from there.
 *
 * Packing a group with lowest weight lo <= 0 and highest hi >= 0 (0 is always part of the range): s = half(hi - lo),
 * c = half(1 - lo / s), code = min(floor(16 * (w / s + c - 1) + 1/2), 15), not below 0. Plain f32 operations in this
 * order: the same bytes on every machine. A group with hi - lo < 2^-14 counts as zeros, since phones flush denormal
 * halves.
 *
 * How it computes (tni_e0m4_numerics): activations in half as they are; within a group of 128 sums in half (kernels may
 * be wider), across groups in f32. Declared for |x| <= 2048.
 */
#ifndef TENON_COMMON_FORMATS_E0M4_H
#define TENON_COMMON_FORMATS_E0M4_H

#include <tenon/plugin.h>

enum { TNI_E0M4_GROUP = 128, TNI_E0M4_COLUMNS = 128 };
#define TNI_E0M4_PART_BYTES (UINT64_C(128) << 20)
#define TNI_E0M4_MAX_DIM (INT64_C(1) << 31)

typedef struct tni_e0m4_geometry {
  int64_t N, K, Np, Kp;
  int64_t part_n; /* columns of a part; the last may have fewer (a multiple of 128) */
  int64_t n_parts;
  uint64_t bytes;
} tni_e0m4_geometry;

/* Leaf of the geometry: where part p lies. */
typedef struct tni_e0m4_part {
  int64_t n0, Pn;      /* first column, columns (padded) */
  uint64_t w_at, s_at; /* bytes from the blob's begin */
} tni_e0m4_part;

/* TN_E_INVALID for dims outside 1..TNI_E0M4_MAX_DIM, TN_E_LIMIT on overflow. */
TN_MUST_CHECK tn_status tni_e0m4_geometry_of(int64_t N, int64_t K, tni_e0m4_geometry *out);
tni_e0m4_part tni_e0m4_part_of(const tni_e0m4_geometry *g, int64_t p);

extern const tn_format tni_e0m4_format;
extern const tn_numerics tni_e0m4_numerics;

/* One group: w[n] with n <= 128 -> codes, {s, c} as binary16. -1 for NaN, infinity or a range over 65504. */
int tni_e0m4_group(const float *w, uint32_t n, int zero_exact, uint8_t *codes, uint16_t sc[2]);

#endif
