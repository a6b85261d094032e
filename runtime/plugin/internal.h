/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by registry.c (which plugins, in what order, what counts as an error) and load.c (one plugin).
 */
#ifndef TENON_PLUGIN_INTERNAL_H
#define TENON_PLUGIN_INTERNAL_H

#include <sha2.h>

#include "runtime/plugin/check.h"
#include "runtime/plugin/dynlib.h"
#include "runtime/plugin/manifest.h"
#include "runtime/plugin/services.h"

/* One plugin, loaded or refused. */
struct tni_loaded {
  tni_plugin_info info;
  tni_arena *arena;
  const char *folder; /* NULL: built in */
  tni_manifest manifest;
  tni_dynlib *lib;
  tn_host_ctx *ctx;
  tn_plugin *plugin;
  tn_device *devices[TNI_MAX_DEVICES];
  SHA2_CTX hashing;                            /* of the manifest, then the file's sum */
  uint8_t content[32];                         /* first.h */
  bool probe_by_default;                       /* the folder's plugins are probed in a child */
  bool host_short;                             /* info.why is TN_E_NO_MEMORY, and not the plugin said so */
  bool profile_mistake;                        /* info.why is the profile's fault */
  void (*stage)(void *user, const char *what); /* tni_registry_opts.stage */
  void *stage_user;
  tni_log log;
  int64_t timeout_ns; /* that close and shutdown may take in this process */
  bool hangs;         /* it is not called any more, and all of this stays */
};

/* Loads name from the folders of o (or the built-in host) with the options of section (may be NULL). Always gives a
 * record, whose info.why tells why there is no device; fails without memory only. */
TN_MUST_CHECK tn_status tni_loaded_create(const tni_registry_opts *o, const char *name, const char *profile_file,
                                          const tni_profile_plugin *section, tni_loaded **out, tn_error *err);
/* False: it hangs, or did so before, and stays. */
bool tni_loaded_destroy(tni_loaded *l);

#endif
