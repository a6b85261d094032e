/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "plugins/npu-int8-sim/device.h"

#define OPTION(name, text, kind, value, ...) \
  static const tn_option opt_##name = {      \
      .h = TN_HDR(tn_option), .key = #name, .help = text, .type = kind, .dflt = value, __VA_ARGS__}
OPTION(profile, "costs of the simulated device", TN_OPT_STRING, "hmx-2026", .choices = "qnn-2024|hmx-2026|hmx-2026-fa");
OPTION(chunk, "rows of every product; prompts are cut into pieces of so many tokens", TN_OPT_INT, "256", .lo = 64,
       .hi = 256, .choices = "64|128|256");
OPTION(pieces, "a piece of a prompt may be 1 to so many chunks long; the host takes the least that has room",
       TN_OPT_INT, "1", .lo = 1, .hi = TNI_NPU_MAX_PIECES);
OPTION(shadow, "outliers beside the device, exactly: for all products, for the important ones, for none", TN_OPT_STRING,
       "all", .choices = "all|pruned|none");
OPTION(prune, "part of the products that run without shadow where shadow is pruned", TN_OPT_FLOAT, "0.85", .lo = 0,
       .hi = 1);
OPTION(hot, "part of all outliers whose weight rows stay in memory; the others are read when needed", TN_OPT_FLOAT,
       "0.8", .lo = 0, .hi = 1);
OPTION(wake, "idle gaps of the queue cost what waking the device costs", TN_OPT_BOOL, "true", .lo = 0);
OPTION(window_mib, "memory that the device can address, in MiB; 0: as the profile says", TN_OPT_INT, "0", .lo = 0,
       .hi = 1 << 20);
OPTION(ffn, "gate, up and down as one graph with their chain on the device, where none has a shadow, or as two",
       TN_OPT_STRING, "one", .choices = "one|two");
OPTION(offline, "as if the device were elsewhere: it claims, packs and compiles, and does not run", TN_OPT_BOOL, "false",
       .lo = 0);
OPTION(fault, "for tests: what fails, as KIND:N; kinds alloc, register, graph, lost, hung", TN_OPT_STRING, "none",
       .lo = 0);
#undef OPTION

const tn_option *const tni_npu_options[] = {&opt_profile, &opt_chunk, &opt_pieces,     &opt_shadow, &opt_prune,
                                            &opt_hot,     &opt_wake,  &opt_window_mib, &opt_ffn,    &opt_offline, &opt_fault};
const uint32_t tni_npu_n_options = sizeof tni_npu_options / sizeof *tni_npu_options;

static tn_status wrong_option(tn_error *err, const char *key, const char *what) {
  return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME, "option '%s' %s", key, what);
}

static tn_status read_fault(const char *text, npusim_faults *f, tn_error *err) {
  const struct {
    const char *name;
    uint64_t *at;
  } kinds[] = {{"alloc:", &f->alloc_at},
               {"register:", &f->register_at},
               {"graph:", &f->graph_at},
               {"lost:", &f->lost_at},
               {"hung:", &f->hung_at}};
  if (text && !strcmp(text, "none")) return TN_OK;
  for (size_t i = 0; text && i < sizeof kinds / sizeof *kinds; i++) {
    const size_t n = strlen(kinds[i].name);
    char *end = NULL;
    if (strncmp(text, kinds[i].name, n) != 0) continue;
    const long long at = strtoll(text + n, &end, 10);
    if (end == text + n || *end || at < 1) break;
    *kinds[i].at = (uint64_t)at;
    return TN_OK;
  }
  return tni_cm_fail(err, TN_E_INVALID, TNI_NPU_NAME,
                     "option 'fault' is '%s': none or KIND:N, kinds alloc, register, graph, lost, hung", text);
}

tn_status tni_npu_read_options(const tn_host *h, tni_npu_settings *set, tn_error *err) {
  static const char *const shadows[] = {"none", "pruned", "all"};
  const char *profile = NULL, *shadow = NULL, *fault = NULL, *ffn = NULL;
  int64_t wake = 1, mib = 0, pieces = 1;
  *set = (tni_npu_settings){.shadow = UINT32_MAX};
  if (h->option(h->ctx, "profile", TN_OPT_STRING, &profile) != TN_OK || !(set->profile = npusim_profile_find(profile)))
    return wrong_option(err, "profile", "names no cost profile");
  if (h->option(h->ctx, "chunk", TN_OPT_INT, &set->chunk) != TN_OK || set->chunk < 64 || set->chunk > 256 ||
      (set->chunk & (set->chunk - 1)))
    return wrong_option(err, "chunk", "is not 64, 128 or 256");
  if (h->option(h->ctx, "pieces", TN_OPT_INT, &pieces) != TN_OK || pieces < 1 || pieces > TNI_NPU_MAX_PIECES)
    return wrong_option(err, "pieces", "is out of range");
  set->n_lengths = (uint32_t)pieces;
  for (uint32_t i = 0; i < set->n_lengths; i++) set->lengths[i] = (i + 1) * set->chunk;
  if (h->option(h->ctx, "shadow", TN_OPT_STRING, &shadow) != TN_OK || !shadow)
    return wrong_option(err, "shadow", "is missing");
  for (uint32_t i = 0; i < 3; i++)
    if (!strcmp(shadow, shadows[i])) set->shadow = i;
  if (set->shadow == UINT32_MAX) return wrong_option(err, "shadow", "is not all, pruned or none");
  if (h->option(h->ctx, "prune", TN_OPT_FLOAT, &set->prune) != TN_OK || !(set->prune >= 0 && set->prune <= 1))
    return wrong_option(err, "prune", "is not within 0 and 1");
  if (h->option(h->ctx, "hot", TN_OPT_FLOAT, &set->hot) != TN_OK || !(set->hot >= 0 && set->hot <= 1))
    return wrong_option(err, "hot", "is not within 0 and 1");
  if (h->option(h->ctx, "wake", TN_OPT_BOOL, &wake) != TN_OK) return wrong_option(err, "wake", "is missing");
  if (h->option(h->ctx, "window_mib", TN_OPT_INT, &mib) != TN_OK || mib < 0 || mib > 1 << 20)
    return wrong_option(err, "window_mib", "is out of range");
  if (h->option(h->ctx, "ffn", TN_OPT_STRING, &ffn) != TN_OK || !ffn || (strcmp(ffn, "one") && strcmp(ffn, "two")))
    return wrong_option(err, "ffn", "is not one or two");
  set->one_ffn = !strcmp(ffn, "one");
  set->wake = wake != 0;
  set->window_bytes = mib ? (uint64_t)mib << 20 : set->profile->window_bytes;
  if (h->option(h->ctx, "fault", TN_OPT_STRING, &fault) != TN_OK) return wrong_option(err, "fault", "is missing");
  return read_fault(fault, &set->faults, err);
}
