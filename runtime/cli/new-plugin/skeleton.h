/* SPDX-License-Identifier: Apache-2.0
 *
 * The skeleton of a plugin: its tables, negotiation, one device. assemble.py writes it out at the head of what
 * `tenon new-plugin` makes; the plugins of tests and of bench/noop include it (tests/kit). A file defines PLUGIN_NAME
 * and PLUGIN_VERSION before it, and PLUGIN_FIELDS where it keeps more; after it, what is declared here.
 */
#ifndef TENON_CLI_NEW_PLUGIN_SKELETON_H
#define TENON_CLI_NEW_PLUGIN_SKELETON_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tenon/plugin.h>

/* A plugin keeps no globals that change: two hosts may live in one process. */
typedef struct backend {
  tn_plugin pub; /* first: the host's pointer is ours */
  const tn_host *host;
  tn_caps caps;
  tn_device device;
#ifdef PLUGIN_FIELDS
  PLUGIN_FIELDS
#endif
} backend;

static inline backend *backend_of(tn_device *d) { return (backend *)(void *)((char *)d - offsetof(backend, device)); }

static inline tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (err) {
    err->code = st;
    vsnprintf(err->message, sizeof err->message, fmt, ap);
  }
  va_end(ap);
  return st;
}

/* ---- what this backend does: defined below ---- */

/* Options, formats, caps that are known without asking a driver, further functions of the device. */
static void set_up(backend *p);
/* Caps that the driver states, and how many devices there are, here 0 or 1. No device: err says why; that is no
 * failure. */
static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err);
static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
static const tn_program_info *info(const tn_program *p);
static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
static void release(tn_program *p);
static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
static void unbind(tn_plan *plan);
static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
static void args_free(tn_args *a);
static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err);

/* ---- the plugin ---- */

static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  backend *p = (backend *)pub;
  *n = 0;
  tn_status st = ask_driver(p, n, err);
  if (cap && *n) out[0] = &p->caps;
  return st;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  if (index) return fail(err, TN_E_INVALID, "there is no device %u", index);
  *out = &((backend *)pub)->device;
  return TN_OK;
}

static void close_device(tn_device *d) { (void)d; }

static void stop(tn_plugin *pub) {
  const tn_host *h = ((backend *)pub)->host;
  h->free(h->ctx, pub);
}

static void fill_tables(backend *p) {
  p->pub = (tn_plugin){.h = TN_HDR(tn_plugin),
                       .name = PLUGIN_NAME,
                       .version = PLUGIN_VERSION,
                       .build_id = PLUGIN_NAME "-" PLUGIN_VERSION,
                       .enumerate = enumerate,
                       .open = open_device,
                       .close = close_device,
                       .shutdown = stop};
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = PLUGIN_NAME,
                      .driver = "none",
                      .key = PLUGIN_NAME, /* of driver and hardware, 32 bytes at most */
                      .align = 64,
                      .sub_align = 64};
  p->device = (tn_device){.h = TN_HDR(tn_device),
                          .caps = &p->caps,
                          .claim = claim,
                          .lower = lower,
                          .info = info,
                          .measure = measure,
                          .set = set,
                          .release = release,
                          .bind = bind,
                          .unbind = unbind,
                          .args = args,
                          .args_set = args_set,
                          .args_free = args_free,
                          .run = run};
  set_up(p);
}

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || neg->h.size < TN_UPTO(tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = 0; /* the oldest minor whose fields are enough */
  neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, PLUGIN_NAME);
  snprintf(neg->version, sizeof neg->version, PLUGIN_VERSION);
  if (neg->host_min > neg->plugin_max || !host || !TN_HAS(host, tn_host, free) || !host->alloc || !host->free) {
    snprintf(neg->message, sizeof neg->message, PLUGIN_NAME " needs a host of ABI 1.0 to 1.%d, with alloc and free",
             TN_ABI_MINOR);
    return TN_E_INCOMPATIBLE;
  }
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  backend *p = host->alloc(host->ctx, sizeof *p, 64, TN_TAG_PLUGIN);
  if (!p) return TN_E_NO_MEMORY;
  memset(p, 0, sizeof *p);
  p->host = host;
  fill_tables(p);
  *out = &p->pub;
  return TN_OK;
}

#endif
