/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans, memory and runs of an isolated device.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/plugin/process/proxy.h"

/* --- views ------------------------------------------------------------------------------------------------------- */

static void put_view(tni_wire *w, const tn_view *v, uint32_t kind, uint32_t piece, uint64_t at) {
  int64_t none[TN_MAX_RANK] = {0}, dims[TN_MAX_RANK] = {0}, strides[TN_MAX_RANK] = {0};
  const uint32_t rank = v->rank <= TN_MAX_RANK ? v->rank : TN_MAX_RANK;
  memcpy(dims, v->dims ? v->dims : none, rank * sizeof *dims);
  memcpy(strides, v->strides ? v->strides : none, rank * sizeof *strides);
  tni_w_u32(w, kind | (v->buffer ? TNI_ISO_BUFFER : 0));
  tni_w_u32(w, piece);
  tni_w_u32(w, v->buffer ? ((const tni_iso_buffer *)v->buffer)->id : 0);
  tni_w_u64(w, at);
  tni_w_u64(w, v->offset);
  tni_w_u64(w, v->bytes);
  tni_w_u32(w, v->dtype);
  tni_w_u32(w, rank);
  tni_w_bytes(w, dims, sizeof dims);
  tni_w_bytes(w, strides, sizeof strides);
}

/* --- programs and plans ------------------------------------------------------------------------------------------ */

static tn_status proxy_measure(const tn_program *k, tn_id task, const tn_dims *dims, tn_measure *out) {
  tni_iso *p = k->d->p;
  tni_wire w = {.n = 0};
  tni_rd r;
  tni_w_u32(&w, k->id);
  tni_w_u32(&w, task);
  tni_w_array(&w, dims->v, dims->n, sizeof *dims->v);
  tn_status st = tni_conn_call(p->c, TNI_ISO_MEASURE, "measure", &w, &r, NULL);
  tni_wire_finish(&w);
  if (st != TN_OK) return st;
  out->scratch_bytes = tni_r_u64(&r);
  out->driver_bytes = tni_r_u64(&r);
  out->scratch_align = tni_r_u32(&r);
  out->cost_ns = tni_r_f64(&r);
  out->macs = tni_r_f64(&r);
  out->moved_bytes = tni_r_f64(&r);
  const uint32_t n = tni_r_count(&r, 8, TNI_ISO_MAX_OBJECTS);
  bool ok = n == k->info->n_slots;
  for (uint32_t i = 0; ok && i < n; i++) {
    const uint64_t bytes = tni_r_u64(&r);
    if (bytes != UINT64_MAX && out->slot_bytes) out->slot_bytes[i] = bytes;
  }
  ok = ok && tni_rd_whole(&r);
  tni_rd_finish(&r);
  return ok ? TN_OK : tni_conn_wrong(p->c, "measure", NULL);
}

static tn_status proxy_set(tn_program *k, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  tni_iso *p = k->d->p;
  tni_iso_const *at = &k->consts[slot];
  if (slot >= k->info->n_slots) return tni_fail(err, TN_E_INVALID, p->o.name, "no slot %u", slot);
  tni_iso_const_drop(p, at);
  tni_conn_withdraw(p->c, k->offered[slot]);
  const void *ptr = view ? view->ptr : NULL;
  tn_status st = ptr ? tni_iso_const_get(p, ptr, view->bytes, at, err) : TN_OK;
  const bool in_view = blob && blob->ptr && ptr && blob->ptr == ptr;
  if (st == TN_OK && blob && !in_view && !(k->offered[slot] = tni_conn_offer(p->c, NULL, blob)))
    st = tni_fail_memory(err, p->o.name);
  tni_wire w = {.n = 0};
  tni_w_u32(&w, k->id);
  tni_w_u32(&w, slot);
  tni_w_u32(&w, view != NULL);
  if (view) put_view(&w, view, at->piece ? TNI_ISO_PIECE : TNI_ISO_NOWHERE, at->piece, at->offset);
  tni_w_u32(&w, blob != NULL);
  if (blob) tni_iso_put_blob(&w, blob, in_view ? at : NULL, k->offered[slot]);
  if (st == TN_OK) st = tni_conn_tell(p->c, TNI_ISO_SET, "set", &w, err);
  tni_wire_finish(&w);
  return st;
}

static tn_status get_id(tni_iso *p, tni_rd *r, const char *what, uint32_t *id, tn_error *err) {
  *id = tni_r_u32(r);
  const bool ok = tni_rd_whole(r);
  tni_rd_finish(r);
  return ok ? TN_OK : tni_conn_wrong(p->c, what, err);
}

static tn_status bind_task(tn_program *k, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tni_iso *p = k->d->p;
  tn_plan *plan = calloc(1, sizeof *plan);
  tni_wire w = {.n = 0};
  tni_rd r;
  if (!plan) return tni_fail_memory(err, p->o.name);
  *plan = (tn_plan){.program = k, .task = task};
  tni_w_u32(&w, k->id);
  tni_w_u32(&w, task);
  tni_w_array(&w, dims->v, dims->n, sizeof *dims->v);
  tn_status st = task < k->info->n_tasks ? tni_conn_call(p->c, TNI_ISO_BIND, "bind", &w, &r, err) : TN_E_INVALID;
  tni_wire_finish(&w);
  if (st == TN_OK) st = get_id(p, &r, "bind", &plan->id, err);
  if (st == TN_OK)
    *out = plan;
  else
    free(plan);
  return st;
}

static void tell_id(tni_iso *p, uint32_t kind, const char *what, uint32_t id) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, id);
  (void)!tni_conn_tell(p->c, kind, what, &w, NULL);
  tni_wire_finish(&w);
}

static void proxy_unbind(tn_plan *plan) {
  tell_id(plan->program->d->p, TNI_ISO_UNBIND, "unbind", plan->id);
  free(plan);
}

/* --- args -------------------------------------------------------------------------------------------------------- */

static uint32_t slot_kind(const tn_plan *plan, uint32_t use) {
  const tn_task *t = plan->program->info->tasks[plan->task];
  return use < t->n_uses ? plan->program->info->slots[t->uses[use].slot]->kind : 0;
}

static bool is_set(const tn_plan *plan, uint32_t use) {
  const uint32_t kind = slot_kind(plan, use);
  return kind == TN_SLOT_WEIGHT || kind == TN_SLOT_PRIVATE;
}

/* Where a view lies, and a stage for what has to be copied around runs. */
static tn_status look_at_view(tn_args *a, uint32_t use, const tn_view *v, tn_error *err) {
  tni_iso *p = a->plan->program->d->p;
  const tn_task *t = a->plan->program->info->tasks[a->plan->task];
  tni_iso_use *u = &a->use[use];
  tni_shm_at at;
  if (u->ptr) a->copies--;
  u->ptr = NULL;
  u->bytes = v->bytes;
  u->access = use < t->n_uses ? t->uses[use].access : 0;
  if (!v->ptr || is_set(a->plan, use) || tni_shm_find(p->o.shm, v->ptr, v->bytes, &at)) return TN_OK;
  if (!u->stage || u->room < v->bytes) {
    tni_shm_free(p->o.shm, u->stage);
    u->room = v->bytes;
    if (!(u->stage = tni_iso_alloc(p, v->bytes, &u->at, err))) return TN_E_NO_MEMORY;
  }
  u->ptr = v->ptr;
  a->copies++;
  return TN_OK;
}

static tn_status put_use(tn_args *a, tni_wire *w, uint32_t use, const tn_view *v, tn_error *err) {
  tni_iso *p = a->plan->program->d->p;
  const tni_iso_use *u = &a->use[use];
  tni_shm_at at;
  if (is_set(a->plan, use)) {
    tni_w_u32(w, TNI_ISO_AS_SET);
    return TN_OK;
  }
  if (u->ptr) {
    put_view(w, v, TNI_ISO_PIECE, u->at.id, 0);
    return TN_OK;
  }
  if (!v->ptr || !tni_shm_find(p->o.shm, v->ptr, v->bytes, &at)) {
    put_view(w, v, TNI_ISO_NOWHERE, 0, 0);
    return TN_OK;
  }
  put_view(w, v, TNI_ISO_PIECE, at.id, at.offset);
  return tni_iso_send_piece(p, &at, err);
}

static void free_args(tn_args *a) {
  tni_iso *p = a->plan->program->d->p;
  for (uint32_t i = 0; i < a->n; i++) tni_shm_free(p->o.shm, a->use[i].stage);
  free(a);
}

static tn_status proxy_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  tni_iso *p = plan->program->d->p;
  tn_args *a = calloc(1, sizeof *a + n * sizeof a->use[0]);
  tni_wire w = {.n = 0};
  tni_rd r;
  tn_status st = TN_OK;
  if (!a) return tni_fail_memory(err, p->o.name);
  a->plan = plan;
  a->n = n;
  tni_iso_sweep(p);
  tni_w_u32(&w, plan->id);
  tni_w_u32(&w, n);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    st = look_at_view(a, i, uses[i], err);
    if (st == TN_OK) st = put_use(a, &w, i, uses[i], err);
  }
  if (st == TN_OK) st = tni_conn_call(p->c, TNI_ISO_ARGS, "args", &w, &r, err);
  tni_wire_finish(&w);
  if (st == TN_OK) st = get_id(p, &r, "args", &a->id, err);
  if (st == TN_OK)
    *out = a;
  else
    free_args(a);
  return st;
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *v, tn_error *err) {
  tni_iso *p = a->plan->program->d->p;
  tni_wire w = {.n = 0};
  if (use >= a->n) return tni_fail(err, TN_E_INVALID, p->o.name, "no use %u", use);
  tn_status st = look_at_view(a, use, v, err);
  tni_w_u32(&w, a->id);
  tni_w_u32(&w, use);
  if (st == TN_OK) st = put_use(a, &w, use, v, err);
  if (st == TN_OK) st = tni_conn_tell(p->c, TNI_ISO_ARGS_SET, "args_set", &w, err);
  tni_wire_finish(&w);
  return st;
}

static void args_free(tn_args *a) {
  tni_iso *p = a->plan->program->d->p;
  tell_id(p, TNI_ISO_ARGS_FREE, "args_free", a->id);
  free_args(a);
}

/* --- runs -------------------------------------------------------------------------------------------------------- */

static void copy_in(tni_iso *p, const tn_args *a) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    if (!a->use[i].ptr || !a->use[i].access) continue;
    memcpy(a->use[i].stage, a->use[i].ptr, a->use[i].bytes);
    n += a->use[i].bytes;
  }
  atomic_fetch_add_explicit(&p->copied, n, memory_order_relaxed);
}

static void copy_out(tni_iso *p, const tn_args *a) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    if (!a->use[i].ptr || !(a->use[i].access & (TN_WRITE | TN_APPEND))) continue;
    memcpy(a->use[i].ptr, a->use[i].stage, a->use[i].bytes);
    n += a->use[i].bytes;
  }
  atomic_fetch_add_explicit(&p->copied, n, memory_order_relaxed);
}

static tn_status proxy_run(const tn_plan *plan, tn_args *a, tn_run *lent, tn_error *err) {
  tni_iso *p = plan->program->d->p;
  if (a->copies) copy_in(p, a);
  tn_status st = tni_conn_run(p->c, a->id, lent, err);
  if (a->copies && st == TN_OK) copy_out(p, a);
  atomic_fetch_add_explicit(&p->runs, 1, memory_order_relaxed);
  return st;
}

/* --- engines ----------------------------------------------------------------------------------------------------- */

static uint32_t number_engine(tni_iso *p) {
  pthread_mutex_lock(&p->lock);
  const uint32_t number = p->n_engines;
  p->n_engines += number < TNI_ISO_ENGINES;
  pthread_mutex_unlock(&p->lock);
  return number;
}

static tn_status open_engine(tni_iso_device *d, uint32_t engine, tn_error *err) {
  int pair[2];
  if (engine < 1 || engine > TNI_ISO_ENGINES || engine > d->pub.caps->n_engines)
    return tni_fail(err, TN_E_UNSUPPORTED, d->p->o.name, "no engine %u", engine);
  tni_iso_engine *e = &d->engine[engine - 1];
  if (e->socket >= 0) return TN_OK;
  e->number = number_engine(d->p);
  if (e->number == TNI_ISO_ENGINES)
    return tni_fail(err, TN_E_UNSUPPORTED, d->p->o.name, "more than %d engines", TNI_ISO_ENGINES);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return tni_fail(err, TN_E_NO_MEMORY, d->p->o.name, "no socket for engine %u", engine);
  tni_wire w = {.n = 0};
  tni_w_u32(&w, d->index);
  tni_w_u32(&w, engine);
  tni_w_u32(&w, e->number);
  tni_w_fd(&w, pair[1]);
  tn_status st = tni_conn_tell(d->p->c, TNI_ISO_ENGINE, "engine", &w, err);
  tni_wire_finish(&w);
  close(pair[1]);
  if (st == TN_OK)
    e->socket = pair[0];
  else
    close(pair[0]);
  return st;
}

static uint32_t put_items(tni_iso *p, tni_wire *w, const tn_item *const *items, uint32_t n, uint32_t step,
                          uint32_t *numbers) {
  tni_w_u32(w, step);
  tni_w_u32(w, n);
  for (uint32_t i = 0; i < n; i++) {
    if (!items[i]->plan || !items[i]->args) return i;
    numbers[i] = tni_conn_ticket(p->c, items[i]->ticket);
    if (numbers[i] == UINT32_MAX) return i;
    tni_w_u32(w, items[i]->args->id);
    tni_w_u32(w, numbers[i]);
    tni_w_i64(w, items[i]->ready);
  }
  return n;
}

/* Where the process dies meanwhile the items are taken, and end as lost. */
static tn_status proxy_submit(tn_device *pub, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *lent,
                              tn_error *err) {
  tni_iso_device *d = (tni_iso_device *)pub;
  tni_iso *p = d->p;
  tni_wire w = {.n = 0};
  tn_status st = open_engine(d, engine, err);
  if (st != TN_OK) return st;
  uint32_t *numbers = calloc((size_t)n + 1, sizeof *numbers);
  if (!numbers) return tni_fail_memory(err, p->o.name);
  const uint32_t put = put_items(p, &w, items, n, lent ? lent->step : 0, numbers);
  if (put < n) st = tni_conn_dead(p->c) ? tni_conn_lost(p->c, err) : TN_E_UNSUPPORTED;
  const bool asked = st == TN_OK;
  if (asked) st = tni_conn_submit(p->c, d->engine[engine - 1].socket, d->engine[engine - 1].number, lent, &w, err);
  tni_wire_finish(&w);
  const bool lost = asked && st == TN_E_DEVICE_LOST && tni_conn_dead(p->c);
  const bool lied = st != TN_OK && !lost && !tni_conn_tickets_drop(p->c, numbers, put);
  if (lied) tni_conn_fail(p->c, "it completed what it had refused");
  if (lost || lied) {
    tni_conn_await_end(p->c);
    st = TN_OK;
  } else if (st != TN_OK) {
    tni_fail(err, st, p->o.name, "engine %u took nothing", engine);
  }
  free(numbers);
  return st;
}

/* --- device ------------------------------------------------------------------------------------------------------ */

static const tn_engine *own_engine(tni_iso *p, const tn_engine *theirs, uint32_t most) {
  tn_engine *e = tni_arena_memdup(p->arena, theirs, sizeof *theirs, _Alignof(tn_engine));
  if (e && (!e->depth || e->depth > most)) e->depth = most; /* 0: any number */
  return e;
}

/* What memory it can have is ours to say: descriptors where it imports them. So is how many items there may be. */
static const tn_caps *own_caps(tni_iso *p, const tn_caps *caps, bool shares, uint32_t most) {
  tn_caps *c = tni_arena_memdup(p->arena, caps, sizeof *caps, _Alignof(tn_caps));
  const tn_engine **engines = TNI_NEW_ARRAY(p->arena, const tn_engine *, (size_t)caps->n_engines + 1);
  bool ok = c && engines;
  for (uint32_t i = 0; ok && i < caps->n_engines; i++)
    ok = (engines[i] = own_engine(p, caps->engines[i], most)) != NULL;
  if (!ok) return NULL;
  c->engines = engines;
  c->import_kinds = caps->import_kinds & (1u << TN_MEM_NEW | (shares ? 1u << TN_MEM_FD : 0));
  c->export_kinds = shares ? 1u << TN_MEM_FD : 0;
  return c;
}

bool tni_iso_device_fill(tni_iso *p, tni_iso_device *d, uint32_t index, const tn_caps *caps, bool buffers,
                         uint32_t most) {
  d->p = p;
  d->index = index;
  d->shares = buffers && caps->import_kinds & 1u << TN_MEM_FD;
  for (uint32_t i = 0; i < TNI_ISO_ENGINES; i++) d->engine[i].socket = -1;
  d->pub = (tn_device){.h = TN_HDR(tn_device),
                       .caps = own_caps(p, caps, d->shares, most),
                       .claim = tni_iso_claim,
                       .lower = tni_iso_lower,
                       .info = tni_iso_info,
                       .measure = proxy_measure,
                       .set = proxy_set,
                       .release = tni_iso_release,
                       .bind = bind_task,
                       .unbind = proxy_unbind,
                       .args = proxy_args,
                       .args_set = args_set,
                       .args_free = args_free,
                       .run = proxy_run};
  if (caps->n_engines) d->pub.submit = proxy_submit;
  if (!buffers) return d->pub.caps != NULL;
  d->pub.create = tni_iso_create;
  d->pub.destroy = tni_iso_destroy;
  d->pub.map = tni_iso_map;
  d->pub.unmap = tni_iso_unmap;
  if (d->shares) d->pub.share = tni_iso_share;
  return d->pub.caps != NULL;
}
