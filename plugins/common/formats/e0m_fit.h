/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale and the bias of a group of e0m (e0m.h) by search: ranges from clipped to whole, then least squares on the
 * codes of the best. What is small is the sum of weight * (w - unpacked)^2. Plain f32 operations in a stated order and
 * partial sums of eight, no contraction: the same bytes on every machine.
 */
#ifndef TENON_COMMON_FORMATS_E0M_FIT_H
#define TENON_COMMON_FORMATS_E0M_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* No element is off by more than this of the group's largest magnitude, roundings of s and c included. */
#define TNI_E0M_ERR(bits) ((bits) == 2 ? 0.651f : (bits) == 3 ? 0.351f : (bits) == 4 ? 0.1905f : 0.0065f)

/* w[n] and how much each counts (above 0; NULL: all the same), n <= 128 -> codes[n], {s, c} as binary16. -1 for NaN,
 * infinity, or a range that no scale reaches. */
int tni_e0m_fit(uint32_t bits, bool zero_exact, const float *w, const float *weight, uint32_t n, uint8_t *codes,
                uint16_t sc[2]);

#endif
