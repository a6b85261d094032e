/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind tn_runtime, tn_model and tn_session.
 *
 *   tn_runtime  profile, registry, pool; devs[] in the profile's order, the host last
 *   tn_model    import, graph, one tni_exec per phase, packed weights
 *   tni_exec    a placement: partition -> programs -> flat task list over regions
 *   tn_session  memory and bound plans for one user of a model
 */
#ifndef TENON_SESSION_INTERNAL_H
#define TENON_SESSION_INTERNAL_H

#include <tenon/tenon.h>

#include "runtime/base/log.h"
#include "runtime/base/pool.h"
#include "runtime/calib/calib.h"
#include "runtime/onnx/import.h"
#include "runtime/pack/store.h"
#include "runtime/passes/passes.h"
#include "runtime/place/devlock.h"
#include "runtime/memory/choose_order.h"
#include "runtime/place/program.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/ticket.h"
#include "runtime/profile/profile.h"
#include "runtime/memory/devmem.h"
#include "runtime/roles/roles.h"

struct tn_runtime {
  tni_arena *arena;
  tni_profile *profile;
  tni_registry *registry;
  tni_pool *pool;
  cpu_set_t cpus; /* of the pool's threads, and of plugins' in processes of their own; none: not bound */
  struct tni_shm *shm; /* memory that plugins in processes of their own see; NULL: there are none */
  tni_log log;
  tni_dev *devs;
  tni_devlock *locks;
  uint32_t n_devs, n_profile_plugins;
  uint32_t *order[3]; /* by TN_PHASE_*: indices into devs, best first */
  uint32_t n_order[3];
  const char *cache_dir, *calibration;
  bool checked; /* TN_RT_CHECKED, or the profile says so */
  bool sealed, portable, offline; /* TN_RT_SEALED, _PORTABLE, _OFFLINE */
  volatile int32_t cancel; /* of a load */
  struct tni_left *left;   /* what lost devices may write until they are closed */
  tni_tickets tickets;     /* what done may be called with until then */
  pthread_mutex_t failing, loading; /* what stands below; one model is placed again at a time. Order: never both */
  uint32_t n_losses;
  const char *last_loss; /* or NULL */
  void (*progress)(void *, const char *, uint64_t, uint64_t);
  void *progress_user;
};

/* The profile that these options name, found where tn_runtime_create looks. */
TN_MUST_CHECK tn_status tni_runtime_profile(const tn_runtime_opts *opts, tni_profile **out, tn_error *err);
/* The pool, and where its threads run (threads.c). */
TN_MUST_CHECK tn_status tni_runtime_pool(tn_runtime *rt, const tn_runtime_opts *o, tn_error *err);
/* free(p) once all devices are closed. Any thread. Without memory for that it is leaked. */
void tni_runtime_leave(tn_runtime *rt, void *p);

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
} tni_attached;

typedef struct tni_exec {
  uint32_t phase;
  int64_t chunk; /* positions of every run of it, because a device asks for that; 0: any */
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
  /* Tasks that use region r: users[first_user[r]] .. users[first_user[r + 1] - 1], ascending; behind all 0, 1, 2, ...
   */
  uint32_t *first_user, *users;
} tni_exec;

/* Packed weights of one plugin's formats. */
typedef struct tni_packed {
  const tni_dev *dev;
  const tni_pack_item **items;
  uint32_t n_items;
  tni_pack_store *store;
} tni_packed;

struct tn_model {
  tn_runtime *rt;
  tni_arena *arena;
  tni_model *import;
  tni_graph *graph;
  tni_roles roles;
  const char *path, *name;
  uint32_t flags;
  int64_t max_seq;
  const char **fixed_names; /* dims for the memory statement */
  int64_t *fixed_values;
  uint32_t n_fixed;
  const char **disabled; /* passes to leave out */
  uint32_t n_disabled;
  uint64_t order_seed; /* 0: tasks run in the planned order; else in random ones that the graph allows */
  tni_passes_report passes;
  tni_mem_users *state_users;   /* [n_states] of the graph: who touches a cache */
  struct tni_devconsts *consts; /* constants in memory of devices */
  tn_layout *state_layouts;     /* [n_states]: over the dims of a cache's view; with TN_LAYOUT_CIRCULAR it is a ring */
  int64_t *state_windows;       /* [n_states]: positions that readers look back; -1: all */
  tni_exec *execs;              /* [n_execs]: one for all phases, or prefill and decode */
  uint32_t n_execs;
  tni_packed *packed; /* [n_devs] */
  tn_io_info **inputs, **outputs;
  uint32_t n_inputs, n_outputs;
  struct tni_refcache *ref;
  tni_calib *calib;             /* what the profile or the options name, or NULL */
  tni_recorder *recorder;       /* TN_MODEL_CALIBRATE */
  char hash[TNI_CALIB_HEX + 1]; /* of the model as imported; only with one of the two */
  tn_id *tables;                /* constants looked up row by row (tables.c) */
  uint32_t n_tables;
  struct tni_embedding *embeddings; /* tables, and where their rows are read (embeddings.h) */
  uint32_t n_embeddings;
  tn_model *next; /* placed again after a device was lost (failover.h); ours */
};

typedef struct tni_plan_slot {
  tn_plan *plan;
  int64_t *key; /* the dims it was bound for, all symbols */
  uint64_t used;
} tni_plan_slot;

enum { TNI_PLANS_PER_TASK = 4 };

/* Views and plans of one task in one session. */
typedef struct tni_stask {
  tni_plan_slot plans[TNI_PLANS_PER_TASK];
  tn_plan *plan; /* the one args belong to */
  tn_args *args;
  tn_view **views; /* [n_uses + 1]; the last is the scratch */
  uint64_t scratch_bytes, scratch_room, scratch_offset;
  double macs, moved_bytes, cost_ns; /* as the plugin measures it at these dims */
  uint32_t scratch_align;
  bool empty;   /* writes nothing at these dims: not run (promise D16 of the ABI page) */
  bool dynamic; /* its dims come when it runs (dynamic.c) */
  bool plain;   /* a CPU task of a plugin, or the host, that touches host memory only */
} tni_stask;

typedef struct tni_sregion {
  int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
  uint32_t dtype, rank;
  uint64_t bytes, room, offset; /* room: what the plan keeps for it, at least bytes */
  void *ptr;                    /* where the CPU may reach it now, or NULL */
  uint64_t feed_offset;         /* INPUT and STEP: in each device's copy */
  uint32_t armed;               /* step + 1 that its canary was put in (guard.h) */
  tni_span own, *span;          /* where engines reach it; NULL: nowhere. span: own, or the cache's */
} tni_sregion;

/* One cache of a session. t: [batch, heads, rows, size], with as many rows as there is room for. A row of int8 has its
 * scale behind it (runtime/ops/kernel/kvrow.h), which the strides and bytes count. */
enum { TNI_STATE_HEADS = 1, TNI_STATE_ROWS = 2, TNI_STATE_SIZE = 3 };
typedef struct tni_sstate {
  tni_tensor t;       /* data: NULL while no device has given it to the CPU */
  int64_t strides[4]; /* of t's axes, in elements */
  tni_mem mem;
  tni_span span;
  tni_rows rows; /* of the span */
  int64_t held;  /* first position that is still there; 0 where there is no ring */
  uint64_t room;
  void *present; /* what a plain run gave out */
  uint64_t present_room;
} tni_sstate;

/* What a keeping session feeds to one input. */
typedef struct tni_fed {
  tn_tensor t; /* dims as last bound; data is `data` */
  void *data;  /* malloc'd */
  uint64_t room;
} tni_fed;

/* A session that keeps its caches (step.c). */
typedef struct tni_keep {
  int64_t batch, capacity, limit,
      max_step;             /* capacity: limit, and room for a padded chunk at its end, in whole buckets */
  int64_t length;           /* positions in the caches */
  struct tni_sexec *exec;   /* prepared for what follows, or NULL */
  int64_t total, rows, end; /* length of the context, rows of logits and where they end */
  tni_fed *fed;              /* [n_inputs] */
  struct tni_pieces *pieces; /* of prompts in flight, or NULL (pieces.c) */
} tni_keep;

/* State of one session for one placement. */
typedef struct tni_sexec {
  tni_exec *exec;
  struct tni_sexec *head, **also; /* of a placement: the session's state; [n_also] of more pieces of a prompt. They share
                                     their plans */
  uint32_t n_also;
  int64_t *dims; /* the dims that everything below was made for */
  bool ready;
  bool placed;        /* regions have room and offsets */
  bool guarded;       /* the next run is the first of its plan: canaries are watched (guard.h) */
  uint32_t ahead;     /* pieces of the prompt in flight before this one (pieces.c) */
  int64_t pos, valid; /* what the STEP values of the caches say */
  tni_stask *tasks;
  tni_sregion *regions;
  struct tni_cell **cells; /* [n_values] of dynamic tasks (dynamic.c), or NULL before the first */
  tni_mem *mems;           /* [n_blocks] */
  tni_mem *feeds;          /* [n_devs]: copies of inputs and STEP values, in one piece that is written once per step */
  tni_span *feed_spans;
  uint64_t table_rows;           /* rows that a run looks up in the model's tables */
  struct tni_executor *executor; /* NULL: tasks run as they stand (executor.h) */
  tni_taskgraph graph;           /* exec's, and what the offsets need; only with an executor */
  uint32_t *order;               /* [n_tasks]: that this run took them in; only with order_seed */
} tni_sexec;

struct tn_session {
  tn_model *model;
  tni_arena *mem;
  tni_sexec *execs;
  tni_pool_run run;
  volatile int32_t cancel;
  int binding; /* tasks are being bound, and whether plugins were told to stop that (session.c) */
  uint32_t step;
  uint64_t tick;
  void (*trace)(void *user, const tn_trace_event *e);
  void *trace_user;
  const tn_tensor **inputs; /* [n_inputs], of the running call */
  tni_sstate *states;       /* [n_states] of the graph, or NULL before the first use */
  tni_mem_counts memory;    /* what it made and moved on devices */
  int64_t *dims;            /* [n_symbols], of the running call */
  int64_t pos, valid;       /* what the STEP values of the caches say */
  int64_t *row_pos;         /* [n_row_pos] pos of each sequence, where they differ (lengths.h); ours */
  int64_t n_row_pos;        /* 0: they do not */
  tni_keep *keep;           /* or NULL */
  uint64_t looked_up;       /* rows of tables since they were dropped */
  struct tni_capture *capture;
  tn_session *next; /* what goes on for this one (failover.h); ours */
};

/* TN_E_CANCELLED once tn_runtime_cancel was called; what: the model. */
TN_MUST_CHECK tn_status tni_runtime_cancelled(const tn_runtime *rt, const char *what, tn_error *err);
/* What was cancelled has ended. */
void tni_runtime_resume(tn_runtime *rt);

#endif
