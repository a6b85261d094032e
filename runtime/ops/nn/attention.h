/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes that the Attention kernel and its scratch statement share.
 */
#ifndef TENON_OPS_NN_ATTENTION_H
#define TENON_OPS_NN_ATTENTION_H

#include "runtime/ops/kernel/kernel.h"

/* Scratch bytes for all workers: depends on the head sizes, not on any length. UINT64_MAX: out of range. */
uint64_t tni_attention_scratch(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, uint32_t n_workers);
/* What the kernel refuses beyond dtypes; the reason into why. */
bool tni_attention_accepts(const tn_value *const *in, uint32_t n_in, char *why, size_t n);

#endif
