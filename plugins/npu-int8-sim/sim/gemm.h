/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact function of one product, on the simulator's own view of memory. Pure.
 */
#ifndef TENON_NPUSIM_GEMM_H
#define TENON_NPUSIM_GEMM_H

#include <stdint.h>

/* x[M][Kp], w in tiles, y[M][Np] as sim.h lays them out; panel: int16[33 * Kp]. Columns [tile * 32, + 32). */
void npusim_gemm_tile(const int8_t *x, const int8_t *w, int32_t *y, int64_t M, int64_t N, int64_t K, int64_t tile,
                      int16_t *panel);

#endif
