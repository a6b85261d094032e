/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch of the kernels that carry a state along a sequence.
 */
#ifndef TENON_HOST_RECURRENT_H
#define TENON_HOST_RECURRENT_H

#include "runtime/host/internal.h"

/* RNN, GRU, LSTM: transposed weights, and one step's vectors per worker. UINT64_MAX: the dims overflow. */
uint64_t tni_recurrent_scratch(const tn_node *n, const tni_tensor *const *in, uint32_t n_in, uint32_t n_workers);
/* LinearAttention: a state and one step's vectors per worker. */
uint64_t tni_linear_attention_scratch(const tn_node *n, const tni_tensor *const *in, uint32_t n_in, uint32_t n_workers);

#endif
