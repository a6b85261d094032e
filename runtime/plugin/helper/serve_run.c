/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans, memory and runs.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/plugin/helper/serve.h"
#include "runtime/plugin/process/process.h"

/* --- views ------------------------------------------------------------------------------------------------------- */

/* False: the message is wrong. *as_set: it is what set() got. */
static bool get_view(tni_srv *s, tni_rd *r, tni_srv_view *out, bool *as_set) {
  const uint32_t kind = tni_r_u32(r);
  *as_set = kind == TNI_ISO_AS_SET;
  if (*as_set) return !r->bad;
  *out = (tni_srv_view){.v = {.h = TN_HDR(tn_view)}};
  tn_view *v = &out->v;
  const uint32_t piece = tni_r_u32(r), buffer = tni_r_u32(r);
  const uint64_t at = tni_r_u64(r);
  v->offset = tni_r_u64(r);
  v->bytes = tni_r_u64(r);
  v->dtype = tni_r_u32(r);
  v->rank = tni_r_u32(r);
  const void *dims = tni_r_bytes(r, sizeof out->dims), *strides = tni_r_bytes(r, sizeof out->strides);
  if (!dims || !strides || v->rank > TN_MAX_RANK) return false;
  memcpy(out->dims, dims, sizeof out->dims);
  memcpy(out->strides, strides, sizeof out->strides);
  v->dims = out->dims;
  v->strides = out->strides;
  if (kind & TNI_ISO_PIECE && !(v->ptr = tni_srv_at(s, piece, at, v->bytes))) return false;
  if (kind & TNI_ISO_BUFFER) {
    const tni_srv_buffer *b = tni_srv_get(s, TNI_SRV_BUFFERS, buffer);
    if (!b) return false;
    v->buffer = b->b;
  }
  return true;
}

/* --- programs and plans ------------------------------------------------------------------------------------------ */

static bool get_dims(tni_rd *r, tni_arena *a, tn_dims *d) {
  *d = (tn_dims){.h = TN_HDR(tn_dims)};
  d->v = tni_r_array(r, a, &d->n, sizeof(int64_t), TNI_ISO_MAX_OBJECTS);
  return d->v != NULL;
}

/* Sizes that the plugin leaves alone stay all ones. */
tn_status tni_srv_measure(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_program *p = tni_srv_get(s, TNI_SRV_PROGRAMS, tni_r_u32(r));
  const uint32_t task = tni_r_u32(r);
  tni_arena *a = tni_arena_create();
  tn_dims d;
  (void)err;
  uint64_t *sizes = a && p ? tni_arena_array(a, (size_t)p->info->n_slots + 1, sizeof *sizes, 8) : NULL;
  if (!sizes || !get_dims(r, a, &d)) {
    tni_arena_destroy(a);
    return TN_E_INVALID;
  }
  memset(sizes, 0xff, p->info->n_slots * sizeof *sizes);
  tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = sizes};
  tn_status st = p->d->measure(p->p, task, &d, &m);
  tni_w_u64(w, m.scratch_bytes);
  tni_w_u64(w, m.driver_bytes);
  tni_w_u32(w, m.scratch_align);
  tni_w_f64(w, m.cost_ns);
  tni_w_f64(w, m.macs);
  tni_w_f64(w, m.moved_bytes);
  tni_w_array(w, sizes, p->info->n_slots, sizeof *sizes);
  tni_arena_destroy(a);
  return st;
}

/* program, slot, whether there is a view, the view, whether there is a blob, the blob. */
tn_status tni_srv_set(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_program *p = tni_srv_get(s, TNI_SRV_PROGRAMS, tni_r_u32(r));
  const uint32_t slot = tni_r_u32(r), has_view = tni_r_u32(r);
  bool as_set;
  (void)w;
  if (!p || slot >= p->info->n_slots) return TN_E_INVALID;
  tni_srv_view *v = &p->set[slot];
  if (has_view && (!get_view(s, r, v, &as_set) || as_set)) return TN_E_INVALID;
  if (!has_view) *v = (tni_srv_view){.v = {.h = TN_HDR(tn_view)}};
  tni_srv_blob *b = NULL;
  if (tni_r_u32(r)) {
    b = TNI_NEW(p->arena, tni_srv_blob);
    if (!b || !tni_srv_get_blob(s, r, b)) return TN_E_INVALID;
    b->b.ctx = b;
    b->b.params = b->params;
  }
  return p->d->set(p->p, slot, has_view ? &v->v : NULL, b ? &b->b : NULL, err);
}

tn_status tni_srv_bind(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_program *p = tni_srv_get(s, TNI_SRV_PROGRAMS, tni_r_u32(r));
  const uint32_t task = tni_r_u32(r);
  tni_arena *a = tni_arena_create();
  tni_srv_plan *plan = calloc(1, sizeof *plan);
  tn_dims d;
  uint32_t id = 0;
  tn_status st = p && a && plan && task < p->info->n_tasks && get_dims(r, a, &d) ? TN_OK : TN_E_INVALID;
  if (st == TN_OK) st = p->d->bind(p->p, task, &d, &plan->p, err);
  if (st == TN_OK && !plan->p) st = tni_fail(err, TN_E_INTERNAL, NULL, "no plan");
  if (st == TN_OK) {
    plan->program = p;
    plan->task = task;
    if (!tni_srv_add(s, TNI_SRV_PLANS, plan, &id)) {
      p->d->unbind(plan->p);
      st = TN_E_NO_MEMORY;
    }
  }
  if (st != TN_OK) free(plan);
  tni_w_u32(w, id);
  tni_arena_destroy(a);
  return st;
}

tn_status tni_srv_unbind(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_plan *plan = tni_srv_take(s, TNI_SRV_PLANS, tni_r_u32(r));
  (void)w;
  (void)err;
  if (!plan) return TN_E_INVALID;
  plan->program->d->unbind(plan->p);
  free(plan);
  return TN_OK;
}

static const tn_view *use_view(const tni_srv_args *k, uint32_t i, bool as_set) {
  const tn_task *t = k->plan->program->info->tasks[k->plan->task];
  return as_set && i < t->n_uses ? &k->plan->program->set[t->uses[i].slot].v : &k->views[i].v;
}

tn_status tni_srv_args_new(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_plan *plan = tni_srv_get(s, TNI_SRV_PLANS, tni_r_u32(r));
  const uint32_t n = tni_r_u32(r);
  if (!plan || n != plan->program->info->tasks[plan->task]->n_uses + 1) return TN_E_INVALID;
  tni_srv_args *k = calloc(1, sizeof *k + n * sizeof k->views[0]);
  const tn_view **list = calloc(n, sizeof *list);
  uint32_t id = 0;
  tn_status st = k && list ? TN_OK : TN_E_NO_MEMORY;
  if (k) {
    k->plan = plan;
    k->n = n;
  }
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    bool as_set;
    if (!get_view(s, r, &k->views[i], &as_set))
      st = tni_fail(err, TN_E_INVALID, NULL, "a view of memory that is not there");
    else
      list[i] = use_view(k, i, as_set);
  }
  if (st == TN_OK) st = plan->program->d->args(plan->p, list, n, &k->a, err);
  if (st == TN_OK && !k->a) st = tni_fail(err, TN_E_INTERNAL, NULL, "no args");
  if (st == TN_OK && !tni_srv_add(s, TNI_SRV_ARGS, k, &id)) {
    plan->program->d->args_free(k->a);
    st = TN_E_NO_MEMORY;
  }
  if (st != TN_OK) free(k);
  free(list);
  tni_w_u32(w, id);
  return st;
}

/* args, how many, then use and view of each. */
tn_status tni_srv_args_set(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_args *k = tni_srv_get(s, TNI_SRV_ARGS, tni_r_u32(r));
  const uint32_t use = tni_r_u32(r);
  bool as_set;
  (void)w;
  if (!k || use >= k->n || !get_view(s, r, &k->views[use], &as_set)) return TN_E_INVALID;
  return k->plan->program->d->args_set(k->a, use, use_view(k, use, as_set), err);
}

tn_status tni_srv_args_free(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_args *k = tni_srv_take(s, TNI_SRV_ARGS, tni_r_u32(r));
  (void)w;
  (void)err;
  if (!k) return TN_E_INVALID;
  k->plan->program->d->args_free(k->a);
  free(k);
  return TN_OK;
}

/* --- runs on the CPU --------------------------------------------------------------------------------------------- */

void *tni_srv_run_thread(void *srv) {
  tni_srv *s = srv;
  tni_iso_page *g = s->page;
  tni_pool_run run;
  tni_pool_run_init(&run, s->pool, (const volatile int32_t *)&g->stop_run);
  for (uint32_t seen = 0;;) {
    seen = tni_futex_wait(&g->asked, seen, &g->child_sleeps, -1);
    tn_error err;
    tni_error_init(&err);
    const tni_srv_args *k = tni_srv_get(s, TNI_SRV_ARGS, g->args);
    run.run.step = g->step;
    const tn_status st = k ? k->plan->program->d->run(k->plan->p, k->a, &run.run, &err) : TN_E_INVALID;
    g->status = st;
    if (st != TN_OK) g->error = err;
    g->events = atomic_load(&s->events);
    tni_futex_post(&g->answered, seen, &g->host_sleeps);
  }
  return NULL;
}

/* --- engines ----------------------------------------------------------------------------------------------------- */

static tn_ticket *ticket_of(tni_srv *s, uint32_t number) {
  tn_ticket *t = NULL;
  pthread_mutex_lock(&s->lock);
  if (number >= s->n_tickets && number < 65536) {
    const uint32_t n = number + 16;
    tn_ticket **grown = realloc(s->tickets, n * sizeof *grown);
    if (grown) {
      memset(grown + s->n_tickets, 0, (n - s->n_tickets) * sizeof *grown);
      s->tickets = grown;
      s->n_tickets = n;
    }
  }
  if (number < s->n_tickets && !s->tickets[number]) {
    t = aligned_alloc(TNI_TICKET_ALIGN, sizeof *t); /* a multiple of its alignment */
    if (t) {
      memset(t, 0, sizeof *t);
      tni_ticket_init(t, &s->waker, &s->log, s->l->info.name);
      t->user = (void *)(uintptr_t)number;
    }
    s->tickets[number] = t;
  }
  t = number < s->n_tickets ? s->tickets[number] : NULL;
  pthread_mutex_unlock(&s->lock);
  return t;
}

enum { MAX_ITEMS = 4096 };

/* step, count, then args, ticket and ready of each. */
static tn_status submit_run(const tni_srv_engine *e, tni_rd *r, tn_run *run, tn_error *err) {
  tni_srv *s = e->s;
  run->step = tni_r_u32(r);
  const uint32_t n = tni_r_count(r, 16, MAX_ITEMS);
  tn_item *items = calloc((size_t)n + 1, sizeof *items);
  const tn_item **list = calloc((size_t)n + 1, sizeof *list);
  tn_ticket **armed = calloc((size_t)n + 1, sizeof *armed);
  tn_status st = items && list && armed ? TN_OK : TN_E_NO_MEMORY;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    const tni_srv_args *k = tni_srv_get(s, TNI_SRV_ARGS, tni_r_u32(r));
    armed[i] = ticket_of(s, tni_r_u32(r));
    const int64_t ready = tni_r_i64(r);
    if (!k || !armed[i] || r->bad) {
      st = TN_E_INVALID;
      break;
    }
    items[i] = (tn_item){.h = TN_HDR(tn_item), .plan = k->plan->p, .args = k->a, .ready = ready};
    list[i] = &items[i];
  }
  for (uint32_t i = 0; st == TN_OK && i < n; i++) items[i].ticket = tni_ticket_arm(armed[i]);
  const bool asked = st == TN_OK;
  if (asked) st = e->d->submit(e->d, e->engine, list, n, run, err);
  for (uint32_t i = 0; asked && st != TN_OK && i < n; i++) (void)tni_ticket_disarm(armed[i]);
  free(items);
  free(list);
  free(armed);
  return st;
}

static void *engine_thread(void *arg) {
  const tni_srv_engine *e = arg;
  tni_pool_run run;
  tni_pool_run_init(&run, e->s->pool, (const volatile int32_t *)&e->s->page->stop_submit[e->number]);
  for (;;) {
    tni_rd r;
    tni_wire w = {.n = 0};
    tn_error err;
    tni_error_init(&err);
    if (tni_wire_receive(e->socket, -1, -1, &r) != TN_OK || r.kind != TNI_ISO_SUBMIT) return NULL;
    const tn_status st = submit_run(e, &r, &run.run, &err);
    tni_w_u32(&w, (uint32_t)st);
    tni_w_u64(&w, atomic_load(&e->s->events));
    if (st != TN_OK) tni_w_error(&w, &err);
    const tn_status said = tni_wire_send(e->socket, TNI_ISO_SUBMIT, r.seq, &w, -1);
    tni_rd_finish(&r);
    tni_wire_finish(&w);
    if (said != TN_OK) return NULL;
  }
}

tn_status tni_srv_engine_new(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tn_device *d = tni_srv_device(s, tni_r_u32(r));
  const uint32_t engine = tni_r_u32(r), number = tni_r_u32(r);
  const int fd = tni_r_fd(r);
  pthread_t t;
  (void)w;
  if (!d || fd < 0 || engine < 1 || engine > d->caps->n_engines || number >= TNI_ISO_ENGINES ||
      s->n_engines == TNI_ISO_ENGINES)
    return tni_fail(err, TN_E_UNSUPPORTED, NULL, "no engine %u, or more than %d", engine, TNI_ISO_ENGINES);
  tni_srv_engine *e = &s->engines[s->n_engines++];
  *e = (tni_srv_engine){.s = s, .d = d, .engine = engine, .number = number, .socket = fd};
  if (pthread_create(&t, NULL, engine_thread, e) != 0) return TN_E_NO_MEMORY;
  pthread_detach(t);
  return TN_OK;
}

/* --- buffers ----------------------------------------------------------------------------------------------------- */

/* device, kind, bytes, offset, usage, flags, align; a descriptor where the kind has one. */
tn_status tni_srv_create(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tn_device *d = tni_srv_device(s, tni_r_u32(r));
  tn_buffer_req q = {.h = TN_HDR(tn_buffer_req), .fd = -1};
  q.kind = tni_r_u32(r);
  q.bytes = tni_r_u64(r);
  q.offset = tni_r_u64(r);
  q.usage = tni_r_u32(r);
  q.flags = tni_r_u32(r);
  q.align = tni_r_u32(r);
  if (q.kind == TN_MEM_FD || q.kind == TN_MEM_DMABUF) q.fd = tni_r_fd(r);
  tni_srv_buffer *b = calloc(1, sizeof *b);
  uint32_t id = 0;
  tn_status st = d && d->create && b && !r->bad ? TN_OK : TN_E_INVALID;
  if (st == TN_OK) st = d->create(d, &q, &b->b, err);
  if (st == TN_OK && !b->b) st = tni_fail(err, TN_E_INTERNAL, NULL, "no buffer");
  if (st == TN_OK) {
    b->d = d;
    tni_w_u32(w, b->b->flags);
    if (!tni_srv_add(s, TNI_SRV_BUFFERS, b, &id)) {
      d->destroy(b->b);
      st = TN_E_NO_MEMORY;
    }
  }
  if (st != TN_OK) free(b);
  if (q.fd >= 0) close(q.fd);
  tni_w_u32(w, id);
  return st;
}

tn_status tni_srv_destroy(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_buffer *b = tni_srv_take(s, TNI_SRV_BUFFERS, tni_r_u32(r));
  (void)w;
  (void)err;
  if (!b) return TN_E_INVALID;
  b->d->destroy(b->b);
  free(b);
  return TN_OK;
}

/* A range of a buffer into a piece of shared memory (TN_READ), or out of one into it (TN_WRITE). piece 0: the memory is
 * shared already, and only the device is told. */
tn_status tni_srv_buf_map(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  const tni_srv_buffer *b = tni_srv_get(s, TNI_SRV_BUFFERS, tni_r_u32(r));
  const uint64_t offset = tni_r_u64(r), n = tni_r_u64(r);
  const uint32_t access = tni_r_u32(r), piece = tni_r_u32(r);
  void *shared = piece ? tni_srv_at(s, piece, offset, n) : NULL, *p = NULL;
  (void)w;
  if (!b || (piece && !shared)) return TN_E_INVALID;
  tn_status st = b->d->map(b->b, offset, n, access, &p, err);
  if (st != TN_OK) return st;
  if (!p) return tni_fail(err, TN_E_INTERNAL, NULL, "a buffer mapped at NULL");
  if (shared && access & TN_READ) memcpy(shared, p, n);
  if (shared && access == TN_WRITE) memcpy(p, shared, n);
  return b->d->unmap(b->b, p, err);
}
