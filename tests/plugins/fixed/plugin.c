/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fixed.h"

#define PLUGIN_NAME "fixed"
#define PLUGIN_VERSION "1.0.0"
#define PLUGIN_FIELDS \
  tn_plugin *builtin; \
  tn_host lent;       \
  uint16_t minor;     \
  tn_engine engine[FIXED_ENGINES]; \
  const tn_engine *engines[FIXED_ENGINES]; \
  fixed_format format; \
  const tn_format *formats[1];
#include "../../kit/skeleton.h"
/* What the tables say before open_fixed puts in this device's functions. */
#include "../../../runtime/cli/new-plugin/nothing.h"

/* The built-in device's entry (runtime/host/plugin.c). */
tn_status tni_host_plugin_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out);

tn_status fixed_fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (err) {
    err->code = st;
    vsnprintf(err->message, sizeof err->message, fmt, ap);
  }
  va_end(ap);
  return st;
}

#define X(name) "|" #name
static const tn_option opt_wrong = {.h = TN_HDR(tn_option),
                                    .key = "wrong",
                                    .help = "the mistake that it makes, or none",
                                    .dflt = "none",
                                    .choices = &(FIXED_WRONGS(X))[1],
                                    .type = TN_OPT_STRING};
#undef X
#define X(name) #name,
static const char *const wrongs[] = {FIXED_WRONGS(X)};
#undef X
uint32_t fixed_wrong_of(const char *name) {
  uint32_t i = 0;
  while (i < FIXED_N_WRONGS && strcmp(wrongs[i], name) != 0) i++;
  return i;
}

static const tn_option opt_fault = {.h = TN_HDR(tn_option),
                                    .key = "fault",
                                    .help = "lost:N: the N-th item is lost",
                                    .dflt = "",
                                    .type = TN_OPT_STRING};
static const tn_option *const options[] = {&opt_wrong, &opt_fault};

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  (void)err;
  static const char *const names[FIXED_ENGINES] = {"rows", "rest"};
  for (uint32_t e = 0; e < FIXED_ENGINES; e++) {
    p->engine[e] = (tn_engine){.h = TN_HDR(tn_engine), .name = names[e], .depth = FIXED_DEPTH};
    p->engines[e] = &p->engine[e];
  }
  p->caps.engines = p->engines;
  p->caps.n_engines = FIXED_ENGINES;
  p->caps.wait_fences = p->caps.signal_fences = 1u << TN_FENCE_WORD;
  const char *wrong = "none";
  if (p->host->option(p->host->ctx, "wrong", TN_OPT_STRING, &wrong) == TN_OK && fixed_is_shares(fixed_wrong_of(wrong)))
    p->caps.import_kinds = p->caps.export_kinds = 1u << TN_MEM_FD;
  *n = 1;
  return TN_OK;
}

static tn_status open_fixed(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  backend *p = (backend *)pub;
  const char *wrong = "none", *fault = "";
  unsigned long long lose_at = 0;
  if (index) return fixed_fail(err, TN_E_INVALID, "there is no device %u", index);
  if (p->host->option(p->host->ctx, "wrong", TN_OPT_STRING, &wrong) != TN_OK)
    return fixed_fail(err, TN_E_INVALID, "option wrong has no value");
  if (p->host->option(p->host->ctx, "fault", TN_OPT_STRING, &fault) != TN_OK ||
      (*fault && sscanf(fault, "lost:%llu", &lose_at) != 1))
    return fixed_fail(err, TN_E_INVALID, "option fault is lost:N");
  fixed_device *d = calloc(1, sizeof *d);
  if (!d) return fixed_fail(err, TN_E_NO_MEMORY, "no memory for a device");
  d->pub = (tn_device){.h = TN_HDR(tn_device), .caps = &p->caps, .claim = fixed_claim};
  fixed_program_fill(&d->pub);
  fixed_engine_fill(&d->pub);
  d->host = p->host;
  d->old = p->minor == 0;
  d->lose_at = lose_at;
  d->format = &p->format.pub;
  d->wrong = fixed_wrong_of(wrong);
  if (fixed_is_shares(d->wrong)) d->pub.share = fixed_share;
  tn_status st = p->builtin->open(p->builtin, 0, &d->inner, err);
  if (st == TN_OK && !fixed_engine_start(d)) {
    p->builtin->close(d->inner);
    st = fixed_fail(err, TN_E_UNAVAILABLE, "no thread for the queue");
  }
  if (st == TN_OK)
    *out = &d->pub;
  else
    free(d);
  return st;
}

static void close_fixed(tn_device *pub) {
  fixed_device *d = (fixed_device *)pub;
  fixed_engine_stop(d);
  if (d->hangs) return; /* what is left has parts of the inner one */
  ((backend *)(void *)((char *)(uintptr_t)d->pub.caps - offsetof(backend, caps)))->builtin->close(d->inner);
  free(d);
}

static void stop_fixed(tn_plugin *pub) {
  tn_plugin *builtin = ((backend *)pub)->builtin;
  builtin->shutdown(builtin);
  stop(pub);
}

static void set_up(backend *p) {
  p->pub.open = open_fixed;
  p->pub.close = close_fixed;
  p->pub.shutdown = stop_fixed;
  p->pub.options = options;
  p->pub.n_options = 2;
  fixed_format_fill(&p->format, p->host);
  p->formats[0] = &p->format.pub;
  p->pub.formats = p->formats;
  p->pub.n_formats = 1;
  p->caps.dtypes = UINT64_MAX;
  p->caps.memory_bytes = p->caps.max_buffer_bytes = UINT64_C(1) << 30;
}

/* `no_matmul` of the built-in device is not said. */
static tn_status no_option(tn_host_ctx *h, const char *key, uint32_t type, void *out) {
  (void)h, (void)key;
  if (type == TN_OPT_BOOL) *(int64_t *)out = 0;
  return type == TN_OPT_BOOL ? TN_OK : TN_E_INVALID;
}

/* The built-in device is lent a host that tells it no more than any other plugin. */
static tn_status fixed_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  const bool enough = host && TN_HAS(host, tn_host, symbols) && host->option && host->range && host->done && host->now;
  tn_status st = entry(host, neg, out);
  if (st != TN_OK) return st;
  if (!enough) {
    snprintf(neg->message, sizeof neg->message, "fixed needs options, ranges, clocks and done");
    stop(*out);
    *out = NULL;
    return TN_E_INCOMPATIBLE;
  }
  backend *p = (backend *)*out;
  tn_negotiate theirs = {.h = TN_HDR(tn_negotiate), .host_min = 0, .host_max = TN_ABI_MINOR};
  memcpy(&p->lent, host, host->h.size < sizeof p->lent ? host->h.size : sizeof p->lent);
  p->lent.get_extension = NULL;
  p->lent.option = no_option;
  p->minor = neg->minor;
  st = tni_host_plugin_entry(&p->lent, &theirs, &p->builtin);
  if (st == TN_OK) return TN_OK;
  snprintf(neg->message, sizeof neg->message, "%s", theirs.message);
  stop(&p->pub);
  *out = NULL;
  return st;
}

TN_PLUGIN(fixed, fixed_entry)
