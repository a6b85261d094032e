/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/conn.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/events.h"
#include "runtime/plugin/process/turns.h"

enum { GOODBYE_MS = 2000, SUPERVISOR_MS = 500, FRAME_MS = 5000 };
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
  tn_status st = (c->o->spawn ? c->o->spawn : tni_child_spawn)(c->o->helper, args, &c->child, &err);
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
    const int64_t until = tni_now_ns() + FRAME_MS * MS;
    tn_status st = tni_wire_receive(c->child.channel, until, until, &r);
    if (st == TN_E_CORRUPT) tni_conn_fail(c, "it sent something that is no message");
    if (st != TN_OK) break;
    going = tni_event_take(c, &r);
    tni_rd_finish(&r);
  }
  if (c->spawn_status == TN_OK) {
    pthread_mutex_lock(&c->state);
    const bool gently = c->closing && !c->why[0];
    close(c->child.channel); /* its number may be another's at once: nobody finds it here any more */
    c->child.channel = -1;
    pthread_mutex_unlock(&c->state);
    const tni_child_end end = tni_child_finish(&c->child, gently ? GOODBYE_MS : SUPERVISOR_MS);
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
  tni_w_u32(w, o->confine);
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

/* On a descriptor of its own: the thread closes the channel when the process ends. */
static tn_status send_start(tni_conn *c, const tni_wire *w, int64_t until) {
  pthread_mutex_lock(&c->state);
  const int channel = c->child.channel < 0 ? -1 : fcntl(c->child.channel, F_DUPFD_CLOEXEC, 0);
  pthread_mutex_unlock(&c->state);
  tni_turn_begin(c, TNI_ISO_START, NULL);
  const tn_status st = channel < 0 ? TN_E_DEVICE_LOST : tni_wire_send(channel, TNI_ISO_START, ++c->seq, w, until);
  if (channel >= 0) close(channel);
  if (st != TN_OK) tni_conn_fail(c, "it did not start");
  return st;
}

static tn_status wait_spawned(tni_conn *c, tn_error *err) {
  pthread_mutex_lock(&c->state);
  while (!c->spawned) pthread_cond_wait(&c->changed, &c->state);
  tn_status st = c->spawn_status;
  if (st != TN_OK) tni_fail(err, st, c->spawn_error.where, "%s", c->spawn_error.message);
  pthread_mutex_unlock(&c->state);
  return st;
}

tn_status tni_conn_open(const tni_isolate_opts *o, tni_conn **out, tni_rd *answer, tn_error *err) {
  tni_conn *c = create_conn(o);
  int pair[2] = {-1, -1}, page = -1, window = -1;
  void *p = NULL, *q = NULL;
  if (!c) return tni_fail_memory(err, o->name);
  if ((page = tni_shm_map(sizeof *c->page, &p)) >= 0) c->page = p;
  if ((window = tni_shm_map(TNI_ISO_WINDOW, &q)) >= 0) c->window = q;
  bool ok = page >= 0 && window >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
  c->control = pair[0];
  const bool started = ok && tni_quiet_thread(&c->thread, thread_main, c) == 0;
  tn_status st = started ? wait_spawned(c, err) : tni_fail_memory(err, o->name);
  tni_wire w = {.n = 0};
  const int64_t until = tni_now_ns() + c->timeout_ns;
  if (st == TN_OK) {
    put_start(c, &w, pair[1], page, window);
    st = send_start(c, &w, until);
  }
  tni_wire_finish(&w);
  if (pair[1] >= 0) close(pair[1]);
  if (page >= 0) close(page);
  if (window >= 0) close(window);
  if (st == TN_OK) st = tni_conn_answer(c, c->control, TNI_ISO_START, c->seq, "start", until, answer, err);
  (void)!tni_turn_end(c);
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
  if (c->child.channel >= 0) shutdown(c->child.channel, SHUT_RDWR); /* its thread ends the process */
  pthread_mutex_unlock(&c->state);
  pthread_join(c->thread, NULL);
  destroy_conn(c);
}
