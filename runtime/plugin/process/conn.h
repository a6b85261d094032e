/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's end of an isolated plugin: the process, calls, runs, what it asks, and its death.
 *
 * One thread of the host's belongs to it: it spawned the child (which dies with that thread), answers its questions,
 * hands on its log and completions, and finds out how it ended. Everything the child says is checked; what is wrong
 * ends it.
 */
#ifndef TENON_PLUGIN_PROCESS_CONN_H
#define TENON_PLUGIN_PROCESS_CONN_H

#include <pthread.h>

#include "runtime/plugin/process/isolate.h"
#include "runtime/plugin/process/proto.h"
#include "runtime/plugin/process/wire.h"
#include "runtime/plugin/plugin.h"

enum { TNI_CONN_TICKETS = 1024 };

/* What the child may ask about while it is registered. */
typedef struct tni_conn_asked {
  uint32_t id; /* 0: free */
  const tn_weight *weight;
  const tn_blob *blob;
} tni_conn_asked;

typedef struct tni_conn {
  const tni_isolate_opts *o; /* the owner's copy */
  char name[64];
  tni_child child;
  pthread_t thread;
  pthread_mutex_t call, run, state; /* a call under way; a run; what stands below. Order: call or run, then state */
  pthread_cond_t changed;
  int control;
  uint32_t seq, ran;
  tni_iso_page *page;
  char *window;
  int64_t timeout_ns;
  /* under state */
  bool spawned, closing, ended; /* ended: the thread is about to leave */
  tn_status spawn_status;
  tn_error spawn_error;
  bool dead;
  char why[200];
  uint64_t events;
  tni_conn_asked *asked;
  uint32_t n_asked, next_id;
  const tn_graph *graph; /* whose constants may be asked for */
  tn_ticket *tickets[TNI_CONN_TICKETS];
} tni_conn;

/* Starts process and thread, and sends START. */
TN_MUST_CHECK tn_status tni_conn_open(const tni_isolate_opts *o, tni_conn **out, tni_rd *answer, tn_error *err);
/* Asks it to go, waits for a moment, ends it. */
void tni_conn_close(tni_conn *c);
/* TN_E_DEVICE_LOST and why. */
tn_status tni_conn_lost(tni_conn *c, tn_error *err);
bool tni_conn_dead(tni_conn *c);
/* It did something that no plugin's process does: it is ended, and this is why. */
void tni_conn_fail(tni_conn *c, const char *fmt, ...) TN_PRINTF(2, 3);

/* Asks and waits. what: for messages. The answer's status; where it is OK, `answer` is at the body, to be finished. */
TN_MUST_CHECK tn_status tni_conn_call(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tni_rd *answer,
                                      tn_error *err);
/* The same where nothing comes back. */
TN_MUST_CHECK tn_status tni_conn_tell(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tn_error *err);
/* The answer was not what it has to be. */
tn_status tni_conn_wrong(tni_conn *c, const char *what, tn_error *err);
TN_MUST_CHECK tn_status tni_conn_run(tni_conn *c, uint32_t args, tn_run *run, tn_error *err);
/* One socket's question and answer; for engines. */
TN_MUST_CHECK tn_status tni_conn_submit(tni_conn *c, int socket, const char *what, const tni_wire *w, tn_error *err);

/* From now on the child may ask about it; 0: without memory. */
uint32_t tni_conn_offer(tni_conn *c, const tn_weight *w, const tn_blob *b);
void tni_conn_withdraw(tni_conn *c, uint32_t id);
void tni_conn_look_at(tni_conn *c, const tn_graph *g); /* NULL: not any more */

/* A number for a ticket in flight; UINT32_MAX: too many. */
uint32_t tni_conn_ticket(tni_conn *c, tn_ticket *t);
void tni_conn_ticket_drop(tni_conn *c, uint32_t number);
/* It is dead: until all that was in flight has been completed as lost. */
void tni_conn_await_end(tni_conn *c);

#endif
