/* SPDX-License-Identifier: Apache-2.0
 *
 * A placement: partition -> programs -> flat task list over regions, which lie in blocks of memory.
 *
 * The model's (model_data.h). Filled by exec.c (tasks, regions), blocks.c (blocks) and order.c (graph, order of tasks).
 */
#ifndef TENON_PLACE_PLACEMENT_H
#define TENON_PLACE_PLACEMENT_H

#include <tenon/tenon.h>

#include "runtime/place/program.h"
#include "runtime/place/taskgraph.h"

/* Devices are counted in bits of 64. */
enum { TNI_MEM_DEVICES = 64 };

/* Who touches it. devices: bit d is rt->devs[d]. cpu: CPU tasks, or the session. process: CPU tasks of a plugin in a
 * process of its own, which may write it at any time: what only the host touches does not lie there. */
typedef struct tni_mem_users {
  uint64_t devices;
  bool cpu, process;
} tni_mem_users;

/* Memory of one value or TEMP slot, alive in tasks [first, last]. */
typedef enum { TNI_R_INPUT, TNI_R_STEP, TNI_R_OUTPUT, TNI_R_ACT, TNI_R_TEMP, TNI_R_STATE } tni_region_kind;
typedef struct tni_region {
  tni_region_kind kind;
  tn_id value;            /* TN_NONE for TEMP */
  uint32_t program, slot; /* TEMP: which; else the first that touches it */
  uint32_t first, last, align;
  tni_mem_users users; /* of its tasks; of a STATE those of all placements (state.c) */
  uint32_t block;      /* where it lies; TN_NONE: INPUT (the caller's) and STATE (the session's) */
} tni_region;

/* Regions that lie in one memory, because the same devices touch them. 0 is the host's arena, 1 the host's outputs and
 * STEP values. */
typedef enum { TNI_B_ARENA, TNI_B_OUTPUT } tni_block_kind;
typedef struct tni_block {
  tni_block_kind kind;
  tni_mem_users users;
  uint32_t align, n_homes; /* of its memory */
} tni_block;
enum { TNI_BLOCK_ARENA = 0, TNI_BLOCK_OUTPUTS = 1 };

typedef struct tni_etask {
  uint32_t program, task;
  const tn_task *info;
  uint32_t *regions; /* [n_uses]; TN_NONE for WEIGHT and PRIVATE */
  uint32_t block;    /* of its scratch */
  const char *track; /* "plugin:engine" for traces */
  const char *label;
  const char *ops; /* names of its nodes' operators, for traces */
} tni_etask;

/* A constant or private memory as attached to a slot. */
typedef struct tni_attached {
  tn_view view;
  int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
  tn_buffer *buffer; /* private memory: ours to destroy, or NULL */
  void *memory;      /* ours to free, or NULL */
  void *mapped;      /* of the buffer, ours to unmap, or NULL */
} tni_attached;

typedef struct tni_exec {
  uint32_t phase;
  int64_t chunk;       /* most positions of a run of it, because a device asks for that; 0: any */
  tni_lengths lengths; /* chunk not 0: all that a run may have; the last is chunk */
  tn_graph view;
  tni_claims claims;
  tni_partition part;
  tni_program *programs;
  tni_attached **attached; /* [program][slot] for WEIGHT and PRIVATE */
  uint32_t n_programs;
  tni_etask *tasks;
  uint32_t n_tasks;
  tni_region *regions;
  uint32_t n_regions;
  uint32_t *region_of; /* [n_values] or TN_NONE */
  tni_block *blocks;
  uint32_t n_blocks;
  uint64_t feeds;      /* devices whose engines read inputs or STEP values: each has a copy of its own */
  tni_taskgraph graph; /* of tasks[], which stand in the order they are run in */
  tni_edge *carried;   /* [n_carried] `to` of a piece of a prompt waits for `from` of the piece before: caches, private
                          memory */
  uint32_t n_carried;
  /* Tasks that use region r: users[first_user[r]] .. users[first_user[r + 1] - 1], ascending; after all 0, 1, 2, ...
   */
  uint32_t *first_user, *users;
} tni_exec;

static inline bool tni_in_arena(const tni_exec *x, const tni_region *r) {
  return r->block != TN_NONE && x->blocks[r->block].kind == TNI_B_ARENA;
}
static inline bool tni_in_outputs(const tni_exec *x, const tni_region *r) {
  return r->block != TN_NONE && x->blocks[r->block].kind == TNI_B_OUTPUT;
}
/* It has a copy on each device that reads it. */
static inline bool tni_is_fed(const tni_region *r) {
  return (r->kind == TNI_R_INPUT || r->kind == TNI_R_STEP) && r->users.devices;
}

/* The CPU reaches it at any time at one address. */
static inline bool tni_region_is_plain(const tni_exec *x, uint32_t r) {
  const tni_region *p = &x->regions[r];
  return !p->users.devices || p->kind == TNI_R_INPUT || p->kind == TNI_R_STEP;
}

/* Its dims come when it runs: the interpreter's (dynamic.h). */
bool tni_task_is_dynamic(const tni_exec *x, uint32_t task);
/* The value that lies there, also where it is a temporary of the host; TN_NONE for a plugin's. */
tn_id tni_region_value(const tni_exec *x, uint32_t region);
/* A region without size before the run. */
bool tni_region_is_dynamic(const tni_exec *x, uint32_t region);
/* Whether task i is for an engine. flags: the model's; the reference computes everything on the CPU. */
bool tni_task_is_submitted(const tni_exec *x, uint32_t flags, uint32_t i);
/* Whether tasks of x may run at once: more than one engine, or one and the CPU. */
bool tni_exec_overlaps(const tni_exec *x, uint32_t flags);

#endif
