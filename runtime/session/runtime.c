/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/runtime.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/plugin/load/load.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/process.h"

const char *tn_version(void) { return TENON_VERSION; }
const char *tn_status_name(tn_status st) { return tni_status_name(st); }
const char *tn_dtype_name(tn_dtype dt) {
  return dt == TN_DT_SEQUENCE ? "sequence" : dt == TN_DT_OPTIONAL ? "optional" : tni_dtype_name(dt);
}
void tn_error_init(tn_error *e) { tni_error_init(e); }
void tn_long_error_init(tn_long_error *e) { tni_long_error_init(e); }
const char *tn_error_text(const tn_error *e) { return tni_error_text(e); }
void tn_free(void *p) { free(p); }

enum {
  TN_RT_ALL = TN_RT_SCAN | TN_RT_PRIVILEGED | TN_RT_TEST_WRITABLE | TN_RT_CHECKED | TN_RT_SEALED | TN_RT_PORTABLE |
              TN_RT_OFFLINE | TN_RT_NO_PROBE | TN_RT_UNDUMPABLE | TN_RT_GUARD_FILES
};

/* The caller's options, of whatever size it was compiled with. */
static tn_status read_opts(const tn_runtime_opts *in, tn_runtime_opts *out, tn_error *err) {
  tn_status st = tni_take(out, sizeof *out, in, "tn_runtime_opts", err);
  if (!in) out->log_level = TN_LOG_WARN;
  if (st == TN_OK) st = tni_known_bits(out->flags, TN_RT_ALL, "tn_runtime_opts.flags", err);
  if (st == TN_OK) st = tni_known_bits(out->reserved, 0, "tn_runtime_opts.reserved", err);
  if (st == TN_OK) st = tni_counted(out->profile_dirs, out->n_profile_dirs, "tn_runtime_opts.profile_dirs", err);
  if (st == TN_OK) st = tni_counted(out->plugin_dirs, out->n_plugin_dirs, "tn_runtime_opts.plugin_dirs", err);
  if (st == TN_OK && out->log_level > TN_LOG_DEBUG)
    st = tni_fail(err, TN_E_INVALID, "tn_runtime_opts.log_level", "there is no log level %u", out->log_level);
  return st;
}

/* Profile folders: the caller's, the installed one, the one beside the library. */
static tn_status load_profile(tni_arena *arena, const tn_runtime_opts *o, tni_profile **out, tn_error *err) {
  const char **dirs = TNI_NEW_ARRAY(arena, const char *, o->n_profile_dirs + 2);
  const bool sealed = o->flags & TN_RT_SEALED;
  const char *moved = tni_beside_library(arena, TENON_PROFILES_FROM_LIB);
  uint32_t n = 0;
  if (!dirs) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < o->n_profile_dirs; i++) dirs[n++] = o->profile_dirs[i];
  if (!sealed) dirs[n++] = TENON_PROFILE_DIR;
  if (moved && !sealed) dirs[n++] = moved;
  return tni_profile_load(o->profile ? o->profile : "default", dirs, n, out, err);
}

tn_status tni_runtime_profile(const tn_runtime_opts *opts, tni_profile **out, tn_error *err) {
  tn_runtime_opts o;
  tn_status st = read_opts(opts, &o, err);
  tni_arena *arena = st == TN_OK ? tni_arena_create() : NULL;
  if (st == TN_OK) st = arena ? load_profile(arena, &o, out, err) : tni_fail_memory(err, NULL);
  tni_arena_destroy(arena);
  return st;
}

/* The caller's helper, the one of the moved tree, the installed one. */
static const char *find_helper(tn_runtime *rt, const tn_runtime_opts *o) {
  if (o->helper) return o->helper;
  const char *moved = tni_beside_library(rt->arena, TENON_HELPER_FROM_LIB);
  return moved && access(moved, X_OK) == 0 ? moved : TENON_HELPER;
}

/* Plugins that were installed with this library were put there by whoever put it there. */
static bool is_installed(const char *dir, const char *moved) {
  const char *const own[] = {TENON_PLUGIN_DIR, moved};
  char texts[2][PATH_MAX], *real = realpath(dir, texts[0]);
  bool same = false;
  for (size_t i = 0; real && i < 2; i++) {
    const char *at = own[i] ? realpath(own[i], texts[1]) : NULL;
    same = same || (at && strcmp(at, real) == 0);
  }
  return same;
}

static tn_status load_plugins(tn_runtime *rt, const tn_runtime_opts *o, tn_error *err) {
  uint32_t n = 0;
  const tni_profile *p = rt->profile;
  const char **dirs = TNI_NEW_ARRAY(rt->arena, const char *, o->n_plugin_dirs + p->n_plugin_path + 2);
  const char *moved = tni_beside_library(rt->arena, "tenon/plugins");
  bool *probe = TNI_NEW_ARRAY(rt->arena, bool, o->n_plugin_dirs + p->n_plugin_path + 2);
  if (!dirs || !probe) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < o->n_plugin_dirs; i++) dirs[n++] = o->plugin_dirs[i];
  for (uint32_t i = 0; i < p->n_plugin_path; i++) dirs[n++] = p->plugin_path[i];
  if (!rt->sealed) dirs[n++] = TENON_PLUGIN_DIR;
  if (moved && !rt->sealed) dirs[n++] = moved;
  for (uint32_t i = 0; i < n; i++)
    probe[i] = !(o->flags & (TN_RT_NO_PROBE | TN_RT_SEALED)) && !is_installed(dirs[i], moved);
  rt->checked = p->checked || (o->flags & TN_RT_CHECKED);
  bool process = false;
  for (uint32_t i = 0; i < p->n_plugins; i++) process = process || p->plugins[i].process;
  if (process && !(rt->shm = tni_shm_create())) return tni_fail_memory(err, NULL);
  if (process && o->flags & TN_RT_UNDUMPABLE) (void)prctl(PR_SET_DUMPABLE, 0);
  if (process) tni_pool_spin(rt->pool, 0); /* the other process needs the processors in a run of its */
  tni_registry_opts ro = {.dirs = dirs,
                          .n_dirs = n,
                          .max_workers = tni_pool_workers(rt->pool),
                          .cpus = &rt->cpus,
                          .probe = probe,
                          .helper = find_helper(rt, o),
                          .retry = o->retry,
                          .probe_ms = p->probe_timeout_ms,
                          .shm = rt->shm,
                          .timeout_ms = p->timeout_ms,
                          .log = &rt->log,
                          .cache_dir = rt->sealed || rt->portable ? NULL : rt->cache_dir,
                          .ahead_dir = rt->cache_dir,
                          .checked = rt->checked,
                          .privileged = o->flags & TN_RT_PRIVILEGED,
                          .allow_shared_writable = o->flags & TN_RT_TEST_WRITABLE,
                          .any_owner = rt->sealed};
  tn_status st = tni_registry_create(&ro, p, &rt->registry, err);
  if (st != TN_OK) return st;
  rt->n_profile_plugins = tni_registry_count(rt->registry);
  return o->flags & TN_RT_SCAN ? tni_registry_scan(rt->registry, err) : TN_OK;
}

static tn_status list_devices(tn_runtime *rt, tn_error *err) {
  uint32_t n = 0, n_plugins = rt->n_profile_plugins; /* what a scan found besides places no node */
  for (uint32_t i = 0; i < n_plugins; i++) n += tni_registry_get(rt->registry, i)->n_devices;
  rt->devs = TNI_NEW_ARRAY(rt->arena, tni_dev, n);
  rt->locks = TNI_NEW_ARRAY(rt->arena, tni_devlock, n);
  if (!rt->devs || !rt->locks) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < n_plugins; i++) {
    const tni_plugin_info *pi = tni_registry_get(rt->registry, i);
    for (uint32_t d = 0; d < pi->n_devices; d++) {
      /* A profile that can do without a plugin passes over devices that cannot run. */
      if (pi->optional && !rt->offline && pi->devices[d]->caps->flags & TN_CAPS_OFFLINE) continue;
      tni_devlock *lock = &rt->locks[rt->n_devs];
      tni_devlock_init(lock);
      lock->trusted = pi->builtin || pi->process;
      rt->devs[rt->n_devs++] = (tni_dev){.name = pi->name,
                                         .device = pi->devices[d],
                                         .plugin = pi->plugin,
                                         .host = pi->host,
                                         .lock = lock,
                                         .is_host = pi->builtin,
                                         .process = pi->process};
    }
  }
  return TN_OK;
}

/* Devices of the named plugins in that order, then the host's. names NULL: the profile's order. */
static tn_status set_order(tn_runtime *rt, uint32_t phase, const char *const *names, uint32_t n_names) {
  uint32_t *order = TNI_NEW_ARRAY(rt->arena, uint32_t, rt->n_devs ? rt->n_devs : 1), n = 0;
  if (!order) return TN_E_NO_MEMORY;
  bool host_named = false;
  for (uint32_t i = 0; i < n_names; i++)
    for (uint32_t d = 0; d < rt->n_devs; d++)
      if (strcmp(rt->devs[d].name, names[i]) == 0) {
        order[n++] = d;
        host_named = host_named || rt->devs[d].is_host;
      }
  for (uint32_t d = 0; d < rt->n_devs; d++)
    if (names ? rt->devs[d].is_host && !host_named : true) order[n++] = d;
  rt->order[phase] = order;
  rt->n_order[phase] = n;
  return TN_OK;
}

static tn_status set_orders(tn_runtime *rt, tn_error *err) {
  const tni_profile *p = rt->profile;
  tn_status st = set_order(rt, TN_PHASE_ANY, NULL, 0);
  if (st == TN_OK && p->has_phases) st = set_order(rt, TN_PHASE_PREFILL, p->prefill, p->n_prefill);
  if (st == TN_OK && p->has_phases) st = set_order(rt, TN_PHASE_DECODE, p->decode, p->n_decode);
  return st == TN_OK ? TN_OK : tni_fail_memory(err, NULL);
}

/* A cache that others can write to is not used: they could put weights of their own there. It is made here, as nobody
 * else may make it between this look and its first use. What a bundle brings or is made of is no cache. */
static tn_status choose_cache(tn_runtime *rt, const tn_runtime_opts *o, tn_error *err) {
  const char *cache = o->cache_dir ? o->cache_dir : rt->profile->cache_dir;
  bool missing = false;
  tn_error why;
  if (!cache || !*cache) return TN_OK;
  if (!(rt->cache_dir = tni_arena_strdup(rt->arena, cache))) return tni_fail_memory(err, cache);
  if (rt->sealed || rt->portable) return TN_OK;
  const uint32_t allow = o->flags & TN_RT_TEST_WRITABLE ? TNI_TRUST_SHARED : 0;
  tni_error_init(&why);
  tn_status st = tni_trust_folder(cache, allow, &missing, &why);
  if (st == TN_OK && missing && tni_make_folder(cache) == 0) st = tni_trust_folder(cache, allow, NULL, &why);
  if (st == TN_OK) return TN_OK;
  tni_log_line(&rt->log, TN_LOG_WARN, "the cache folder '%s' is not used: %s", cache, why.message);
  rt->cache_dir = NULL;
  return TN_OK;
}

tn_status tn_runtime_create(const tn_runtime_opts *opts, tn_runtime **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(out);
  tn_runtime_opts o;
  tn_status st = read_opts(opts, &o, err);
  if (st != TN_OK) return st;
  tn_runtime *rt = calloc(1, sizeof *rt);
  if (!rt || tni_tickets_init(&rt->tickets) != TN_OK) {
    free(rt);
    return tni_fail_memory(err, NULL);
  }
  if (!(rt->arena = tni_arena_create())) {
    tni_tickets_finish(&rt->tickets);
    free(rt);
    return tni_fail_memory(err, NULL);
  }
  pthread_mutex_init(&rt->failing, NULL);
  pthread_mutex_init(&rt->loading, NULL);
  rt->log = (tni_log){o.log, o.log_user, o.log_level};
  rt->sealed = o.flags & TN_RT_SEALED;
  rt->portable = o.flags & TN_RT_PORTABLE;
  rt->offline = o.flags & TN_RT_OFFLINE;
  rt->progress = o.progress;
  rt->progress_user = o.progress_user;
  if ((o.flags & TN_RT_GUARD_FILES) && !tni_watch_guard())
    tni_log_line(&rt->log, TN_LOG_WARN, "files are not guarded: no handler of SIGBUS can be installed");
  st = load_profile(rt->arena, &o, &rt->profile, err);
  if (st == TN_OK) {
    const char *calibration = o.calibration ? o.calibration : rt->profile->calibration;
    rt->calibration = calibration && *calibration ? tni_arena_strdup(rt->arena, calibration) : NULL;
    st = choose_cache(rt, &o, err);
  }
  if (st == TN_OK) st = tni_runtime_pool(rt, &o, err);
  if (st == TN_OK) st = load_plugins(rt, &o, err);
  if (st == TN_OK) st = list_devices(rt, err);
  if (st == TN_OK) st = set_orders(rt, err);
  if (st != TN_OK) {
    tn_runtime_destroy(rt);
    return st;
  }
  *out = rt;
  return TN_OK;
}

static void set_cancel(tn_runtime *rt, bool on) {
  __atomic_store_n(&rt->cancel, on, __ATOMIC_RELAXED);
  for (uint32_t i = 0; rt->registry && i < tni_registry_count(rt->registry); i++) {
    const tn_host *h = tni_registry_get(rt->registry, i)->host;
    if (h) tni_services_cancel(h->ctx, on);
  }
}

void tn_runtime_cancel(tn_runtime *rt) {
  if (rt) set_cancel(rt, true);
}

void tni_runtime_resume(tn_runtime *rt) { set_cancel(rt, false); }

/* Models hold their runtime as sessions hold their model: who destroys in the wrong order is told, and nothing goes
 * before what stands on it has gone. */
void tni_runtime_release(tn_runtime *rt) {
  if (__atomic_fetch_sub(&rt->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
  if (!tni_registry_destroy(rt->registry)) {
    tni_pool_destroy(rt->pool); /* what hangs has another (deadline.c), and all else of rt */
    return;
  }
  tni_runtime_free_left(rt);
  tni_tickets_finish(&rt->tickets);
  pthread_mutex_destroy(&rt->failing);
  pthread_mutex_destroy(&rt->loading);
  for (uint32_t i = 0; i < rt->n_devs; i++) tni_devlock_finish(&rt->locks[i]);
  tni_shm_destroy(rt->shm);
  tni_pool_destroy(rt->pool);
  tni_profile_destroy(rt->profile);
  tni_arena_destroy(rt->arena);
  free(rt);
}

void tn_runtime_destroy(tn_runtime *rt) {
  if (!rt) return;
  const int32_t n = __atomic_load_n(&rt->holders, __ATOMIC_ACQUIRE);
  if (n > 0)
    tni_log_line(&rt->log, TN_LOG_ERROR,
                 "tn_runtime_destroy before tn_model_destroy: %d model%s still there; the runtime stays until then", n,
                 n == 1 ? " is" : "s are");
  tni_runtime_release(rt);
}
