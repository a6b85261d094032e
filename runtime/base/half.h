/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floats: IEEE binary16 and bfloat16. Rounding is half to even; NaNs stay NaNs.
 */
#ifndef TENON_BASE_HALF_H
#define TENON_BASE_HALF_H

#include <stdint.h>

float tni_f16_to_f32(uint16_t h);
uint16_t tni_f32_to_f16(float f);
float tni_bf16_to_f32(uint16_t h);
uint16_t tni_f32_to_bf16(float f);

#endif
