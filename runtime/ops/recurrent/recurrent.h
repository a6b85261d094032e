/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch of the kernels that carry a state along a sequence.
 */
#ifndef TENON_OPS_RECURRENT_RECURRENT_H
#define TENON_OPS_RECURRENT_RECURRENT_H

#include "runtime/ops/kernel/kernel.h"

/* RNN, GRU, LSTM: transposed weights, and one step's vectors per worker. UINT64_MAX: the dims overflow. */
uint64_t tni_recurrent_scratch(const tn_node *n, const tni_tensor *const *in, uint32_t n_in, uint32_t n_workers);
/* Of these, the transposed weights W and R, which can be made once where they are constant; 0: the node has none. */
uint64_t tni_recurrent_prepared(const tn_node *n, const tni_tensor *const *in, uint32_t n_in);
/* Makes them: as many bytes, aligned to 16. */
void tni_recurrent_prepare(const tni_tensor *w, const tni_tensor *r, void *dst, tni_poll *poll);
/* The kernel with these weights; scratch is less by as many bytes. NULL: it makes them in scratch. */
tn_status tni_recurrent_run(const tni_kargs *a, const void *prepared);
/* LinearAttention: a state and one step's vectors per worker. */
uint64_t tni_linear_attention_scratch(const tn_node *n, const tni_tensor *const *in, uint32_t n_in, uint32_t n_workers);

#endif
