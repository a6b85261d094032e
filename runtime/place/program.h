/* SPDX-License-Identifier: Apache-2.0
 *
 * A cluster lowered by its device: the plugin's program and the checked copy of what it says of itself.
 */
#ifndef TENON_PLACE_PROGRAM_H
#define TENON_PLACE_PROGRAM_H

#include "runtime/place/partition.h"

/* One constant need, joined and ready for the pack store (format set) or raw. */
typedef struct tni_need {
  const tn_need *need;
  tn_weight joined;        /* format set: the whole [N,K] */
  const tn_weight **parts; /* [n_values], oriented [N,K] */
  uint32_t blob;           /* index into the model's pack items, TN_NONE for raw */
} tni_need;

typedef struct tni_program {
  const tni_dev *dev;
  const tni_cluster *cluster;
  tn_program *program;
  const tn_program_info *info;
  tni_need *needs; /* [info->n_needs] */
} tni_program;

/* Lowers one cluster and checks the answer: ids in range, known kinds, dependencies that point backwards, every output
 * written by a task, engines that exist. A wrong answer is TN_E_INTERNAL naming plugin, task and fault. */
TN_MUST_CHECK tn_status tni_program_lower(const tn_graph *view, const tni_dev *dev, const tni_cluster *c,
                                          tni_arena *arena, tni_program *out, tn_error *err);
void tni_program_release(tni_program *p);

/* A weight [N,K] of constant v of the graph: as stored, or transposed (TN_NEED_KN). Lives on the arena. */
TN_MUST_CHECK tn_status tni_weight_of(const tn_graph *view, tn_id v, bool kn, tni_arena *arena, tn_weight **out,
                                      tn_error *err);

#endif
