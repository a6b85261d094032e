/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/opencl/clplugin.h"

#include <stdio.h>
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/opencl/clprog.h"

enum { MAX_OPTIONS = 24 };

typedef struct cl_plugin {
  tn_plugin pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  const tni_cl_vendor *vendor;
  const tn_option *options[MAX_OPTIONS];
  tn_option libraries;
  /* What enumerate found. */
  tni_cl_settings set;
  tni_cl_api api;
  tni_cl_info info;
  tn_caps caps;
  tn_engine engine;
  const tn_engine *engines[1];
  bool found;
} cl_plugin;

static const tn_option opt_type = {
    .h = TN_HDR(tn_option),
    .key = "device_type",
    .dflt = "gpu",
    .type = TN_OPT_STRING,
    .choices = "gpu|cpu|accelerator|any",
    .help = "kind of OpenCL device to take; any: a GPU before an accelerator before a CPU"};
static const tn_option opt_device = {.h = TN_HDR(tn_option),
                                     .key = "device",
                                     .dflt = "",
                                     .type = TN_OPT_STRING,
                                     .help = "part of the device's name; empty: the first of its kind"};
static const tn_option opt_priority = {.h = TN_HDR(tn_option),
                                       .key = "priority",
                                       .dflt = "low",
                                       .type = TN_OPT_STRING,
                                       .choices = "low|normal",
                                       .help = "low: where the device has such a hint, so that screens stay smooth"};
static const tn_option opt_fp16 = {
    .h = TN_HDR(tn_option),
    .key = "fp16",
    .dflt = "true",
    .type = TN_OPT_BOOL,
    .help = "use half arithmetic where the device has it; otherwise half is storage only"};
static const tn_option opt_images = {.h = TN_HDR(tn_option),
                                     .key = "images",
                                     .dflt = "true",
                                     .type = TN_OPT_BOOL,
                                     .help = "read weights through images where the device and the plugin have them"};
static const tn_option opt_test = {.h = TN_HDR(tn_option),
                                   .key = "self_test",
                                   .dflt = "true",
                                   .type = TN_OPT_BOOL,
                                   .help = "compare each kernel with C before it is used the first time"};
static const tn_option opt_zero = {
    .h = TN_HDR(tn_option),
    .key = "zero_exact",
    .dflt = "false",
    .type = TN_OPT_BOOL,
    .help = "a weight of 0 stays 0, at the price of somewhat larger errors elsewhere"};
static const tn_option opt_format = {.h = TN_HDR(tn_option),
                                     .key = "format",
                                     .dflt = "auto",
                                     .type = TN_OPT_STRING,
                                     .choices = "auto|e0m2|e0m3|e0m4|e0m8",
                                     .help = "of packed weights; auto: e0m4, and for those that are quantized already the "
                                             "one that keeps their codes"};
static const tn_option opt_split = {
    .h = TN_HDR(tn_option),
    .key = "split",
    .dflt = "false",
    .type = TN_OPT_BOOL,
    .help = "one task per operation with float32 between them; checked runs (verify) do it by themselves"};
static const tn_option opt_flush = {.h = TN_HDR(tn_option),
                                    .key = "flush_every",
                                    .dflt = "-1",
                                    .type = TN_OPT_INT,
                                    .lo = -1,
                                    .hi = 1 << 20,
                                    .help = "kernels between two flushes; 0: one per submission; -1: the plugin's own"};
static const tn_option opt_completion = {
    .h = TN_HDR(tn_option),
    .key = "completion",
    .dflt = "callback",
    .type = TN_OPT_STRING,
    .choices = "callback|wait",
    .help = "how the end of a step is seen; wait: for drivers whose callbacks do not come"};
static const tn_option *const common_options[] = {&opt_type,         &opt_device, &opt_priority, &tni_cm_opt_min_k,
                                                  &tni_cm_opt_min_n, &opt_fp16,   &opt_images,   &opt_test,
                                                  &opt_format, &opt_zero,         &opt_split,  &opt_flush,    &opt_completion};
static const tn_format *const cl_formats[] = {&tni_e0m_formats[TNI_E0M_2], &tni_e0m_formats[TNI_E0M_3],
                                              &tni_e0m_formats[TNI_E0M_4], &tni_e0m_formats[TNI_E0M_8]};

static tn_status read_options(cl_plugin *p, tni_cl_settings *s, tn_error *err) {
  const tn_host *h = p->host;
  const char *priority = "low", *completion = "callback";
  int64_t flush = -1;
  const struct {
    const char *key;
    uint32_t type;
    void *out;
  } all[] = {{"libraries", TN_OPT_STRING, &s->libraries},
             {"device_type", TN_OPT_STRING, &s->type},
             {"device", TN_OPT_STRING, &s->name},
             {"priority", TN_OPT_STRING, &priority},
             {"min_k", TN_OPT_INT, &s->min_k},
             {"min_n", TN_OPT_INT, &s->min_n},
             {"fp16", TN_OPT_BOOL, &s->fp16},
             {"images", TN_OPT_BOOL, &s->images},
             {"self_test", TN_OPT_BOOL, &s->self_test},
             {"format", TN_OPT_STRING, &s->format},
             {"zero_exact", TN_OPT_BOOL, &s->zero_exact},
             {"split", TN_OPT_BOOL, &s->split},
             {"flush_every", TN_OPT_INT, &flush},
             {"completion", TN_OPT_STRING, &completion}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    tn_status st = h->option(h->ctx, all[i].key, all[i].type, all[i].out);
    if (st != TN_OK) return tni_cm_fail(err, st, p->vendor->name, "the host did not give option %s", all[i].key);
  }
  s->split = s->split || (h->flags & TN_HOST_CHECKED);
  s->wait = completion && !strcmp(completion, "wait");
  s->low_priority = priority && !strcmp(priority, "low");
  s->flush_every = flush < 0 ? p->vendor->flush_every : flush;
  return TN_OK;
}

static void fill_caps(cl_plugin *p) {
  const tni_cl_info *i = &p->info;
  const bool unified = i->features & TNI_CLF_UNIFIED;
  p->engine =
      (tn_engine){.h = TN_HDR(tn_engine), .name = "gpu", .depth = 8, .flags = p->set.wait ? TN_ENGINE_BLOCKING : 0};
  p->engines[0] = &p->engine;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = i->name,
                      .driver = i->driver,
                      .engines = p->engines,
                      .n_engines = 1,
                      .import_kinds = (1u << TN_MEM_NEW) | (p->vendor->import && unified ? 1u << TN_MEM_HOST_PTR : 0),
                      .align = 128,
                      .sub_align = i->base_align > 128 ? i->base_align : 128,
                      .import_align = p->vendor->import && unified ? (i->base_align > 4096 ? i->base_align : 4096) : 0,
                      .dtypes = UINT64_C(1) << TN_DT_F32 | UINT64_C(1) << TN_DT_F16 | UINT64_C(1) << TN_DT_I64 |
                                UINT64_C(1) << TN_DT_I32 | UINT64_C(1) << TN_DT_BOOL,
                      .memory_bytes = i->global_bytes,
                      .max_buffer_bytes = i->max_alloc};
  memcpy(p->caps.key, i->key, sizeof p->caps.key);
  if (!p->vendor->images || !(i->features & TNI_CLF_IMAGE2D_BUF)) return;
  p->caps.image_pitch_px = i->pitch_px;
  p->caps.image_base_px = i->base_px;
  p->caps.image_max_px = (uint32_t)(i->image2d_w < UINT32_MAX ? i->image2d_w : UINT32_MAX);
}

static tn_status enumerate_devices(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  cl_plugin *p = (cl_plugin *)pub;
  *n = 0;
  if (!p->found) {
    tn_status st = read_options(p, &p->set, err);
    if (st != TN_OK) return st;
    if (tni_cl_open(p->set.libraries, &p->api, err) != TN_OK) return TN_OK;
    tni_cl_wish wish = {.libraries = p->set.libraries,
                        .type = p->set.type,
                        .name = p->set.name,
                        .mask = p->set.fp16 ? UINT32_MAX : ~(uint32_t)TNI_CLF_FP16,
                        .low_priority = p->set.low_priority};
    st = tni_cl_pick(&p->api, &wish, &p->mem, &p->info, err);
    if (st != TN_OK) return st == TN_E_UNAVAILABLE ? TN_OK : st;
    fill_caps(p);
    p->found = true;
  }
  *n = 1;
  if (cap) out[0] = &p->caps;
  return TN_OK;
}

/* --- device ------------------------------------------------------------------------------------------------------ */

static tn_status create_device_buffer(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  if (req->kind >= 32 || !(d->caps->import_kinds & 1u << req->kind))
    return tni_cm_fail(err, TN_E_UNSUPPORTED, d->caps->name, "memory of kind %u is not taken over", req->kind);
  return tni_cl_create(d, &((tni_cl_device *)d)->context, req, out, err);
}

/* Nothing here runs on the host's processor. */
static tn_status run_on_cpu(const tn_plan *plan, tn_args *a, tn_run *r, tn_error *err) {
  (void)a, (void)r;
  return tni_cm_fail(err, TN_E_INVALID, plan->task->pub.name, "this task is for engine 1");
}

static const tn_device cl_functions = {.h = TN_HDR(tn_device),
                                       .claim = tni_cl_claim,
                                       .lower = tni_cl_lower,
                                       .info = tni_cl_info_of,
                                       .measure = tni_cl_measure,
                                       .set = tni_cl_set,
                                       .release = tni_cl_release,
                                       .bind = tni_cl_bind,
                                       .unbind = tni_cl_unbind,
                                       .args = tni_cl_args,
                                       .args_set = tni_cl_args_set,
                                       .args_free = tni_cl_args_free,
                                       .run = run_on_cpu,
                                       .submit = tni_cl_submit,
                                       .create = create_device_buffer,
                                       .share = tni_cl_share,
                                       .destroy = tni_cl_destroy,
                                       .map = tni_cl_map,
                                       .unmap = tni_cl_unmap};

/* auto: that of floats. */
static const tn_format *format_named(const char *name) {
  for (size_t i = 0; i < sizeof cl_formats / sizeof *cl_formats; i++)
    if (!strcmp(cl_formats[i]->name, name)) return cl_formats[i];
  return &tni_e0m_formats[TNI_E0M_4];
}

static void fill_device(cl_plugin *p, tni_cl_device *d) {
  d->pub = cl_functions;
  d->pub.caps = &p->caps;
  d->host = p->host;
  d->vendor = p->vendor;
  d->set = p->set;
  d->api = p->api;
  d->info = p->info;
  d->format = format_named(p->set.format);
  d->keeps = !strcmp(p->set.format, "auto");
  d->params[0] = p->set.zero_exact != 0;
  d->tables[0] = p->vendor->variants;
  d->tables[1] = tni_cl_floor;
  d->table_n[0] = p->vendor->n_variants;
  d->table_n[1] = tni_cl_n_floor;
  d->kernels = (tni_cl_kernels){.c = &d->context,
                                .host = p->host,
                                .tables = d->tables,
                                .n = d->table_n,
                                .mem = {.host = p->host},
                                .features = d->info.features,
                                .self_test = p->set.self_test != 0};
  if (!p->set.images) d->kernels.features &= ~(uint32_t)(TNI_CLF_IMAGES | TNI_CLF_IMAGE2D_BUF);
}

static void log_device(const tni_cl_device *d) {
  char line[320];
  snprintf(line, sizeof line, "%s: %.80s, driver %.40s, %s%s%s%s%u units, from %.60s", d->vendor->name, d->info.name,
           d->info.driver, d->kernels.features & TNI_CLF_FP16 ? "half arithmetic, " : "half as storage, ",
           d->kernels.features & TNI_CLF_IMAGE2D_BUF ? "images over buffers, " : "",
           d->info.features & TNI_CLF_UNIFIED ? "unified memory, " : "",
           d->context.low_priority ? "low priority, " : "", d->info.units, d->api.path);
  d->host->log(d->host->ctx, TN_LOG_DEBUG, line);
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  cl_plugin *p = (cl_plugin *)pub;
  if (index != 0 || !p->found) return tni_cm_fail(err, TN_E_INVALID, p->vendor->name, "there is no device %u", index);
  tni_cm_mem mem = {.host = p->host};
  tni_cl_device *d = tni_cm_new(&mem, 1, sizeof *d);
  if (!d) return tni_cm_fail(err, TN_E_NO_MEMORY, p->vendor->name, "out of memory");
  fill_device(p, d);
  d->mem = mem;
  tn_status st = tni_cl_context_init(&d->context, &d->api, &d->info, p->host, p->set.low_priority != 0, err);
  if (st != TN_OK) {
    tni_cm_free(&mem);
    return st;
  }
  log_device(d);
  *out = &d->pub;
  return TN_OK;
}

static void close_device(tn_device *dev) {
  if (!dev) return;
  tni_cl_device *d = (tni_cl_device *)dev;
  tni_cl_wait_flights(d);
  char line[200];
  snprintf(line, sizeof line, "%s: %u programs from source, %u from the cache, %u skipped", d->vendor->name,
           d->kernels.source_builds, d->kernels.binary_builds, d->kernels.skipped);
  d->host->log(d->host->ctx, TN_LOG_DEBUG, line);
  tni_cl_kernels_finish(&d->kernels);
  tni_cl_context_finish(&d->context);
  tni_cm_mem mem = d->mem;
  tni_cm_free(&mem);
}

/* --- plugin ------------------------------------------------------------------------------------------------------ */

static void shutdown_plugin(tn_plugin *pub) {
  if (!pub) return;
  cl_plugin *p = (cl_plugin *)pub;
  if (p->api.lib) tni_cl_close(&p->api);
  tni_cm_mem mem = p->mem;
  tni_cm_free(&mem);
}

static const void *get_extension(tn_plugin *p, const char *name, uint32_t version) {
  (void)p, (void)name, (void)version;
  return NULL;
}

static tn_status make_options(cl_plugin *p) {
  const tni_cl_vendor *v = p->vendor;
  const uint32_t n = sizeof common_options / sizeof *common_options;
  if (n + v->n_options + 1 > MAX_OPTIONS) return TN_E_INTERNAL;
  p->libraries = (tn_option){.h = TN_HDR(tn_option),
                             .key = "libraries",
                             .dflt = v->libraries,
                             .type = TN_OPT_STRING,
                             .help = "drivers to try in this order, ':' between them"};
  p->options[0] = &p->libraries;
  for (uint32_t i = 0; i < n; i++) p->options[1 + i] = common_options[i];
  for (uint32_t i = 0; i < v->n_options; i++) p->options[1 + n + i] = v->options[i];
  p->pub.options = p->options;
  p->pub.n_options = 1 + n + v->n_options;
  return TN_OK;
}

tn_status tni_cl_plugin_entry(const tni_cl_vendor *v, const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  tn_status st = tni_cm_negotiate(v->name, v->version, host, neg);
  if (st != TN_OK) return st;
  tni_cm_mem mem = {.host = host};
  cl_plugin *p = out ? tni_cm_new(&mem, 1, sizeof *p) : NULL;
  if (!p) return TN_E_NO_MEMORY;
  p->pub = (tn_plugin){.h = TN_HDR(tn_plugin),
                       .name = v->name,
                       .version = v->version,
                       .build_id = v->version,
                       .formats = cl_formats,
                       .n_formats = sizeof cl_formats / sizeof *cl_formats,
                       .enumerate = enumerate_devices,
                       .open = open_device,
                       .close = close_device,
                       .shutdown = shutdown_plugin,
                       .get_extension = get_extension,
                       .flags = TN_PLUGIN_RESIDENT};
  p->mem = mem;
  p->host = host;
  p->vendor = v;
  st = make_options(p);
  if (st == TN_OK)
    *out = &p->pub;
  else
    tni_cm_free(&mem);
  return st;
}
