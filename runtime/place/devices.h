/* SPDX-License-Identifier: Apache-2.0
 *
 * A runtime's devices, and what goes with them: profile, threads, locks, tickets.
 *
 * Created by the session room (runtime.c); what stands below it reads it and leaves memory to it.
 */
#ifndef TENON_PLACE_DEVICES_H
#define TENON_PLACE_DEVICES_H

#include <tenon/tenon.h>

#include "runtime/base/base.h"
#include "runtime/place/claims.h"
#include "runtime/place/devlock.h"
#include "runtime/plugin/plugin.h"
#include "runtime/profile/profile.h"

struct tn_runtime {
  int32_t holders; /* models; atomic. The last of them and of tn_runtime_destroy frees it */
  tni_arena *arena;
  tni_profile *profile;
  struct tni_registry *registry;
  tni_pool *pool;
  cpu_set_t cpus;      /* of the pool's threads, and of plugins' in processes of their own; none: not bound */
  struct tni_shm *shm; /* memory that plugins in processes of their own see; NULL: there are none */
  tni_log log;
  tni_dev *devs;
  tni_devlock *locks;
  uint32_t n_devs, n_profile_plugins;
  uint32_t *order[3]; /* by TN_PHASE_*: indices into devs, best first */
  uint32_t n_order[3];
  const char *cache_dir, *calibration;
  bool checked;                     /* TN_RT_CHECKED, or the profile says so */
  bool sealed, portable, offline;   /* TN_RT_SEALED, _PORTABLE, _OFFLINE */
  volatile int32_t cancel;          /* of a load */
  struct tni_left *left;            /* what lost devices may write until they are closed */
  tni_tickets tickets;              /* what done may be called with until then */
  pthread_mutex_t failing, loading; /* what stands below; one model is placed again at a time. Order: never both */
  uint32_t n_losses;
  const char *last_loss; /* or NULL */
  void (*progress)(void *, const char *, uint64_t, uint64_t);
  void *progress_user;
};

/* free(p) once all devices are closed. Any thread. Without memory for that it is leaked. */
void tni_runtime_leave(tn_runtime *rt, void *p);
/* All devices are closed: frees what was left. */
void tni_runtime_free_left(tn_runtime *rt);
/* TN_E_CANCELLED once tn_runtime_cancel was called; what: the model. */
TN_MUST_CHECK tn_status tni_runtime_cancelled(const tn_runtime *rt, const char *what, tn_error *err);

#endif
