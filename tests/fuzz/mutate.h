/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutation of models as messages: nodes, operators, attributes, edges, dims, dtypes, initializers, versions, external
 * data, subgraphs and functions change, and the result is a message again, so that most get past the parser. One in
 * sixteen is changed as bytes by libFuzzer.
 */
#ifndef TENON_FUZZ_MUTATE_H
#define TENON_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* As LLVMFuzzerCustomMutator and LLVMFuzzerCustomCrossOver. */
size_t fz_mutate(uint8_t *data, size_t n, size_t most, uint32_t seed);
size_t fz_cross(const uint8_t *x, size_t n_x, const uint8_t *y, size_t n_y, uint8_t *out, size_t most, uint32_t seed);

#endif
