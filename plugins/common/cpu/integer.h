/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bytes in exact integers: tenon.MatMulIntegerToFloat with a constant matrix, packed to int8
 * (plugins/common/formats/int8.h). y[m,n] = f32(sum over k of (a - a_zero) * (b - b_zero)) * scale + bias, sums modulo
 * 2^32, the rest in f32 in this order: the same bits as the host's, whatever the kernel.
 */
#ifndef TENON_COMMON_CPU_INTEGER_H
#define TENON_COMMON_CPU_INTEGER_H

#include "plugins/common/cpu/build.h"
#include "plugins/common/cpu/match.h"
#include "plugins/common/cpu/program.h"

/* Fills in m->N, K, x, y, w and offset; NULL, or why not (static) with m->reason set. */
const char *tni_clt_integer_match(const tni_clt_device *d, const tn_graph *g, const tn_node *n, tni_clt_match *m);
/* What is packed; params live as long as the program text. */
tni_cm_offer tni_clt_integer_offer(int64_t N, int64_t K, int64_t offset);
TN_MUST_CHECK tn_status tni_clt_lower_integer(tni_clt_builder *b, uint32_t i, tn_error *err);
/* Bytes of scratch for M rows. */
uint64_t tni_clt_integer_scratch(const tni_clt_task *t, int64_t M);
/* Bytes that a use of the task must have; 0: a constant, or it may be empty. */
uint64_t tni_clt_integer_bytes(const tn_plan *plan, uint32_t use);
tn_status tni_clt_run_integer(const tn_plan *plan, const tn_args *a, tn_run *run);

#endif
