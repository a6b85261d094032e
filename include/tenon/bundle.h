/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/bundle.h: a folder that runs one model on one kind of device, with nothing else of Tenon there
 * (docs/bundles.md).
 *
 *   tn_bundle_make   places and packs the model, and writes the folder: program, libraries, plugins, profile, model,
 * packed weights, licences, run.sh, bundle.json, bundle.spdx.json. tn_bundle_check  compares a folder with its
 * bundle.json.
 *
 * Rules on errors, ownership and threads: tenon.h.
 */
#ifndef TENON_BUNDLE_H
#define TENON_BUNDLE_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_bundle_opts {
  tn_hdr h;
  const char *model;   /* as in tn_model_load */
  const char *folder;  /* to be made; must not be there, or be empty */
  const char *program; /* the `tenon` to ship; the machine that it is built for is the bundle's */
  /* Plugins for that machine, NAME.so and NAME.yaml, where it is not this one: the profile's plugins that lie there are
   * taken, and placed and packed by the plugins of the same names here. NULL: the plugins that run here are shipped. */
  const char *target_plugins;
  /* tenon-helper for that machine, shipped where a plugin runs in a process of its own. NULL: the runtime's. */
  const char *helper;
  const char *const *library_dirs; /* searched first for shared libraries */
  const char *const *with;         /* plugins of the profile to ship though they take no node */
  uint32_t n_library_dirs, n_with;
  /* Called once it is known which plugins are shipped: makes a program at `out` for the same machine, in which they are
   * linked (tn_static_plugin, docs/bundles.md); it is shipped in the place of `program`, and no file of theirs. It
   * calls used(ctx, FILE) for each library that went into it, for the licences. NULL: the plugins are shipped as files.
   */
  tn_status (*link)(void *user, const char *const *plugins, uint32_t n, const char *out,
                    void (*used)(void *ctx, const char *file), void *ctx, tn_error *err);
  uint32_t flags, reserved; /* none yet: 0 */
  uint64_t max_bytes;       /* of the whole folder; 0: no limit */
  int64_t created;          /* time of the files and of the SPDX document, seconds since 1970; 0: 1980-01-01 */
  /* Called with a runtime while it loads and packs, for tn_runtime_cancel, and with NULL before it goes. May be NULL.
   */
  void (*working)(void *user, tn_runtime *rt);
  void *user;
  const char *model_file; /* which file of `model` (tn_model_find); NULL: the one that is meant without a name */
} tn_bundle_opts;

/* runtime: profile, folders, threads, log, progress, calibration; cache_dir: what plugins measured there counts.
 * The folder appears whole or not at all. *json (tn_free it): files with sizes, plugins, what was left out and why;
 * with TN_E_LIMIT too, where the files take more than max_bytes. Equal inputs give equal folders, byte for byte.
 * TN_E_INVALID: an option, with its name; TN_E_UNAVAILABLE: a file or library that is nowhere; else as tn_model_load.
 */
TN_API TN_MUST_CHECK tn_status tn_bundle_make(const tn_runtime_opts *runtime, const tn_bundle_opts *o, char **json,
                                              tn_error *err);

/* ALL: SHA-256 of every file, packed weights included. Otherwise what a start needs: a fast checksum of every file but
 * the packed ones, of which the store checks each part before it is used. */
enum { TN_BUNDLE_ALL = 1 };
/* TN_E_UNAVAILABLE: there is no bundle.json; TN_E_CORRUPT: bundle.json is damaged, or a file is missing or differs,
 * with its name. *json (tn_free it; may be NULL): what bundle.json says. */
TN_API TN_MUST_CHECK tn_status tn_bundle_check(const char *folder, uint32_t flags, char **json, tn_error *err);

#ifdef __cplusplus
}
#endif
#endif
