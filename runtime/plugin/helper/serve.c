/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/helper/serve.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/plugin/helper/confine.h"
#include "runtime/plugin/process/process.h"

/* --- events ------------------------------------------------------------------------------------------------------ */

static void on_log(void *user, uint32_t level, const char *line) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, level);
  tni_w_str(&w, line);
  if (!w.bad) tni_srv_event(user, TNI_ISO_LOG, &w);
  tni_wire_finish(&w);
}

/* A done of the plugin, under the waker's lock. */
static void on_done(void *user, tn_ticket *t) {
  tni_srv *s = user;
  tni_wire w = {.n = 0};
  tni_w_u32(&w, (uint32_t)(uintptr_t)t->user);
  tni_w_u32(&w, (uint32_t)t->status);
  tni_w_bytes(&w, &t->times, sizeof t->times);
  tni_w_error(&w, &t->error);
  if (w.bad) _exit(TNI_SRV_BROKEN);
  tni_srv_event(s, TNI_ISO_DONE, &w);
  tni_wire_finish(&w);
}

/* --- start ------------------------------------------------------------------------------------------------------- */

static void *watch_channel(void *arg) {
  tni_srv *s = arg;
  for (;;) {
    struct pollfd p = {.fd = s->channel, .events = 0};
    if (poll(&p, 1, -1) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL)) _exit(0);
  }
  return NULL;
}

typedef struct request {
  const char *name, *folder, *cache, *profile;
  uint32_t level; /* TNI_CONFINE_* */
  tni_profile_plugin section;
  tni_registry_opts o;
  uint32_t threads;
  cpu_set_t cpus;
} request;

static void read_cpus(tni_rd *r, cpu_set_t *cpus) {
  CPU_ZERO(cpus);
  for (uint32_t n = tni_r_count(r, 4, CPU_SETSIZE); n; n--) {
    const uint32_t i = tni_r_u32(r);
    if (i < CPU_SETSIZE)
      CPU_SET(i, cpus);
    else
      r->bad = true;
  }
}

static bool read_request(tni_srv *s, tni_rd *r, request *q) {
  tni_arena *a = s->arena;
  q->name = tni_r_str(r, a, 64);
  q->folder = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  q->cache = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  q->profile = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
  q->threads = tni_r_u32(r);
  read_cpus(r, &q->cpus);
  const uint32_t flags = tni_r_u32(r);
  q->level = tni_r_u32(r);
  s->log = (tni_log){on_log, s, tni_r_u32(r)};
  q->section = (tni_profile_plugin){.name = q->name, .line = tni_r_u32(r), .column = tni_r_u32(r)};
  const uint64_t memory = tni_r_u64(r);
  const uint32_t n = tni_r_count(r, 28, 4096);
  tni_profile_option *list = TNI_NEW_ARRAY(a, tni_profile_option, (size_t)n + 1);
  for (uint32_t i = 0; list && i < n; i++) {
    list[i].key = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
    list[i].value = tni_r_str(r, a, TNI_ISO_MAX_TEXT);
    list[i].line = tni_r_u32(r);
    list[i].column = tni_r_u32(r);
    list[i].value_line = tni_r_u32(r);
    list[i].value_column = tni_r_u32(r);
    list[i].quoted = tni_r_u32(r) != 0;
  }
  q->section.options = list;
  q->section.n_options = n;
  const char **dirs = TNI_NEW_ARRAY(a, const char *, 1);
  if (!dirs) return false;
  dirs[0] = q->folder;
  q->o = (tni_registry_opts){.dirs = dirs,
                             .n_dirs = 1,
                             .cache_dir = q->cache,
                             .log = &s->log,
                             .memory_limit = memory,
                             .checked = flags & 1,
                             .privileged = (flags & 2) != 0,
                             .allow_shared_writable = (flags & 4) != 0,
                             .any_owner = (flags & 8) != 0};
  s->control = tni_r_fd(r);
  const int page = tni_r_fd(r), window = tni_r_fd(r);
  s->page = mmap(NULL, sizeof *s->page, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
  s->window = mmap(NULL, TNI_ISO_WINDOW, PROT_READ, MAP_SHARED, window, 0);
  close(page);
  close(window);
  return tni_rd_whole(r) && list && s->page != MAP_FAILED && (void *)s->window != MAP_FAILED;
}

static void describe_plugin(const tni_srv *s, tni_wire *w) {
  const tni_plugin_info *i = &s->l->info;
  const tn_plugin *p = s->l->plugin;
  tni_w_str(w, p->version);
  tni_w_str(w, p->build_id);
  tni_w_u32(w, i->abi_min);
  tni_w_u32(w, i->abi_max);
  tni_w_u32(w, i->minor);
  tni_w_u32(w, p->n_options);
  for (uint32_t k = 0; k < p->n_options; k++) tni_option_put(w, p->options[k]);
  tni_w_u32(w, p->n_formats);
  for (uint32_t k = 0; k < p->n_formats; k++) tni_format_put(w, p->formats[k]);
  const uint32_t n_ops = TN_HAS(p, tn_plugin, n_ops) ? p->n_ops : 0;
  tni_w_u32(w, n_ops);
  for (uint32_t k = 0; k < n_ops; k++) tni_custom_put(w, p->ops[k]);
  tni_w_u32(w, i->n_devices);
  for (uint32_t k = 0; k < i->n_devices; k++) {
    tni_caps_put(w, i->devices[k]->caps);
    tni_w_u32(w, i->devices[k]->create ? TNI_ISO_HAS_BUFFERS : 0);
  }
}

/* Every answer begins so. */
static bool answer_call(tni_srv *s, uint32_t kind, uint32_t seq, tn_status st, const tn_error *err,
                        const tni_wire *body) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, (uint32_t)st);
  tni_w_u64(&w, atomic_load(&s->events));
  if (st != TN_OK)
    tni_w_error(&w, err);
  else
    tni_w_bytes(&w, body->p, body->n);
  const bool ok = tni_wire_send(s->control, kind, seq, &w, -1) == TN_OK;
  tni_wire_finish(&w);
  return ok;
}

static int start_threads(tni_srv *s) {
  pthread_t t;
  if (pthread_create(&t, NULL, tni_srv_run_thread, s) != 0) return -1;
  pthread_detach(t);
  return 0;
}

/* From here on this is the plugin's process, with a supervisor above it. */
static tn_status settle(tni_srv *s, request *q, tn_error *err) {
  helper_places places = {.name = q->name, .folder = q->folder, .cache_dir = q->cache};
  const helper_settling how = {q->level, q->level, s->channel};
  tni_walls walls;
  tni_wire w = {.n = 0};
  int pid = 0;
  if (!helper_settle(&how, &places, &pid, &walls))
    return tni_fail(err, TN_E_UNAVAILABLE, q->name, "no second process");
  /* In a namespace of its own it sees root's files as nobody's; the host has looked at them before. */
  if (walls.stand & TNI_WALL_NAMESPACES) q->o.any_owner = true;
  tni_w_u32(&w, (uint32_t)pid);
  tni_w_u32(&w, walls.level);
  tni_w_u32(&w, walls.stand);
  tni_w_u32(&w, walls.landlock);
  if (!w.bad) tni_srv_event(s, TNI_ISO_WALLS, &w);
  tni_wire_finish(&w);
  pthread_t t;
  if (pthread_create(&t, NULL, watch_channel, s) != 0) return tni_fail_memory(err, q->name);
  pthread_detach(t);
  return TN_OK;
}

static tn_status start_plugin(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  request q;
  if (!read_request(s, r, &q)) return tni_fail(err, TN_E_CORRUPT, NULL, "a start that is none");
  const tn_status settled = settle(s, &q, err);
  if (settled != TN_OK) return settled;
  /* The thread that runs tasks is the pool's first worker and has what this one has. */
  if (CPU_COUNT(&q.cpus)) (void)sched_setaffinity(0, sizeof q.cpus, &q.cpus);
  s->pool = tni_pool_create_on(&q.cpus, q.threads);
  if (!s->pool) return tni_fail_memory(err, q.name);
  tni_pool_spin(s->pool, 0); /* the host needs the processors between two runs */
  q.o.max_workers = tni_pool_workers(s->pool);
  q.o.stop_call = (const volatile int32_t *)&s->page->stop_call;
  tn_status st = tni_loaded_create(&q.o, q.name, q.profile ? q.profile : "", &q.section, &s->l, err);
  if (st != TN_OK) return st;
  tni_w_u32(w, s->l->info.n_devices != 0);
  tni_w_u32(w, s->l->profile_mistake);
  if (!s->l->info.n_devices) {
    tni_w_error(w, &s->l->info.why);
    return TN_OK;
  }
  if (start_threads(s) != 0) return tni_fail_memory(err, q.name);
  describe_plugin(s, w);
  return TN_OK;
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

static tn_status stop_served(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  (void)r;
  (void)w;
  (void)err;
  (void)tni_loaded_destroy(s->l);
  s->l = NULL;
  return TN_OK;
}

static void put_name(void *list, const char *name) {
  tni_w_u32(list, 1);
  tni_w_str(list, name);
}

/* 1 and a name for each, then 0. */
static tn_status list_resources(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  (void)r;
  (void)err;
  tni_services_resources(s->l->ctx, put_name, w);
  tni_w_u32(w, 0);
  return TN_OK;
}

static const tni_srv_call service_calls[TNI_ISO_CALLS] = {
    [TNI_ISO_STOP] = stop_served,
    [TNI_ISO_MAP] = tni_srv_map,
    [TNI_ISO_UNMAP] = tni_srv_unmap,
    [TNI_ISO_SIZE] = tni_srv_size,
    [TNI_ISO_NUMERICS] = tni_srv_numerics,
    [TNI_ISO_PACK] = tni_srv_pack_begin,
    [TNI_ISO_PACK_ROWS] = tni_srv_pack_rows,
    [TNI_ISO_PACK_END] = tni_srv_pack_end,
    [TNI_ISO_UNPACK] = tni_srv_unpack,
    [TNI_ISO_GRAPH] = tni_srv_graph_in,
    [TNI_ISO_CLAIM] = tni_srv_claim,
    [TNI_ISO_LOWER] = tni_srv_lower,
    [TNI_ISO_MEASURE] = tni_srv_measure,
    [TNI_ISO_SET] = tni_srv_set,
    [TNI_ISO_RELEASE] = tni_srv_release,
    [TNI_ISO_BIND] = tni_srv_bind,
    [TNI_ISO_UNBIND] = tni_srv_unbind,
    [TNI_ISO_ARGS] = tni_srv_args_new,
    [TNI_ISO_ARGS_SET] = tni_srv_args_set,
    [TNI_ISO_ARGS_FREE] = tni_srv_args_free,
    [TNI_ISO_ENGINE] = tni_srv_engine_new,
    [TNI_ISO_CREATE] = tni_srv_create,
    [TNI_ISO_DESTROY] = tni_srv_destroy,
    [TNI_ISO_BUF_MAP] = tni_srv_buf_map,
    [TNI_ISO_RESOURCES] = list_resources,
};

static int serve_calls(tni_srv *s) {
  for (;;) {
    tni_rd r;
    tni_wire w = {.n = 0};
    tn_error err;
    tni_error_init(&err);
    if (tni_wire_receive(s->control, -1, -1, &r) != TN_OK) return 0; /* the host is gone */
    if (r.kind >= TNI_ISO_CALLS || !service_calls[r.kind]) return TNI_SRV_BROKEN;
    tn_status st = service_calls[r.kind](s, &r, &w, &err);
    if (st == TN_OK && (r.bad || w.bad)) st = tni_fail(&err, TN_E_NO_MEMORY, NULL, "a message that is none");
    const bool said = answer_call(s, r.kind, r.seq, st, &err, &w);
    const bool end = r.kind == TNI_ISO_STOP;
    tni_rd_finish(&r);
    tni_wire_finish(&w);
    if (!said) return TNI_SRV_BROKEN;
    if (end) return 0;
  }
}

static bool init_service(tni_srv *s, int channel) {
  s->channel = channel;
  s->control = -1;
  s->arena = tni_arena_create();
  if (!s->arena || tni_waker_init(&s->waker) != TN_OK) return false;
  s->waker.hook = on_done;
  s->waker.user = s;
  return pthread_mutex_init(&s->send, NULL) == 0 && pthread_mutex_init(&s->ask, NULL) == 0 &&
         pthread_mutex_init(&s->lock, NULL) == 0;
}

int tni_isolate_serve(int channel) {
  tni_srv *s = tni_srv_self();
  tni_rd r;
  tni_wire w = {.n = 0};
  tn_error err;
  tni_error_init(&err);
  signal(SIGPIPE, SIG_IGN);
  if (!init_service(s, channel) || tni_wire_receive(channel, -1, -1, &r) != TN_OK || r.kind != TNI_ISO_START)
    return TNI_SRV_BROKEN;
  tn_status st = start_plugin(s, &r, &w, &err);
  const bool said = s->control >= 0 && answer_call(s, TNI_ISO_START, r.seq, st, &err, &w);
  tni_rd_finish(&r);
  tni_wire_finish(&w);
  _exit(said && st == TN_OK ? serve_calls(s) : TNI_SRV_BROKEN); /* the plugin's destructors are not worth a hang */
}
