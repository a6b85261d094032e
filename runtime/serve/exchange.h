/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the threads that generate and the one that answers: the choices of a request, each a job of a slot, and the
 * text that came of each.
 */
#ifndef TENON_SERVE_EXCHANGE_H
#define TENON_SERVE_EXCHANGE_H

#include <pthread.h>

#include "runtime/serve/logprobs.h"
#include "runtime/serve/slots/slots.h"

typedef struct srv_exchange srv_exchange;

typedef struct srv_choice {
  slots_job job;
  srv_exchange *of;
  char *text; /* all that came */
  size_t n, cap;
  size_t taken; /* of it, by who answers */
  srv_log *log; /* NULL: nobody asks how likely tokens were */
  bool ended, told; /* told: who answers knows */
  tn_status st;
  tn_long_error err;
} srv_choice;

struct srv_exchange {
  pthread_mutex_t lock;
  pthread_cond_t news;
  slots *slots;
  srv_choice *choice;
  uint32_t n, added, open; /* open: added and not ended */
  bool no_memory;
  int64_t first_ns; /* when the first token came, 0: not yet */
};

/* n choices, whose jobs the caller fills (ids, n, params). False: no memory. */
bool srv_exchange_init(srv_exchange *x, slots *s, uint32_t n);
/* Cancels what is under way, and waits for it. */
void srv_exchange_finish(srv_exchange *x);
/* False: too many wait; none of them runs. */
bool srv_exchange_start(srv_exchange *x);
void srv_exchange_cancel(srv_exchange *x);
/* Text that nobody took, or an end that nobody was told of. Waits ms at most. */
bool srv_exchange_wait(srv_exchange *x, int ms);
/* What is new of choice i, malloc'd at *text (NULL: nothing). *ended: nothing comes after it; said once. */
bool srv_exchange_take(srv_exchange *x, uint32_t i, char **text, size_t *n, bool *ended);
bool srv_exchange_ended(srv_exchange *x);
/* How likely the tokens of choice i were that came since the last call; NULL: nobody asks, or there are none. */
json_t *srv_exchange_log(srv_exchange *x, uint32_t i, const tn_lm *lm, bool chat);

#endif
