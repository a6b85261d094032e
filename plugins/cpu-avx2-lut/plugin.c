/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry, negotiation, options, the one device.
 */
#include <stdio.h>
#include <string.h>

#include "plugins/common/cpu.h"
#include "plugins/common/w4g.h"
#include "plugins/cpu-avx2-lut/device.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

#define VERSION "0.1.0"
enum { NEEDED = TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C };

static const tn_option opt_group = {.h = TN_HDR(tn_option),
                                    .key = "group",
                                    .dflt = "32",
                                    .type = TN_OPT_INT,
                                    .lo = 32,
                                    .hi = 128,
                                    .choices = "32|128",
                                    .help = "weights that share a scale: 32 (4.5 bits) or 128 (4.125 bits)"};
static const tn_option opt_isa = {.h = TN_HDR(tn_option),
                                  .key = "isa",
                                  .dflt = "auto",
                                  .type = TN_OPT_STRING,
                                  .choices = "auto|scalar|avx2",
                                  .help = "kernels to use; all give the same bits"};
static const tn_option opt_act_matmul = {.h = TN_HDR(tn_option),
                                         .key = "act_matmul",
                                         .dflt = "true",
                                         .type = TN_OPT_BOOL,
                                         .help = "take MatMul without packed weights too, in f32"};
static const tn_option opt_min_k = {.h = TN_HDR(tn_option),
                                    .key = "min_k",
                                    .dflt = "32",
                                    .type = TN_OPT_INT,
                                    .lo = 1,
                                    .hi = 1 << 20,
                                    .help = "smallest K whose weights are packed"};
static const tn_option opt_min_n = {.h = TN_HDR(tn_option),
                                    .key = "min_n",
                                    .dflt = "16",
                                    .type = TN_OPT_INT,
                                    .lo = 1,
                                    .hi = 1 << 20,
                                    .help = "smallest N whose weights are packed"};
static const tn_option *const options[] = {&opt_group, &opt_isa, &opt_act_matmul, &opt_min_k, &opt_min_n};
static const tn_format *const formats[] = {&tni_w4g_format};

bool tni_cal_cpu_refusal(uint32_t features, char *text, size_t n) {
  char missing[64];
  if (n) text[0] = 0;
  if (!(NEEDED & ~features)) return false;
  tni_cm_cpu_missing(features, NEEDED, missing, sizeof missing);
  snprintf(text, n, "this CPU or operating system lacks %s", missing);
  return true;
}

static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  tni_cal_plugin *p = (tni_cal_plugin *)pub;
  char text[128];
  *n = 0;
  if (tni_cal_cpu_refusal(p->cpu, text, sizeof text)) {
    tni_cm_fail(err, TN_E_UNAVAILABLE, TNI_CAL_NAME, "%s", text);
    return TN_OK;
  }
  *n = 1;
  if (cap) out[0] = &p->caps;
  return TN_OK;
}

static tn_status read_options(const tn_host *h, uint32_t cpu, tni_cal_settings *set, tn_error *err) {
  int64_t act = 1;
  const char *isa = "auto";
  tn_status st = h->option(h->ctx, "group", TN_OPT_INT, &set->group);
  if (st == TN_OK) st = h->option(h->ctx, "min_k", TN_OPT_INT, &set->min_k);
  if (st == TN_OK) st = h->option(h->ctx, "min_n", TN_OPT_INT, &set->min_n);
  if (st == TN_OK) st = h->option(h->ctx, "act_matmul", TN_OPT_BOOL, &act);
  if (st == TN_OK) st = h->option(h->ctx, "isa", TN_OPT_STRING, &isa);
  if (st != TN_OK) return tni_cm_fail(err, st, TNI_CAL_NAME, "the host did not give an option");
  if (!tni_w4g_numerics(set->group))
    return tni_cm_fail(err, TN_E_INVALID, TNI_CAL_NAME, "group is %lld: 32 or 128", (long long)set->group);
  set->act_matmul = act != 0;
  if (isa && (!strcmp(isa, "auto") || !strcmp(isa, "avx2")))
    set->features = cpu & NEEDED;
  else if (isa && !strcmp(isa, "scalar"))
    set->features = 0;
  else
    return tni_cm_fail(err, TN_E_INVALID, TNI_CAL_NAME, "isa is '%s': auto, scalar or avx2", isa ? isa : "");
  return TN_OK;
}

/* The chosen kernels, one line. */
static void log_kernels(const tni_cal_device *d) {
  static const uint32_t ops[] = {TNI_X86_QUANT, TNI_X86_GEMV, TNI_X86_GEMM, TNI_X86_MATMUL};
  char line[320];
  int at = snprintf(line, sizeof line, "%s: group %lld", TNI_CAL_NAME, (long long)d->set.group);
  for (size_t i = 0; i < sizeof ops / sizeof *ops && at > 0 && (size_t)at < sizeof line; i++) {
    uint32_t group = ops[i] == TNI_X86_MATMUL ? 0 : (uint32_t)d->set.group;
    at += snprintf(line + at, sizeof line - (size_t)at, ", %s", tni_x86_select(ops[i], group, d->set.features)->name);
  }
  d->host->log(d->host->ctx, TN_LOG_DEBUG, line);
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  tni_cal_plugin *p = (tni_cal_plugin *)pub;
  char text[128];
  if (index != 0) return tni_cm_fail(err, TN_E_INVALID, TNI_CAL_NAME, "there is no device %u", index);
  if (tni_cal_cpu_refusal(p->cpu, text, sizeof text))
    return tni_cm_fail(err, TN_E_UNAVAILABLE, TNI_CAL_NAME, "%s", text);
  tni_cm_mem mem = {.host = p->host};
  tni_cal_device *d = tni_cm_new(&mem, 1, sizeof *d);
  if (!d) return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_CAL_NAME, "out of memory");
  *d = (tni_cal_device){.pub = {.h = TN_HDR(tn_device),
                                .caps = &p->caps,
                                .claim = tni_cal_claim,
                                .lower = tni_cal_lower,
                                .info = tni_cal_info,
                                .measure = tni_cal_measure,
                                .set = tni_cal_set,
                                .release = tni_cal_release,
                                .bind = tni_cal_bind,
                                .unbind = tni_cal_unbind,
                                .args = tni_cal_args,
                                .args_set = tni_cal_args_set,
                                .args_free = tni_cal_args_free,
                                .run = tni_cal_run},
                        .mem = mem,
                        .host = p->host};
  tn_status st = read_options(p->host, p->cpu, &d->set, err);
  if (st != TN_OK) {
    tni_cm_free(&mem);
    return st;
  }
  log_kernels(d);
  *out = &d->pub;
  return TN_OK;
}

static void close_device(tn_device *d) {
  if (!d) return;
  tni_cm_mem mem = ((tni_cal_device *)d)->mem;
  tni_cm_free(&mem);
}

static void shutdown_plugin(tn_plugin *p) {
  if (!p) return;
  tni_cm_mem mem = ((tni_cal_plugin *)p)->mem;
  tni_cm_free(&mem);
}

static const void *get_extension(tn_plugin *p, const char *name, uint32_t version) {
  (void)p, (void)name, (void)version;
  return NULL;
}

static void fill_caps(tni_cal_plugin *p) {
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = TNI_CAL_NAME,
                      .driver = "avx2 fma f16c",
                      .align = 64,
                      .dtypes = UINT64_C(1) << TN_DT_F32};
  memcpy(p->caps.key, &p->cpu, sizeof p->cpu);
}

tn_status tni_cal_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || neg->h.size < sizeof *neg) return TN_E_INCOMPATIBLE;
  neg->plugin_min = neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "%s", TNI_CAL_NAME);
  snprintf(neg->version, sizeof neg->version, "%s", VERSION);
  if (neg->host_max < neg->plugin_min || neg->host_min > neg->plugin_max) {
    snprintf(neg->message, sizeof neg->message, "host speaks ABI 1.%u to 1.%u, plugin 1.%u", neg->host_min,
             neg->host_max, neg->plugin_max);
    return TN_E_INCOMPATIBLE;
  }
  if (!host || host->h.size < sizeof *host || !out) {
    snprintf(neg->message, sizeof neg->message, "the host's table is shorter than that of ABI 1.0");
    return TN_E_INCOMPATIBLE;
  }
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  tni_cm_mem mem = {.host = host};
  tni_cal_plugin *p = tni_cm_new(&mem, 1, sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  *p = (tni_cal_plugin){.pub = {.h = TN_HDR(tn_plugin),
                                .name = TNI_CAL_NAME,
                                .version = VERSION,
                                .build_id = VERSION,
                                .options = options,
                                .formats = formats,
                                .n_options = sizeof options / sizeof *options,
                                .n_formats = sizeof formats / sizeof *formats,
                                .enumerate = enumerate,
                                .open = open_device,
                                .close = close_device,
                                .shutdown = shutdown_plugin,
                                .get_extension = get_extension},
                        .mem = mem,
                        .host = host,
                        .cpu = tni_cm_cpu_features()};
  fill_caps(p);
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(cpu_avx2_lut, tni_cal_entry)
