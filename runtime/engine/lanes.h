/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines of a placement, as its executor uses them: what is in flight, and what has come back.
 *
 * A lane is one engine of one device. Records and tickets lie in memory that a lost device can go on writing to.
 * All calls from the executor's thread.
 */
#ifndef TENON_ENGINE_LANES_H
#define TENON_ENGINE_LANES_H

#include "runtime/base/base.h"
#include "runtime/memory/memory.h"

typedef enum { TNI_REC_ITEM, TNI_REC_SUBMIT, TNI_REC_CPU } tni_rec_kind;

enum { TNI_WAITS = 4 }; /* fences of other lanes that an item may wait for */

/* Room on a device's engine, as an item holds it. */
typedef struct tni_lane_slot {
  tni_devlock *lock;
  uint32_t engine, depth;
} tni_lane_slot;

/* One thing in flight: an item of an engine, a submit that blocks, or a CPU task on another thread. Where several
 * pieces of a prompt are in flight, id = piece * tasks of the placement + task. */
typedef struct tni_record {
  tn_ticket *ticket; /* of an item; the runtime's pool has its memory */
  tn_item item;
  tn_fence signal, wait[TNI_WAITS]; /* what item points to */
  const tn_fence *waits[TNI_WAITS];
  uint32_t n_waits, reserved2; /* set before it is submitted */
  tni_rec_kind kind;
  uint32_t id, task, lane, reserved; /* lane of a submit too */
  bool in_flight;
  uint64_t seq;  /* counts what was given away, of all lanes */
  int64_t since; /* when that was */
  const tni_lane_slot *slot; /* that it holds until it is done, or NULL */
  struct tni_flight *flight;
  struct tni_record *next; /* of those that have come back */
  /* CPU tasks on another thread */
  tn_session *session;
  tni_sexec *x; /* whose task */
  tni_pool_run run;
  tn_status status;
  tn_error error;
  int64_t start, end;
} tni_record;

typedef struct tni_flight {
  tni_waker waker;
  tni_record *back; /* under the waker's lock */
} tni_flight;

typedef struct tni_job tni_job;
typedef struct tni_lane {
  const tni_dev *dev;
  const char *track;
  uint32_t engine, depth; /* of all sessions together (tni_slots); 0: any */
  bool starved;           /* others have taken the whole depth */
  bool busy;              /* its thread is in submit */
  tni_hand *hand;         /* of an engine that blocks */
  tni_job *job;           /* what is submitted */
  uint32_t *queue;        /* [n_ids] what may be submitted, in order */
  uint32_t head, n, in_flight;
  int64_t ready;          /* least item.ready in flight */
  bool waits, signals;    /* fences in memory */
  bool held;              /* its last item is looked at before another is submitted */
  uint64_t newest;        /* seq of the latest item that came back */
  uint64_t *word, issued; /* its fence: the value of the last item that was submitted */
} tni_lane;

enum { TNI_HELPERS = 3 }; /* threads of the random mode */

typedef struct tni_lanes {
  tn_session *s;
  const tni_exec *exec;
  tni_lane *lane; /* [n]; lane 0 is the CPU and has nothing of this */
  uint32_t n, n_ids;
  uint32_t *of;        /* [n_tasks] */
  tni_record *records; /* [n_ids], in the flight's memory, then one per lane */
  tni_flight *flight;
  tni_hand *helpers[TNI_HELPERS];
  bool helping[TNI_HELPERS];
  uint32_t in_flight; /* records */
  bool lost;
  bool asked;      /* items in flight to end: the run is cancelled */
  bool hangs;      /* a device hangs in that */
  uint64_t seq;    /* of the last record that was given away */
  uint64_t *words; /* of the fences, 64 bytes apart */
} tni_lanes;

/* pieces: of a prompt, at most in flight. helpers: threads for CPU tasks. Before anything runs the caller says whose
 * tasks the records are (record.x). */
TN_MUST_CHECK tn_status tni_lanes_create(tn_session *s, const tni_exec *exec, uint32_t pieces, bool helpers,
                                         tni_lanes *out, tn_error *err);
void tni_lanes_destroy(tni_lanes *l);

/* Room on the lane for one more item, which the next tni_lanes_submit of it uses; false: there is none, and the lane is
 * starved where others have it. */
bool tni_lanes_room(tni_lanes *l, uint32_t lane);
/* Room that was taken and is not used after all. */
void tni_lanes_unroom(tni_lanes *l, uint32_t lane);
/* Nothing is in flight and a lane is starved: until other sessions leave room on it, or the session is cancelled.
 * TN_E_DEVICE_LOST: their items did not get done for timeout_ns. */
TN_MUST_CHECK tn_status tni_lanes_await_room(tni_lanes *l, int64_t timeout_ns, tn_error *err);
/* Submits n tasks of the lane together; their memory is the device's. What the engine refuses comes back as failed. */
void tni_lanes_submit(tni_lanes *l, uint32_t lane, const uint32_t *ids, const int64_t *ready, uint32_t n);
/* Item id, not yet submitted, is to begin after item `before`, in flight on a lane that signals; of at most TNI_WAITS
 * other lanes. */
void tni_lanes_after(tni_lanes *l, uint32_t id, uint32_t before);
/* A plain CPU task on a helper. false: none is free. */
bool tni_lanes_help(tni_lanes *l, uint32_t id);
/* What has come back, oldest first, or NULL. wait: until there is something; where the session is cancelled meanwhile,
 * engines that can are asked to end their items. TN_E_DEVICE_LOST: nothing came for timeout_ns; the lanes are of no
 * more use. */
TN_MUST_CHECK tn_status tni_lanes_take(tni_lanes *l, bool wait, int64_t timeout_ns, tni_record **out, tn_error *err);

#endif
