/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/pack/pack.h"

static void list_formats(tni_cf_listing *l, const tn_plugin *p) {
  tni_cf_format *f = TNI_NEW_ARRAY(l->arena, tni_cf_format, p->n_formats + 1);
  for (uint32_t i = 0; f && i < p->n_formats; i++) {
    const tn_format *t = p->formats[i];
    f[i] = (tni_cf_format){.name = tni_arena_strdup(l->arena, t->name),
                           .version = t->version,
                           .bits = t->bits,
                           .group = t->group,
                           .flags = t->flags,
                           .has_sections = tni_has_sections(t),
                           .bits_per_weight = (double)t->bits_per_weight,
                           .w_err = (double)t->w_err,
                           .x_err = (double)t->x_err};
  }
  l->formats = f;
  l->n_formats = f ? p->n_formats : 0;
}

static void list_devices(tni_cf_listing *l, const tni_cf_plugin *p) {
  tni_cf_device *d = TNI_NEW_ARRAY(l->arena, tni_cf_device, p->n_caps + 1);
  for (uint32_t i = 0; d && i < p->n_caps; i++) {
    const tn_caps *c = p->caps[i];
    d[i] = (tni_cf_device){.name = tni_arena_strdup(l->arena, c->name),
                           .driver = c->driver ? tni_arena_strdup(l->arena, c->driver) : NULL,
                           .n_engines = c->n_engines,
                           .flags = c->flags,
                           .import_kinds = c->import_kinds,
                           .export_kinds = c->export_kinds,
                           .align = c->align,
                           .sub_align = c->sub_align,
                           .has_buffers = i == l->subject->device && p->device && p->device->create};
  }
  l->devices = d;
  l->n_devices = d ? p->n_caps : 0;
}

static const char *status_reason(tni_cf_listing *l, const tni_cf_plugin *p, tn_status st) {
  char text[512];
  if (st == TN_OK) return NULL;
  snprintf(text, sizeof text, "%s: %s (%s)", p->step, p->err.message, tni_status_name(st));
  return tni_arena_strdup(l->arena, text);
}

/* Of the device that is asked for; with what the plugin said where it has none. */
static tn_status device_there(tni_cf_plugin *p, uint32_t device) {
  char said[300];
  if (device < p->n_caps) return TN_OK;
  snprintf(said, sizeof said, "%s", p->n_caps ? "" : p->err.message);
  if (p->n_caps)
    return tni_fail(&p->err, TN_E_UNAVAILABLE, "", "no device %u here: the plugin has %u", device, p->n_caps);
  return tni_fail(&p->err, TN_E_UNAVAILABLE, "", "no device %u here%s%s", device, *said ? ": " : "", said);
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

static const tni_claim *claim_of(const tni_cf_rig *rig) {
  if (rig->refused) return rig->d.refusal;
  return tni_partition_claim(&rig->d.part, &rig->d.claims, rig->d.view.n_nodes - 1);
}

/* The ends of what is allowed, and some between. */
static void copy_lengths(const tni_lengths *from, tni_cf_claimed *out) {
  const uint32_t n = from->n < TNI_CF_LENGTHS ? from->n : TNI_CF_LENGTHS;
  for (uint32_t i = 0; i < n; i++) out->lengths[out->n_lengths++] = from->v[n < 2 ? 0 : i * (from->n - 1) / (n - 1)];
}

static void copy_claim(tni_cf_listing *l, const tni_claim *c, bool refused, tni_cf_claimed *out) {
  out->verdict = refused ? TN_NO : TN_YES;
  if (!c) return;
  out->reason = refused ? c->reason : 0;
  out->text = refused && c->text ? tni_arena_strdup(l->arena, c->text) : NULL;
  out->format = !refused && c->format ? tni_arena_strdup(l->arena, c->format->name) : NULL;
  const uint32_t most = sizeof out->params / sizeof *out->params;
  for (uint32_t i = 0; out->format && i < c->n_params && i < most; i++) out->params[out->n_params++] = c->params[i];
}

/* What cannot be asked (a claim that fails) counts as refused, with that as the text; the case "honesty/claims" says
 * so. */
static void graph_ask(tni_cf_listing *l, tni_cf_host *h, const tni_cf_graph_row *row, uint32_t phase,
                      tni_cf_claimed *out) {
  tni_cf_rig rig;
  tni_cf_rng r = {phase};
  *out = (tni_cf_claimed){.graph = row->name, .phase = phase, .verdict = TN_NO};
  tni_error_init(&h->err);
  const bool ok = tni_cf_rig_claim(&rig, h, row, phase, &r);
  if (ok) copy_lengths(&rig.d.lengths, out);
  if (ok || rig.refused)
    copy_claim(l, claim_of(&rig), rig.refused, out);
  else
    out->text = tni_arena_strdup(l->arena, rig.why);
  tni_cf_rig_finish(&rig);
}

static void list_claims(tni_cf_listing *l, tni_cf_host *h) {
  static const uint32_t phases[] = {TN_PHASE_PREFILL, TN_PHASE_DECODE};
  uint32_t n, at = 0;
  const tni_cf_graph_row *rows = tni_cf_graph_rows(&n);
  tni_cf_claimed *c = TNI_NEW_ARRAY(l->arena, tni_cf_claimed, n * 2 + 1);
  for (uint32_t i = 0; c && i < n; i++)
    for (size_t k = 0; k < 2; k++) graph_ask(l, h, &rows[i], phases[k], &c[at++]);
  l->claimed = c;
  l->n_claimed = at;
}

void tni_cf_survey(tni_cf_listing *l) {
  tni_cf_host *h = calloc(1, sizeof *h);
  if (!h) return;
  tni_cf_plugin *p = &h->p;
  tn_status st = tni_cf_plugin_init(p, l->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(p);
  if (st == TN_OK) st = tni_cf_plugin_check(p, l->subject);
  if (st == TN_OK) {
    l->loaded = true;
    l->version = tni_arena_strdup(l->arena, p->plugin->version);
    l->n_options = p->plugin->n_options;
    l->resident = TN_HAS(p->plugin, tn_plugin, flags) && p->plugin->flags & TN_PLUGIN_RESIDENT;
    list_formats(l, p->plugin);
    st = tni_cf_plugin_enumerate(p);
  }
  if (st == TN_OK) st = device_there(p, l->subject->device);
  if (st == TN_OK) st = tni_cf_plugin_open(p, l->subject->device);
  list_devices(l, p);
  l->why = status_reason(l, p, st);
  if (st == TN_OK) {
    h->subject = *l->subject;
    tni_devlock_init(&h->lock);
    tni_cf_host_knows(h, p->device);
    list_claims(l, h);
  }
  tni_cf_plugin_finish(p);
  free(h);
}
