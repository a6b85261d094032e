/* SPDX-License-Identifier: Apache-2.0
 *
 * Start, what the plugin says of itself, end.
 */
#include "runtime/plugin/process/isolate.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/describe.h"
#include "runtime/plugin/process/proxy.h"

/* --- plugin ------------------------------------------------------------------------------------------------------ */

static tn_status enumerate_isolated(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  tni_iso *p = (tni_iso *)pub;
  (void)err;
  for (uint32_t i = 0; i < p->n_devices && i < cap; i++) out[i] = p->caps[i];
  *n = p->n_devices;
  return TN_OK;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  tni_iso *p = (tni_iso *)pub;
  if (index >= p->n_devices) return tni_fail(err, TN_E_INVALID, p->o.name, "no device %u", index);
  *out = &p->devices[index].pub;
  return TN_OK;
}

static void close_device(tn_device *pub) {
  tni_iso_device *d = (tni_iso_device *)pub;
  for (uint32_t i = 0; i < TNI_ISO_ENGINES; i++)
    if (d->engine[i].socket >= 0) close(d->engine[i].socket);
  for (uint32_t i = 0; i < TNI_ISO_ENGINES; i++) d->engine[i].socket = -1;
}

static void destroy_isolated(tni_iso *p) {
  if (p->c) tni_conn_close(p->c);
  pthread_mutex_destroy(&p->lock);
  tni_arena_destroy(p->arena);
  free(p->sent);
  free(p);
}

static void shut_down(tn_plugin *pub) { destroy_isolated((tni_iso *)pub); }

/* --- what it says of itself -------------------------------------------------------------------------------------- */

static bool read_options(tni_iso *p, tni_rd *r) {
  p->pub.n_options = tni_r_count(r, 28, TNI_MAX_PLUGIN_OPTIONS);
  const tn_option **list = TNI_NEW_ARRAY(p->arena, const tn_option *, (size_t)p->pub.n_options + 1);
  for (uint32_t i = 0; list && i < p->pub.n_options; i++)
    if (!(list[i] = tni_option_get(r, p->arena))) return false;
  p->pub.options = list;
  return list != NULL;
}

static bool read_formats(tni_iso *p, tni_rd *r) {
  const uint32_t n = tni_r_count(r, 36, TNI_MAX_FORMATS);
  p->formats = TNI_NEW_ARRAY(p->arena, tni_iso_format, (size_t)n + 1);
  p->format_list = TNI_NEW_ARRAY(p->arena, const tn_format *, (size_t)n + 1);
  for (uint32_t i = 0; p->formats && p->format_list && i < n; i++) {
    bool more = false;
    if (!tni_format_get(r, p->arena, &p->formats[i].pub, &more)) return false;
    tni_iso_format_fill(p, &p->formats[i], i, more);
    p->format_list[i] = &p->formats[i].pub;
  }
  p->pub.formats = p->format_list;
  p->pub.n_formats = n;
  return p->formats && p->format_list;
}

static bool read_customs(tni_iso *p, tni_rd *r) {
  p->pub.n_ops = tni_r_count(r, 20, TNI_MAX_CUSTOM_OPS);
  const tn_custom_op **list = TNI_NEW_ARRAY(p->arena, const tn_custom_op *, (size_t)p->pub.n_ops + 1);
  for (uint32_t i = 0; list && i < p->pub.n_ops; i++)
    if (!(list[i] = tni_custom_get(r, p->arena))) return false;
  p->pub.ops = list;
  return list != NULL;
}

/* The engines of all devices share the numbers of tickets. */
static bool read_devices(tni_iso *p, tni_rd *r) {
  const tn_caps *said[TNI_MAX_DEVICES];
  bool buffers[TNI_MAX_DEVICES];
  uint32_t n_engines = 0;
  p->n_devices = tni_r_count(r, 32, TNI_MAX_DEVICES);
  p->devices = TNI_NEW_ARRAY(p->arena, tni_iso_device, (size_t)p->n_devices + 1);
  p->caps = TNI_NEW_ARRAY(p->arena, const tn_caps *, (size_t)p->n_devices + 1);
  for (uint32_t i = 0; i < p->n_devices; i++) {
    said[i] = tni_caps_get(r, p->arena);
    buffers[i] = tni_r_u32(r) & TNI_ISO_HAS_BUFFERS;
    if (!said[i] || r->bad) return false;
    n_engines += said[i]->n_engines;
  }
  if (n_engines > TNI_ISO_ENGINES) n_engines = TNI_ISO_ENGINES; /* no more are opened */
  for (uint32_t i = 0; p->devices && p->caps && i < p->n_devices; i++) {
    const uint32_t most = TNI_CONN_TICKETS / (n_engines ? n_engines : 1);
    if (!tni_iso_device_fill(p, &p->devices[i], i, said[i], buffers[i], most)) return false;
    p->caps[i] = p->devices[i].pub.caps;
  }
  return p->devices && p->caps && p->n_devices;
}

static tn_status read_description(tni_iso *p, tni_rd *r, tni_isolate_about *about, tn_error *err) {
  const bool opened = tni_r_u32(r) != 0;
  about->profile_mistake = tni_r_u32(r) != 0;
  if (!opened) {
    tn_error why;
    tni_r_error(r, &why);
    if (r->bad || !why.code) return tni_conn_wrong(p->c, "start", err);
    tni_error_give(err, &why);
    return why.code > TN_OK && why.code <= TN_E_LIMIT ? why.code : TN_E_INTERNAL;
  }
  p->pub.version = tni_r_str(r, p->arena, 256);
  p->pub.build_id = tni_r_str(r, p->arena, 256);
  about->abi_min = (uint16_t)tni_r_u32(r);
  about->abi_max = (uint16_t)tni_r_u32(r);
  about->minor = (uint16_t)tni_r_u32(r);
  const bool ok = read_options(p, r) && read_formats(p, r) && read_customs(p, r) && read_devices(p, r) && tni_rd_whole(r);
  return ok ? TN_OK : tni_conn_wrong(p->c, "start", err);
}

tn_status tni_isolate_open(const tni_isolate_opts *o, tn_plugin **out, tni_isolate_about *about, tn_error *err) {
  tni_iso *p = calloc(1, sizeof *p);
  *about = (tni_isolate_about){.minor = 0};
  if (!p || !(p->arena = tni_arena_create())) {
    free(p);
    return tni_fail_memory(err, o->name);
  }
  pthread_mutex_init(&p->lock, NULL);
  p->o = *o;
  p->o.section = NULL;
  p->o.name = tni_arena_strdup(p->arena, o->name);
  p->pub = (tn_plugin){.h = TN_HDR(tn_plugin),
                       .name = p->o.name,
                       .enumerate = enumerate_isolated,
                       .open = open_device,
                       .close = close_device,
                       .shutdown = shut_down};
  tni_rd r;
  p->o.section = o->section;
  tn_status st = p->o.name ? tni_conn_open(&p->o, &p->c, &r, err) : tni_fail_memory(err, o->name);
  p->o.section = NULL;
  if (st == TN_OK) {
    about->walls = p->c->walls;
    st = read_description(p, &r, about, err);
    tni_rd_finish(&r);
  }
  if (st != TN_OK) {
    destroy_isolated(p);
    return st;
  }
  *out = &p->pub;
  return TN_OK;
}

int tni_isolate_pid(const tn_plugin *pub) {
  const tni_iso *p = (const tni_iso *)pub;
  return tni_conn_dead(p->c) ? 0 : p->c->pid;
}

tn_status tni_isolate_resources(const tn_plugin *pub, tni_resource_sink each, void *user, tn_error *err) {
  const tni_iso *p = (const tni_iso *)pub;
  tni_arena *names = tni_arena_create();
  tni_wire none = {.n = 0};
  tni_rd r;
  if (!names) return tni_fail_memory(err, p->o.name);
  tn_status st = tni_conn_call(p->c, TNI_ISO_RESOURCES, "resources", &none, &r, err);
  if (st == TN_OK) {
    bool ok = true, more = tni_r_u32(&r) == 1;
    for (uint32_t n = 0; ok && more; more = ok && tni_r_u32(&r) == 1) {
      const char *name = n++ < TNI_ISO_MAX_NAMES ? tni_r_str(&r, names, NAME_MAX) : NULL;
      ok = name && tni_resource_name(name);
      if (ok) each(user, name);
    }
    ok = ok && tni_rd_whole(&r);
    tni_rd_finish(&r);
    if (!ok) st = tni_conn_wrong(p->c, "resources", err);
  }
  tni_arena_destroy(names);
  return st;
}

bool tni_isolate_why(const tn_plugin *pub, char *buf, size_t size) {
  tni_conn *c = ((const tni_iso *)pub)->c;
  pthread_mutex_lock(&c->state);
  const bool dead = c->dead;
  if (dead) snprintf(buf, size, "%s", c->why[0] ? c->why : "its process ended");
  pthread_mutex_unlock(&c->state);
  return dead;
}

void tni_isolate_counts_get(const tn_plugin *pub, tni_isolate_counts *out) {
  const tni_iso *p = (const tni_iso *)pub;
  *out = (tni_isolate_counts){atomic_load(&p->runs), atomic_load(&p->copied)};
}
