/* SPDX-License-Identifier: Apache-2.0
 *
 * acme: a whole backend in one file, to be copied. A made-up accelerator with memory of its own and one queue, which
 * computes products with constant weights in a weight format of its own, and the fused product that Tenon makes of
 * siblings (q, k and v, or gate and up): one activation, several weights, packed as one. The "accelerator" is this CPU:
 * where a real backend calls its driver, the code below computes, and a comment says so.
 *
 * docs/writing-a-plugin.md walks through it. The contract is <tenon/plugin.h>. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tenon/plugin.h>

/* A plugin keeps no globals that change: two hosts may live in one process. Everything hangs on these. */
typedef struct acme {
  tn_plugin pub; /* first: the host's pointer is ours */
  const tn_host *host;
  tn_engine engine;
  const tn_engine *engines[1];
  tn_caps caps;
} acme;
typedef struct acme_device {
  tn_device pub;
  const tn_host *host;
} acme_device;

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

/* ---- 1. The weight format ------------------------------------------------------------------------------------------
 * acme8: one signed byte a weight, row after row; then one float scale a row. The host calls size, begin, rows (from
 * several threads) and end, and keeps the bytes: it packs once and maps the file at every later start. No device is
 * needed for that. unpack is what your kernels are judged by.
 */
static tn_status acme8_size(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                            tn_pack_size *out) {
  (void)f, (void)params;
  /* Sizes come from files: nothing may overflow. */
  if (n || N < 0 || K < 0 || K > INT32_MAX || N > INT64_MAX / (K + 4)) return TN_E_INVALID;
  *out = (tn_pack_size){.bytes = (uint64_t)(N * (K + 4)), .align = 64, .row_unit = 1};
  return TN_OK;
}

struct tn_pack { const tn_host *host; const tn_weight *w; };

static tn_status acme8_begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                             uint32_t n, tn_pack **out, tn_error *err) {
  (void)f, (void)params;
  if (n) return fail(err, TN_E_INVALID, "acme8 takes no parameters");
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return fail(err, TN_E_NO_MEMORY, "no memory to pack");
  *p = (tn_pack){host, w};
  *out = p;
  return TN_OK;
}

/* The grid, so that a solver that knows nothing of acme8 can choose codes and scales: (code - 127) * scale, a scale a row. */
static tn_status acme8_grid(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  (void)f, (void)params;
  if (n || out->h.size < TN_UPTO(tn_grid, level_dtype)) return TN_E_INVALID;
  out->n_codes = 255, out->scale_dtype = TN_DT_F32, out->scale_unit = 1, out->flags = TN_GRID_SIGNED;
  out->zero_kind = TN_ZERO_HALF, out->zero = 127;
  return TN_OK;
}

/* What was chosen so is kept to the bit; what is not on the grid is refused. */
static tn_status acme8_keep(const tn_quant *q, int64_t K, int64_t n, int8_t *codes, float *scale) {
  float zero;
  tn_status st = q->scheme != TN_QUANT_AFFINE || q->group < K ? TN_E_INVALID : TN_OK;
  if (st == TN_OK) st = q->grid(q, n, n + 1, (uint8_t *)codes, scale, &zero);
  if (st == TN_OK && (zero != 127 || !isfinite(*scale))) st = TN_E_INVALID;
  for (int64_t k = 0; st == TN_OK && k < K; k++) {
    if ((uint8_t)codes[k] > 254) st = TN_E_INVALID;
    codes[k] = (int8_t)((uint8_t)codes[k] - 127);
  }
  return st;
}

static tn_status acme8_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  const int64_t N = p->w->N, K = p->w->K;
  const tn_quant *given = TN_HAS(p->w, tn_weight, quant) ? p->w->quant : NULL;
  if (given && TN_HAS(given, tn_quant, flags) && given->flags & TN_QUANT_KEEP) {
    tn_status st = TN_OK;
    for (int64_t n = n0; st == TN_OK && n < n1; n++) {
      float scale = 0;
      st = acme8_keep(given, K, n, (int8_t *)blob + n * K, &scale);
      memcpy((char *)blob + N * K + n * 4, &scale, sizeof scale);
    }
    return st;
  }
  float *row = p->host->alloc(p->host->ctx, (size_t)(K + 1) * sizeof *row, 64, TN_TAG_PACK);
  if (!row) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (int64_t n = n0; st == TN_OK && n < n1; n++) {
    int8_t *q = (int8_t *)blob + n * K;
    float top = 0;
    st = p->w->rows(p->w, n, n + 1, row);
    for (int64_t k = 0; k < K; k++) top = fmaxf(top, fabsf(row[k]));
    const float scale = top / 127;
    for (int64_t k = 0; st == TN_OK && k < K; k++)
      q[k] = scale > 0 ? (int8_t)fmaxf(-127, fminf(127, rintf(row[k] / scale))) : 0;
    memcpy((char *)blob + N * K + n * 4, &scale, sizeof scale);
  }
  p->host->free(p->host->ctx, row);
  return st;
}

static tn_status acme8_end(tn_pack *p, void *blob) {
  (void)blob; /* there is no header to write */
  p->host->free(p->host->ctx, p);
  return TN_OK;
}

static tn_status acme8_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  for (int64_t n = box[0]; n < box[1]; n++) {
    float scale;
    memcpy(&scale, (const char *)b->ptr + b->N * b->K + n * 4, sizeof scale);
    for (int64_t k = box[2]; k < box[3]; k++) *dst++ = (float)((const int8_t *)b->ptr)[n * b->K + k] * scale;
  }
  return TN_OK;
}

/* What the kernels promise: activations as they come, in f32, and sums in f32. `tenon conform` holds them to it. */
static const tn_numerics acme8_numerics = {.h = TN_HDR(tn_numerics), .act_dtype = TN_DT_F32,
    .act_scheme = TN_ACT_NONE, .acc_inner = TN_DT_F32, .acc_outer = TN_DT_F32, .scale_dtype = TN_DT_F32,
    .finite_max = 1e30};
static const tn_format acme8 = {.h = TN_HDR(tn_format), .name = "acme8", .version = 1, .bits = 8,
    .bits_per_weight = 8,          /* and 32 / K for the scale */
    .w_err = 0.5f / 127 * 1.0001f, /* half a step; the scale is rounded */
    .x_err = 0x1p-24f,             /* activations stay as they are */
    .numerics = &acme8_numerics, .size = acme8_size, .begin = acme8_begin, .rows = acme8_rows, .end = acme8_end,
    .unpack = acme8_unpack, .grid = acme8_grid};
static const tn_format *const formats[] = {&acme8};

/* ---- 2. Claims -----------------------------------------------------------------------------------------------------
 * Every node gets an answer, and every refusal a reason that a person can read: `tenon check` prints it. Claims are
 * pure: the same graph gets the same answers. */
static uint32_t n_weights(const tn_node *n) {
  return n->op == TN_OP_MATMUL ? 1 : (uint32_t)n->attr[TN_FUSED_N_WEIGHTS]->u.i;
}
/* MatMul stores its second operand [K,N]; the fused product says how. */
static int is_kn(const tn_node *n) { return n->op == TN_OP_MATMUL || !n->attr[TN_FUSED_TRANS_B]->u.i; }

/* TN_WHY_NONE, or why not, with *text for people. */
static uint32_t refusal(const tn_graph *g, const tn_node *n, const char **text) {
  *text = "acme computes products with constant weights";
  if (n->op != TN_OP_MATMUL && n->op != TN_OP_FUSED_MATMUL) return TN_WHY_OP;
  *text = "acme fuses siblings, nothing behind them"; /* the host offers the parts then */
  if (n->op == TN_OP_FUSED_MATMUL && n->attr[TN_FUSED_OPS]->n) return TN_WHY_ATTR;
  *text = "acme computes in float32, on matrices";
  const tn_value *x = g->values[n->in[0]];
  if (x->dtype != TN_DT_F32 || x->rank < 2) return x->rank < 2 ? TN_WHY_SHAPE : TN_WHY_DTYPE;
  *text = "a weight is no constant float32 matrix";
  for (uint32_t i = 1; i <= n_weights(n); i++) {
    const tn_value *w = g->values[n->in[i]];
    if (w->kind != TN_VALUE_CONST || w->rank != 2 || w->dtype != TN_DT_F32) return TN_WHY_NOT_CONST;
  }
  return TN_WHY_NONE;
}

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  tn_status st = TN_OK;
  (void)d, (void)err, (void)at; /* at: dims at which a cost is wanted; a cost of 0 says that we do not know */
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    const char *text = "";
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES, .format = &acme8};
    c.reason = refusal(g, g->nodes[i], &text);
    if (c.reason != TN_WHY_NONE) {
      c.verdict = TN_NO;
      c.format = NULL;
      snprintf(c.text, sizeof c.text, "%s", text);
    }
    st = sink->node(sink->ctx, i, &c);
  }
  return st;
}

/* ---- 3. Lowering ---------------------------------------------------------------------------------------------------
 * What the host took of our claims becomes a program: the constants it needs and in which format, the memory it touches
 * (slots), and tasks. Here each node is one task on engine 1. Nothing is compiled yet: dims are known in bind. */
enum { MAX_OUT = TN_FUSED_MAX_PARTS, MAX_USES = MAX_OUT + 2 };

typedef struct step { /* a node: y_o = x * columns [first_o, first_o + count_o) of all its weights side by side */
  tn_task task;
  tn_need need;
  tn_use uses[MAX_USES]; /* x, the weight, outputs */
  tn_slot slots[MAX_USES];
  tn_id node, before, weights[MAX_OUT];
  tn_expr x_dims[TN_MAX_RANK]; /* what the graph holds lives for the call: copies */
  char name[48];
  uint32_t x_rank, n_out;
  int64_t first[MAX_OUT], count[MAX_OUT], N, K;
  const unsigned char *blob; /* from set() */
} step;

struct tn_program {
  acme_device *device;
  tn_graph graph; /* the head of the host's: what host->eval wants later */
  tn_program_info info;
  const tn_need **needs; /* lists that info points to */
  const tn_slot **slots;
  const tn_task **tasks;
  step steps[];
};

static int holds(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return 1;
  return 0;
}

/* One slot a value. What stays between our own tasks is TEMP: the host finds room for it, and measure says how much. */
static tn_id slot_of(tn_program *p, const tn_subgraph *s, tn_slot *room, tn_id v, tn_id need) {
  for (tn_id i = 0; need == TN_NONE && i < p->info.n_slots; i++)
    if (p->slots[i]->value == v) return i;
  uint32_t kind = need != TN_NONE                      ? TN_SLOT_WEIGHT
                  : holds(s->inputs, s->n_inputs, v)   ? TN_SLOT_INPUT
                  : holds(s->outputs, s->n_outputs, v) ? TN_SLOT_OUTPUT
                                                       : TN_SLOT_TEMP;
  if (kind == TN_SLOT_INPUT && s->graph->values[v]->kind == TN_VALUE_STEP) kind = TN_SLOT_STEP;
  *room = (tn_slot){.h = TN_HDR(tn_slot), .name = v == TN_NONE ? "weights" : "value", .kind = kind,
      .engines = 1 << 1, /* engine 1 touches it, the CPU does not */
      .align = 64, .value = v, .need = need, .alias = TN_NONE};
  p->slots[p->info.n_slots] = room;
  return p->info.n_slots++;
}

/* Which columns each output is, counted over all weights side by side. */
static tn_status read_columns(step *t, const tn_host *h, const tn_graph *g, const tn_node *n) {
  int64_t start[MAX_OUT + 1] = {0}, lo = 0, hi = 0;
  for (uint32_t w = 0; w < n_weights(n); w++) {
    const tn_value *v = g->values[n->in[1 + w]];
    if (h->range(g, v->dims[is_kn(n) ? 1 : 0], &lo, &hi) != TN_OK || lo != hi) return TN_E_INVALID;
    start[w + 1] = start[w] + lo;
    t->weights[w] = n->in[1 + w];
  }
  t->N = start[n_weights(n)];
  for (uint32_t o = 0; o < n->n_out; o++) {
    static const int64_t whole[3] = {0, 0, -1};
    const int fused = n->op == TN_OP_FUSED_MATMUL;
    const int64_t *part = fused ? &n->attr[TN_FUSED_PARTS]->u.ints[3 * n->attr[TN_FUSED_RESULTS]->u.ints[o]] : whole;
    t->first[o] = start[part[0]] + part[1];
    t->count[o] = fused ? part[2] : t->N;
  }
  if (h->range(g, g->values[n->in[1]]->dims[is_kn(n) ? 0 : 1], &t->K, &hi) != TN_OK) return TN_E_INVALID;
  return t->K == hi ? TN_OK : TN_E_INVALID;
}

static tn_status add_step(tn_program *p, const tn_subgraph *s, uint32_t i) {
  const tn_node *n = s->graph->nodes[s->nodes[i]];
  const tn_host *h = p->device->host;
  const tn_value *x = s->graph->values[n->in[0]];
  step *t = &p->steps[i];
  if (n_weights(n) > MAX_OUT || n->n_out > MAX_OUT || read_columns(t, h, s->graph, n) != TN_OK) return TN_E_INVALID;
  t->node = s->nodes[i];
  if (x->rank > TN_MAX_RANK) return TN_E_INVALID;
  memcpy(t->x_dims, x->dims, x->rank * sizeof *x->dims);
  snprintf(t->name, sizeof t->name, "%s", n->name);
  t->x_rank = x->rank;
  t->n_out = n->n_out;
  t->need = (tn_need){.h = TN_HDR(tn_need), .format = &acme8,
      .values = t->weights, /* the host joins them along N: one blob */
      .n_values = n_weights(n), .residency = TN_RESIDENCY_DEVICE, .flags = is_kn(n) ? TN_NEED_KN : 0};
  t->uses[0] = (tn_use){slot_of(p, s, &t->slots[0], n->in[0], TN_NONE), TN_READ};
  t->uses[1] = (tn_use){slot_of(p, s, &t->slots[1], TN_NONE, i), TN_READ};
  for (uint32_t o = 0; o < n->n_out; o++)
    t->uses[2 + o] = (tn_use){slot_of(p, s, &t->slots[2 + o], n->out[o], TN_NONE), TN_WRITE};
  t->before = i - 1; /* a queue in order: each task waits for the one before, which is more than it must */
  t->task = (tn_task){.h = TN_HDR(tn_task), .name = t->name, .engine = 1, .uses = t->uses, .deps = &t->before,
      .nodes = &t->node, .n_uses = 2 + n->n_out, .n_deps = i > 0, .n_nodes = 1};
  /* The symbols that this task's dims depend on: it is bound anew when one of them changes. */
  for (uint32_t k = 0; k < x->rank; k++) t->task.symbols |= h->symbols(s->graph, x->dims[k]);
  p->needs[i] = &t->need;
  p->tasks[i] = &t->task;
  return TN_OK;
}

static void release(tn_program *p) { p->device->host->free(p->device->host->ctx, p); }
static const tn_program_info *info(const tn_program *p) { return &p->info; }

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tn_host *h = ((acme_device *)d)->host;
  const size_t n = s->n_nodes, bytes = sizeof(tn_program) + n * (sizeof(step) + (MAX_USES + 2) * sizeof(void *));
  tn_program *p = h->alloc(h->ctx, bytes, 64, TN_TAG_PLUGIN);
  if (!p) return fail(err, TN_E_NO_MEMORY, "no memory for a program");
  memset(p, 0, bytes);
  p->device = (acme_device *)d;
  /* Structs of the host may be shorter or longer than ours: never copy them. host->eval reads the graph's ctx alone. */
  p->graph = (tn_graph){.h = TN_HDR(tn_graph), .ctx = s->graph->ctx};
  p->needs = (const tn_need **)(void *)&p->steps[n];
  p->tasks = (const tn_task **)(void *)(p->needs + n);
  p->slots = (const tn_slot **)(void *)(p->tasks + n);
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info), .needs = p->needs, .slots = p->slots, .tasks = p->tasks};
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = add_step(p, s, i);
  if (st != TN_OK) {
    release(p);
    return fail(err, st, "the nodes cannot be lowered");
  }
  p->info.n_needs = p->info.n_tasks = s->n_nodes;
  *out = p;
  return TN_OK;
}

/* Rows of the activation: all its dims but the last. */
static tn_status rows_of(const tn_program *p, const step *t, const tn_dims *dims, int64_t *M) {
  *M = 1;
  for (uint32_t i = 0; i + 1 < t->x_rank; i++) {
    int64_t d;
    tn_status st = p->device->host->eval(&p->graph, t->x_dims[i], dims, &d);
    if (st != TN_OK) return st;
    if (d < 0 || __builtin_mul_overflow(*M, d, M)) return TN_E_LIMIT;
  }
  return TN_OK;
}

/* Pure: asked for every length before anything is allocated. */
static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  int64_t M;
  const step *t = &p->steps[task];
  tn_status st = task < p->info.n_tasks ? rows_of(p, t, dims, &M) : TN_E_INVALID;
  for (uint32_t o = 0; st == TN_OK && out->slot_bytes && o < t->n_out; o++)
    if (p->slots[t->uses[2 + o].slot]->kind == TN_SLOT_TEMP)
      out->slot_bytes[t->uses[2 + o].slot] = (uint64_t)M * (uint64_t)t->count[o] * sizeof(float);
  return st;
}

/* ---- 4. Memory -----------------------------------------------------------------------------------------------------
 * The device's own: where a driver would be asked for it, we ask the host. COHERENT: the CPU sees it all the time. What
 * the host has already (the mapped file of packed weights) is imported without a copy. */
typedef struct acme_buffer {
  tn_buffer pub;
  unsigned char *bytes;
  int imported;
} acme_buffer;

static tn_status create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  const tn_host *h = ((acme_device *)d)->host;
  if (req->kind != TN_MEM_NEW && req->kind != TN_MEM_HOST_PTR)
    return fail(err, TN_E_UNSUPPORTED, "memory of another kind");
  acme_buffer *b = h->alloc(h->ctx, sizeof *b, 16, TN_TAG_PLUGIN);
  if (!b) return fail(err, TN_E_NO_MEMORY, "no memory for a buffer");
  *b = (acme_buffer){.pub = {.h = TN_HDR(tn_buffer), .device = d, .bytes = req->bytes, .flags = TN_BUF_COHERENT},
      .bytes = req->ptr, .imported = req->kind == TN_MEM_HOST_PTR};
  if (!b->imported && !(b->bytes = h->alloc(h->ctx, req->bytes ? req->bytes : 1, 4096, TN_TAG_PLUGIN))) {
    h->free(h->ctx, b);
    return fail(err, TN_E_NO_MEMORY, "no device memory for %llu bytes", (unsigned long long)req->bytes);
  }
  if (req->flags & TN_BUF_ZERO) memset(b->bytes, 0, req->bytes);
  *out = &b->pub;
  return TN_OK;
}

static void destroy(tn_buffer *pub) {
  acme_buffer *b = (acme_buffer *)pub;
  const tn_host *h = ((acme_device *)pub->device)->host;
  if (!b->imported) h->free(h->ctx, b->bytes);
  h->free(h->ctx, b);
}

static tn_status map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  (void)access; /* TN_READ, TN_WRITE: what has to be fetched, what has to be sent back */
  if (offset > b->bytes || n > b->bytes - offset) return fail(err, TN_E_INVALID, "the range is outside of the buffer");
  *ptr = ((acme_buffer *)b)->bytes + offset;
  return TN_OK;
}

static tn_status unmap(tn_buffer *b, void *ptr, tn_error *err) {
  (void)b, (void)ptr, (void)err; /* a device with caches flushes here */
  return TN_OK;
}

/* Where a view lies for the engine: its root buffer, and the offset in it. */
static unsigned char *at(const tn_view *v) { return ((acme_buffer *)v->buffer)->bytes + v->offset; }

/* ---- 5. Plans, arguments, execution --------------------------------------------------------------------------------
 * set() attaches packed weights once. A plan is a task at fixed dims (compile the kernel here), args attach memory to
 * it, and a step of the model is submit() with what is there: no allocation, nothing looked up. */
static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  for (uint32_t i = 0; i < p->info.n_tasks; i++) {
    step *t = &p->steps[i];
    tn_pack_size want;
    if (t->uses[1].slot != slot) continue;
    if (!view || !view->buffer || !blob || blob->format != &acme8 || blob->N != t->N || blob->K != t->K ||
        acme8_size(&acme8, t->N, t->K, NULL, 0, &want) != TN_OK || blob->bytes < want.bytes || view->bytes < want.bytes)
      return fail(err, TN_E_INVALID, "slot %u gets weights of another task", slot);
    t->blob = at(view);
    return TN_OK;
  }
  return fail(err, TN_E_INVALID, "slot %u takes no weights", slot);
}

struct tn_plan { const tn_program *program; const step *step; int64_t M; };

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  const tn_host *h = p->device->host;
  int64_t M = 0;
  tn_status st = task < p->info.n_tasks ? rows_of(p, &p->steps[task], dims, &M) : TN_E_INVALID;
  if (st != TN_OK) return fail(err, st, "there is no task %u, or its dims cannot be evaluated", task);
  tn_plan *plan = h->alloc(h->ctx, sizeof *plan, 16, TN_TAG_PLUGIN);
  if (!plan) return fail(err, TN_E_NO_MEMORY, "no memory for a plan");
  *plan = (tn_plan){p, &p->steps[task], M};
  *out = plan;
  return TN_OK;
}

static void unbind(tn_plan *plan) { plan->program->device->host->free(plan->program->device->host->ctx, plan); }

struct tn_args { const tn_plan *plan; unsigned char *memory[MAX_USES]; };

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  const step *t = a->plan->step;
  if (use == 1 || use == t->task.n_uses) return TN_OK; /* the weight came with set(); the last one is scratch */
  if (use > t->task.n_uses || !view->buffer) return fail(err, TN_E_INVALID, "use %u is not in device memory", use);
  a->memory[use] = at(view);
  return TN_OK;
}

static void args_free(tn_args *a) { a->plan->program->device->host->free(a->plan->program->device->host->ctx, a); }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = plan->program->device->host;
  tn_args *a = h->alloc(h->ctx, sizeof *a, 16, TN_TAG_PLUGIN);
  if (!a) return fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  *a = (tn_args){.plan = plan};
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = args_set(a, i, uses[i], err);
  *out = st == TN_OK ? a : NULL;
  if (st != TN_OK) args_free(a);
  return st;
}

/* The kernel: columns [begin, end) of all weights side by side, each for every row of x. */
static void columns(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tn_args *a = arg;
  const step *t = a->plan->step;
  const float *x = (const float *)(const void *)a->memory[0];
  (void)worker;
  for (int64_t n = begin; n < end; n++) {
    const int8_t *w = (const int8_t *)t->blob + n * t->K;
    float scale;
    memcpy(&scale, t->blob + t->N * t->K + n * 4, sizeof scale);
    for (int64_t m = 0; m < a->plan->M; m++) {
      float sum = 0;
      for (int64_t k = 0; k < t->K; k++) sum += x[m * t->K + k] * (float)w[k];
      for (uint32_t o = 0; o < t->n_out; o++)
        if (n >= t->first[o] && n < t->first[o] + t->count[o])
          ((float *)(void *)a->memory[2 + o])[m * t->count[o] + n - t->first[o]] = sum * scale;
    }
  }
}

/* The queue. BLOCKING (see caps): the host gives it a thread and lends its pool, and every item is done when we return.
 * A driver with a queue of its own submits here and calls done from its callback. */
static tn_status submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err) {
  const tn_host *h = ((acme_device *)d)->host;
  if (engine != 1) return fail(err, TN_E_INVALID, "there is one engine");
  for (uint32_t i = 0; i < n; i++) {
    run->parallel_for(run, items[i]->plan->step->N, 16, columns, items[i]->args);
    h->done(items[i]->ticket, TN_OK, NULL, NULL);
  }
  return TN_OK;
}

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  (void)plan, (void)a, (void)pool; /* engine 0 is the host's CPU; a plugin whose tasks say engine 0 computes here */
  return fail(err, TN_E_UNSUPPORTED, "acme has no tasks for the CPU");
}

/* ---- 6. The plugin ---- */
static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  acme *p = (acme *)pub;
  (void)err;
  p->engine = (tn_engine){.h = TN_HDR(tn_engine), .name = "acme", .flags = TN_ENGINE_BLOCKING, .depth = 64};
  p->engines[0] = &p->engine;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "acme accelerator", .driver = "acme 1.0", .key = "acme-1.0",
      .engines = p->engines, .n_engines = 1, .import_kinds = 1u << TN_MEM_HOST_PTR, .align = 64, .sub_align = 64,
      .import_align = 64, .dtypes = UINT64_C(1) << TN_DT_F32, .memory_bytes = UINT64_C(1) << 40,
      .max_buffer_bytes = UINT64_C(1) << 40};
  if (cap) out[0] = &p->caps; /* no device at all: *n = 0, and err says why; that is no failure */
  *n = 1;
  return TN_OK;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  acme *p = (acme *)pub;
  acme_device *d = index ? NULL : p->host->alloc(p->host->ctx, sizeof *d, 64, TN_TAG_PLUGIN);
  if (!d) return fail(err, index ? TN_E_INVALID : TN_E_NO_MEMORY, "device %u cannot be opened", index);
  *d = (acme_device){.pub = {.h = TN_HDR(tn_device), .caps = &p->caps, .claim = claim, .lower = lower, .info = info,
      .measure = measure, .set = set, .release = release, .bind = bind, .unbind = unbind, .args = args,
      .args_set = args_set, .args_free = args_free, .run = run, .submit = submit, .create = create,
      .destroy = destroy, .map = map, .unmap = unmap}, .host = p->host};
  *out = &d->pub;
  return TN_OK;
}

static void close_device(tn_device *d) { ((acme_device *)d)->host->free(((acme_device *)d)->host->ctx, d); }
static void stop(tn_plugin *p) { ((acme *)p)->host->free(((acme *)p)->host->ctx, p); }

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || neg->h.size < TN_UPTO(tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = 0; /* the oldest minor whose fields are enough */
  neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "acme");
  snprintf(neg->version, sizeof neg->version, "1.0.0");
  snprintf(neg->message, sizeof neg->message, "acme needs a host of ABI 1.0 to 1.%d with memory", TN_ABI_MINOR);
  if (neg->host_min > neg->plugin_max || !host || !TN_HAS(host, tn_host, symbols) || !host->alloc || !host->free)
    return TN_E_INCOMPATIBLE;
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  acme *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PLUGIN);
  if (!p) return TN_E_NO_MEMORY;
  *p = (acme){.pub = {.h = TN_HDR(tn_plugin), .name = "acme", .version = "1.0.0", .build_id = "acme-1.0.0",
      .formats = formats, .n_formats = 1, .enumerate = enumerate, .open = open_device, .close = close_device,
      .shutdown = stop}, .host = host};
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(acme, entry)
