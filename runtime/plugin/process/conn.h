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

#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/isolate.h"
#include "runtime/plugin/process/proto.h"
#include "runtime/plugin/process/wire.h"

enum { TNI_CONN_TICKETS = 1024 }; /* in flight at once, of all engines (proxy_device.c shares them out) */

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
  uint64_t events, at_call; /* received in all; when the call under way began */
  uint32_t turn;            /* the call that the child is to answer (turns.h) */
  uint32_t asking;          /* the kind of the child's question that is being answered; 0: none */
  uint32_t pinned;          /* what it is about, while the host reads that; 0: nothing */
  tni_conn_asked *asked;
  uint32_t n_asked, next_id;
  const tn_graph *graph; /* whose constants may be asked for during this call */
  tn_ticket *tickets[TNI_CONN_TICKETS];
  uint32_t completing; /* 1 + the number of the ticket that is being completed; 0: none */
  bool introduced;     /* it has said what confines it: */
  int pid;             /* the plugin's own process: child.pid is its supervisor */
  tni_walls walls;
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

/* Asks and waits, for timeout_ms in all whatever comes meanwhile. what: for messages. The answer's status; where it is
 * OK, `answer` is at the body, to be finished. */
TN_MUST_CHECK tn_status tni_conn_call(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tni_rd *answer,
                                      tn_error *err);
/* The same; meanwhile the child may ask for constants of g. */
TN_MUST_CHECK tn_status tni_conn_call_about(tni_conn *c, const tn_graph *g, uint32_t kind, const char *what,
                                            const tni_wire *w, tni_rd *answer, tn_error *err);
/* The same where nothing comes back. */
TN_MUST_CHECK tn_status tni_conn_tell(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tn_error *err);
/* The answer was not what it has to be. */
tn_status tni_conn_wrong(tni_conn *c, const char *what, tn_error *err);
TN_MUST_CHECK tn_status tni_conn_run(tni_conn *c, uint32_t args, tn_run *run, tn_error *err);
/* One engine's question and answer, on its socket. lent: who may cancel it, or NULL. */
TN_MUST_CHECK tn_status tni_conn_submit(tni_conn *c, int socket, uint32_t engine, const tn_run *lent, const tni_wire *w,
                                        tn_error *err);

/* The answer to a call that was sent on `socket`; until: tni_now_ns's clock. */
TN_MUST_CHECK tn_status tni_conn_answer(tni_conn *c, int socket, uint32_t kind, uint32_t seq, const char *what,
                                        int64_t until, tni_rd *r, tn_error *err);

/* From now on the child may ask about it; 0: without memory. */
uint32_t tni_conn_offer(tni_conn *c, const tn_weight *w, const tn_blob *b);
/* Not any more: nothing of it is in use when this returns. */
void tni_conn_withdraw(tni_conn *c, uint32_t id);

/* A number for a ticket in flight; UINT32_MAX: too many. */
uint32_t tni_conn_ticket(tni_conn *c, tn_ticket *t);
/* The items were not taken after all. False: the child completed one of them, which is a lie; nothing was dropped. */
bool tni_conn_tickets_drop(tni_conn *c, const uint32_t *numbers, uint32_t n);
/* It is dead: until all that was in flight has been completed as lost. */
void tni_conn_await_end(tni_conn *c);

#endif
