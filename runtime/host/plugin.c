/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>

#include "runtime/host/device.h"

static const tn_option no_matmul = {.h = TN_HDR(tn_option),
                                    .key = "no_matmul",
                                    .dflt = "false",
                                    .type = TN_OPT_BOOL,
                                    .help = "refuse MatMul and Gemm: proves that another plugin runs them"};
static const tn_option *const host_options[] = {&no_matmul};

static const tn_caps host_caps = {
    .h = TN_HDR(tn_caps),
    .name = "host",
    .driver = "portable C",
    .key = "tenon-host",
    .align = 64,
    .dtypes = ~(UINT64_MAX << TN_DT_COUNT) & ~UINT64_C(1) & ~(UINT64_C(1) << TN_DT_STRING)};

static tn_status enumerate_host(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  (void)p;
  (void)err;
  if (cap > 0) out[0] = &host_caps;
  *n = 1;
  return TN_OK;
}

/* A host without the extension: no constant is known before set(), and every node has dims. */
static const tni_tensor *no_constant(const tn_graph *g, tn_id value) {
  (void)g;
  (void)value;
  return NULL;
}
static bool never_dynamic(const tn_graph *g, tn_id node) {
  (void)g;
  (void)node;
  return false;
}
static uint32_t no_captures(const tn_graph *g, tn_id node, const tn_id **ids) {
  (void)g;
  (void)node;
  *ids = NULL;
  return 0;
}
static int64_t no_version(const tn_graph *g, tn_id node) {
  (void)g;
  (void)node;
  return 0;
}
static const tn_node *find_itself(const tn_graph *g, tn_id node, bool (*is)(const tn_node *n)) {
  return is(g->nodes[node]) ? g->nodes[node] : NULL;
}

static const tni_core_graph *core_of(const tn_host *host) {
  static const tni_core_graph none = {.h = TN_HDR(tni_core_graph),
                                      .constant = no_constant,
                                      .is_dynamic = never_dynamic,
                                      .captures = no_captures,
                                      .version = no_version,
                                      .find = find_itself};
  const tni_core_graph *core = host->get_extension ? host->get_extension(host->ctx, TNI_CORE_GRAPH, 1) : NULL;
  return core && TN_HAS(core, tni_core_graph, find) ? core : &none;
}

static tn_status open_device(tn_plugin *p, uint32_t index, tn_device **out, tn_error *err) {
  const tn_host *host = ((tni_host_plugin *)p)->host;
  int64_t off = 0;
  if (index != 0) return tni_fail(err, TN_E_UNAVAILABLE, "host", "there is no device %u", index);
  if (TN_HAS(host, tn_host, option) && host->option) {
    tn_status s = host->option(host->ctx, "no_matmul", TN_OPT_BOOL, &off);
    if (s) return tni_fail(err, s, "no_matmul", "the option has no value");
  }
  tni_host_device *d = host->alloc(host->ctx, sizeof *d, 16, TN_TAG_PLUGIN);
  if (!d) return tni_fail_memory(err, "host");
  *d = (tni_host_device){.pub = {.h = TN_HDR(tn_device),
                                 .caps = &host_caps,
                                 .claim = tni_hdev_claim,
                                 .lower = tni_hdev_lower,
                                 .info = tni_hdev_info,
                                 .measure = tni_hdev_measure,
                                 .set = tni_hdev_set,
                                 .release = tni_hdev_release,
                                 .bind = tni_hdev_bind,
                                 .unbind = tni_hdev_unbind,
                                 .args = tni_hdev_args,
                                 .args_set = tni_hdev_args_set,
                                 .args_free = tni_hdev_args_free,
                                 .run = tni_hdev_run},
                         .host = host,
                         .core = core_of(host),
                         .no_matmul = off != 0};
  *out = &d->pub;
  return TN_OK;
}

static void close_device(tn_device *d) {
  tni_host_device *h = (tni_host_device *)d;
  if (!h) return;
  h->host->free(h->host->ctx, h);
}

static void shutdown_host(tn_plugin *p) {
  const tn_host *host = ((tni_host_plugin *)p)->host;
  host->free(host->ctx, p);
}

static const void *get_extension(tn_plugin *p, const char *name, uint32_t version) {
  (void)p;
  (void)name;
  (void)version;
  return NULL;
}

/* Whether the table has what this device calls. */
static const char *missing_service(const tn_host *host) {
  if (!host || !TN_HAS(host, tn_host, cancelled)) return "is shorter than that of ABI 1.0";
  const bool all = host->alloc && host->free && host->option && host->eval && host->range && host->symbols;
  return all ? NULL : "lacks a function";
}

tn_status tni_host_plugin_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || !TN_HAS(neg, tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "host");
  snprintf(neg->version, sizeof neg->version, "%s", TNI_VERSION);
  if (neg->host_min > neg->plugin_max || neg->plugin_min > neg->host_max) {
    snprintf(neg->message, sizeof neg->message, "host device speaks ABI 1.%u, the core 1.%u to 1.%u", neg->plugin_max,
             neg->host_min, neg->host_max);
    return TN_E_INCOMPATIBLE;
  }
  const char *why = missing_service(host);
  if (why) {
    snprintf(neg->message, sizeof neg->message, "the table of services %s", why);
    return TN_E_INCOMPATIBLE;
  }
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  tni_host_plugin *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PLUGIN);
  if (!p) return TN_E_NO_MEMORY;
  *p = (tni_host_plugin){.pub = {.h = TN_HDR(tn_plugin),
                                 .name = "host",
                                 .version = TNI_VERSION,
                                 .build_id = TNI_VERSION,
                                 .options = host_options,
                                 .n_options = 1,
                                 .enumerate = enumerate_host,
                                 .open = open_device,
                                 .close = close_device,
                                 .shutdown = shutdown_host,
                                 .get_extension = get_extension},
                         .host = host};
  *out = &p->pub;
  return TN_OK;
}
