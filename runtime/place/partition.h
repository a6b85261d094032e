/* SPDX-License-Identifier: Apache-2.0
 *
 * Partition: each node -> device, then clusters that are lowered as one subgraph.
 *
 * The profile's order decides: groups first, then single nodes, device by device. A group is taken whole and only if
 * contracting it leaves the graph acyclic. Clusters are the nodes of one device at one level, where a level rises by
 * one with each change of device along a path: so clusters can never wait for each other in a circle.
 */
#ifndef TENON_PLACE_PARTITION_H
#define TENON_PLACE_PARTITION_H

#include "runtime/place/claims.h"

typedef struct tni_cluster {
  uint32_t device, level;
  tn_id *nodes, *group_of; /* topological order */
  tn_id *inputs, *outputs; /* values; caches are in states */
  tn_id *states;           /* the first value of each cache that a node reads or writes */
  uint32_t n_nodes, n_inputs, n_outputs, n_states;
  const tn_layout *layouts; /* [n_states] as agreed; NULL: as nobody asks anything */
} tni_cluster;

typedef struct tni_partition {
  uint32_t *device_of;   /* [n_nodes]; TN_NONE: nobody takes it */
  uint32_t *group_of;    /* [n_nodes]; index into claims->groups, or TN_NONE */
  tni_cluster *clusters; /* by level: an order in which they may run */
  uint32_t n_clusters;
  uint32_t n_unsupported;
} tni_partition;

/* order: indices into devs, best first (a phase's list). */
TN_MUST_CHECK tn_status tni_partition_make(const tn_graph *view, const tni_claims *claims, const uint32_t *order,
                                           uint32_t n_order, tni_arena *arena, tni_partition *out, tn_error *err);
/* The first of the two values of the cache that v is one of (the one without a producer). */
tn_id tni_state_root(const tn_graph *view, tn_id v);
/* The claim that node was taken with. */
const tni_claim *tni_partition_claim(const tni_partition *p, const tni_claims *c, tn_id node);

#endif
