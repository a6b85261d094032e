/* SPDX-License-Identifier: Apache-2.0
 *
 * From names to open devices: search, manifest, load (dynlib.c is the only file that knows libltdl), negotiation,
 * options, enumerate, open. What was not loaded keeps its reason.
 *
 * A plugin NAME is DIR/NAME.so or DIR/libNAME.so with DIR/NAME.yaml (manifest.h) beside it; the first folder that has either file
 * decides, a refusal there does not go on to the next. A loaded plugin's code stays mapped until the process ends. The
 * built-in host device is called "host" and has no file. Building and destroying a registry is for one thread; in
 * between any thread may read it.
 */
#ifndef TENON_PLUGIN_LOAD_REGISTRY_H
#define TENON_PLUGIN_LOAD_REGISTRY_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/plugin/plugin.h"
#include "runtime/profile/profile.h"

typedef struct tni_registry tni_registry;

/* Loads every plugin that the profile names, in order, then the host device (always last unless named earlier).
 * A plugin that is required or not `optional` and does not load, or has no device, is an error naming it and why
 * (status and place of the reason); others are kept with the reason. TN_E_INVALID means a mistake of the caller (a
 * folder that is not absolute) or of the profile (a plugin's options, always an error, with the profile's
 * file:line:column); a file that is no plugin or manifest is TN_E_INCOMPATIBLE. */
TN_MUST_CHECK tn_status tni_registry_create(const tni_registry_opts *o, const tni_profile *p, tni_registry **out,
                                            tn_error *err);
/* Every plugin found in the folders, whether or not the profile names it (for `tenon plugins`). Loads them, after
 * those that are there, by name; one that cannot be loaded is kept with its reason. Fails without memory only. */
TN_MUST_CHECK tn_status tni_registry_scan(tni_registry *r, tn_error *err);
/* Closes devices, shuts plugins down, each under the deadline of the options where it is in this process. False: one did
 * not come back, then or before (tni_registry_leave); it keeps its code, its services and what they log to. */
bool tni_registry_destroy(tni_registry *r);
/* The plugin hangs: it is not called any more. Models that it has a part in stay, and so does the built-in device. */
void tni_registry_leave(tni_registry *r, const char *name);

/* Where plugin `name` of a folder would lie, whether it is there or not. False: without memory. */
TN_MUST_CHECK bool tni_plugin_files(tni_arena *a, const char *folder, const char *name, char **so, char **yaml);
/* Each file of its folder that a loaded plugin has asked for with host->resource so far. */
TN_MUST_CHECK tn_status tni_plugin_resources(const tni_plugin_info *i, tni_resource_sink each, void *user,
                                             tn_error *err);

uint32_t tni_registry_count(const tni_registry *r);
const tni_plugin_info *tni_registry_get(const tni_registry *r, uint32_t i);
/* By name, or NULL. */
const tni_plugin_info *tni_registry_find(const tni_registry *r, const char *name);

#endif
