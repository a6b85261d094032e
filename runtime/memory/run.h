/* SPDX-License-Identifier: Apache-2.0
 *
 * One user of a model while it runs: its memory, plans and views, task by task.
 *
 * tn_session owns all of it. Parts that only upper rooms know are opaque here: keep, pieces, capture, executor, cells.
 */
#ifndef TENON_MEMORY_RUN_H
#define TENON_MEMORY_RUN_H

#include "runtime/base/base.h"
#include "runtime/memory/devmem.h"
#include "runtime/place/place.h"

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
  uint64_t copies; /* of scratch_bytes, the first: of what other processes may write (copies.h) */
  double macs, moved_bytes, cost_ns; /* as the plugin measures it at these dims */
  uint32_t scratch_align;
  bool empty;   /* writes nothing at these dims: not run, as the ABI page promises */
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
 * scale after it (runtime/ops/kernel/kvrow.h), which the strides and bytes count. */
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

/* State of one session for one placement. */
typedef struct tni_sexec {
  tni_exec *exec;
  struct tni_sexec *head, **also; /* of a placement: the session's state; [n_also] of more pieces of a prompt. They
                                     share their plans */
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

/* What stands beside tasks or in place of them; the session room installs it. Members may be NULL. */
typedef struct tni_watch {
  /* Task i is about to run, or has run: nothing of it is in flight, its regions are the CPU's. */
  tn_status (*before)(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
  tn_status (*after)(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
  /* Computes a plugin's task in reference mode. */
  tn_status (*instead)(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
  uint32_t only; /* the task that `after` is for, of a placement's first piece; TN_NONE: every one */
} tni_watch;

/* Which steps and tasks are looked at for NaN (runtime/session/looks.h). */
typedef struct tni_looks {
  uint32_t every;        /* steps from one task to the next; 0: nothing is looked at */
  uint32_t task;         /* of the last look */
  uint64_t steps, quiet; /* steps so far; before this one no outputs are looked at */
  uint64_t pause;        /* how far quiet was put the last time */
} tni_looks;

struct tn_session {
  tn_model *model;
  tni_arena *mem;
  tni_sexec *execs;
  tni_pool_run run;
  volatile int32_t cancel;
  bool voted;  /* it has a vote for the power of its devices (power.c) */
  bool lost;   /* a device that may still write what this session gave it: such memory is leaked */
  tni_bounded *bounded; /* runs are made on it (deadline.h), or NULL */
  tn_long_error why;    /* what such a run says */
  int binding; /* tasks are being bound, and whether plugins were told to stop that (session.c) */
  uint32_t step;
  uint64_t tick;
  void (*trace)(void *user, const tn_trace_event *e);
  void *trace_user;
  const tn_tensor **inputs;    /* [n_inputs], of the running call */
  tni_sstate *states;          /* [n_states] of the graph, or NULL before the first use */
  tni_mem_counts memory;       /* what it made and moved on devices */
  int64_t *dims;               /* [n_symbols], of the running call */
  int64_t pos, valid;          /* what the STEP values of the caches say */
  int64_t *row_pos;            /* [n_row_pos] pos of each sequence, where they differ (lengths.h); ours */
  int64_t n_row_pos;           /* 0: they do not */
  const int64_t *tables;       /* what is written as tni_graph.tables; NULL: its element, as the dims say */
  struct tni_keep *keep;       /* of a session that keeps its caches (keep.h), or NULL */
  uint64_t looked_up;          /* rows of tables since they were dropped */
  struct tni_capture *capture; /* results so far (capture.h), or NULL */
  tni_watch watch;
  tni_looks looks;
  tn_session *next; /* what goes on for this one (failover.h); ours */
};

/* What goes on for s: s itself as long as nothing was lost. Any thread. */
static inline tn_session *tni_session_now(const tn_session *s) {
  tn_session *now = (tn_session *)(uintptr_t)s, *next;
  while ((next = __atomic_load_n(&now->next, __ATOMIC_ACQUIRE))) now = next;
  return now;
}

#endif
