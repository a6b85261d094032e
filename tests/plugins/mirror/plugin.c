/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mirror.h"

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
CHOICE(opt_import, "import", "none", "none|fd|ptr|both");
CHOICE(opt_share, "share", "none", "none|fd|ptr|both");
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

static uint32_t kinds(const char *text) {
  const uint32_t fd = 1u << TN_MEM_FD, ptr = 1u << TN_MEM_HOST_PTR;
  return strcmp(text, "fd") == 0 ? fd : strcmp(text, "ptr") == 0 ? ptr : strcmp(text, "both") == 0 ? fd | ptr : 0;
}

static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  mirror *p = (mirror *)pub;
  const tn_host *h = p->host;
  const char *import, *share;
  if (h->option(h->ctx, "import", TN_OPT_STRING, &import) || h->option(h->ctx, "share", TN_OPT_STRING, &share) ||
      h->option(h->ctx, "layout", TN_OPT_STRING, &p->layout) ||
      h->option(h->ctx, "coherent", TN_OPT_BOOL, &p->coherent) || h->option(h->ctx, "ring", TN_OPT_BOOL, &p->ring) ||
      h->option(h->ctx, "count", TN_OPT_BOOL, &p->count) || h->option(h->ctx, "every", TN_OPT_INT, &p->every) ||
      h->option(h->ctx, "fail_create", TN_OPT_INT, &p->fail_create) ||
      h->option(h->ctx, "stray", TN_OPT_INT, &p->stray))
    return mirror_fail(err, TN_E_INTERNAL, "the host lost an option");
  p->engine = (tn_engine){.h = TN_HDR(tn_engine), .name = "mirror", .flags = TN_ENGINE_BLOCKING, .depth = 64};
  p->engines[0] = &p->engine;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = MIRROR_NAME,
                      .driver = "none",
                      .key = MIRROR_NAME,
                      .engines = p->engines,
                      .n_engines = 1,
                      .import_kinds = kinds(import),
                      .export_kinds = kinds(share),
                      .align = 64,
                      .sub_align = MIRROR_ALIGN,
                      .import_align = 4096,
                      .dtypes = UINT64_MAX,
                      .memory_bytes = UINT64_C(1) << 32,
                      .max_buffer_bytes = UINT64_C(1) << 32};
  if (cap) out[0] = &p->caps;
  *n = cap > 0;
  return TN_OK;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  mirror *p = (mirror *)pub;
  mirror_device *d = calloc(1, sizeof *d);
  if (!d) return TN_E_NO_MEMORY;
  d->pub = (tn_device){.h = TN_HDR(tn_device),
                       .caps = &p->caps,
                       .claim = mirror_claim,
                       .lower = mirror_lower,
                       .info = mirror_info,
                       .measure = mirror_measure,
                       .set = mirror_set,
                       .release = mirror_release,
                       .bind = mirror_bind,
                       .unbind = mirror_unbind,
                       .args = mirror_args,
                       .args_set = mirror_args_set,
                       .args_free = mirror_args_free,
                       .run = mirror_run,
                       .submit = mirror_submit,
                       .create = mirror_create,
                       .share = mirror_share,
                       .destroy = mirror_destroy,
                       .map = mirror_map_range,
                       .unmap = mirror_unmap};
  d->plugin = p;
  d->host = p->host;
  pthread_mutex_init(&d->lock, NULL);
  tn_status st = p->inner->open(p->inner, index, &d->inner, err);
  if (st == TN_OK)
    *out = &d->pub;
  else
    free(d);
  return st;
}

static void close_device(tn_device *pub) {
  mirror_device *d = (mirror_device *)pub;
  char line[160];
  snprintf(line, sizeof line, MIRROR_NAME ": caches: %llu bytes fetched, %llu sent", (unsigned long long)d->fetched,
           (unsigned long long)d->sent);
  if (d->plugin->count) d->host->log(d->host->ctx, TN_LOG_WARN, line);
  d->plugin->inner->close(d->inner);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static void stop(tn_plugin *pub) {
  mirror *p = (mirror *)pub;
  p->inner->shutdown(p->inner);
  free(p);
}

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  mirror *p = calloc(1, sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  tn_status st = tni_host_plugin_entry(host, neg, &p->inner);
  if (st != TN_OK) {
    free(p);
    return st;
  }
  const tn_option *mine[] = {p->inner->options[0], &opt_import, &opt_share, &opt_layout, &opt_coherent,
                             &opt_every,           &opt_fail,   &opt_ring,  &opt_count,  &opt_stray};
  memcpy(p->options, mine, sizeof mine);
  p->host = host;
  p->pub = (tn_plugin){.h = TN_HDR(tn_plugin),
                       .name = MIRROR_NAME,
                       .version = "1.0.0",
                       .build_id = "mirror-1",
                       .options = p->options,
                       .n_options = sizeof mine / sizeof *mine,
                       .enumerate = enumerate,
                       .open = open_device,
                       .close = close_device,
                       .shutdown = stop};
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(mirror, entry)
