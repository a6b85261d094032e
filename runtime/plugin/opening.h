/* SPDX-License-Identifier: Apache-2.0
 *
 * How plugins are to be opened: what a registry (runtime/plugin/load), a probe and the services are told.
 */
#ifndef TENON_PLUGIN_OPENING_H
#define TENON_PLUGIN_OPENING_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/plugin/walls.h"
#include "runtime/profile/profile.h"

/* Called for host->span and by the session for its tasks; set by `trace`. */
typedef struct tni_trace_sink {
  void (*span)(void *user, const char *track, const char *name, uint32_t clock, int64_t start, int64_t end,
               uint64_t bytes);
  void *user;
} tni_trace_sink;

typedef struct tni_registry_opts {
  /* Plugin folders, searched in order; absolute. The profile's plugin_path is not added: the caller puts it in its
   * place between its own folders and the installed one. Folders that do not exist are passed over. */
  const char *const *dirs;
  uint32_t n_dirs;
  uint32_t max_workers;
  const cpu_set_t *cpus; /* of the threads of plugins in processes of their own; NULL or none: not bound */
  const tni_log *log;
  const char *cache_dir; /* for cache_get/put; NULL: keeps nothing */
  const char *ahead_dir; /* what was compiled ahead of time lies there too; NULL: in cache_dir. As long as the registry */
  bool checked, privileged;
  bool allow_shared_writable;  /* tests: folders writable by others are allowed */
  bool any_owner;              /* a sealed bundle: see trust.h */
  const tni_trace_sink *trace; /* may be NULL; lives as long as the registry */
  uint64_t memory_limit;       /* of each plugin's host->alloc, bytes; 0: none */
  tn_entry_v1 host_entry;      /* of the built-in device; NULL: tni_host_plugin_entry */
  /* Options of the built-in device after the profile's own, such as {"no_matmul", "true"} for tests; lives as long as
   * the call of tni_registry_create. */
  const tni_profile_option *host_options;
  uint32_t n_host_options;
  /* Plugins that are loaded in a child first (probe.h), where the profile does not say: probe[i], those of dirs[i];
   * NULL: none. helper: absolute path of tenon-helper, or NULL: there is none, and to probe is an error. */
  const bool *probe;
  const char *helper;
  const char *retry; /* a plugin that is probed anew, whatever is remembered of it; or NULL */
  int64_t probe_ms;  /* a plugin whose calls do not end for so long hangs; 0: TNI_PROBE_MS */
  /* For plugins in processes of their own (`isolation: process`): memory that they share with this one, and what is to
   * be said of one that answers nothing for so long. shm NULL: there are none, and to ask for one is an error. */
  struct tni_shm *shm;
  int64_t timeout_ms;
  /* In the child: called before each call into the plugin with what it is ("enumerate"). May be NULL. */
  void (*stage)(void *user, const char *what);
  void *stage_user;
  /* In the child: not 0 while calls are to stop, beside what tni_services_cancel says. May be NULL; else as long as the
   * registry. */
  const volatile int32_t *stop_call;
} tni_registry_opts;

typedef struct tni_loaded tni_loaded;

/* The name of a file of the plugin's folder; for the time of the call. */
typedef void (*tni_resource_sink)(void *user, const char *name);

/* One plugin as found, loaded or not. */
typedef struct tni_plugin_info {
  const char *name, *path, *version;
  uint16_t abi_min, abi_max, minor; /* plugin's range; what was agreed */
  bool loaded;
  bool optional;             /* the profile said so, or nobody named it */
  tn_error why;              /* not loaded, or no device: the reason; code TN_OK otherwise */
  const tn_plugin *plugin;   /* NULL when not loaded */
  const tn_host *host;       /* the services made for it */
  tn_device *const *devices; /* opened */
  uint32_t n_devices;
  bool builtin;
  bool process;          /* it lives in one of its own: isolate.h */
  tni_walls walls;       /* then: what confines it */
  bool probed;           /* in a child first */
  bool remembered;       /* the probe's result is one of an earlier start */
  bool quarantined;      /* it crashed, hung, ended the process or left it changed: `why` says so */
  double probe_ms;       /* what that took, then */
  tni_walls probe_walls; /* what confined that child; none stand: it did not come so far, or nobody remembers */
  const char *since;     /* quarantined: when, "2026-01-31T12:00:00Z"; else "" */
} tni_plugin_info;

#endif
