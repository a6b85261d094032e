/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites of the kernels.
 */
#ifndef TENON_TESTS_OPS_H
#define TENON_TESTS_OPS_H

#include "runtime/ops/hot/loops.h"
#include "tests/kit/nodes.h"

/* Portable C, then all of the library that this processor runs and that give the same bits. index past the end: NULL.
 */
const tni_hot *variant_at(uint32_t index);

bool ht_add_kernels(void);
bool ht_add_bytes(void);
bool ht_add_dots(void);
bool ht_add_matmul(void);
bool ht_add_hot(void);
bool ht_add_kept(void);
bool ht_add_few_bits(void);
bool ht_add_large(void);
bool ht_add_attention(void);
bool ht_add_fused(void);
bool ht_add_general(void);
bool ht_add_stop(void);

#endif
