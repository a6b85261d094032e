/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's services for one plugin: what stands behind tn_host and tn_host_ctx.
 *
 * One context per plugin and registry; it outlives the plugin's shutdown. Services are for any thread. Options exist
 * from enumerate on (the table comes with the plugin's struct), the blob cache from the first open on (its key contains
 * the plugin's build and the caps keys of all its devices); before that they answer TN_E_INVALID and TN_E_UNAVAILABLE.
 */
#ifndef TENON_PLUGIN_SERVICES_H
#define TENON_PLUGIN_SERVICES_H

#include "runtime/plugin/options.h"
#include "runtime/plugin/opening.h"

typedef struct tni_services_opts {
  const char *name;      /* of the plugin */
  const char *folder;    /* of its file, or NULL: no resources */
  const char *cache_dir; /* or NULL */
  const char *ahead_dir; /* as in tni_registry_opts */
  tni_log log;
  const tni_trace_sink *trace; /* may be NULL */
  uint32_t max_workers, flags; /* as in tn_host */
  uint64_t memory_limit;       /* of alloc, bytes; 0: none */
  bool allow_shared_writable, any_owner; /* see trust.h */
  const volatile int32_t *stop_call;     /* as in tni_registry_opts */
} tni_services_opts;

TN_MUST_CHECK tn_status tni_services_create(const tni_services_opts *o, tn_host_ctx **out, tn_error *err);
void tni_services_destroy(tn_host_ctx *c);
const tn_host *tni_services_host(tn_host_ctx *c);

/* values live as long as c (its arena: tni_services_arena). */
void tni_services_set_options(tn_host_ctx *c, const tni_option_value *values, uint32_t n);
tni_arena *tni_services_arena(tn_host_ctx *c);
/* What tn_host.cancelled answers from now on, unless stop_call says that calls are to stop. Any thread. */
void tni_services_cancel(tn_host_ctx *c, bool on);
/* While it is on, what the plugin puts into the cache is kept apart, for tenon pack and bundles: in the folder
 * TNI_AHEAD below the plugin's. cache_get finds it there at any time. */
#define TNI_AHEAD "ahead"
void tni_services_ahead(tn_host_ctx *c, bool on);
/* A name that `resource` takes: of a file in the plugin's folder itself. */
bool tni_resource_name(const char *s);
/* Each file that `resource` has given so far, by its name. */
void tni_services_resources(tn_host_ctx *c, tni_resource_sink each, void *user);
/* Switches the cache on. build_id NULL or "": it stays off. keys: n times 32 bytes. */
TN_MUST_CHECK tn_status tni_services_set_identity(tn_host_ctx *c, const char *build_id, const uint8_t (*keys)[32],
                                                  uint32_t n);

/* What the plugin holds now, and the most it ever held, through alloc. */
typedef struct tni_services_memory {
  uint64_t bytes, peak_bytes, blocks;
} tni_services_memory;
void tni_services_memory_get(tn_host_ctx *c, tni_services_memory *out);

#endif
