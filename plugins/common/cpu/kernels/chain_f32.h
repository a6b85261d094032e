/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that the chain kernels share; scalar and AVX2 do the same operations in the same order, so their bits agree.
 *
 * exp(hi + lo), hi + lo <= 0: n = round(hi * log2 e), r = ((hi - n C1) - n C2) + lo with C1 + C2 = ln 2 and n C1 exact,
 *   m = 1 + (r + r^2 Q(r)), |r| <= 0.3467; Q: minimax, relative error of m 2^-28. The value is m 2^n; 2^n is kept as
 * two factors 2^h 2^l, so that a result is rounded once where it is denormal, and is 0 from -175 on. sigmoid(z) = u /
 * (1 + e), e = exp(-|z|), u = z < 0 ? e : 1. swish(x) = x sigmoid(alpha x), alpha x kept in double, as are the
 * arguments of both Gelus: rounding them to f32 would cost |z| / 2 ulp. tanh(x) = x + x s P(s), s = x^2, for |x| < 0.6;
 * else (1 - e) / (1 + e), e = exp(-2 |x|). gelu tanh = x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)). gelu erf = x Phi(x).
 * Phi(-a) = exp(-a^2 / 2) R(a), a >= 0, R(a) = T(u) / (a + 3), u = (a - 3) / (a + 3); T: minimax on a <= 19, relative
 * error 2^-29.6. Phi(a) = 1 - Phi(-a).
 *
 * Largest errors, in ulp of the result (tests/kernels sweeps them against double):
 */
#ifndef TENON_COMMON_CPU_KERNELS_CHAIN_F32_H
#define TENON_COMMON_CPU_KERNELS_CHAIN_F32_H

#define TNI_CLT_ULP_SIGMOID 2.5
#define TNI_CLT_ULP_TANH 2.0
#define TNI_CLT_ULP_SWISH 3.5
#define TNI_CLT_ULP_GELU_TANH 3.5
#define TNI_CLT_ULP_GELU_ERF 6.0

#define EXP_MAGIC 12582912.0f /* 1.5 * 2^23 */
#define EXP_LOG2E 1.44269504f
#define EXP_C1 0.693359375f
#define EXP_C2 -2.12194440e-4f
#define EXP_FLOOR -176.0f
#define EXP_Q0 0.49999994f
#define EXP_Q1 0.166665211f
#define EXP_Q2 0.041668389f
#define EXP_Q3 0.0083687352f
#define EXP_Q4 0.00138145604f

#define TANH_SMALL 0.6f
#define TANH_P0 -0.333332986f
#define TANH_P1 0.133319587f
#define TANH_P2 -0.0537866838f
#define TANH_P3 0.020805385f
#define TANH_P4 -0.00590586849f

#define GELU_C1 1.5957691216057308  /* 2 sqrt(2 / pi) */
#define GELU_C2 0.07135481627260025 /* 0.044715 of it */

#define PHI_CENTRE 3.0f
#define PHI_T0 0.729083717f
#define PHI_T1 -0.509332001f
#define PHI_T2 0.230017692f
#define PHI_T3 -0.0472626239f
#define PHI_T4 -0.0104624368f
#define PHI_T5 0.00696886005f
#define PHI_T6 0.00102433853f
#define PHI_T7 -0.00103139761f
#define PHI_T8 -0.000243706381f
#define PHI_T9 0.000130320492f
#define PHI_T10 5.35833133e-05f

#endif
