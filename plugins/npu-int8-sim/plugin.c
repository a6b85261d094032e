/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry, negotiation, the one device.
 */
#include <stdio.h>
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/extension.h"
#include "plugins/npu-int8-sim/offline.h"
#include "plugins/npu-int8-sim/program.h"

#define VERSION "0.1.0"
enum { TRACE = 4096, DEPTH = 8 };

static const tn_format *const npu_formats[] = {&tni_w8a8_format, &tni_w8r_format};

static void fill_caps(tn_caps *c, const tn_engine *const *engines, const tn_clock *clock, const npusim_profile *p,
                      uint64_t window) {
  *c = (tn_caps){.h = TN_HDR(tn_caps),
                 .name = TNI_NPU_NAME,
                 .driver = p->name,
                 .engines = engines,
                 .clock = clock,
                 .n_engines = 1,
                 .import_kinds = 1u << TN_MEM_FD,
                 .export_kinds = 1u << TN_MEM_FD,
                 .align = TNI_NPU_ALIGN,
                 .sub_align = TNI_NPU_ALIGN,
                 .import_align = TNI_NPU_ALIGN,
                 .dtypes = UINT64_C(1) << TN_DT_F32,
                 .memory_bytes = window,
                 .max_buffer_bytes = window,
                 .window_bytes = window};
  snprintf((char *)c->key, sizeof c->key, "npusim %s", p->name);
}

static void fill_clock(tn_clock *c, const npusim_profile *p) {
  *c = (tn_clock){.h = TN_HDR(tn_clock),
                  .name = "npu, simulated",
                  .kind = TN_CLOCK_VIRTUAL,
                  .cpu_ns_per_mac = p->cpu_ns_per_mac,
                  .cpu_ns_per_byte = p->cpu_ns_per_byte};
}

static tn_status enumerate_npu(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  tni_npu_plugin *p = (tni_npu_plugin *)pub;
  int64_t offline = 0;
  if (p->host->option(p->host->ctx, "offline", TN_OPT_BOOL, &offline) != TN_OK)
    return tni_cm_fail(err, TN_E_INTERNAL, TNI_NPU_NAME, "option 'offline' is missing");
  p->caps.flags = offline ? TN_CAPS_OFFLINE : 0;
  *n = 1;
  if (cap) out[0] = &p->caps;
  return TN_OK;
}

static const tn_device npu_functions = {.claim = tni_npu_claim,
                                        .lower = tni_npu_lower,
                                        .info = tni_npu_info,
                                        .measure = tni_npu_measure,
                                        .set = tni_npu_set,
                                        .release = tni_npu_release,
                                        .bind = tni_npu_bind,
                                        .unbind = tni_npu_unbind,
                                        .args = tni_npu_args,
                                        .args_set = tni_npu_args_set,
                                        .args_free = tni_npu_args_free,
                                        .run = tni_npu_run,
                                        .submit = tni_npu_submit,
                                        .create = tni_npu_create,
                                        .share = tni_npu_share,
                                        .destroy = tni_npu_destroy,
                                        .map = tni_npu_map,
                                        .unmap = tni_npu_unmap};

/* A host of ABI 1.0 knows no constraint IN. */
static void one_length(tni_npu_device *d) {
  if (d->set.n_lengths > 1)
    d->host->log(d->host->ctx, TN_LOG_WARN,
                 TNI_NPU_NAME ": option 'pieces' needs a host of ABI 1.1; all pieces have one length");
  d->set.n_lengths = 1;
}

static tn_status start_sim(tni_npu_device *d, const tni_npu_plugin *p, tn_error *err) {
  tn_status st = tni_npu_read_options(p->host, &d->set, err);
  if (st != TN_OK) return st;
  if (p->minor < 1) one_length(d);
  const npusim_config config = {.profile = d->set.profile,
                                .window_bytes = d->set.window_bytes,
                                .wake = d->set.wake,
                                .trace = TRACE,
                                .faults = d->set.faults};
  d->sim = npusim_open(&config);
  if (!d->sim) return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "out of memory");
  fill_clock(&d->clock, d->set.profile);
  fill_caps(&d->caps, p->engines, &d->clock, d->set.profile, d->set.window_bytes);
  d->caps.flags = p->caps.flags;
  d->pub = npu_functions;
  d->pub.h = (tn_hdr)TN_HDR(tn_device);
  d->pub.caps = &d->caps;
  return TN_OK;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  tni_npu_plugin *p = (tni_npu_plugin *)pub;
  if (index != 0) return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "there is no device %u", index);
  tni_cm_mem mem = {.host = p->host};
  tni_npu_device *d = tni_cm_new(&mem, 1, sizeof *d);
  if (!d) return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "out of memory");
  d->mem = mem;
  d->host = p->host;
  tn_status st = start_sim(d, p, err);
  if (st != TN_OK) {
    tni_cm_free(&mem);
    return st;
  }
  *out = &d->pub;
  return TN_OK;
}

/* What the device counted; its times are of its own clock. */
static void log_counters(const tni_npu_device *d) {
  char line[384];
  npusim_counters n;
  npusim_count(d->sim, &n);
  if (!n.submissions) return;
  snprintf(line, sizeof line,
           "%s: %llu graphs prepared, %llu kept ones, %llu executions, %llu bytes copied, busy %.3f of %.3f ms and "
           "%.3f ms of preparing in "
           "virtual time (%s)",
           TNI_NPU_NAME, (unsigned long long)n.graphs, (unsigned long long)n.loaded, (unsigned long long)n.submissions,
           (unsigned long long)n.bytes_copied, (double)n.busy_ns / 1e6, (double)n.end_ns / 1e6,
           (double)n.prepare_ns / 1e6, d->set.profile->name);
  d->host->log(d->host->ctx, TN_LOG_DEBUG, line);
}

static void close_device(tn_device *pub) {
  if (!pub) return;
  tni_npu_device *d = (tni_npu_device *)pub;
  tni_cm_mem mem = d->mem;
  log_counters(d);
  npusim_close(d->sim);
  tni_cm_free(&mem);
}

static void shutdown_plugin(tn_plugin *p) {
  if (!p) return;
  tni_cm_mem mem = ((tni_npu_plugin *)p)->mem;
  tni_cm_free(&mem);
}

static void count_sim(tn_device *d, npusim_counters *out) { npusim_count(((tni_npu_device *)d)->sim, out); }

static uint32_t trace_sim(tn_device *d, npusim_times *out, uint32_t cap) {
  return npusim_trace(((tni_npu_device *)d)->sim, out, cap);
}

static const void *get_extension(tn_plugin *p, const char *name, uint32_t version) {
  static const tni_npu_counters counters = {.h = TN_HDR(tni_npu_counters), .count = count_sim, .trace = trace_sim};
  (void)p;
  if (version == 1 && !strcmp(name, TN_OFFLINE)) return &tni_npu_offline;
  return version == 1 && !strcmp(name, TNI_NPU_COUNTERS) ? &counters : NULL;
}

tn_status tni_npu_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  tn_status st = tni_cm_negotiate(TNI_NPU_NAME, VERSION, host, neg);
  if (st != TN_OK) return st;
  if (!out) return TN_E_INVALID;
  tni_cm_mem mem = {.host = host};
  tni_npu_plugin *p = tni_cm_new(&mem, 1, sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  *p = (tni_npu_plugin){.pub = {.h = TN_HDR(tn_plugin),
                                .name = TNI_NPU_NAME,
                                .version = VERSION,
                                .build_id = VERSION,
                                .options = tni_npu_options,
                                .formats = npu_formats,
                                .n_options = tni_npu_n_options,
                                .n_formats = sizeof npu_formats / sizeof *npu_formats,
                                .enumerate = enumerate_npu,
                                .open = open_device,
                                .close = close_device,
                                .shutdown = shutdown_plugin,
                                .get_extension = get_extension},
                        .mem = mem,
                        .host = host,
                        .minor = neg->minor,
                        .engine = {.h = TN_HDR(tn_engine), .name = "npu", .flags = TN_ENGINE_BLOCKING, .depth = DEPTH}};
  p->engines[0] = &p->engine;
  fill_clock(&p->clock, npusim_profile_find("hmx-2026"));
  fill_caps(&p->caps, p->engines, &p->clock, npusim_profile_find("hmx-2026"),
            npusim_profile_find("hmx-2026")->window_bytes);
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(npu_int8_sim, tni_npu_entry)
