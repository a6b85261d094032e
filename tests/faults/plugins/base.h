/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that is in order but claims nothing, as static tables; the misbehaving plugins start from it and break one
 * thing each.
 */
#ifndef TENON_TESTS_FAULTS_BASE_H
#define TENON_TESTS_FAULTS_BASE_H

#include <string.h>

#include <tenon/plugin.h>

static tn_status base_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                            tn_error *err) {
  tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OP, .text = "claims nothing"};
  (void)d;
  (void)at;
  (void)err;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tn_status st = sink->node(sink->ctx, i, &c);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}
static tn_status base_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  (void)d, (void)s, (void)out, (void)err;
  return TN_E_UNSUPPORTED;
}
static const tn_program_info *base_info(const tn_program *p) {
  (void)p;
  return NULL;
}
static tn_status base_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  (void)p, (void)task, (void)dims, (void)out;
  return TN_E_UNSUPPORTED;
}
static tn_status base_set(tn_program *p, tn_id slot, const tn_view *v, const tn_blob *b, tn_error *err) {
  (void)p, (void)slot, (void)v, (void)b, (void)err;
  return TN_E_UNSUPPORTED;
}
static void base_release(tn_program *p) { (void)p; }
static tn_status base_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  (void)p, (void)task, (void)dims, (void)out, (void)err;
  return TN_E_UNSUPPORTED;
}
static void base_unbind(tn_plan *p) { (void)p; }
static tn_status base_args(tn_plan *p, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  (void)p, (void)uses, (void)n, (void)out, (void)err;
  return TN_E_UNSUPPORTED;
}
static tn_status base_args_set(tn_args *a, uint32_t use, const tn_view *v, tn_error *err) {
  (void)a, (void)use, (void)v, (void)err;
  return TN_E_UNSUPPORTED;
}
static void base_args_free(tn_args *a) { (void)a; }
static tn_status base_run(const tn_plan *p, tn_args *a, tn_run *r, tn_error *err) {
  (void)p, (void)a, (void)r, (void)err;
  return TN_E_UNSUPPORTED;
}

static tn_caps base_caps = {.h = TN_HDR(tn_caps), .name = "base", .driver = "none", .key = "base"};
static tn_device base_device = {.h = TN_HDR(tn_device),
                                .caps = &base_caps,
                                .claim = base_claim,
                                .lower = base_lower,
                                .info = base_info,
                                .measure = base_measure,
                                .set = base_set,
                                .release = base_release,
                                .bind = base_bind,
                                .unbind = base_unbind,
                                .args = base_args,
                                .args_set = base_args_set,
                                .args_free = base_args_free,
                                .run = base_run};

static tn_status base_enumerate(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  (void)p, (void)err;
  if (cap) out[0] = &base_caps;
  *n = cap > 0;
  return TN_OK;
}
static tn_status base_open(tn_plugin *p, uint32_t index, tn_device **out, tn_error *err) {
  (void)p, (void)index, (void)err;
  *out = &base_device;
  return TN_OK;
}
static void base_close(tn_device *d) { (void)d; }
static void base_shutdown(tn_plugin *p) { (void)p; }

static tn_plugin base_plugin = {.h = TN_HDR(tn_plugin),
                                .version = "0.0.1",
                                .build_id = "base",
                                .enumerate = base_enumerate,
                                .open = base_open,
                                .close = base_close,
                                .shutdown = base_shutdown};

static inline tn_status base_entry(tn_negotiate *neg, tn_plugin **out, const char *name) {
  neg->plugin_min = neg->plugin_max = TN_ABI_MINOR;
  base_plugin.name = name;
  *out = &base_plugin;
  return TN_OK;
}

#endif
