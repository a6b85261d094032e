/* SPDX-License-Identifier: Apache-2.0
 *
 * belt: a backend whose engine answers later. A made-up accelerator with a queue that a thread of its own works off, and
 * with memory that the CPU does not see: what it maps is a copy. It adds, multiplies and cuts off (Add, Mul, Relu) in
 * float32; what is asynchronous about it is all there: items that are copied in submit, `done` from another thread,
 * cancel, deadlines that the host gives up on, a device that is lost. Start with ../vendor-backend/acme.c, which has
 * weights and fused products; come here where a driver has callbacks and no call that blocks.
 *
 * docs/writing-a-plugin.md walks through it. The contract is <tenon/plugin.h>. */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <tenon/plugin.h>

enum { DEPTH = 32, SLICE = 4096, PATIENCE_S = 1 };

typedef struct belt { /* the plugin: one a host */
  tn_plugin pub;
  const tn_host *host;
  tn_engine engine;
  const tn_engine *engines[1];
  tn_caps caps;
} belt;

typedef struct belt_device {
  tn_device pub;
  const tn_host *host;
  pthread_t worker;
  pthread_mutex_t lock;          /* of all that follows, and of the links of args */
  pthread_cond_t news;           /* something was queued, is over, or all is to stop */
  tn_args *first, *last, *now;   /* the queue, and what the worker has in hand */
  int stop, lost, given_up;
  int hung;                      /* an item that args_free gave up may still touch its plan, program and buffers */
  uint64_t items, lose_at;       /* begun since open; option fault: the one that is lost, from 1 */
} belt_device;

static tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (err) {
    err->code = st;
    vsnprintf(err->message, sizeof err->message, fmt, ap);
  }
  va_end(ap);
  return st;
}

static void *get(const tn_host *h, size_t n) {
  void *p = h->alloc(h->ctx, n ? n : 1, 64, TN_TAG_PLUGIN);
  if (p) memset(p, 0, n);
  return p;
}
static void put(const tn_host *h, void *p) { h->free(h->ctx, p); }

/* What an item that was given up may still touch stays where it is for good. */
static int hangs(belt_device *d) {
  pthread_mutex_lock(&d->lock);
  const int yes = d->hung;
  pthread_mutex_unlock(&d->lock);
  return yes;
}

/* ---- 1. Claims ---- */
static int is_ours(uint32_t op) { return op == TN_OP_ADD || op == TN_OP_MUL || op == TN_OP_RELU; }

static int same_dims(const tn_host *h, const tn_graph *g, const tn_value *a, const tn_value *b) {
  int same = a->rank == b->rank;
  for (uint32_t k = 0; same && k < a->rank; k++) same = h->order(g, a->dims[k], b->dims[k]) == 0;
  return same;
}

static uint32_t refusal(const tn_host *h, const tn_graph *g, const tn_node *n, const char **text) {
  *text = "belt adds, multiplies and cuts off at 0";
  if (!is_ours(n->op)) return TN_WHY_OP;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const tn_value *v = g->values[n->in[i]];
    *text = "belt computes in float32";
    if (v->dtype != TN_DT_F32) return TN_WHY_DTYPE;
    /* An operand may be of any kind: constants and caches would be a need and a slot of another kind in lower. */
    *text = "belt takes no constants and no caches";
    if (v->kind == TN_VALUE_CONST || v->kind == TN_VALUE_STATE) return TN_WHY_SHAPE;
    *text = "belt repeats no rows and columns: both operands have the same dims";
    if (v->rank > TN_MAX_RANK || !same_dims(h, g, v, g->values[n->in[0]])) return TN_WHY_SHAPE;
  }
  return TN_WHY_NONE;
}

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  tn_status st = TN_OK;
  (void)err, (void)at;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    const char *text = "";
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
    c.reason = refusal(((belt_device *)d)->host, g, g->nodes[i], &text);
    if (c.reason != TN_WHY_NONE) c.verdict = TN_NO, snprintf(c.text, sizeof c.text, "%s", text);
    st = sink->node(sink->ctx, i, &c);
  }
  return st;
}

/* ---- 2. Programs: each node is a task on engine 1 ---- */
enum { MAX_USES = 3 };

typedef struct step {
  tn_task task;
  tn_use uses[MAX_USES]; /* operands, then the result */
  tn_slot slots[MAX_USES];
  tn_id node, before;
  uint32_t op, rank;
  tn_expr dims[TN_MAX_RANK];
  char name[48];
} step;

struct tn_program {
  belt_device *device;
  tn_graph graph; /* what host->eval reads of the host's, which may be a longer struct than ours */
  tn_program_info info;
  const tn_slot **slots;
  const tn_task **tasks;
  step steps[];
};

static int holds(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return 1;
  return 0;
}

static tn_id slot_of(tn_program *p, const tn_subgraph *s, tn_slot *room, tn_id v) {
  for (tn_id i = 0; i < p->info.n_slots; i++)
    if (p->slots[i]->value == v) return i;
  const uint32_t kind = !holds(s->inputs, s->n_inputs, v)
                            ? holds(s->outputs, s->n_outputs, v) ? TN_SLOT_OUTPUT : TN_SLOT_TEMP
                        : s->graph->values[v]->kind == TN_VALUE_STEP ? TN_SLOT_STEP
                                                                      : TN_SLOT_INPUT;
  *room = (tn_slot){.h = TN_HDR(tn_slot), .name = "value", .kind = kind, .engines = 1 << 1, .align = 64, .value = v,
      .need = TN_NONE, .alias = TN_NONE};
  p->slots[p->info.n_slots] = room;
  return p->info.n_slots++;
}

static void add_step(tn_program *p, const tn_subgraph *s, uint32_t i) {
  const tn_node *n = s->graph->nodes[s->nodes[i]];
  const tn_value *y = s->graph->values[n->in[0]];
  step *t = &p->steps[i];
  t->node = s->nodes[i];
  t->op = n->op;
  t->rank = y->rank;
  memcpy(t->dims, y->dims, y->rank * sizeof *y->dims);
  snprintf(t->name, sizeof t->name, "%s", n->name);
  const uint32_t n_in = n->n_in == 2 && n->in[1] == n->in[0] ? 1 : n->n_in; /* x * x: a slot is one use */
  for (uint32_t k = 0; k < n_in; k++) t->uses[k] = (tn_use){slot_of(p, s, &t->slots[k], n->in[k]), TN_READ};
  t->uses[n_in] = (tn_use){slot_of(p, s, &t->slots[n_in], n->out[0]), TN_WRITE};
  t->before = i - 1;
  t->task = (tn_task){.h = TN_HDR(tn_task), .name = t->name, .engine = 1, .uses = t->uses, .deps = &t->before,
      .nodes = &t->node, .n_uses = n_in + 1, .n_deps = i > 0, .n_nodes = 1};
  for (uint32_t k = 0; k < y->rank; k++) t->task.symbols |= p->device->host->symbols(s->graph, y->dims[k]);
  p->tasks[i] = &t->task;
}

static void release(tn_program *p) {
  if (!hangs(p->device)) put(p->device->host, p);
}
static const tn_program_info *info(const tn_program *p) { return &p->info; }

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const size_t n = s->n_nodes, bytes = sizeof(tn_program) + n * (sizeof(step) + (MAX_USES + 1) * sizeof(void *));
  for (uint32_t i = 0; i < n; i++)
    if (!is_ours(s->graph->nodes[s->nodes[i]]->op)) return fail(err, TN_E_INVALID, "a node that belt never claimed");
  tn_program *p = get(((belt_device *)d)->host, bytes);
  if (!p) return fail(err, TN_E_NO_MEMORY, "no memory for a program");
  p->device = (belt_device *)d;
  p->graph = (tn_graph){.h = TN_HDR(tn_graph), .ctx = s->graph->ctx};
  p->slots = (const tn_slot **)(void *)&p->steps[n];
  p->tasks = (const tn_task **)(void *)(p->slots + MAX_USES * n);
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info), .slots = p->slots, .tasks = p->tasks};
  for (uint32_t i = 0; i < n; i++) add_step(p, s, i);
  p->info.n_tasks = s->n_nodes;
  *out = p;
  return TN_OK;
}

static tn_status count_of(const tn_program *p, tn_id task, const tn_dims *dims, int64_t *n) {
  const step *t = &p->steps[task];
  *n = 1;
  if (task >= p->info.n_tasks) return TN_E_INVALID;
  for (uint32_t k = 0; k < t->rank; k++) {
    int64_t dim;
    const tn_status st = p->device->host->eval(&p->graph, t->dims[k], dims, &dim);
    if (st != TN_OK) return st;
    if (dim < 0 || __builtin_mul_overflow(*n, dim, n) || *n > INT64_MAX / 4) return TN_E_LIMIT;
  }
  return TN_OK;
}

static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  int64_t n;
  const tn_status st = count_of(p, task, dims, &n);
  const tn_task *t = st == TN_OK ? p->tasks[task] : NULL;
  if (t && out->slot_bytes && p->slots[t->uses[t->n_uses - 1].slot]->kind == TN_SLOT_TEMP)
    out->slot_bytes[t->uses[t->n_uses - 1].slot] = (uint64_t)n * sizeof(float);
  return st;
}

static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  (void)p, (void)view, (void)blob;
  return fail(err, TN_E_INVALID, "slot %u takes no weights", slot);
}

/* ---- 3. Memory: the device's own, and beside each buffer that is mapped a copy for the CPU ----
 * map fetches a range, unmap sends back one that was to be written. Several ranges may be mapped at once while items
 * use the others, so that each is remembered; the places are kept, and no step asks for memory again. */
typedef struct range {
  struct range *next;
  uint64_t offset, n;
  uint32_t access; /* 0: free */
} range;

typedef struct belt_buffer {
  tn_buffer pub;
  unsigned char *bytes, *copy;
  range *ranges;
} belt_buffer;

static void destroy(tn_buffer *pub) {
  belt_buffer *b = (belt_buffer *)pub;
  const tn_host *h = ((belt_device *)pub->device)->host;
  if (hangs((belt_device *)pub->device)) return;
  for (range *r = b->ranges, *next; r; r = next) next = r->next, put(h, r);
  put(h, b->bytes);
  put(h, b->copy);
  put(h, b);
}

static tn_status create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  const tn_host *h = ((belt_device *)d)->host;
  if (req->kind != TN_MEM_NEW) return fail(err, TN_E_UNSUPPORTED, "belt imports no memory");
  belt_buffer *b = get(h, sizeof *b);
  if (!b) return fail(err, TN_E_NO_MEMORY, "no memory for a buffer");
  b->pub = (tn_buffer){.h = TN_HDR(tn_buffer), .device = d, .bytes = req->bytes};
  b->bytes = h->alloc(h->ctx, req->bytes ? req->bytes : 1, 4096, TN_TAG_PLUGIN);
  if (req->flags & TN_BUF_HOST) b->copy = h->alloc(h->ctx, req->bytes ? req->bytes : 1, 4096, TN_TAG_PLUGIN);
  if (!b->bytes || (req->flags & TN_BUF_HOST && !b->copy)) {
    destroy(&b->pub);
    return fail(err, TN_E_NO_MEMORY, "no device memory for %llu bytes", (unsigned long long)req->bytes);
  }
  if (req->flags & TN_BUF_ZERO) memset(b->bytes, 0, req->bytes);
  *out = &b->pub;
  return TN_OK;
}

static tn_status map(tn_buffer *pub, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  belt_buffer *b = (belt_buffer *)pub;
  if (offset > pub->bytes || n > pub->bytes - offset) return fail(err, TN_E_INVALID, "the range is outside of the buffer");
  if (!b->copy) return fail(err, TN_E_INVALID, "the buffer was made without TN_BUF_HOST");
  range *r = b->ranges;
  while (r && r->access) r = r->next;
  if (!r) {
    if (!(r = get(((belt_device *)pub->device)->host, sizeof *r))) return fail(err, TN_E_NO_MEMORY, "no memory to map");
    r->next = b->ranges;
    b->ranges = r;
  }
  r->offset = offset, r->n = n, r->access = access;
  if (access & TN_READ) memcpy(b->copy + offset, b->bytes + offset, n);
  *ptr = b->copy + offset;
  return TN_OK;
}

static tn_status unmap(tn_buffer *pub, void *ptr, tn_error *err) {
  belt_buffer *b = (belt_buffer *)pub;
  range *r = b->ranges;
  while (r && !(r->access && b->copy + r->offset == (unsigned char *)ptr)) r = r->next;
  if (!r) return fail(err, TN_E_INVALID, "nothing is mapped there");
  if (r->access & TN_WRITE) memcpy(b->bytes + r->offset, b->copy + r->offset, r->n);
  r->access = 0;
  return TN_OK;
}

/* ---- 4. Plans and arguments ----
 * The same arguments are in one item at a time (plugin.h, args), so that they are also the place in the queue: submit
 * copies what it needs of an item into them, and asks for no memory. */
struct tn_plan { tn_program *program; const step *step; int64_t n; };

struct tn_args {
  const tn_plan *plan;
  belt_device *device;
  unsigned char *memory[MAX_USES];
  tn_args *next;
  tn_ticket *ticket; /* while it is in flight */
  int cancelled;     /* by atomics: the worker looks between slices */
};

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  int64_t n = 0;
  const tn_status st = count_of(p, task, dims, &n);
  if (st != TN_OK) return fail(err, st, "there is no task %u, or its dims cannot be evaluated", task);
  tn_plan *plan = get(p->device->host, sizeof *plan);
  if (!plan) return fail(err, TN_E_NO_MEMORY, "no memory for a plan");
  *plan = (tn_plan){p, &p->steps[task], n};
  *out = plan;
  return TN_OK;
}
static void unbind(tn_plan *plan) {
  if (!hangs(plan->program->device)) put(plan->program->device->host, plan);
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  const uint32_t n = a->plan->step->task.n_uses;
  if (use == n) return TN_OK; /* scratch, of which belt takes none */
  if (use > n || !view->buffer) return fail(err, TN_E_INVALID, "use %u is not in device memory", use);
  a->memory[use] = ((belt_buffer *)view->buffer)->bytes + view->offset;
  return TN_OK;
}

/* An item that the host has given up may still be queued, or be computed. Then it is taken out, or waited for: a moment
 * only. What the worker may touch after that stays where it is for good. */
static void args_free(tn_args *a) {
  belt_device *d = a->device;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  pthread_mutex_lock(&d->lock);
  for (tn_args **at = &d->first, *prev = NULL; *at; prev = *at, at = &(*at)->next)
    if (*at == a) {
      *at = a->next;
      if (d->last == a) d->last = prev;
      break;
    }
  while (d->now == a && !d->given_up && pthread_cond_timedwait(&d->news, &d->lock, &until) == 0) continue;
  const int stays = d->now == a;
  d->hung |= stays;
  pthread_mutex_unlock(&d->lock);
  if (!stays) put(d->host, a);
}

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = plan->program->device->host;
  tn_args *a = get(h, sizeof *a);
  if (!a) return fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  a->plan = plan, a->device = plan->program->device;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = args_set(a, i, uses[i], err);
  *out = st == TN_OK ? a : NULL;
  if (st != TN_OK) put(h, a);
  return st;
}

/* ---- 5. The engine ---- */
static void compute(uint32_t op, const float *x, const float *z, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = op == TN_OP_ADD ? x[i] + z[i] : op == TN_OP_MUL ? x[i] * z[i] : x[i] < 0 ? 0 : x[i];
}

/* The "kernel": where a driver would be waited for. It ends early where it was told to. */
static tn_status execute(const tn_args *a) {
  const step *t = a->plan->step;
  const uint32_t n_in = t->task.n_uses - 1;
  const float *x = (const float *)(const void *)a->memory[0], *z = (const float *)(const void *)a->memory[n_in - 1];
  float *y = (float *)(void *)a->memory[n_in];
  for (int64_t i = 0; i < a->plan->n; i += SLICE) {
    if (__atomic_load_n(&a->cancelled, __ATOMIC_RELAXED)) return TN_E_CANCELLED;
    compute(t->op, x + i, z + i, y + i, a->plan->n - i < SLICE ? a->plan->n - i : SLICE);
  }
  return TN_OK;
}

/* Called with the lock, which is open while it computes and while the host hears of it: done may take its time, and the
 * host may submit from another thread meanwhile. Once done is called the arguments are the host's: they may be gone. */
static void work_off(belt_device *d) {
  tn_args *a = d->now = d->first;
  tn_ticket *ticket = a->ticket;
  tn_times times = {.h = TN_HDR(tn_times)};
  tn_error err = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  d->first = a->next;
  if (!d->first) d->last = NULL;
  d->lost |= ++d->items == d->lose_at;
  tn_status st = TN_OK;
  if (d->lost) st = fail(&err, TN_E_DEVICE_LOST, "the belt stands still");
  pthread_mutex_unlock(&d->lock);
  times.start = d->host->now(d->host->ctx);
  if (st == TN_OK && (st = execute(a)) == TN_E_CANCELLED) (void)fail(&err, st, "the item was told to end");
  times.end = d->host->now(d->host->ctx);
  pthread_mutex_lock(&d->lock);
  d->now = NULL;
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  d->host->done(ticket, st, &times, st == TN_OK ? NULL : &err);
  pthread_mutex_lock(&d->lock);
}

static void *work(void *arg) {
  belt_device *d = arg;
  pthread_mutex_lock(&d->lock);
  for (;;) {
    while (!d->first && !d->stop) pthread_cond_wait(&d->news, &d->lock);
    if (!d->first) break;
    work_off(d);
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

/* Takes all items or none, and comes back at once. Of more than DEPTH, which several runtimes may have in flight together,
 * none is refused: the queue is a list. A device that is lost completes what it has (work_off), and takes nothing more. */
static tn_status submit(tn_device *pub, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err) {
  belt_device *d = (belt_device *)pub;
  (void)run; /* lent to engines that block */
  if (engine != 1) return fail(err, TN_E_INVALID, "there is one engine");
  for (uint32_t i = 0; i < n; i++)
    if (!items[i]->plan) return fail(err, TN_E_UNSUPPORTED, "belt copies nothing");
  pthread_mutex_lock(&d->lock);
  const int lost = d->lost;
  for (uint32_t i = 0; !lost && i < n; i++) {
    tn_args *a = items[i]->args; /* the item is the host's, and gone when we return */
    a->ticket = items[i]->ticket;
    a->next = NULL;
    __atomic_store_n(&a->cancelled, 0, __ATOMIC_RELAXED);
    if (d->last) d->last->next = a;
    if (!d->first) d->first = a;
    d->last = a;
  }
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  return lost ? fail(err, TN_E_DEVICE_LOST, "the belt stands still") : TN_OK;
}

/* Says so and returns; the worker completes each item all the same. A ticket that is none of ours was answered already. */
static void cancel(tn_device *pub, uint32_t engine, tn_ticket *ticket) {
  belt_device *d = (belt_device *)pub;
  (void)engine;
  pthread_mutex_lock(&d->lock);
  if (d->now && (!ticket || d->now->ticket == ticket)) __atomic_store_n(&d->now->cancelled, 1, __ATOMIC_RELAXED);
  for (tn_args *a = d->first; a; a = a->next)
    if (!ticket || a->ticket == ticket) __atomic_store_n(&a->cancelled, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&d->lock);
}

/* The host has given the device up: from here on nothing waits for the worker. */
static void abandon(tn_device *pub) {
  belt_device *d = (belt_device *)pub;
  pthread_mutex_lock(&d->lock);
  d->given_up = 1;
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
}

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  (void)plan, (void)a, (void)pool;
  return fail(err, TN_E_UNSUPPORTED, "belt has no tasks for the CPU");
}

/* ---- 6. The plugin ---- */
static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  belt *p = (belt *)pub;
  (void)err;
  p->engine = (tn_engine){.h = TN_HDR(tn_engine), .name = "belt", .depth = DEPTH}; /* no flag: it does not block */
  p->engines[0] = &p->engine;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "belt accelerator", .driver = "belt 1.0", .key = "belt-1.0",
      .engines = p->engines, .n_engines = 1, .align = 64, .sub_align = 64, .dtypes = UINT64_C(1) << TN_DT_F32,
      .memory_bytes = UINT64_C(1) << 40, .max_buffer_bytes = UINT64_C(1) << 40};
  if (cap) out[0] = &p->caps;
  *n = 1;
  return TN_OK;
}

/* The worker takes no signals of the application's: it inherits the mask of who starts it. */
static int start(belt_device *d) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS), sigdelset(&all, SIGFPE), sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&d->worker, NULL, work, d);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  belt *p = (belt *)pub;
  const tn_host *h = p->host;
  const char *fault = "";
  unsigned long long at = 0;
  if (index) return fail(err, TN_E_INVALID, "there is no device %u", index);
  if (h->option(h->ctx, "fault", TN_OPT_STRING, &fault) != TN_OK || (*fault && sscanf(fault, "lost:%llu", &at) != 1))
    return fail(err, TN_E_INVALID, "option fault is lost:N, not '%s'", fault);
  belt_device *d = get(h, sizeof *d);
  if (!d) return fail(err, TN_E_NO_MEMORY, "no memory for a device");
  d->pub = (tn_device){.h = TN_HDR(tn_device), .caps = &p->caps, .claim = claim, .lower = lower, .info = info,
      .measure = measure, .set = set, .release = release, .bind = bind, .unbind = unbind, .args = args,
      .args_set = args_set, .args_free = args_free, .run = run, .submit = submit, .create = create,
      .destroy = destroy, .map = map, .unmap = unmap, .cancel = cancel, .abandon = abandon};
  d->host = h;
  d->lose_at = at;
  pthread_mutex_init(&d->lock, NULL);
  pthread_cond_init(&d->news, NULL);
  if (start(d)) {
    put(h, d);
    return fail(err, TN_E_UNAVAILABLE, "no thread for the queue");
  }
  *out = &d->pub;
  return TN_OK;
}

/* Joins the worker; one that hangs on an item that was given up is left with all that it may touch. */
static void close_device(tn_device *pub) {
  belt_device *d = (belt_device *)pub;
  pthread_mutex_lock(&d->lock);
  d->stop = 1;
  const int hangs = d->given_up && d->now;
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  if (hangs) {
    pthread_detach(d->worker);
    return;
  }
  pthread_join(d->worker, NULL);
  pthread_cond_destroy(&d->news);
  pthread_mutex_destroy(&d->lock);
  put(d->host, d);
}

static void stop(tn_plugin *p) { put(((belt *)p)->host, p); }

static const tn_option fault_option = {.h = TN_HDR(tn_option), .key = "fault",
    .help = "for tests: lost:N loses the device at its N-th item", .dflt = "", .type = TN_OPT_STRING};
static const tn_option *const options[] = {&fault_option};

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || neg->h.size < TN_UPTO(tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = 0;
  neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "belt");
  snprintf(neg->version, sizeof neg->version, "1.0.0");
  snprintf(neg->message, sizeof neg->message, "belt needs a host of ABI 1.0 to 1.%d with memory and options", TN_ABI_MINOR);
  if (neg->host_min > neg->plugin_max || !host || !TN_HAS(host, tn_host, symbols) || !host->alloc || !host->free ||
      !host->option || !host->done || !host->eval || !host->order || !host->symbols || !host->now)
    return TN_E_INCOMPATIBLE;
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  belt *p = get(host, sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  p->pub = (tn_plugin){.h = TN_HDR(tn_plugin), .name = "belt", .version = "1.0.0", .build_id = "belt-1.0.0",
      .options = options, .n_options = 1, .enumerate = enumerate, .open = open_device, .close = close_device,
      .shutdown = stop};
  p->host = host;
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(belt, entry)
