/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and nodes written as text.
 *
 *   tensors     "f32[2,3] 1 2 3 4 5 6", "i64[] 7", "bool[2] 1 0", "f32[0,4]"; "-" is an absent input
 *   attributes  "axis=1 perm=[1,0] alpha=0.5f mode='edge' value={f32[1] 3}"
 */
#ifndef TENON_TESTS_KIT_NODES_H
#define TENON_TESTS_KIT_NODES_H

#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>

#include "runtime/base/pool.h"
#include "runtime/ops/kernel/args.h"

/* Data at an odd address, guard bytes after it; zeros where the text ends after the dims. false: the text is wrong. */
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

#endif
