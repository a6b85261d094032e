/* SPDX-License-Identifier: Apache-2.0
 *
 * The tickets of items: the real host's (runtime/plugin/ticket.h), each with what the kit looks at. They are a ring that
 * belongs to the kit's host, so that a `done` that comes late, or twice, meets memory that is still there and is counted.
 * An item must be answered exactly once, or not at all where submit refused it; whether it was is looked at when its
 * ticket is used again and when the device is closed.
 */
#ifndef TENON_CONFORM_DRIVE_TICKET_H
#define TENON_CONFORM_DRIVE_TICKET_H

#include <pthread.h>

#include "runtime/conform/drive/device.h"
#include "runtime/plugin/plugin.h"

struct tni_cf_ticket {
  tn_ticket t;          /* the real host's: what is waited for */
  tn_ticket *handle;    /* that the plugin was given last */
  pthread_mutex_t lock; /* of what follows */
  uint32_t done, owed; /* answers that came, and that must come: 0 before its first use and where submit refused it */
  uint32_t late;       /* answers to an item that the ring has forgotten */
  uint32_t nap_us;     /* the host's `done` takes so long */
  bool used, inside;   /* inside: submit has not come back yet */
  bool early, foreign; /* answered inside submit; on another thread than submit's */
  struct {
    const uint8_t *p;
    uint64_t n;
  } look[4];       /* results that the CPU sees all the time */
  uint64_t seen;   /* what they were when done came */
  bool unfinished; /* and were something else afterwards */
  const uint64_t *word; /* of its fence, or NULL */
  uint64_t value;       /* that the word has when done comes */
  bool untold;          /* and it had less */
  pthread_t by;
  tn_status st; /* TN_OK until it is waited for */
  char message[256];
};

bool tni_cf_tickets_init(tni_cf_host *h);
/* Looks at all of them; what is wrong is a finding. The device is closed: none is answered any more. */
void tni_cf_tickets_finish(tni_cf *cf, tni_cf_host *h);
/* The next one of the ring, on the thread that will submit. */
struct tni_cf_ticket *tni_cf_ticket_take(tni_cf_host *h);
/* submit has come back with st. */
void tni_cf_ticket_submitted(struct tni_cf_ticket *k, tn_status st);
/* Waits for `seconds`; how often it was answered until then. Where it was not, nothing that it may touch is freed any
 * more (tni_cf_leave). */
uint32_t tni_cf_ticket_wait(struct tni_cf_ticket *k, uint32_t seconds);
/* The host's service. */
void tni_cf_ticket_done(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err);

#endif
