/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "mirror.h"

#define PLUGIN_NAME MIRROR_NAME
#define PLUGIN_VERSION "1.0.0"
#define PLUGIN_FIELDS mirror own;
#include "../../kit/skeleton.h"
/* What the tables say before open_mirror puts in this device's functions. */
#include "../../../runtime/cli/new-plugin/nothing.h"

/* The built-in device's entry (runtime/host/plugin.c). */
tn_status tni_host_plugin_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out);

tn_status mirror_fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  if (!err) return st;
  va_start(ap, fmt);
  err->code = st;
  vsnprintf(err->message, sizeof err->message, fmt, ap);
  va_end(ap);
  return st;
}

#define CHOICE(id, k, d, c)     \
  static const tn_option id = { \
      .h = TN_HDR(tn_option), .key = k, .help = k, .dflt = d, .type = TN_OPT_STRING, .choices = c}
CHOICE(opt_import, "import", "none", "none|fd|ptr|both|dmabuf|ahb");
CHOICE(opt_share, "share", "none", "none|fd|ptr|both|dmabuf|ahb");
CHOICE(opt_layout, "layout", "host", "host|f32|f16|f16-rows|int8|int8-rows|apart");
#undef CHOICE
static const tn_option opt_coherent = {
    .h = TN_HDR(tn_option), .key = "coherent", .help = "buffers stay mapped", .dflt = "false", .type = TN_OPT_BOOL};
static const tn_option opt_ring = {
    .h = TN_HDR(tn_option), .key = "ring", .help = "caches may be rings", .dflt = "false", .type = TN_OPT_BOOL};
static const tn_option opt_count = {.h = TN_HDR(tn_option),
                                    .key = "count",
                                    .help = "says at the end what was mapped of caches",
                                    .dflt = "false",
                                    .type = TN_OPT_BOOL};
static const tn_option opt_every = {.h = TN_HDR(tn_option),
                                    .key = "every",
                                    .help = "takes every n-th node",
                                    .dflt = "1",
                                    .lo = 1,
                                    .hi = 1000,
                                    .type = TN_OPT_INT};

static const tn_option opt_fail = {.h = TN_HDR(tn_option),
                                   .key = "fail_create",
                                   .help = "from the n-th buffer on there is no memory",
                                   .dflt = "0",
                                   .lo = 0,
                                   .hi = 100000,
                                   .type = TN_OPT_INT};

static const tn_option opt_stray = {.h = TN_HDR(tn_option),
                                    .key = "stray",
                                    .help = "the n-th item writes a byte after what it was given",
                                    .dflt = "0",
                                    .lo = 0,
                                    .hi = 100000,
                                    .type = TN_OPT_INT};

static const tn_option opt_largest = {.h = TN_HDR(tn_option),
                                      .key = "largest",
                                      .help = "bytes of its largest buffer",
                                      .dflt = "4294967296",
                                      .lo = 1,
                                      .hi = INT64_C(1) << 40,
                                      .type = TN_OPT_INT};

static uint32_t kinds(const char *text) {
  const uint32_t fd = 1u << TN_MEM_FD, ptr = 1u << TN_MEM_HOST_PTR;
  if (strcmp(text, "dmabuf") == 0) return 1u << TN_MEM_DMABUF;
  if (strcmp(text, "ahb") == 0) return 1u << TN_MEM_AHB;
  return strcmp(text, "fd") == 0 ? fd : strcmp(text, "ptr") == 0 ? ptr : strcmp(text, "both") == 0 ? fd | ptr : 0;
}

static tn_status ask_driver(backend *b, uint32_t *n, tn_error *err) {
  mirror *p = &b->own;
  const tn_host *h = b->host;
  const char *import, *share;
  int64_t largest;
  if (h->option(h->ctx, "import", TN_OPT_STRING, &import) || h->option(h->ctx, "share", TN_OPT_STRING, &share) ||
      h->option(h->ctx, "layout", TN_OPT_STRING, &p->layout) ||
      h->option(h->ctx, "coherent", TN_OPT_BOOL, &p->coherent) || h->option(h->ctx, "ring", TN_OPT_BOOL, &p->ring) ||
      h->option(h->ctx, "count", TN_OPT_BOOL, &p->count) || h->option(h->ctx, "every", TN_OPT_INT, &p->every) ||
      h->option(h->ctx, "fail_create", TN_OPT_INT, &p->fail_create) ||
      h->option(h->ctx, "stray", TN_OPT_INT, &p->stray) || h->option(h->ctx, "largest", TN_OPT_INT, &largest))
    return fail(err, TN_E_INTERNAL, "the host lost an option");
  p->engine = (tn_engine){.h = TN_HDR(tn_engine), .name = "mirror", .flags = TN_ENGINE_BLOCKING, .depth = 64};
  p->engines[0] = &p->engine;
  b->caps.engines = p->engines;
  b->caps.n_engines = 1;
  b->caps.max_buffer_bytes = (uint64_t)largest;
  b->caps.import_kinds = kinds(import);
  b->caps.export_kinds = kinds(share);
  *n = 1;
  return TN_OK;
}

static void fill_device(tn_device *d) {
  d->claim = mirror_claim;
  d->lower = mirror_lower;
  d->info = mirror_info;
  d->measure = mirror_measure;
  d->set = mirror_set;
  d->release = mirror_release;
  d->bind = mirror_bind;
  d->unbind = mirror_unbind;
  d->args = mirror_args;
  d->args_set = mirror_args_set;
  d->args_free = mirror_args_free;
  d->run = mirror_run;
  d->submit = mirror_submit;
  d->create = mirror_create;
  d->share = mirror_share;
  d->destroy = mirror_destroy;
  d->map = mirror_map_range;
  d->unmap = mirror_unmap;
}

static tn_status open_mirror(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  backend *p = (backend *)pub;
  tn_device *tables = NULL;
  tn_status st = open_device(pub, index, &tables, err);
  mirror_device *d = st == TN_OK ? calloc(1, sizeof *d) : NULL;
  if (!d) return st == TN_OK ? TN_E_NO_MEMORY : st;
  d->pub = *tables;
  fill_device(&d->pub);
  d->plugin = &p->own;
  d->host = p->host;
  pthread_mutex_init(&d->lock, NULL);
  st = p->own.inner->open(p->own.inner, index, &d->inner, err);
  if (st == TN_OK)
    *out = &d->pub;
  else
    free(d);
  return st;
}

static void close_mirror(tn_device *pub) {
  mirror_device *d = (mirror_device *)pub;
  char line[160];
  snprintf(line, sizeof line, MIRROR_NAME ": caches: %llu bytes fetched, %llu sent", (unsigned long long)d->fetched,
           (unsigned long long)d->sent);
  if (d->plugin->count) d->host->log(d->host->ctx, TN_LOG_WARN, line);
  d->plugin->inner->close(d->inner);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static void stop_mirror(tn_plugin *pub) {
  tn_plugin *inner = ((backend *)pub)->own.inner;
  inner->shutdown(inner);
  stop(pub);
}

static void set_up(backend *p) {
  p->pub.open = open_mirror;
  p->pub.close = close_mirror;
  p->pub.shutdown = stop_mirror;
  p->caps.sub_align = MIRROR_ALIGN;
  p->caps.import_align = 4096;
  p->caps.dtypes = UINT64_MAX;
  p->caps.memory_bytes = UINT64_C(1) << 32;
}

/* The built-in device negotiates too, and its option is ours. */
static tn_status mirror_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  tn_plugin *inner;
  tn_status st = tni_host_plugin_entry(host, neg, &inner);
  if (st != TN_OK) return st;
  st = entry(host, neg, out);
  if (st != TN_OK) {
    inner->shutdown(inner);
    return st;
  }
  backend *p = (backend *)*out;
  const tn_option *mine[] = {inner->options[0], &opt_import, &opt_share, &opt_layout, &opt_coherent, &opt_every,
                             &opt_fail,         &opt_ring,   &opt_count, &opt_stray,  &opt_largest};
  p->own.inner = inner;
  memcpy(p->own.options, mine, sizeof mine);
  p->pub.options = p->own.options;
  p->pub.n_options = sizeof mine / sizeof *mine;
  return TN_OK;
}

TN_PLUGIN(mirror, mirror_entry)
