/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/events.h"
#include "runtime/plugin/process/futex.h"

enum { SLICE_MS = 20, GOODBYE_MS = 2000, FRAME_MS = 5000 };
static const int64_t MS = 1000000;

/* --- end --------------------------------------------------------------------------------------------------------- */

/* How it ended, if nobody knows better. */
static void note_end(tni_conn *c, const tni_child_end *end) {
  char how[100], said[80] = "";
  tni_child_end_text(end, how, sizeof how);
  tni_child_last_lines(&c->child, said, sizeof said);
  pthread_mutex_lock(&c->state);
  if (!c->why[0] && !c->closing) snprintf(c->why, sizeof c->why, "%s%s%s", how, said[0] ? "; it said: " : "", said);
  c->dead = true;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->state);
}

/* --- its thread -------------------------------------------------------------------------------------------------- */

static void spawn_helper(tni_conn *c) {
  static const char *const args[] = {"serve", NULL};
  tn_error err;
  tni_error_init(&err);
  tn_status st = tni_child_spawn(c->o->helper, args, &c->child, &err);
  pthread_mutex_lock(&c->state);
  c->spawned = true;
  c->spawn_status = st;
  c->spawn_error = err;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->state);
}

static void *thread_main(void *arg) {
  tni_conn *c = arg;
  spawn_helper(c);
  bool going = c->spawn_status == TN_OK;
  while (going) {
    tni_rd r;
    if (tni_child_wait(&c->child, -1) != 1) break;
    tn_status st = tni_wire_receive(c->child.channel, tni_now_ns() + FRAME_MS * MS, &r);
    if (st == TN_E_CORRUPT) tni_conn_fail(c, "it sent something that is no message");
    if (st != TN_OK) break;
    going = tni_event_take(c, &r);
    tni_rd_finish(&r);
  }
  if (c->spawn_status == TN_OK) {
    pthread_mutex_lock(&c->state);
    const bool gently = c->closing && !c->why[0], killed = c->why[0] != '\0';
    pthread_mutex_unlock(&c->state);
    (void)killed;
    const tni_child_end end = tni_child_finish(&c->child, gently ? GOODBYE_MS : c->why[0] ? 0 : 200);
    note_end(c, &end);
    tni_event_all_lost(c);
  }
  return NULL;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

/* How many, and their numbers. */
static void put_cpus(tni_wire *w, const cpu_set_t *cpus) {
  tni_w_u32(w, cpus ? (uint32_t)CPU_COUNT(cpus) : 0);
  for (uint32_t i = 0; cpus && i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, cpus)) tni_w_u32(w, i);
}

static void put_start(const tni_conn *c, tni_wire *w, int control, int page, int window) {
  const tni_isolate_opts *o = c->o;
  const tni_profile_plugin *s = o->section;
  tni_w_str(w, o->name);
  tni_w_str(w, o->folder);
  tni_w_str(w, o->cache_dir);
  tni_w_str(w, o->profile_file);
  tni_w_u32(w, o->threads);
  put_cpus(w, o->cpus);
  tni_w_u32(w, (o->checked ? 1u : 0) | (o->privileged ? 2u : 0) | (o->allow_shared_writable ? 4u : 0) |
                   (o->any_owner ? 8u : 0));
  tni_w_u32(w, o->log_level);
  tni_w_u32(w, s ? s->line : 0);
  tni_w_u32(w, s ? s->column : 0);
  tni_w_u64(w, o->memory_limit);
  tni_w_u32(w, s ? s->n_options : 0);
  for (uint32_t i = 0; s && i < s->n_options; i++) {
    const tni_profile_option *p = &s->options[i];
    tni_w_str(w, p->key);
    tni_w_str(w, p->value);
    tni_w_u32(w, p->line);
    tni_w_u32(w, p->column);
    tni_w_u32(w, p->value_line);
    tni_w_u32(w, p->value_column);
    tni_w_u32(w, p->quoted);
  }
  tni_w_fd(w, control);
  tni_w_fd(w, page);
  tni_w_fd(w, window);
}

static tni_conn *create_conn(const tni_isolate_opts *o) {
  tni_conn *c = calloc(1, sizeof *c);
  pthread_condattr_t a;
  if (!c) return NULL;
  c->o = o;
  c->control = -1;
  c->child.channel = c->child.output = -1;
  c->next_id = 1;
  c->timeout_ns = o->timeout_ms * MS;
  snprintf(c->name, sizeof c->name, "%s", o->name);
  pthread_mutex_init(&c->call, NULL);
  pthread_mutex_init(&c->run, NULL);
  pthread_mutex_init(&c->state, NULL);
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_cond_init(&c->changed, &a);
  pthread_condattr_destroy(&a);
  return c;
}

static void destroy_conn(tni_conn *c) {
  if (c->control >= 0) close(c->control);
  if (c->page) munmap(c->page, sizeof *c->page);
  if (c->window) munmap(c->window, TNI_ISO_WINDOW);
  pthread_cond_destroy(&c->changed);
  pthread_mutex_destroy(&c->state);
  pthread_mutex_destroy(&c->run);
  pthread_mutex_destroy(&c->call);
  free(c->asked);
  free(c);
}

static tn_status wait_spawned(tni_conn *c, tn_error *err) {
  pthread_mutex_lock(&c->state);
  while (!c->spawned) pthread_cond_wait(&c->changed, &c->state);
  tn_status st = c->spawn_status;
  if (st != TN_OK) tni_fail(err, st, c->spawn_error.where, "%s", c->spawn_error.message);
  pthread_mutex_unlock(&c->state);
  return st;
}

static tn_status receive_answer(tni_conn *c, int socket, uint32_t kind, uint32_t seq, const char *what, tni_rd *r,
                                tn_error *err);

tn_status tni_conn_open(const tni_isolate_opts *o, tni_conn **out, tni_rd *answer, tn_error *err) {
  tni_conn *c = create_conn(o);
  int pair[2] = {-1, -1}, page = -1, window = -1;
  void *p = NULL, *q = NULL;
  if (!c) return tni_fail_memory(err, o->name);
  if ((page = tni_shm_map(sizeof *c->page, &p)) >= 0) c->page = p;
  if ((window = tni_shm_map(TNI_ISO_WINDOW, &q)) >= 0) c->window = q;
  bool ok = page >= 0 && window >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
  c->control = pair[0];
  const bool started = ok && pthread_create(&c->thread, NULL, thread_main, c) == 0;
  tn_status st = started ? wait_spawned(c, err) : tni_fail_memory(err, o->name);
  tni_wire w = {.n = 0};
  if (st == TN_OK) {
    put_start(c, &w, pair[1], page, window);
    st = tni_wire_send(c->child.channel, TNI_ISO_START, ++c->seq, &w, tni_now_ns() + c->timeout_ns);
    if (st != TN_OK) tni_conn_fail(c, "it did not start");
  }
  tni_wire_finish(&w);
  if (pair[1] >= 0) close(pair[1]);
  if (page >= 0) close(page);
  if (window >= 0) close(window);
  if (st == TN_OK) st = receive_answer(c, c->control, TNI_ISO_START, c->seq, "start", answer, err);
  if (st == TN_OK) {
    *out = c;
    return TN_OK;
  }
  if (tni_conn_dead(c)) (void)!tni_conn_lost(c, err);
  if (started)
    tni_conn_close(c);
  else
    destroy_conn(c);
  return st;
}

void tni_conn_close(tni_conn *c) {
  if (!tni_conn_dead(c)) {
    tni_wire none = {.n = 0};
    tni_rd r;
    if (tni_conn_call(c, TNI_ISO_STOP, "shutdown", &none, &r, NULL) == TN_OK) tni_rd_finish(&r);
  }
  pthread_mutex_lock(&c->state);
  c->closing = true;
  if (c->child.channel >= 0) shutdown(c->child.channel, SHUT_RDWR);
  pthread_mutex_unlock(&c->state);
  pthread_join(c->thread, NULL);
  destroy_conn(c);
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

/* Waits until as many events were seen as the child has sent before it answered. */
static bool catch_up(tni_conn *c, uint64_t events) {
  const int64_t until = tni_now_ns() + c->timeout_ns;
  const struct timespec at = {until / 1000000000, until % 1000000000};
  int late = 0;
  pthread_mutex_lock(&c->state);
  while (c->events < events && !c->dead && !late) late = pthread_cond_timedwait(&c->changed, &c->state, &at);
  const bool ok = c->events >= events;
  pthread_mutex_unlock(&c->state);
  return ok;
}

static uint64_t count_events(tni_conn *c) {
  pthread_mutex_lock(&c->state);
  const uint64_t n = c->events;
  pthread_mutex_unlock(&c->state);
  return n;
}

static void pass_cancel(tni_conn *c) {
  const tn_host *h = c->o->host;
  if (h && h->cancelled && h->cancelled(h->ctx)) atomic_store(&c->page->cancel, 1);
}

static tn_status await_frame(tni_conn *c, int socket, const char *what, tni_rd *r) {
  int64_t until = tni_now_ns() + c->timeout_ns;
  uint64_t seen = count_events(c);
  for (;;) {
    tn_status st = tni_wire_receive(socket, tni_now_ns() + SLICE_MS * MS, r);
    if (st == TN_E_CORRUPT || st == TN_E_NO_MEMORY) tni_conn_fail(c, "its answer to '%s' was none", what);
    if (st != TN_E_CANCELLED) return st;
    if (tni_conn_dead(c)) return TN_E_DEVICE_LOST;
    pass_cancel(c);
    const uint64_t now = count_events(c);
    if (now != seen) until = tni_now_ns() + c->timeout_ns;
    seen = now;
    if (tni_now_ns() < until) continue;
    tni_conn_fail(c, "no answer to '%s' for %lld ms", what, (long long)(c->timeout_ns / MS));
    return TN_E_DEVICE_LOST;
  }
}

/* A socket that is closed is seen before its thread has found out why. */
static tn_status wait_for_end(tni_conn *c, tn_error *err) {
  const int64_t until = tni_now_ns() + 1000 * MS;
  const struct timespec at = {until / 1000000000, until % 1000000000};
  int late = 0;
  pthread_mutex_lock(&c->state);
  while (!c->dead && !late) late = pthread_cond_timedwait(&c->changed, &c->state, &at);
  const bool dead = c->dead;
  pthread_mutex_unlock(&c->state);
  if (!dead) tni_conn_fail(c, "it closed its socket");
  return tni_conn_lost(c, err);
}

static tn_status receive_answer(tni_conn *c, int socket, uint32_t kind, uint32_t seq, const char *what, tni_rd *r,
                                tn_error *err) {
  if (await_frame(c, socket, what, r) != TN_OK) return wait_for_end(c, err);
  const tn_status st = (tn_status)tni_r_u32(r);
  const uint64_t events = tni_r_u64(r);
  if (r->kind != kind || r->seq != seq || r->bad || r->n_fds || !catch_up(c, events)) {
    tni_rd_finish(r);
    return tni_conn_dead(c) ? wait_for_end(c, err) : tni_conn_wrong(c, what, err);
  }
  if (st == TN_OK) return TN_OK;
  tn_error said;
  tni_r_error(r, &said);
  const bool bad = r->bad;
  tni_rd_finish(r);
  if (bad) return tni_conn_wrong(c, what, err);
  if (err && !err->code) {
    tni_error_copy(err, &said);
    if (!err->code) err->code = st;
  }
  return st;
}

tn_status tni_conn_call(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tni_rd *answer,
                        tn_error *err) {
  pthread_mutex_lock(&c->call);
  tn_status st = tni_conn_dead(c) ? TN_E_DEVICE_LOST : TN_OK;
  if (st == TN_OK && w->bad) {
    st = tni_fail_memory(err, c->name);
  } else if (st != TN_OK) {
    st = tni_conn_lost(c, err);
  } else {
    atomic_store(&c->page->cancel, 0);
    st = tni_wire_send(c->control, kind, ++c->seq, w, tni_now_ns() + c->timeout_ns);
    st = st == TN_OK ? receive_answer(c, c->control, kind, c->seq, what, answer, err) : wait_for_end(c, err);
  }
  pthread_mutex_unlock(&c->call);
  return st;
}

tn_status tni_conn_tell(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tn_error *err) {
  tni_rd r;
  tn_status st = tni_conn_call(c, kind, what, w, &r, err);
  if (st != TN_OK) return st;
  const bool whole = tni_rd_whole(&r);
  tni_rd_finish(&r);
  return whole ? TN_OK : tni_conn_wrong(c, what, err);
}

tn_status tni_conn_submit(tni_conn *c, int socket, const char *what, const tni_wire *w, tn_error *err) {
  tni_rd r;
  if (tni_conn_dead(c)) return tni_conn_lost(c, err);
  tn_status st = tni_wire_send(socket, TNI_ISO_SUBMIT, 1, w, tni_now_ns() + c->timeout_ns);
  st = st == TN_OK ? receive_answer(c, socket, TNI_ISO_SUBMIT, 1, what, &r, err) : wait_for_end(c, err);
  if (st == TN_OK) tni_rd_finish(&r);
  return st;
}

/* --- runs -------------------------------------------------------------------------------------------------------- */

static bool await_run(tni_conn *c, uint32_t asked, const tn_run *run) {
  int64_t until = 0;
  while (tni_futex_wait(&c->page->answered, asked - 1, &c->page->host_sleeps, SLICE_MS) != asked) {
    const int64_t now = tni_now_ns();
    if (!until) until = now + c->timeout_ns;
    if (tni_conn_dead(c)) return false;
    if (run && run->cancelled && run->cancelled(run)) atomic_store(&c->page->cancel, 1);
    if (now < until) continue;
    tni_conn_fail(c, "a task did not end within %lld ms", (long long)(c->timeout_ns / MS));
    return false;
  }
  return true;
}

tn_status tni_conn_run(tni_conn *c, uint32_t args, tn_run *run, tn_error *err) {
  tni_iso_page *g = c->page;
  if (tni_conn_dead(c)) return tni_conn_lost(c, err);
  pthread_mutex_lock(&c->run);
  const uint32_t asked = ++c->ran;
  g->args = args;
  g->step = run->step;
  atomic_store_explicit(&g->cancel, 0, memory_order_relaxed);
  tni_futex_post(&g->asked, asked, &g->child_sleeps);
  tn_status st;
  if (!await_run(c, asked, run)) {
    st = wait_for_end(c, err);
  } else {
    st = g->status;
    const uint64_t events = g->events;
    if (st != TN_OK && err) { /* the child may go on writing: what is looked at is a copy */
      tn_error said;
      memcpy(&said, &g->error, sizeof said);
      tni_error_copy(err, &said);
    }
    if (events && !catch_up(c, events)) st = tni_conn_wrong(c, "run", err);
  }
  pthread_mutex_unlock(&c->run);
  return st;
}
