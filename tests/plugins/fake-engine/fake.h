/* SPDX-License-Identifier: Apache-2.0
 *
 * fake-engine: shared by its files. See README.md.
 */
#ifndef TENON_TESTS_FAKE_ENGINE_H
#define TENON_TESTS_FAKE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tenon/plugin.h>

enum { FAKE_QUEUE = 64, FAKE_KEY = 0x5a, FAKE_SUB_ALIGN = 128 };
enum { FAKE_BLOCKING, FAKE_THREAD, FAKE_INLINE, FAKE_MAP, FAKE_TWICE, FAKE_NEVER, FAKE_WRONG, FAKE_STALE, FAKE_HANG, FAKE_DROP };
enum { FAKE_HANG_CANCEL = 1, FAKE_HANG_ABANDON }; /* hang_in */
enum { FAKE_DROPPED = 2 };                         /* mode drop: the item that nobody hears of */
enum { FAKE_SEEN = 64 };
enum { FAKE_ENGINES = 2 };

/* What the plugin keeps beside the skeleton's tables. */
typedef struct fake_plugin {
  tn_engine engine[FAKE_ENGINES];
  const tn_engine *engines[FAKE_ENGINES];
  tn_clock clock;
  int mode, hang_in;
  int64_t priority, delay_us, fail_after, nan_after, nan_items, first_off, chunk, n_engines, count, virtual_clock, fences,
      cancels;
} fake_plugin;

/* One engine. */
typedef struct fake_lane {
  struct fake_device *d;
  pthread_mutex_t lock;
  pthread_cond_t more, less; /* items came; items went */
  const tn_item *queue[FAKE_QUEUE];
  uint32_t head, n; /* under lock */
  bool quit, busy;  /* under lock; busy: an item is being computed */
  pthread_t thread;
  bool has_thread;
  int64_t free;    /* when, on the virtual clock; of who computes */
  tn_ticket *last; /* completed before, in that submit; of who computes */
  int last_submit;
  tn_ticket *seen[FAKE_SEEN]; /* mode stale: completed, in this step and in earlier ones */
  int n_seen;
  atomic_int n_submits;
  atomic_llong given, cancelled; /* items so far; those before this one are to end */
  int64_t begun;                 /* of who computes */
} fake_lane;

typedef struct fake_device {
  tn_device pub;
  fake_plugin *plugin;
  const tn_host *host;
  fake_lane lanes[FAKE_ENGINES];
  pthread_mutex_t memory; /* of the mappings */
  atomic_llong in_flight, most; /* items that were submitted and are not done */
  atomic_llong items, submits, together,
      waits; /* done so far; most that computed at once; fences that were waited for */
  atomic_int computing, abandoned;
  int64_t sums; /* computed so far; under `memory` */
} fake_device;

/* A range of a buffer that the host has; disjoint ones may be mapped at once. */
typedef struct fake_mapping {
  struct fake_mapping *next;
  unsigned char *shadow;
  uint64_t offset, bytes;
  uint32_t access;
  uint64_t room; /* of shadow */
} fake_mapping;

typedef struct fake_buffer {
  tn_buffer pub;
  unsigned char *bytes; /* every byte XOR FAKE_KEY */
  fake_mapping *mapped, *spare;
  bool host; /* made to be mapped */
} fake_buffer;

/* out = a + b, broadcast to out's dims. */
typedef struct fake_operand {
  tn_id slot;
  uint32_t rank;
  tn_expr dims[TN_MAX_RANK];
} fake_operand;

typedef struct fake_task {
  tn_task pub;
  tn_use uses[3]; /* a, b, out; b may be a */
  tn_id deps[2], node;
  fake_operand a, b, out;
  char name[32];
} fake_task;

struct tn_program {
  fake_device *device;
  const tn_host *host;
  tn_graph graph; /* ctx only: lent services outlive the call, nodes do not */
  tn_program_info info;
  uint32_t n_slots, n_tasks, n_needs, cap;
  tn_slot *slots;
  const tn_slot **slot_ptrs;
  tn_need *needs;
  tn_id *need_values;
  const tn_need **need_ptrs;
  fake_task *tasks;
  const tn_task **task_ptrs;
  fake_operand *shapes; /* of each slot */
  tn_view *fixed;       /* of each WEIGHT slot, by set() */
};

typedef struct fake_shape {
  uint32_t rank;
  int64_t dims[TN_MAX_RANK];
} fake_shape;

struct tn_plan {
  tn_program *program;
  const fake_task *task;
  fake_shape a, b, out;
};

struct tn_args {
  tn_plan *plan;
  tn_view views[3];
};

tn_status fake_fail(tn_error *err, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);

/* program.c */
tn_status fake_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
tn_status fake_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *fake_info(const tn_program *p);
void fake_release(tn_program *p);
/* plan.c */
tn_status fake_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status fake_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
tn_status fake_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void fake_unbind(tn_plan *plan);
tn_status fake_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status fake_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void fake_args_free(tn_args *a);
tn_status fake_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);
/* memory.c */
tn_status fake_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err);
void fake_destroy(tn_buffer *b);
tn_status fake_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err);
tn_status fake_unmap(tn_buffer *b, void *ptr, tn_error *err);
/* Some of the range is mapped. */
bool fake_is_mapped(const fake_buffer *b, uint64_t offset, uint64_t n);
/* engine.c */
tn_status fake_engine_start(fake_device *d);
void fake_engine_stop(fake_device *d);
/* Runs what waits (mode map). */
void fake_engine_drain(fake_device *d);
/* Before what items name is freed: they are computed, though nobody was told (mode never). */
void fake_engine_forget(fake_device *d);
void fake_abandon(tn_device *d);
void fake_cancel(tn_device *d, uint32_t engine, tn_ticket *ticket);
tn_status fake_submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                      tn_error *err);

#endif
