/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin of any kind through its vtable, one product at a time: claim, lower, pack, memory of the device's own
 * between guards (or the host's), bind, args, run or submit. Nothing here knows which plugin it is.
 */
#ifndef TENON_TESTS_KERNELS_ANYHOST_H
#define TENON_TESTS_KERNELS_ANYHOST_H

#include "tests/kernels/fakehost.h"

enum { ANY_SLOTS = 64, ANY_TASKS = 16 };

/* Memory of one slot. */
typedef struct any_memory {
  tn_buffer *buffer; /* NULL: host memory */
  guarded host;
  uint64_t bytes, offset;
  tn_view view;
  void *mapped; /* while the CPU looks at the buffer */
} any_memory;

typedef struct any_product {
  fake *f;
  fake_graph *g;
  tn_id x, w, y;
  int64_t M, N, K;
  tn_claim claim;
  int64_t only_m; /* M that the claim asks for; 0: any */
  tn_program *p;
  const tn_program_info *info;
  any_memory slot[ANY_SLOTS];
  tn_blob blob[ANY_SLOTS]; /* by slot */
  uint8_t *packed[ANY_SLOTS];
  tn_plan *plan[ANY_TASKS];
  tn_args *args[ANY_TASKS];
  guarded scratch[ANY_TASKS];
  const tn_blob *weights; /* what the reference unpacks; NULL: as they are, in f32 */
  uint64_t flip;          /* this bit of the weights' blob is flipped before the device sees it; UINT64_MAX: none */
  char why[320];          /* where something failed */
} any_product;

/* y[S,N] = x[S,K] w[K,N]. stats: of x, or NULL; phase: TN_PHASE_*. */
void any_init(any_product *p, fake *f, int64_t N, int64_t K, uint32_t phase, const tn_stats *stats, uint64_t stream);
/* The same with weights of the caller's, kn[K,N], copied. */
void any_init_weights(any_product *p, fake *f, int64_t N, int64_t K, uint32_t phase, const tn_stats *stats,
                      const float *kn);
/* Asks; false where the plugin refuses (claim has why). */
bool any_claimed(any_product *p);
/* Up to arguments, for M rows. */
tn_status any_prepare(any_product *p, int64_t M);
/* x[M][K] -> y[M][N]. TN_E_INTERNAL (why) where a ticket was not answered exactly once. */
tn_status any_step(any_product *p, const float *x, float *y);
/* TN_E_INTERNAL (why) where a guard around a slot or a scratch changed. */
tn_status any_guards(any_product *p);
/* Both. */
tn_status any_run(any_product *p, const float *x, float *y);
void any_free(any_product *p);

#endif
