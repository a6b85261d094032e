/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/describe.h"

#include <string.h>

#include "runtime/plugin/process/proto.h"

/* --- caps -------------------------------------------------------------------------------------------------------- */

void tni_caps_put(tni_wire *w, const tn_caps *c) {
  const uint32_t u[] = {c->flags,        c->import_kinds,   c->export_kinds,  c->align,       c->sub_align,
                        c->import_align, c->image_pitch_px, c->image_base_px, c->image_max_px};
  const uint64_t v[] = {c->dtypes, c->memory_bytes, c->max_buffer_bytes, c->window_bytes};
  tni_w_str(w, c->name);
  tni_w_str(w, c->driver);
  tni_w_bytes(w, c->key, sizeof c->key);
  tni_w_bytes(w, u, sizeof u);
  tni_w_bytes(w, v, sizeof v);
  tni_w_u32(w, c->clock != NULL);
  if (c->clock) {
    tni_w_str(w, c->clock->name);
    tni_w_u32(w, c->clock->kind);
    tni_w_f64(w, c->clock->cpu_ns_per_mac);
    tni_w_f64(w, c->clock->cpu_ns_per_byte);
  }
  tni_w_u32(w, c->n_engines);
  for (uint32_t i = 0; i < c->n_engines; i++) {
    tni_w_str(w, c->engines[i]->name);
    tni_w_u32(w, c->engines[i]->flags);
    tni_w_u32(w, c->engines[i]->depth);
  }
}

const tn_caps *tni_caps_get(tni_rd *r, tni_arena *a) {
  tn_caps *c = TNI_NEW(a, tn_caps);
  tn_clock *k = TNI_NEW(a, tn_clock);
  if (!c || !k) return r->bad = true, NULL;
  c->h = (tn_hdr)TN_HDR(tn_caps);
  c->name = tni_r_str(r, a, 256);
  c->driver = tni_r_str(r, a, 1024);
  const void *key = tni_r_bytes(r, sizeof c->key);
  if (key) memcpy(c->key, key, sizeof c->key);
  uint32_t *const u[] = {&c->flags,        &c->import_kinds,   &c->export_kinds,  &c->align,       &c->sub_align,
                         &c->import_align, &c->image_pitch_px, &c->image_base_px, &c->image_max_px};
  uint64_t *const v[] = {&c->dtypes, &c->memory_bytes, &c->max_buffer_bytes, &c->window_bytes};
  for (size_t i = 0; i < sizeof u / sizeof *u; i++) *u[i] = tni_r_u32(r);
  for (size_t i = 0; i < sizeof v / sizeof *v; i++) *v[i] = tni_r_u64(r);
  if (tni_r_u32(r)) {
    k->h = (tn_hdr)TN_HDR(tn_clock);
    k->name = tni_r_str(r, a, 256);
    k->kind = tni_r_u32(r);
    k->cpu_ns_per_mac = tni_r_f64(r);
    k->cpu_ns_per_byte = tni_r_f64(r);
    c->clock = k;
  }
  c->n_engines = tni_r_count(r, 12, 31);
  const tn_engine **list = TNI_NEW_ARRAY(a, const tn_engine *, (size_t)c->n_engines + 1);
  for (uint32_t i = 0; list && i < c->n_engines; i++) {
    tn_engine *e = TNI_NEW(a, tn_engine);
    if (!e) return r->bad = true, NULL;
    e->h = (tn_hdr)TN_HDR(tn_engine);
    e->name = tni_r_str(r, a, 64);
    e->flags = tni_r_u32(r);
    e->depth = tni_r_u32(r);
    list[i] = e;
  }
  c->engines = list;
  return r->bad || !list ? NULL : c;
}

/* --- options ----------------------------------------------------------------------------------------------------- */

void tni_option_put(tni_wire *w, const tn_option *o) {
  tni_w_str(w, o->key);
  tni_w_str(w, o->help);
  tni_w_str(w, o->dflt);
  tni_w_f64(w, o->lo);
  tni_w_f64(w, o->hi);
  tni_w_u32(w, o->type);
  tni_w_str(w, TN_HAS(o, tn_option, choices) ? o->choices : NULL);
}

const tn_option *tni_option_get(tni_rd *r, tni_arena *a) {
  tn_option *o = TNI_NEW(a, tn_option);
  if (!o) return r->bad = true, NULL;
  o->h = (tn_hdr)TN_HDR(tn_option);
  o->key = tni_r_str(r, a, 256);
  o->help = tni_r_str(r, a, 4096);
  o->dflt = tni_r_str(r, a, 4096);
  o->lo = tni_r_f64(r);
  o->hi = tni_r_f64(r);
  o->type = tni_r_u32(r);
  o->choices = tni_r_str(r, a, 4096);
  return r->bad ? NULL : o;
}

/* --- formats ----------------------------------------------------------------------------------------------------- */

void tni_numerics_put(tni_wire *w, const tn_numerics *n) {
  tn_numerics all = {.h = TN_HDR(tn_numerics)};
  tni_w_u32(w, n != NULL);
  if (!n) return;
  memcpy(&all, n, n->h.size < sizeof all ? n->h.size : sizeof all);
  all.h = (tn_hdr)TN_HDR(tn_numerics);
  tni_w_bytes(w, &all, sizeof all);
}

const tn_numerics *tni_numerics_get(tni_rd *r, tni_arena *a) {
  if (!tni_r_u32(r)) return NULL;
  const void *p = tni_r_bytes(r, sizeof(tn_numerics));
  tn_numerics *n = p ? tni_arena_memdup(a, p, sizeof *n, _Alignof(tn_numerics)) : NULL;
  if (!n) return r->bad = true, NULL;
  n->h = (tn_hdr)TN_HDR(tn_numerics);
  return n;
}

void tni_format_put(tni_wire *w, const tn_format *f) {
  const uint32_t u[] = {f->version, f->bits, f->group, f->flags};
  const float v[] = {f->bits_per_weight, f->w_err, f->x_err};
  tni_w_str(w, f->name);
  tni_w_bytes(w, u, sizeof u);
  tni_w_bytes(w, v, sizeof v);
  tni_w_u32(w, f->numerics_of != NULL);
  tni_numerics_put(w, f->numerics);
}

bool tni_format_get(tni_rd *r, tni_arena *a, tn_format *f, bool *has_numerics_of) {
  *f = (tn_format){.h = TN_HDR(tn_format)};
  f->name = tni_r_str(r, a, 63);
  f->version = tni_r_u32(r);
  f->bits = tni_r_u32(r);
  f->group = tni_r_u32(r);
  f->flags = tni_r_u32(r);
  float *const v[] = {&f->bits_per_weight, &f->w_err, &f->x_err};
  for (int i = 0; i < 3; i++) {
    const void *p = tni_r_bytes(r, sizeof(float));
    if (p) memcpy(v[i], p, sizeof(float));
  }
  *has_numerics_of = tni_r_u32(r) != 0;
  f->numerics = tni_numerics_get(r, a);
  return !r->bad && f->numerics && f->name;
}

/* --- operators --------------------------------------------------------------------------------------------------- */

void tni_custom_put(tni_wire *w, const tn_custom_op *o) {
  tni_w_str(w, o->domain);
  tni_w_str(w, o->type);
  tni_w_u32(w, o->since);
  tni_w_u32(w, o->until);
  tni_w_str(w, o->shape);
}

const tn_custom_op *tni_custom_get(tni_rd *r, tni_arena *a) {
  tn_custom_op *o = TNI_NEW(a, tn_custom_op);
  if (!o) return r->bad = true, NULL;
  o->h = (tn_hdr)TN_HDR(tn_custom_op);
  o->domain = tni_r_str(r, a, 127);
  o->type = tni_r_str(r, a, 127);
  o->since = tni_r_u32(r);
  o->until = tni_r_u32(r);
  o->shape = tni_r_str(r, a, 1023);
  return r->bad || !o->domain || !o->type || !o->shape ? NULL : o;
}

/* --- programs ---------------------------------------------------------------------------------------------------- */

void tni_info_put(tni_wire *w, const tn_program_info *i, uint32_t (*format)(const void *ctx, const tn_format *f),
                  const void *ctx) {
  tni_w_u32(w, i->n_needs);
  for (uint32_t k = 0; k < i->n_needs; k++) {
    const tn_need *n = i->needs[k];
    tni_w_u32(w, format(ctx, n->format));
    tni_w_array(w, n->values, n->n_values, sizeof *n->values);
    tni_w_array(w, n->params, n->n_params, sizeof *n->params);
    tni_w_u32(w, n->residency);
    tni_w_u32(w, n->flags);
    tni_w_u32(w, TN_HAS(n, tn_need, section) ? n->section : 0);
  }
  tni_w_u32(w, i->n_slots);
  for (uint32_t k = 0; k < i->n_slots; k++) {
    const tn_slot *s = i->slots[k];
    const uint32_t u[] = {s->kind, s->engines, s->align, s->value, s->need, s->alias};
    tni_w_str(w, s->name);
    tni_w_bytes(w, u, sizeof u);
  }
  tni_w_u32(w, i->n_tasks);
  for (uint32_t k = 0; k < i->n_tasks; k++) {
    const tn_task *t = i->tasks[k];
    tni_w_str(w, t->name);
    tni_w_u32(w, t->engine);
    tni_w_u32(w, t->flags);
    tni_w_u64(w, t->symbols);
    tni_w_array(w, t->uses, t->n_uses, sizeof *t->uses);
    tni_w_array(w, t->deps, t->n_deps, sizeof *t->deps);
    tni_w_array(w, t->nodes, t->n_nodes, sizeof *t->nodes);
  }
}

static const tn_need *get_need(tni_rd *r, tni_arena *a, const tn_format *(*format)(const void *, uint32_t),
                               const void *ctx) {
  tn_need *n = TNI_NEW(a, tn_need);
  if (!n) return r->bad = true, NULL;
  n->h = (tn_hdr)TN_HDR(tn_need);
  const uint32_t f = tni_r_u32(r);
  n->format = f ? format(ctx, f) : NULL;
  if (f && !n->format) r->bad = true;
  n->values = tni_r_array(r, a, &n->n_values, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  n->params = tni_r_array(r, a, &n->n_params, sizeof(int64_t), 16);
  n->residency = tni_r_u32(r);
  n->flags = tni_r_u32(r);
  n->section = tni_r_u32(r);
  return n;
}

static const tn_slot *get_slot(tni_rd *r, tni_arena *a) {
  tn_slot *s = TNI_NEW(a, tn_slot);
  if (!s) return r->bad = true, NULL;
  s->h = (tn_hdr)TN_HDR(tn_slot);
  s->name = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  uint32_t *const u[] = {&s->kind, &s->engines, &s->align, &s->value, &s->need, &s->alias};
  for (size_t i = 0; i < sizeof u / sizeof *u; i++) *u[i] = tni_r_u32(r);
  return s;
}

static const tn_task *get_task(tni_rd *r, tni_arena *a) {
  tn_task *t = TNI_NEW(a, tn_task);
  if (!t) return r->bad = true, NULL;
  t->h = (tn_hdr)TN_HDR(tn_task);
  t->name = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  t->engine = tni_r_u32(r);
  t->flags = tni_r_u32(r);
  t->symbols = tni_r_u64(r);
  t->uses = tni_r_array(r, a, &t->n_uses, sizeof(tn_use), TNI_ISO_MAX_OBJECTS);
  t->deps = tni_r_array(r, a, &t->n_deps, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  t->nodes = tni_r_array(r, a, &t->n_nodes, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  return t;
}

const tn_program_info *tni_info_get(tni_rd *r, tni_arena *a,
                                    const tn_format *(*format)(const void *ctx, uint32_t index), const void *ctx) {
  tn_program_info *i = TNI_NEW(a, tn_program_info);
  if (!i) return NULL;
  i->h = (tn_hdr)TN_HDR(tn_program_info);
  i->n_needs = tni_r_count(r, 20, TNI_ISO_MAX_OBJECTS);
  const tn_need **needs = TNI_NEW_ARRAY(a, const tn_need *, (size_t)i->n_needs + 1);
  for (uint32_t k = 0; needs && k < i->n_needs; k++) needs[k] = get_need(r, a, format, ctx);
  i->n_slots = tni_r_count(r, 28, TNI_ISO_MAX_OBJECTS);
  const tn_slot **slots = TNI_NEW_ARRAY(a, const tn_slot *, (size_t)i->n_slots + 1);
  for (uint32_t k = 0; slots && k < i->n_slots; k++) slots[k] = get_slot(r, a);
  i->n_tasks = tni_r_count(r, 32, TNI_ISO_MAX_OBJECTS);
  const tn_task **tasks = TNI_NEW_ARRAY(a, const tn_task *, (size_t)i->n_tasks + 1);
  for (uint32_t k = 0; tasks && k < i->n_tasks; k++) tasks[k] = get_task(r, a);
  i->needs = needs;
  i->slots = slots;
  i->tasks = tasks;
  return r->bad || !needs || !slots || !tasks ? NULL : i;
}
