/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/listing.h"

/* --- writing ----------------------------------------------------------------------------------------------------- */

static json_t *devices_json(const tni_cf_listing *l) {
  json_t *a = json_array();
  for (uint32_t i = 0; i < l->n_devices; i++) {
    const tni_cf_device *d = &l->devices[i];
    json_array_append_new(
        a, json_pack("{s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "name", d->name, "driver", d->driver, "engines",
                     (json_int_t)d->n_engines, "flags", (json_int_t)d->flags, "imports", (json_int_t)d->import_kinds,
                     "exports", (json_int_t)d->export_kinds, "align", (json_int_t)d->align, "sub_align",
                     (json_int_t)d->sub_align, "buffers", d->has_buffers));
  }
  return a;
}

static json_t *formats_json(const tni_cf_listing *l) {
  json_t *a = json_array();
  for (uint32_t i = 0; i < l->n_formats; i++) {
    const tni_cf_format *f = &l->formats[i];
    json_array_append_new(
        a, json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f}", "name", f->name, "version", (json_int_t)f->version,
                     "bits", (json_int_t)f->bits, "group", (json_int_t)f->group, "flags", (json_int_t)f->flags,
                     "sections", f->has_sections, "bits_per_weight", f->bits_per_weight, "w_err", f->w_err, "x_err", f->x_err));
  }
  return a;
}

static json_t *claimed_json(const tni_cf_listing *l) {
  json_t *a = json_array();
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    json_t *params = json_array();
    for (uint32_t k = 0; k < c->n_params; k++) json_array_append_new(params, json_integer(c->params[k]));
    json_t *lengths = json_array();
    for (uint32_t k = 0; k < c->n_lengths; k++) json_array_append_new(lengths, json_integer(c->lengths[k]));
    json_array_append_new(
        a, json_pack("{s:s, s:I, s:I, s:I, s:s?, s:s?, s:o, s:o}", "graph", c->graph, "phase", (json_int_t)c->phase,
                     "verdict", (json_int_t)c->verdict, "reason", (json_int_t)c->reason, "format", c->format, "text",
                     c->text, "params", params, "lengths", lengths));
  }
  return a;
}

json_t *tni_cf_listing_json(const tni_cf_listing *l) {
  return json_pack("{s:s?, s:s?, s:b, s:b, s:I, s:o, s:o, s:o}", "version", l->version, "why", l->why, "loaded",
                   l->loaded, "resident", l->resident, "options", (json_int_t)l->n_options, "devices", devices_json(l),
                   "formats", formats_json(l), "claimed", claimed_json(l));
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

static const char *json_text(const tni_cf_listing *l, const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? tni_arena_strdup(l->arena, s) : NULL;
}
static uint32_t json_number(const json_t *o, const char *key) {
  return (uint32_t)json_integer_value(json_object_get(o, key));
}
static double real_at_key(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static const char *or_empty(const char *s) { return s ? s : ""; }

static tn_status read_devices(const json_t *a, tni_cf_listing *l) {
  const size_t n = json_array_size(a);
  tni_cf_device *d = n ? TNI_NEW_ARRAY(l->arena, tni_cf_device, n) : NULL;
  if (n && !d) return TN_E_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const json_t *o = json_array_get(a, i);
    d[i] = (tni_cf_device){.name = or_empty(json_text(l, o, "name")),
                           .driver = json_text(l, o, "driver"),
                           .n_engines = json_number(o, "engines"),
                           .flags = json_number(o, "flags"),
                           .import_kinds = json_number(o, "imports"),
                           .export_kinds = json_number(o, "exports"),
                           .align = json_number(o, "align"),
                           .sub_align = json_number(o, "sub_align"),
                           .has_buffers = json_is_true(json_object_get(o, "buffers"))};
  }
  l->devices = d;
  l->n_devices = (uint32_t)n;
  return TN_OK;
}

static tn_status read_formats(const json_t *a, tni_cf_listing *l) {
  const size_t n = json_array_size(a);
  tni_cf_format *f = n ? TNI_NEW_ARRAY(l->arena, tni_cf_format, n) : NULL;
  if (n && !f) return TN_E_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const json_t *o = json_array_get(a, i);
    f[i] = (tni_cf_format){.name = or_empty(json_text(l, o, "name")),
                           .version = json_number(o, "version"),
                           .bits = json_number(o, "bits"),
                           .group = json_number(o, "group"),
                           .flags = json_number(o, "flags"),
                           .has_sections = json_is_true(json_object_get(o, "sections")),
                           .bits_per_weight = real_at_key(o, "bits_per_weight"),
                           .w_err = real_at_key(o, "w_err"),
                           .x_err = real_at_key(o, "x_err")};
  }
  l->formats = f;
  l->n_formats = (uint32_t)n;
  return TN_OK;
}

static tn_status read_claimed(const json_t *a, tni_cf_listing *l) {
  const size_t n = json_array_size(a);
  tni_cf_claimed *c = n ? TNI_NEW_ARRAY(l->arena, tni_cf_claimed, n) : NULL;
  if (n && !c) return TN_E_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const json_t *o = json_array_get(a, i), *params = json_object_get(o, "params"),
                 *lengths = json_object_get(o, "lengths");
    c[i] = (tni_cf_claimed){.graph = or_empty(json_text(l, o, "graph")),
                            .phase = json_number(o, "phase"),
                            .verdict = json_number(o, "verdict"),
                            .reason = json_number(o, "reason"),
                            .format = json_text(l, o, "format"),
                            .text = json_text(l, o, "text")};
    const size_t most = sizeof c[i].params / sizeof *c[i].params;
    for (size_t k = 0; k < json_array_size(params) && k < most; k++)
      c[i].params[c[i].n_params++] = json_integer_value(json_array_get(params, k));
    for (size_t k = 0; k < json_array_size(lengths) && k < TNI_CF_LENGTHS; k++)
      c[i].lengths[c[i].n_lengths++] = json_integer_value(json_array_get(lengths, k));
  }
  l->claimed = c;
  l->n_claimed = (uint32_t)n;
  return TN_OK;
}

tn_status tni_cf_listing_read(const json_t *j, tni_cf_listing *l, tn_error *err) {
  l->version = json_text(l, j, "version");
  l->why = json_text(l, j, "why");
  l->loaded = json_is_true(json_object_get(j, "loaded"));
  l->resident = json_is_true(json_object_get(j, "resident"));
  l->n_options = json_number(j, "options");
  tn_status st = read_devices(json_object_get(j, "devices"), l);
  if (st == TN_OK) st = read_formats(json_object_get(j, "formats"), l);
  if (st == TN_OK) st = read_claimed(json_object_get(j, "claimed"), l);
  return st == TN_OK ? st : tni_fail_memory(err, "the listing");
}
