/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats "e0m2", "e0m3", "e0m8" version 1 and "e0m4" version 2, params [] or [zero_exact], without one 0: the
 * first m fraction bits of a half between 1 and 2, groups of 128 along K (the E0M4 of Transformer-Lite, and other
 * widths by its rule). w[n,k] = s * (h - c), h = 1 + code / 2^m = as_half(0x3C00 | code << (10 - m)), with one pair of
 * halves {s, c} per row and group. c lies in [1, 2), so h - c is exact in half and lies in (-1, 1): sums in half are
 * sums of centred values, and no sum of x is needed beside them. zero_exact 1: c is a multiple of 2^-m, its other
 * fraction bits are 0, so a weight of 0 stays 0.
 *
 * The blob serves every OpenCL plugin. Np = N rounded up to 128, Kp = K to 128, cut along N into parts of Pn columns
 * (the whole where that is at most TNI_E0M_PART_BYTES, else the largest multiple of 128 that keeps a part within it);
 * parts one after the other, align 128 (a base address of images and sub-buffers on the phones known). A part is
 *
 * - W: Kp/16*m x Pn uint16, little endian: 16 k of a column are m words in m rows. m 2, 4, 8: word j has the codes of
 *   16/m k, the first in its lowest bits. m 3: word j has the codes of k = 5j .. 5j+4 in bits 0 .. 14, and in its bit
 * 15 bit j of the code of k = 15;
 * - S: Kp/128 x Pn pairs {half s, half c}.
 *
 * Rows beyond N have s = 0. Within the last group elements beyond K have code 2^(m-1) and mean nothing: kernels take no
 * x from there.
 *
 * Packing floats: code = min(floor(2^m * (w / s + c - 1) + 1/2), 2^m - 1), not below 0, which takes the first m
 * fraction bits of the mapped weight and rounds by the next one; s and c are searched (e0m_fit.h). A group with highest
 * minus lowest weight below 2^-14 (0 is always among them) counts as zeros, since phones flush denormal halves.
 *
 * The grid that the formats state: codes with whole zero points 0 .. 2^m - 1 and scales s / 2^m, s of either sign. c is
 * then 1 + zero / 2^m, which both params hold.
 *
 * How it computes (tni_e0m_numerics): activations in half as they are; within a group of 128 sums in half (kernels may
 * be wider), across groups in f32. Declared for |x| <= 2048.
 */
#ifndef TENON_COMMON_FORMATS_E0M_H
#define TENON_COMMON_FORMATS_E0M_H

#include <tenon/plugin.h>

enum { TNI_E0M_GROUP = 128, TNI_E0M_COLUMNS = 128, TNI_E0M_UNIT = 16 };
#define TNI_E0M_PART_BYTES (UINT64_C(128) << 20)
#define TNI_E0M_MAX_DIM (INT64_C(1) << 31)

typedef struct tni_e0m_geometry {
  int64_t N, K, Np, Kp;
  int64_t part_n; /* columns of a part; the last may have fewer (a multiple of 128) */
  int64_t n_parts;
  uint64_t bytes;
  uint32_t bits; /* m */
  uint32_t reserved;
} tni_e0m_geometry;

/* Leaf of the geometry: where part p lies. */
typedef struct tni_e0m_part {
  int64_t n0, Pn;      /* first column, columns (padded) */
  uint64_t w_at, s_at; /* bytes from the blob's begin */
} tni_e0m_part;

/* bits: 2, 3, 4 or 8. TN_E_INVALID for dims outside 1..TNI_E0M_MAX_DIM, TN_E_LIMIT on overflow. */
TN_MUST_CHECK tn_status tni_e0m_geometry_of(uint32_t bits, int64_t N, int64_t K, tni_e0m_geometry *out);
tni_e0m_part tni_e0m_part_of(const tni_e0m_geometry *g, int64_t p);

/* Rows of W of that many k. */
static inline int64_t tni_e0m_rows(uint32_t bits, int64_t K) {
  return (K + TNI_E0M_GROUP - 1) / TNI_E0M_GROUP * (TNI_E0M_GROUP / TNI_E0M_UNIT) * bits;
}

/* Code i of the 16 of a column; w: its word in the first of their rows, pitch: words of a row. */
static inline uint32_t tni_e0m_code(uint32_t bits, const uint16_t *w, int64_t pitch, uint32_t i) {
  const uint32_t per = TNI_E0M_UNIT / bits;
  if (bits == 3 && i == 15) return w[0] >> 15 | w[pitch] >> 15 << 1 | w[2 * pitch] >> 15 << 2;
  return (uint32_t)(w[(int64_t)(i / per) * pitch] >> i % per * bits) & ((1u << bits) - 1);
}

enum { TNI_E0M_2, TNI_E0M_3, TNI_E0M_4, TNI_E0M_8, TNI_E0M_KINDS };
extern const tn_format tni_e0m_formats[TNI_E0M_KINDS];
extern const tn_numerics tni_e0m_numerics;

#endif
