/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/survey.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/conform/load.h"

static void list_formats(tni_cf_listing *l, const tn_plugin *p) {
  tni_cf_format *f = TNI_NEW_ARRAY(l->arena, tni_cf_format, p->n_formats + 1);
  for (uint32_t i = 0; f && i < p->n_formats; i++) {
    const tn_format *t = p->formats[i];
    f[i] = (tni_cf_format){.name = tni_arena_strdup(l->arena, t->name),
                           .version = t->version,
                           .bits = t->bits,
                           .group = t->group,
                           .flags = t->flags,
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

static const char *reason(tni_cf_listing *l, const tni_cf_plugin *p, tn_status st) {
  char text[512];
  if (st == TN_OK) return NULL;
  snprintf(text, sizeof text, "%s: %s (%s)", p->step, p->err.message, tni_status_name(st));
  return tni_arena_strdup(l->arena, text);
}

void tni_cf_survey(tni_cf_listing *l) {
  tni_cf_plugin *p = calloc(1, sizeof *p);
  if (!p) return;
  tn_status st = tni_cf_plugin_init(p, l->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(p);
  if (st == TN_OK) st = tni_cf_plugin_check(p, l->subject);
  if (st == TN_OK) {
    l->loaded = true;
    l->version = tni_arena_strdup(l->arena, p->plugin->version);
    l->n_options = p->plugin->n_options;
    list_formats(l, p->plugin);
    st = tni_cf_plugin_enumerate(p);
  }
  if (st == TN_OK && l->subject->device >= p->n_caps)
    st = tni_fail(&p->err, TN_E_UNAVAILABLE, "", "no device %u here", l->subject->device);
  if (st == TN_OK) st = tni_cf_plugin_open(p, l->subject->device);
  list_devices(l, p);
  l->why = reason(l, p, st);
  tni_cf_plugin_finish(p);
  free(p);
}
