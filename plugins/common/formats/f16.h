/* SPDX-License-Identifier: Apache-2.0
 *
 * IEEE binary16 <-> binary32 in integer arithmetic: the same bits on every machine, whatever its FP mode.
 */
#ifndef TENON_COMMON_FORMATS_F16_H
#define TENON_COMMON_FORMATS_F16_H

#include <stdint.h>

/* Exact. NaN payloads keep their upper bits. */
float tni_cm_f16_to_f32(uint16_t h);
/* Rounds half to even; overflow gives infinity, denormals are kept. */
uint16_t tni_cm_f32_to_f16(float f);

#endif
