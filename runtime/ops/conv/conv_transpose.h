/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_OPS_CONV_CONV_TRANSPOSE_H
#define TENON_OPS_CONV_CONV_TRANSPOSE_H

#include "runtime/ops/kernel/kernel.h"

/* Scratch bytes of ConvTranspose over x [N, C, ..] and w [C, M / group, ..]; UINT64_MAX where they have no size. */
uint64_t tni_conv_transpose_scratch(const tni_tensor *x, const tni_tensor *w, uint32_t n_workers);

#endif
