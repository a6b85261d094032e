/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <tenon/power.h>

#define PLUGIN_NAME "fake-engine"
#define PLUGIN_VERSION "1.0.0"
#define PLUGIN_FIELDS fake_plugin own;
#include "../../kit/skeleton.h"
/* What the tables say before open_fake puts in this device's functions. */
#include "../../../runtime/cli/new-plugin/nothing.h"

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
                                     .choices = "blocking|thread|inline|map|twice|never|wrong|stale|hang|drop"};
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
static const tn_option nan_after = {.h = TN_HDR(tn_option),
                                    .key = "nan_after",
                                    .help = "sums before one element of each is NaN; 0: none is",
                                    .dflt = "0",
                                    .lo = 0,
                                    .hi = 1e9,
                                    .type = TN_OPT_INT};
static const tn_option nan_items = {.h = TN_HDR(tn_option),
                                    .key = "nan_items",
                                    .help = "sums with such an element; 0: all that come",
                                    .dflt = "0",
                                    .lo = 0,
                                    .hi = 1e9,
                                    .type = TN_OPT_INT};
static const tn_option first_off = {.h = TN_HDR(tn_option),
                                    .key = "first_off",
                                    .help = "the first element of each sum is 1 more",
                                    .dflt = "false",
                                    .type = TN_OPT_BOOL};
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
static const tn_option fences = {.h = TN_HDR(tn_option),
                                 .key = "fences",
                                 .help = "items wait for fences in memory and signal them",
                                 .dflt = "false",
                                 .type = TN_OPT_BOOL};
static const tn_option cancels = {
    .h = TN_HDR(tn_option), .key = "cancels", .help = "items can be cancelled", .dflt = "false", .type = TN_OPT_BOOL};
static const tn_option priority = {.h = TN_HDR(tn_option),
                                   .key = "priority",
                                   .help = "what items must have: 0 normal, 1 low, 2 high",
                                   .dflt = "0",
                                   .lo = 0,
                                   .hi = 2,
                                   .type = TN_OPT_INT};
static const tn_option hang_in = {.h = TN_HDR(tn_option),
                                  .key = "hang_in",
                                  .help = "a call that does not come back",
                                  .dflt = "none",
                                  .type = TN_OPT_STRING,
                                  .choices = "none|cancel|abandon"};
static const tn_option *const options[] = {&priority, &completion, &delay,         &fail_after, &nan_after, &nan_items, &chunk,
                                           &engines,  &count,      &virtual_clock, &fences,     &cancels,   &hang_in,   &first_off};

static tn_status read_options(fake_plugin *p, const tn_host *h, tn_error *err) {
  static const char *const modes[] = {"blocking", "thread", "inline", "map", "twice",
                                      "never",    "wrong",  "stale",  "hang", "drop"};
  const char *text, *hang;
  if (h->option(h->ctx, "completion", TN_OPT_STRING, &text) != TN_OK ||
      h->option(h->ctx, "delay_us", TN_OPT_INT, &p->delay_us) != TN_OK ||
      h->option(h->ctx, "fail_after", TN_OPT_INT, &p->fail_after) != TN_OK ||
      h->option(h->ctx, "nan_after", TN_OPT_INT, &p->nan_after) != TN_OK ||
      h->option(h->ctx, "nan_items", TN_OPT_INT, &p->nan_items) != TN_OK ||
      h->option(h->ctx, "first_off", TN_OPT_BOOL, &p->first_off) != TN_OK ||
      h->option(h->ctx, "chunk", TN_OPT_INT, &p->chunk) != TN_OK ||
      h->option(h->ctx, "engines", TN_OPT_INT, &p->n_engines) != TN_OK ||
      h->option(h->ctx, "count", TN_OPT_BOOL, &p->count) != TN_OK ||
      h->option(h->ctx, "virtual", TN_OPT_BOOL, &p->virtual_clock) != TN_OK ||
      h->option(h->ctx, "priority", TN_OPT_INT, &p->priority) != TN_OK ||
      h->option(h->ctx, "cancels", TN_OPT_BOOL, &p->cancels) != TN_OK ||
      h->option(h->ctx, "hang_in", TN_OPT_STRING, &hang) != TN_OK ||
      h->option(h->ctx, "fences", TN_OPT_BOOL, &p->fences) != TN_OK)
    return fake_fail(err, TN_E_INTERNAL, "the host lost an option");
  p->hang_in = strcmp(hang, "cancel") == 0 ? FAKE_HANG_CANCEL : strcmp(hang, "abandon") == 0 ? FAKE_HANG_ABANDON : 0;
  p->mode = 0;
  while (p->mode < FAKE_DROP && strcmp(text, modes[p->mode]) != 0) p->mode++;
  return TN_OK;
}

static tn_status ask_driver(backend *b, uint32_t *n, tn_error *err) {
  fake_plugin *p = &b->own;
  tn_status st = read_options(p, b->host, err);
  if (st != TN_OK) return st;
  for (int i = 0; i < FAKE_ENGINES; i++) {
    p->engine[i] = (tn_engine){.h = TN_HDR(tn_engine), .name = i ? "fake2" : "fake", .depth = FAKE_QUEUE};
    if (p->mode == FAKE_BLOCKING) p->engine[i].flags = TN_ENGINE_BLOCKING;
    p->engines[i] = &p->engine[i];
  }
  p->clock = (tn_clock){
      .h = TN_HDR(tn_clock), .name = "fake time", .kind = TN_CLOCK_VIRTUAL, .cpu_ns_per_mac = 1, .cpu_ns_per_byte = 1};
  b->caps.engines = p->engines;
  b->caps.n_engines = (uint32_t)p->n_engines;
  b->caps.clock = p->virtual_clock ? &p->clock : NULL;
  b->caps.wait_fences = b->caps.signal_fences = p->fences ? 1u << TN_FENCE_WORD : 0;
  *n = 1;
  return TN_OK;
}

static void fill_device(tn_device *d) {
  d->claim = fake_claim;
  d->lower = fake_lower;
  d->info = fake_info;
  d->measure = fake_measure;
  d->set = fake_set;
  d->release = fake_release;
  d->bind = fake_bind;
  d->unbind = fake_unbind;
  d->args = fake_args;
  d->args_set = fake_args_set;
  d->args_free = fake_args_free;
  d->run = fake_run;
  d->submit = fake_submit;
  d->create = fake_create;
  d->destroy = fake_destroy;
  d->map = fake_map;
  d->unmap = fake_unmap;
}

static tn_status open_fake(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  backend *p = (backend *)pub;
  tn_device *tables = NULL;
  tn_status st = open_device(pub, index, &tables, err);
  if (st != TN_OK) return st;
  fake_device *d = p->host->alloc(p->host->ctx, sizeof *d, 64, TN_TAG_PLUGIN);
  if (!d) return fail(err, TN_E_NO_MEMORY, "no memory for the device");
  memset(d, 0, sizeof *d);
  d->pub = *tables;
  fill_device(&d->pub);
  d->plugin = &p->own;
  d->pub.cancel = p->own.cancels ? fake_cancel : NULL;
  d->pub.abandon = fake_abandon;
  d->host = p->host;
  if (fake_engine_start(d) != TN_OK) {
    p->host->free(p->host->ctx, d);
    return fail(err, TN_E_NO_MEMORY, "the engine's thread does not start");
  }
  *out = &d->pub;
  return TN_OK;
}

static void close_fake(tn_device *pub) {
  fake_device *d = (fake_device *)pub;
  fake_engine_stop(d);
  char line[160];
  snprintf(line, sizeof line, "counted %lld items in %lld submits, at most %lld at once, %lld waits, %lld in flight",
           (long long)atomic_load(&d->items), (long long)atomic_load(&d->submits), (long long)atomic_load(&d->together),
           (long long)atomic_load(&d->waits), (long long)atomic_load(&d->most));
  if (d->plugin->count) d->host->log(d->host->ctx, TN_LOG_WARN, line);
  d->host->free(d->host->ctx, d);
}

static tn_status vote(tn_device *pub, uint32_t mode, tn_error *err) {
  const fake_device *d = (const fake_device *)pub;
  char line[64];
  if (mode == TN_POWER_BURST) return fake_fail(err, TN_E_UNSUPPORTED, "fake-engine has no mode %u", mode);
  snprintf(line, sizeof line, "power %u", mode);
  if (d->plugin->count) d->host->log(d->host->ctx, TN_LOG_WARN, line);
  return TN_OK;
}

static const void *extension(tn_plugin *p, const char *name, uint32_t version) {
  static const tn_power power = {.h = TN_HDR(tn_power), .vote = vote};
  (void)p;
  return version == 1 && strcmp(name, TN_POWER) == 0 ? &power : NULL;
}

static void set_up(backend *p) {
  p->pub.get_extension = extension;
  p->pub.options = options;
  p->pub.n_options = sizeof options / sizeof *options;
  p->pub.open = open_fake;
  p->pub.close = close_fake;
  p->caps.sub_align = FAKE_SUB_ALIGN;
  p->caps.dtypes = UINT64_C(1) << TN_DT_F32;
  p->caps.memory_bytes = p->caps.max_buffer_bytes = UINT64_C(1) << 32;
}

TN_PLUGIN(fake_engine, entry)
