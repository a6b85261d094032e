/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats "w8a8" and "w8r", version 1: symmetric int8, one scale for the whole tensor.
 *
 * Scale: s_w = absmax / 127 in f32, its last seven bits cleared upwards, so that s_w has 17 significant bits, code *
 * s_w is exact in f32 and absmax / s_w is at most 127; a matrix of zeros has s_w 0. code = round_half_even(w / s_w),
 * f32 division. NaN and infinity are refused when packing begins. Both formats have the same codes of the same matrix.
 *
 * w8a8: for the device. Tiles of 32 n and 32 k, [N/32][K/32][32 n][32 k], zeros beyond N and K; then a trailer of 128
 *   bytes that begins with s_w. Align 128. params: [] or [bits of s, wide].
 * w8r: for the shadow. Codes [K][pitch], pitch = N rounded up to 64, so that one channel's row is one read; then a
 * trailer of 64 bytes that begins with s_w. Align 64. params: [].
 *
 * How it computes (NPU4): activations have one static scale s. q = round_half_even(x / s), f32 division, clamped to
 * [-1048576, 1048575] (wide) or [-128, 127]; NaN gives 0. y = f32((f64) S * (s * s_w)), S = sum of q * code over K,
 * exact. Wide, the device sums c = clamp(q, -128, 127) and the CPU r = q - c beside it; S is the sum of both as int64.
 */
#ifndef TENON_NPU_INT8_W8_H
#define TENON_NPU_INT8_W8_H

#include <tenon/plugin.h>

enum { TNI_W8_TRAILER = 128, TNI_W8R_TRAILER = 64, TNI_W8R_PITCH = 64, TNI_W8_WIDE_MAX = 1048575 };
#define TNI_W8_MAX_K INT64_C(131072) /* 128 * 127 * K fits int32 */
#define TNI_W8_MAX_N (INT64_C(1) << 31)

extern const tn_format tni_w8a8_format, tni_w8r_format;

/* Bytes of codes, without the trailer; 0 for dims that the format cannot hold. */
uint64_t tni_w8a8_codes(int64_t N, int64_t K);
uint64_t tni_w8r_codes(int64_t N, int64_t K);
uint64_t tni_w8r_pitch(int64_t N);
/* s_w of a blob of either format. */
TN_MUST_CHECK tn_status tni_w8_scale(const tn_blob *b, float *s);
/* The params of w8a8 for an activation scale. */
void tni_w8a8_params(float s, int wide, int64_t params[2]);

#endif
