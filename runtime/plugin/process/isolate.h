/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin in a process of its own (`isolation: process` in a profile; docs/isolation.md). The plugin that comes out is
 * one like any other: registry, plan and sched use it unchanged.
 *
 * Its calls go to `tenon-helper serve`. Memory that both sides see is the runtime's (shm.h); what lies elsewhere is
 * copied around each run. When the process is gone (a crash, a kill, no answer for timeout_ms, an answer that is none),
 * every call is TN_E_DEVICE_LOST with what happened, and what the objects took here can be freed as ever.
 *
 * Threads: as tenon/plugin.h has them.
 */
#ifndef TENON_PLUGIN_PROCESS_ISOLATE_H
#define TENON_PLUGIN_PROCESS_ISOLATE_H

#include <tenon/plugin.h>

#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/shm.h"
#include "runtime/profile/profile.h"

typedef struct tni_isolate_opts {
  const char *helper;                                   /* absolute path of tenon-helper */
  const char *name, *folder, *cache_dir, *profile_file; /* cache_dir may be NULL */
  const tni_profile_plugin *section;                    /* its options; may be NULL */
  const tn_host *host;                                  /* the services made for it here: log, done, cancelled */
  tni_shm *shm;                                         /* outlives the plugin */
  uint32_t threads, log_level;
  const cpu_set_t *cpus; /* that the child's threads run on; outlives the plugin; NULL or none: not bound */
  bool checked, privileged, allow_shared_writable, any_owner;
  uint32_t confine; /* TNI_CONFINE_*: the manifest's */
  uint64_t memory_limit;
  int64_t timeout_ms;
  /* What starts the child, for tests that play one; NULL: tni_child_spawn. */
  tn_status (*spawn)(const char *helper, const char *const *args, tni_child *out, tn_error *err);
} tni_isolate_opts;

/* What the plugin agreed on with the child's host. */
typedef struct tni_isolate_about {
  uint16_t abi_min, abi_max, minor, reserved;
  bool profile_mistake; /* a failure is the profile's: its options */
  tni_walls walls;      /* what confines the process */
} tni_isolate_about;

/* Starts the process, loads the plugin there and opens its devices. shutdown ends both. */
TN_MUST_CHECK tn_status tni_isolate_open(const tni_isolate_opts *o, tn_plugin **out, tni_isolate_about *about,
                                         tn_error *err);
/* The plugin's process (its parent supervises it), for messages and tests; 0: gone. p came from tni_isolate_open. */
int tni_isolate_pid(const tn_plugin *p);
/* As tni_services_resources, of the services in that process. */
TN_MUST_CHECK tn_status tni_isolate_resources(const tn_plugin *p, tni_resource_sink each, void *user, tn_error *err);
/* What ended it; false: it lives. */
bool tni_isolate_why(const tn_plugin *p, char *buf, size_t size);
/* Memory of a buffer of such a plugin that the host has too, whether the process lives or not; NULL: the process's own.
 */
void *tni_isolate_memory(const tn_buffer *b);
/* What its tasks did: runs, and bytes that were copied because they did not lie in shared memory. */
typedef struct tni_isolate_counts {
  uint64_t runs, copied_bytes;
} tni_isolate_counts;
void tni_isolate_counts_get(const tn_plugin *p, tni_isolate_counts *out);

#endif
