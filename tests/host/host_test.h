/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the suites of the host device: tensors and nodes written as text.
 *
 *   tensors     "f32[2,3] 1 2 3 4 5 6", "i64[] 7", "bool[2] 1 0", "f32[0,4]"; "-" is an absent input
 *   attributes  "axis=1 perm=[1,0] alpha=0.5f mode='edge' value={f32[1] 3}"
 */
#ifndef TENON_TESTS_HOST_TEST_H
#define TENON_TESTS_HOST_TEST_H

#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>

#include "runtime/base/pool.h"
#include "runtime/ops/hot/loops.h"
#include "runtime/ops/kernel/args.h"

/* Data at an odd address, guard bytes behind; zeros where the text ends after the dims. false: the text is wrong. */
bool ht_tensor(tni_arena *a, const char *text, tni_tensor *t);
/* Fills a float tensor with a fixed pseudo-random sequence in [-1, 1). */
void ht_fill(float *x, int64_t n, uint32_t seed);

enum { HT_IO = 10 };
/* One node in a graph of its own. */
typedef struct ht_node {
  tni_graph *g;
  const tni_node *node;
  tni_tensor in[HT_IO];
  const tni_tensor *ptr[HT_IO];
  uint32_t n_in, n_out;
  tn_error err;
} ht_node;
/* op: "Name", or "tenon.Name" of version 1. in: texts, NULL ends. version 0: 25. */
bool ht_node_make(ht_node *n, const char *op, int64_t version, const char *attrs, const char *const *in,
                  uint32_t n_out);
void ht_node_free(ht_node *n);
/* Equal dtype, dims and elements: floats within rel of the larger (or equal specials), others exactly. */
bool ht_same(const tni_tensor *got, const tni_tensor *want, double rel);

/* Portable C, then all of the library that this processor runs and that give the same bits. index past the end: NULL. */
const tni_hot *variant_at(uint32_t index);

bool ht_add_kernels(void);
bool ht_add_bytes(void);
bool ht_add_matmul(void);
bool ht_add_reference(void);
bool ht_add_device(void);
bool ht_add_hot(void);
bool ht_add_large(void);
bool ht_add_attention(void);
bool ht_add_states(void);
bool ht_add_fused(void);
bool ht_add_general(void);
bool ht_add_stop(void);

#endif
