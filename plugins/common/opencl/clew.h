/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise kernels, generated: one for each chain and its types. Arguments: inputs, outputs, starts (each a pointer
 * and where it begins in elements), then a small buffer `meta` of int32, so that shapes cost no build: d0 (innermost)
 * d1 d2 d3, then 4 strides of each input and output in elements, innermost first; then for each input with a start:
 * stride of its axis, the input's length along it, the output's. Sizes of a launch: d0, d1, d2 * d3.
 */
#ifndef TENON_COMMON_OPENCL_CLEW_H
#define TENON_COMMON_OPENCL_CLEW_H

#include "plugins/common/base/base.h"
#include "plugins/common/opencl/clkern.h"

enum { TNI_CL_EW_SOURCE = 24576 };

/* Registers: n_in inputs, then instructions; types of inputs, outputs, starts. wide: registers are long (integers
 * only), else float. dynamic: bit i: input i begins at a start that is read from an int64 operand after the outputs.
 */
typedef struct tni_cl_ew {
  uint32_t n_in, n_ops, n_out, wide, dynamic, reserved;
  uint32_t types[TNI_CL_MAX_OPERANDS];
  tni_cm_instr ops[TN_CHAIN_MAX_OPS];
  uint32_t results[TNI_CM_MAX_RESULTS];
} tni_cl_ew;

/* false: does not fit into size. */
bool tni_cl_ew_source(const tni_cl_ew *e, char *out, size_t size);
/* Operators that one-node element-wise launches have beside those of chains. */
bool tni_cl_ew_operator(uint32_t op);
/* Sizes of a launch for dims meta[0..3]. */
void tni_cl_ew_geometry(const int32_t meta[4], size_t global[3], size_t local[3]);

/* The program of a chain, built and tested on first use. Where what an optimizing compiler makes of it is wrong, it is
 * built without optimization. TN_E_UNAVAILABLE with all reasons where that does not help; TN_E_LIMIT: too long. */
TN_MUST_CHECK tn_status tni_cl_kernel_of_ew(tni_cl_kernels *k, const tni_cl_ew *e, tni_cl_program **out, tn_error *err);

/* A small case against C: padded, broadcast and transposed operands, begins that are not 0, starts beyond the end.
 * NULL, or what failed (static text); *wrong: the results, not the attempt. Each register carries how far it may be
 * off: what OpenCL promises of its functions, and what an operand's error moves. */
const char *tni_cl_ew_self_test(tni_cl_kernels *k, const tni_cl_program *p, const tni_cl_ew *e, bool *wrong);

#endif
