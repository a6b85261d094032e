/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fake.h"

tn_status fake_fail(tn_error *err, tn_status st, const char *fmt, ...) {
  if (!err) return st;
  va_list ap;
  va_start(ap, fmt);
  err->code = st;
  vsnprintf(err->message, sizeof err->message, fmt, ap);
  va_end(ap);
  return st;
}

static const tn_option completion = {.h = TN_HDR(tn_option),
                                     .key = "completion",
                                     .help = "who calls done",
                                     .dflt = "blocking",
                                     .type = TN_OPT_STRING,
                                     .choices = "blocking|thread|inline|map|twice|never|wrong|stale"};
static const tn_option delay = {.h = TN_HDR(tn_option),
                                .key = "delay_us",
                                .help = "sleep before each item",
                                .dflt = "0",
                                .lo = 0,
                                .hi = 1e6,
                                .type = TN_OPT_INT};
static const tn_option fail_after = {.h = TN_HDR(tn_option),
                                     .key = "fail_after",
                                     .help = "items that succeed before the device is lost; 0: all",
                                     .dflt = "0",
                                     .lo = 0,
                                     .hi = 1e9,
                                     .type = TN_OPT_INT};
static const tn_option chunk = {.h = TN_HDR(tn_option),
                                .key = "chunk",
                                .help = "length of a padded axis 1 that Adds of rank 3 need; 0: any",
                                .dflt = "0",
                                .lo = 0,
                                .hi = 65536,
                                .type = TN_OPT_INT};
static const tn_option engines = {.h = TN_HDR(tn_option),
                                  .key = "engines",
                                  .help = "how many, four nodes in turns",
                                  .dflt = "1",
                                  .lo = 1,
                                  .hi = FAKE_ENGINES,
                                  .type = TN_OPT_INT};
static const tn_option count = {.h = TN_HDR(tn_option),
                                .key = "count",
                                .help = "log items and submits when the device is closed",
                                .dflt = "false",
                                .type = TN_OPT_BOOL};
static const tn_option virtual_clock = {.h = TN_HDR(tn_option),
                                        .key = "virtual",
                                        .help = "a clock of its own, on which every item takes a microsecond",
                                        .dflt = "false",
                                        .type = TN_OPT_BOOL};
static const tn_option *const options[] = {&completion, &delay, &fail_after, &chunk, &engines, &count, &virtual_clock};

static tn_status read_options(fake_plugin *p, tn_error *err) {
  static const char *const modes[] = {"blocking", "thread", "inline", "map", "twice", "never", "wrong", "stale"};
  const char *text;
  const tn_host *h = p->host;
  if (h->option(h->ctx, "completion", TN_OPT_STRING, &text) != TN_OK ||
      h->option(h->ctx, "delay_us", TN_OPT_INT, &p->delay_us) != TN_OK ||
      h->option(h->ctx, "fail_after", TN_OPT_INT, &p->fail_after) != TN_OK ||
      h->option(h->ctx, "chunk", TN_OPT_INT, &p->chunk) != TN_OK ||
      h->option(h->ctx, "engines", TN_OPT_INT, &p->n_engines) != TN_OK ||
      h->option(h->ctx, "count", TN_OPT_BOOL, &p->count) != TN_OK ||
      h->option(h->ctx, "virtual", TN_OPT_BOOL, &p->virtual_clock) != TN_OK)
    return fake_fail(err, TN_E_INTERNAL, "the host lost an option");
  p->mode = 0;
  while (p->mode < FAKE_STALE && strcmp(text, modes[p->mode]) != 0) p->mode++;
  return TN_OK;
}

static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  fake_plugin *p = (fake_plugin *)pub;
  tn_status st = read_options(p, err);
  if (st != TN_OK) return st;
  for (int i = 0; i < FAKE_ENGINES; i++) {
    p->engine[i] = (tn_engine){.h = TN_HDR(tn_engine), .name = i ? "fake2" : "fake", .depth = FAKE_QUEUE};
    if (p->mode == FAKE_BLOCKING) p->engine[i].flags = TN_ENGINE_BLOCKING;
    p->engines[i] = &p->engine[i];
  }
  p->clock = (tn_clock){
      .h = TN_HDR(tn_clock), .name = "fake time", .kind = TN_CLOCK_VIRTUAL, .cpu_ns_per_mac = 1, .cpu_ns_per_byte = 1};
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = "fake engine",
                      .driver = "none",
                      .key = "fake-engine-1",
                      .engines = p->engines,
                      .n_engines = (uint32_t)p->n_engines,
                      .clock = p->virtual_clock ? &p->clock : NULL,
                      .align = 64,
                      .sub_align = FAKE_SUB_ALIGN,
                      .dtypes = UINT64_C(1) << TN_DT_F32,
                      .memory_bytes = UINT64_C(1) << 32,
                      .max_buffer_bytes = UINT64_C(1) << 32};
  if (cap > 0) out[0] = &p->caps;
  *n = cap > 0;
  return TN_OK;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  fake_plugin *p = (fake_plugin *)pub;
  if (index != 0) return fake_fail(err, TN_E_INVALID, "there is one device");
  fake_device *d = p->host->alloc(p->host->ctx, sizeof *d, 64, TN_TAG_PLUGIN);
  if (!d) return fake_fail(err, TN_E_NO_MEMORY, "no memory for the device");
  memset(d, 0, sizeof *d);
  d->pub = (tn_device){.h = TN_HDR(tn_device),
                       .caps = &p->caps,
                       .claim = fake_claim,
                       .lower = fake_lower,
                       .info = fake_info,
                       .measure = fake_measure,
                       .set = fake_set,
                       .release = fake_release,
                       .bind = fake_bind,
                       .unbind = fake_unbind,
                       .args = fake_args,
                       .args_set = fake_args_set,
                       .args_free = fake_args_free,
                       .run = fake_run,
                       .submit = fake_submit,
                       .create = fake_create,
                       .destroy = fake_destroy,
                       .map = fake_map,
                       .unmap = fake_unmap};
  d->plugin = p;
  d->host = p->host;
  if (fake_engine_start(d) != TN_OK) {
    p->host->free(p->host->ctx, d);
    return fake_fail(err, TN_E_NO_MEMORY, "the engine's thread does not start");
  }
  *out = &d->pub;
  return TN_OK;
}

static void close_device(tn_device *pub) {
  fake_device *d = (fake_device *)pub;
  fake_engine_stop(d);
  char line[160];
  snprintf(line, sizeof line, "counted %lld items in %lld submits, at most %lld at once",
           (long long)atomic_load(&d->items), (long long)atomic_load(&d->submits),
           (long long)atomic_load(&d->together));
  if (d->plugin->count) d->host->log(d->host->ctx, TN_LOG_WARN, line);
  d->host->free(d->host->ctx, d);
}

static void stop(tn_plugin *pub) {
  fake_plugin *p = (fake_plugin *)pub;
  const tn_host *h = p->host;
  h->free(h->ctx, p);
}

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  neg->plugin_min = neg->plugin_max = TN_ABI_MINOR;
  if (neg->host_max < neg->plugin_min) return TN_E_INCOMPATIBLE;
  neg->minor = TN_ABI_MINOR;
  fake_plugin *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PLUGIN);
  if (!p) return TN_E_NO_MEMORY;
  memset(p, 0, sizeof *p);
  p->pub = (tn_plugin){.h = TN_HDR(tn_plugin),
                       .name = "fake-engine",
                       .version = "1.0.0",
                       .build_id = "fake-engine-1",
                       .options = options,
                       .n_options = sizeof options / sizeof *options,
                       .enumerate = enumerate,
                       .open = open_device,
                       .close = close_device,
                       .shutdown = stop};
  p->host = host;
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(fake_engine, entry)
