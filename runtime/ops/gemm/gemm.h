/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/ops/gemm: products of floats and of bytes.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_OPS_GEMM_GEMM_H
#define TENON_OPS_GEMM_GEMM_H

#include "runtime/ops/gemm/bgemm.h"
#include "runtime/ops/gemm/floats.h"
#include "runtime/ops/gemm/quantized.h"

#endif
