/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host sees of a backend: negotiation, options, the one device.
 */
#include <stdio.h>
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/backend.h"
#include "plugins/common/cpu/choice.h"
#include "plugins/common/cpu/keep.h"
#include "plugins/common/cpu/kernels/kernels.h"
#include "plugins/common/formats/formats.h"

static const tn_option opt_group = {.h = TN_HDR(tn_option),
                                    .key = "group",
                                    .dflt = "32",
                                    .type = TN_OPT_INT,
                                    .lo = 32,
                                    .hi = 128,
                                    .choices = "32|128",
                                    .help = "w4g: weights that share a scale, 32 (4.5 bits) or 128 (4.125 bits)"};
static const tn_option opt_act_matmul = {.h = TN_HDR(tn_option),
                                         .key = "act_matmul",
                                         .dflt = "true",
                                         .type = TN_OPT_BOOL,
                                         .help = "take MatMul without packed weights too, in f32"};
static const tn_option opt_act_scales = {
    .h = TN_HDR(tn_option),
    .key = "act_scales",
    .dflt = "group",
    .type = TN_OPT_STRING,
    .choices = "group|row",
    .help = "int8 activations: a scale for each group of weights, or one for a row, in less time and with an error"};
static const tn_option opt_act_bits = {
    .h = TN_HDR(tn_option),
    .key = "act_bits",
    .dflt = "9",
    .type = TN_OPT_INT,
    .lo = 8,
    .hi = 9,
    .choices = "8|9",
    .help = "lut1 .. lut4, lutt: bits of activations; with 8 several rows take less time, with an error"};
static const tn_option opt_fast = {
    .h = TN_HDR(tn_option),
    .key = "fast_aggregation",
    .dflt = "false",
    .type = TN_OPT_BOOL,
    .help = "lut1 .. lut4, lutt: one row adds table entries by averages of four bytes, in less time and with an error"};

bool tni_clt_cpu_refusal(const tni_clt_backend *b, uint32_t features, char *text, size_t n) {
  char missing[64];
  if (n) text[0] = 0;
  if (!b->kernels || !(b->needed & ~features)) return false; /* an offline device needs nothing */
  tni_cm_cpu_missing(features, b->needed, missing, sizeof missing);
  snprintf(text, n, "this CPU or operating system lacks %s", missing);
  return true;
}

static tn_status enumerate_cpu(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  tni_clt_plugin *p = (tni_clt_plugin *)pub;
  char text[128];
  *n = 0;
  if (tni_clt_cpu_refusal(p->backend, p->cpu, text, sizeof text)) {
    tni_cm_fail(err, TN_E_UNAVAILABLE, p->backend->name, "%s", text);
    return TN_OK;
  }
  *n = 1;
  if (cap) out[0] = &p->caps;
  return TN_OK;
}

static uint32_t features_found(const tni_clt_backend *b) {
  const uint32_t found = b->kernels ? tni_cm_cpu_features() : 0;
  return b->usable ? b->usable(found) : found;
}

/* Features that kernels may use under this value of `isa`; false where there is no such value. */
static bool features_of(const tni_clt_backend *b, const char *isa, uint32_t cpu, uint32_t *features) {
  for (uint32_t i = 0; isa && i < b->n_isas; i++) {
    if (strcmp(isa, b->isas[i].name)) continue;
    *features = cpu & b->isas[i].features;
    return true;
  }
  return false;
}

static bool averages_wanted(const tn_host *h) {
  int64_t on = 0;
  return h->option(h->ctx, opt_fast.key, TN_OPT_BOOL, &on) == TN_OK && on != 0;
}

/* 0 where the host gave none. */
static int64_t act_bits_wanted(const tn_host *h) {
  int64_t bits = 0;
  return h->option(h->ctx, opt_act_bits.key, TN_OPT_INT, &bits) == TN_OK ? bits : 0;
}

/* NULL where the host gave none. */
static const char *act_scales_wanted(const tn_host *h) {
  const char *value = NULL;
  return h->option(h->ctx, opt_act_scales.key, TN_OPT_STRING, &value) == TN_OK ? value : NULL;
}

static const tn_numerics *listed_numerics(const tn_format *f, const int64_t *params, uint32_t n) {
  const tni_clt_listed *l = (const tni_clt_listed *)f;
  const tn_numerics *plain = l->of->numerics_of ? l->of->numerics_of(l->of, params, n) : l->of->numerics, *other = NULL;
  const char *scales = act_scales_wanted(l->plugin->host);
  if (scales && !strcmp(scales, "row")) other = tni_act8_by_row(plain);
  const bool averages = l->plugin->backend->averages && averages_wanted(l->plugin->host);
  if (!other) other = tni_lut_numerics(l->of, averages, act_bits_wanted(l->plugin->host) == 8);
  return other ? other : plain;
}

/* Tables have groups of their own. */
static tn_status read_act_scales(const tni_clt_plugin *p, tni_clt_settings *set, const char *format, tn_error *err) {
  const char *scales = act_scales_wanted(p->host);
  if (!scales || (strcmp(scales, "row") && strcmp(scales, "group")))
    return tni_cm_fail(err, TN_E_INVALID, p->backend->name, "act_scales is '%s': group or row", scales ? scales : "");
  set->by_row = !strcmp(scales, "row");
  if (!set->by_row || (set->format && set->format->format->numerics->act_scheme == TN_ACT_ABSMAX)) return TN_OK;
  return tni_cm_fail(
      err, TN_E_INVALID, p->backend->name,
      "act_scales: row is for formats of dot products, not '%s', which may be tables with groups of their own", format);
}

/* Of tables alone; a width may choose them. */
static tn_status read_act_bits(const tni_clt_plugin *p, tni_clt_settings *set, const char *format, tn_error *err) {
  const int64_t bits = act_bits_wanted(p->host);
  if (bits == 9) return TN_OK;
  if (bits != 8) return tni_cm_fail(err, TN_E_INVALID, p->backend->name, "act_bits is %lld: 8 or 9", (long long)bits);
  if (set->format && !tni_lut_numerics(set->format->format, false, true))
    return tni_cm_fail(err, TN_E_INVALID, p->backend->name,
                       "act_bits: 8 is for formats of tables, lut1 to lut4 and lutt, not '%s'", format);
  set->features |= TNI_CLT_NARROW;
  return TN_OK;
}

/* *width: where `format` names one, and the format is still to be chosen. */
static tn_status read_options(const tni_clt_plugin *p, tni_clt_settings *set, const tni_clt_width **width,
                              tn_error *err) {
  const tn_host *h = p->host;
  const char *name = p->backend->name;
  int64_t act = 1;
  const char *isa = "auto", *format = "";
  tn_status st = h->option(h->ctx, "group", TN_OPT_INT, &set->params[0]);
  if (st == TN_OK) st = h->option(h->ctx, "min_k", TN_OPT_INT, &set->min_k);
  if (st == TN_OK) st = h->option(h->ctx, "min_n", TN_OPT_INT, &set->min_n);
  if (st == TN_OK) st = h->option(h->ctx, "act_matmul", TN_OPT_BOOL, &act);
  if (st == TN_OK) st = h->option(h->ctx, "isa", TN_OPT_STRING, &isa);
  if (st == TN_OK) st = h->option(h->ctx, "format", TN_OPT_STRING, &format);
  if (st != TN_OK) return tni_cm_fail(err, st, p->backend->name, "the host did not give an option");
  const bool automatic = format && !strcmp(format, "auto");
  set->keep = automatic;
  if (automatic) set->format = p->backend->formats[0];
  for (uint32_t i = 0; format && i < p->backend->n_formats; i++)
    if (!strcmp(format, p->backend->formats[i]->option)) set->format = p->backend->formats[i];
  for (uint32_t i = 0; format && i < p->backend->n_widths; i++)
    if (!strcmp(format, p->backend->widths[i].option)) *width = &p->backend->widths[i];
  if (!set->format && !*width)
    return tni_cm_fail(err, TN_E_INVALID, name, "format is '%s': %s", format ? format : "", p->backend->format_choices);
  if ((*width || set->format->id == TNI_CLT_W4G) && !tni_w4g_numerics(set->params[0]))
    return tni_cm_fail(err, TN_E_INVALID, name, "group is %lld: 32 or 128", (long long)set->params[0]);
  set->act_matmul = act != 0;
  if (!features_of(p->backend, isa, p->cpu, &set->features))
    return tni_cm_fail(err, TN_E_INVALID, name, "isa is '%s': %s", isa ? isa : "", p->backend->isa_choices);
  if (read_act_scales(p, set, format, err) != TN_OK || read_act_bits(p, set, format, err) != TN_OK) return TN_E_INVALID;
  if (!p->backend->averages || !averages_wanted(h)) return TN_OK;
  if (!set->format || !tni_lut_numerics(set->format->format, true, false))
    return tni_cm_fail(err, TN_E_INVALID, name,
                       "fast_aggregation is for formats of tables, lut1 to lut4 and lutt, not '%s'", format);
  set->features |= TNI_CLT_AVERAGES;
  return TN_OK;
}

/* The kernels that one row and many rows get, one line. */
static void log_kernels(const tni_clt_device *d) {
  static const struct {
    uint32_t op;
    int64_t M;
  } picks[] = {{TNI_CLT_QUANT, 1}, {TNI_CLT_GEMV, 1}, {TNI_CLT_QUANT, 512}, {TNI_CLT_GEMM, 512}, {TNI_CLT_MATMUL, 512}};
  char line[320];
  tni_clt_geometry geo = {0};
  if (tni_clt_geometry_of(d, &(tni_clt_grid){.bits = 0}, TNI_CLT_ROWS, 1, &geo) != TN_OK) return;
  uint32_t group = (uint32_t)geo.group;
  int at = snprintf(line, sizeof line, "%s: %s, group %u", d->backend->name, d->set.format->format->name, group);
  for (size_t i = 0; i < sizeof picks / sizeof *picks && at > 0 && (size_t)at < sizeof line; i++) {
    bool any = picks[i].op == TNI_CLT_MATMUL;
    const tni_clt_kernel *k = tni_clt_select(d->backend->kernels, picks[i].op, any ? TNI_CLT_ANY : d->set.format->id,
                                             any ? 0 : group, d->set.features, picks[i].M);
    at += snprintf(line + at, sizeof line - (size_t)at, ", %s", k ? k->name : "offline");
  }
  d->host->log(d->host->ctx, TN_LOG_DEBUG, line);
}

/* The driver's name then says what was chosen, as long as it has room. */
static void choose_format(tni_clt_device *d, const tni_clt_width *w) {
  tni_clt_choice c;
  char text[192], line[320];
  static const char *const how[] = {"", ", measured now", ", kept"};
  tni_clt_choose(d, w, &c);
  d->set.format = w->formats[c.index];
  tni_clt_choice_text(w, &c, text, sizeof text);
  snprintf(d->driver, sizeof d->driver, "%s; %s", d->backend->driver, text);
  d->caps.driver = d->driver;
  snprintf(line, sizeof line, "%s%s", text, how[c.how]);
  d->host->log(d->host->ctx, TN_LOG_INFO, line);
  if (!c.unkept) return;
  snprintf(line, sizeof line, "nothing keeps that %s is %s: where there is no cache folder, name the format", w->option,
           d->set.format->option);
  d->host->log(d->host->ctx, TN_LOG_WARN, line);
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  tni_clt_plugin *p = (tni_clt_plugin *)pub;
  char text[128];
  if (index != 0) return tni_cm_fail(err, TN_E_INVALID, p->backend->name, "there is no device %u", index);
  if (tni_clt_cpu_refusal(p->backend, p->cpu, text, sizeof text))
    return tni_cm_fail(err, TN_E_UNAVAILABLE, p->backend->name, "%s", text);
  tni_cm_mem mem = {.host = p->host};
  tni_clt_device *d = tni_cm_new(&mem, 1, sizeof *d);
  if (!d) return tni_cm_fail(err, TN_E_NO_MEMORY, p->backend->name, "out of memory");
  *d = (tni_clt_device){.pub = {.h = TN_HDR(tn_device),
                                .claim = tni_clt_claim,
                                .lower = tni_clt_lower,
                                .info = tni_clt_info,
                                .measure = tni_clt_measure,
                                .set = tni_clt_set,
                                .release = tni_clt_release,
                                .bind = tni_clt_bind,
                                .unbind = tni_clt_unbind,
                                .args = tni_clt_args,
                                .args_set = tni_clt_args_set,
                                .args_free = tni_clt_args_free,
                                .run = tni_clt_run},
                        .mem = mem,
                        .host = p->host,
                        .backend = p->backend,
                        .plugin = p,
                        .caps = p->caps};
  d->pub.caps = &d->caps;
  const tni_clt_width *width = NULL;
  tn_status st = read_options(p, &d->set, &width, err);
  if (st != TN_OK) {
    tni_cm_free(&mem);
    return st;
  }
  if (width) choose_format(d, width);
  log_kernels(d);
  *out = &d->pub;
  return TN_OK;
}

static void close_device(tn_device *d) {
  if (!d) return;
  tni_cm_mem mem = ((tni_clt_device *)d)->mem;
  tni_cm_free(&mem);
}

static void shutdown_plugin(tn_plugin *p) {
  if (!p) return;
  tni_cm_mem mem = ((tni_clt_plugin *)p)->mem;
  tni_cm_free(&mem);
}

static const void *get_extension(tn_plugin *p, const char *name, uint32_t version) {
  (void)p, (void)name, (void)version;
  return NULL;
}

static void fill_caps(tni_clt_plugin *p) {
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = p->backend->name,
                      .driver = p->backend->driver,
                      .flags = p->backend->kernels ? 0 : TN_CAPS_OFFLINE,
                      .align = 64,
                      .dtypes = UINT64_C(1) << TN_DT_F32};
  memcpy(p->caps.key, &p->cpu, sizeof p->cpu);
}

static void fill_options(tni_clt_plugin *p) {
  p->isa = (tn_option){.h = TN_HDR(tn_option),
                       .key = "isa",
                       .dflt = "auto",
                       .type = TN_OPT_STRING,
                       .choices = p->backend->isa_choices,
                       .help = "kernels to use; all give the same bits"};
  p->format = (tn_option){.h = TN_HDR(tn_option),
                          .key = "format",
                          .dflt = "auto",
                          .type = TN_OPT_STRING,
                          .choices = p->backend->format_choices,
                          .help =
                              "of packed weights; auto keeps the grid of those that are quantized already "
                              "(docs/formats.md)"};
  const tn_option *const all[TNI_CLT_MAX_OPTIONS] = {&opt_group,      &p->isa,           &p->format,
                                                     &opt_act_matmul, &tni_cm_opt_min_k, &tni_cm_opt_min_n,
                                                     &opt_act_scales, &opt_act_bits,     &opt_fast};
  memcpy(p->options, all, sizeof all);
  p->pub.n_options = TNI_CLT_MAX_OPTIONS - !p->backend->averages;
}

static void list_format(tni_clt_plugin *p, const tn_format *f) {
  tni_clt_listed *l = &p->listed[p->pub.n_formats];
  *l = (tni_clt_listed){.pub = *f, .of = f, .plugin = p};
  l->pub.numerics_of = listed_numerics;
  p->formats[p->pub.n_formats++] = &l->pub;
}

static void fill_formats(tni_clt_plugin *p) {
  for (uint32_t i = 0; i < p->backend->n_formats && i + 1 < TNI_CLT_MAX_FORMATS - TNI_CLT_GRIDS; i++)
    list_format(p, p->backend->formats[i]->format);
  for (uint32_t i = 0; i < TNI_CLT_GRIDS; i++) list_format(p, tni_clt_grids[i].format);
  p->formats[p->pub.n_formats++] = &tni_int8_format; /* of products of bytes, whatever `format` says */
}

tn_status tni_clt_entry(const tni_clt_backend *b, const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  tn_status st = tni_cm_negotiate(b->name, b->version, host, neg);
  if (st != TN_OK) return st;
  if (!out) return TN_E_INVALID;
  tni_cm_mem mem = {.host = host};
  tni_clt_plugin *p = tni_cm_new(&mem, 1, sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  *p = (tni_clt_plugin){.pub = {.h = TN_HDR(tn_plugin),
                                .name = b->name,
                                .version = b->version,
                                .build_id = b->version,
                                .options = p->options,
                                .formats = p->formats,
                                .enumerate = enumerate_cpu,
                                .open = open_device,
                                .close = close_device,
                                .shutdown = shutdown_plugin,
                                .get_extension = get_extension},
                        .mem = mem,
                        .host = host,
                        .backend = b,
                        .cpu = features_found(b)};
  fill_caps(p);
  fill_options(p);
  fill_formats(p);
  *out = &p->pub;
  return TN_OK;
}
