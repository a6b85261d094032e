/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading: import -> passes -> place -> lower -> pack -> attach.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/folder/folder.h"
#include "runtime/memory/memory.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/tasks/tasks.h"
#include "runtime/passes/decoder/decoder.h"
#include "runtime/place/place.h"
#include "runtime/session/ahead.h"
#include "runtime/session/customs.h"
#include "runtime/session/deadline.h"
#include "runtime/session/losses.h"
#include "runtime/session/model_import.h"
#include "runtime/session/runtime.h"
#include "runtime/session/state.h"
#include "runtime/shape/shape.h"

enum { UNREAD_BYTES = 1024 };

static const char *base_name(const char *path) {
  const char *s = strrchr(path, '/');
  return s ? s + 1 : path;
}

/* A folder stands for the model file in it. */
static tn_status find_file(tn_model *m, const char *path, tn_error *err) {
  tni_folder f;
  tn_status st = tni_folder_find(path, NULL, &f, err);
  if (st != TN_OK) return st;
  m->path = tni_arena_strdup(m->arena, f.model);
  m->embed = f.embed ? tni_arena_strdup(m->arena, f.embed) : NULL;
  m->encoder = f.encoder ? tni_arena_strdup(m->arena, f.encoder) : NULL;
  m->first = f.first ? tni_arena_strdup(m->arena, f.first) : NULL;
  const bool kept = m->path && !m->embed == !f.embed && !m->encoder == !f.encoder && !m->first == !f.first;
  tni_folder_finish(&f);
  if (!kept) return tni_fail_memory(err, path);
  m->name = base_name(m->path);
  return TN_OK;
}

tn_status tn_model_find(const char *path, const char *file, char **out, tn_error *err) {
  tni_error_begin(err);
  tni_folder f;
  if (!path || !out) return tni_fail(err, TN_E_INVALID, "tn_model_find", "path and out must not be NULL");
  tn_status st = tni_folder_find(path, file, &f, err);
  if (st != TN_OK) return st;
  *out = f.model;
  f.model = NULL;
  tni_folder_finish(&f);
  return TN_OK;
}

/* An initializer that a run may give another value for. */
static const tn_tensor *preset_of(const tn_model *m, const tni_value *v) {
  const tni_tensor *t = v->preset;
  tn_tensor *out = TNI_NEW(m->arena, tn_tensor);
  if (!out) return NULL;
  *out = (tn_tensor){.h = TN_API_HDR(tn_tensor),
                     .name = v->pub.name,
                     .dtype = t->dtype,
                     .rank = t->rank,
                     .data = t->data,
                     .bytes = t->bytes};
  memcpy(out->dims, t->dims, t->rank * sizeof *t->dims);
  return out;
}

static tn_io_info *io_info(tn_model *m, tn_id v) {
  const tni_value *val = tni_graph_value(m->graph, v);
  tn_io_info *io = TNI_NEW(m->arena, tn_io_info);
  if (!io) return NULL;
  *io = (tn_io_info){.h = TN_API_HDR(tn_io_info), .name = val->pub.name, .dtype = val->pub.dtype, .rank = -1};
  if (val->preset && !(io->value = preset_of(m, val))) return NULL;
  if (val->type) io->dtype = val->type->form == TNI_FORM_SEQUENCE ? TN_DT_SEQUENCE : TN_DT_OPTIONAL;
  if (val->pub.rank > TN_MAX_RANK) return io;
  io->rank = (int32_t)val->pub.rank;
  for (uint32_t i = 0; i < val->pub.rank; i++) {
    char text[256];
    tn_id sym;
    tn_expr d = val->pub.dims[i];
    if (tni_ex_is_const(m->graph->exprs, d, &io->dims[i])) continue;
    io->dims[i] = -1;
    /* What a step may leave out is there in plain runs. */
    if (d != TNI_EXPR_NONE && tni_ex_is_sym(m->graph->exprs, d, &sym) && sym == m->graph->rows_symbol)
      d = m->graph->rows_limit;
    tni_ex_print(m->graph->exprs, d, text, sizeof text);
    io->dim_names[i] = tni_arena_strdup(m->arena, d == TNI_EXPR_NONE ? "?" : text);
    if (!io->dim_names[i]) return NULL;
  }
  return io;
}

static tn_status describe_io(tn_model *m, tn_error *err) {
  const tni_graph *g = m->graph;
  m->inputs = TNI_NEW_ARRAY(m->arena, tn_io_info *, g->n_inputs);
  m->outputs = TNI_NEW_ARRAY(m->arena, tn_io_info *, g->n_outputs);
  if (!m->inputs || !m->outputs) return tni_fail_memory(err, m->path);
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (!(m->inputs[m->n_inputs++] = io_info(m, g->inputs[i]))) return tni_fail_memory(err, m->path);
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!(m->outputs[m->n_outputs++] = io_info(m, g->outputs[i]))) return tni_fail_memory(err, m->path);
  return TN_OK;
}

/* No pass that looks into constants: all but folding, which is told how far it may. */
static tn_status leave_unread(tn_model *m, tn_error *err) {
  uint32_t n = 0;
  while (tni_pass_name(n, NULL)) n++;
  const char **names = TNI_NEW_ARRAY(m->arena, const char *, n + 1);
  if (!names) return tni_fail_memory(err, m->path);
  m->disabled = names;
  m->n_disabled = 0;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(tni_pass_name(i, NULL), "fold") != 0) names[m->n_disabled++] = tni_pass_name(i, NULL);
  m->graph->max_read = UNREAD_BYTES;
  return TN_OK;
}

static tn_status import_graph(tn_model *m, tn_error *err) {
  tn_status st = tni_model_import(m, err);
  if (st != TN_OK) return st;
  m->graph = m->import->graph;
  tni_customs_find(m->rt, m->graph);
  st = m->flags & TN_MODEL_UNREAD ? leave_unread(m, err) : tni_statistics_open(m, err);
  if (st != TN_OK) return st;
  tni_pool_run run;
  tni_pool_run_init(&run, m->rt->pool, &m->rt->cancel); /* what folding leaves, the check after this refuses */
  run.budget = &m->budget;
  const tni_passes_options opt = {.disabled = m->disabled, .n_disabled = m->n_disabled};
  st = tni_passes_run(m->graph, &opt, tni_ops_eval, &run.run, &m->passes, err);
  if (st == TN_OK && m->flags & TN_MODEL_DECODER) st = tni_cross_unread(m->graph, err);
  if (st == TN_OK && tni_mark_dynamic(m->graph) == UINT32_MAX) st = tni_fail_memory(err, m->path);
  if (st == TN_OK) st = tni_roles_find(m->graph, m->arena, &m->roles, err);
  return st == TN_OK ? describe_io(m, err) : st;
}

static tn_status place_model(tn_model *m, tn_error *err) {
  static const uint32_t one[] = {TN_PHASE_ANY}, two[] = {TN_PHASE_PREFILL, TN_PHASE_DECODE};
  bool phases = m->rt->profile->has_phases;
  uint32_t n = phases ? 2 : 1;
  m->execs = TNI_NEW_ARRAY(m->arena, tni_exec, n);
  if (!m->execs) return tni_fail_memory(err, m->path);
  m->n_execs = n;
  return tni_place_fused(m, phases ? two : one, err);
}

/* What the profile says must be what a device asks for. */
static tn_status check_chunk(const tn_model *m, tn_error *err) {
  const tni_profile *p = m->rt->profile;
  const int64_t chunk = tni_model_chunk(m);
  if (!chunk || !p->chunk_said || p->prefill_chunk == chunk) return TN_OK;
  const tni_exec *x = &m->execs[0];
  return tni_fail(err, TN_E_INVALID, p->file,
                  "profile '%s' has prefill_chunk: %lld, but plugin '%s' takes prompts in pieces of %lld only", p->name,
                  (long long)p->prefill_chunk, m->rt->devs[x->claims.fixed_by].name, (long long)chunk);
}

static tn_status refuse_unsupported(const tn_model *m, tn_error *err) {
  for (uint32_t i = 0; i < m->n_execs; i++) {
    const tni_exec *x = &m->execs[i];
    for (uint32_t n = 0; n < x->view.n_nodes; n++) {
      if (x->part.device_of[n] != TN_NONE) continue;
      const tni_node *node = tni_graph_node(m->graph, n);
      const tni_claim *last = &x->claims.node[m->rt->n_devs - 1][n];
      char more[400];
      tni_customs_refusal(m->rt, x, n, more, sizeof more);
      return tni_fail(err, TN_E_UNSUPPORTED, node->pub.name,
                      "no device runs %u of %u nodes; first: %s '%s' (%s%s); `tenon check --unsupported` lists them all",
                      x->part.n_unsupported, x->view.n_nodes, node->type, node->pub.name, last->text, more);
    }
  }
  return TN_OK;
}

bool tni_is_weight_product(const tn_graph *g, const tn_node *n) {
  if (n->op == TN_OP_FUSED_MATMUL) return g->values[n->in[1]]->kind == TN_VALUE_CONST;
  const bool bytes = n->op == TN_OP_MATMUL_INTEGER || n->op == TN_OP_MATMUL_INTEGER_TO_FLOAT;
  if (n->op != TN_OP_MATMUL && n->op != TN_OP_GEMM && !bytes) return false;
  const tn_value *b = n->n_in > 1 && n->in[1] != TN_NONE ? g->values[n->in[1]] : NULL;
  return b && b->kind == TN_VALUE_CONST && b->rank == 2;
}

static tn_status check_require(const tn_model *m, const tni_exec *x, tn_error *err) {
  const tni_profile *p = m->rt->profile;
  for (uint32_t r = 0; r < p->n_require; r++) {
    uint32_t taken = 0;
    for (uint32_t n = 0; n < x->view.n_nodes; n++)
      taken += strcmp(m->rt->devs[x->part.device_of[n]].name, p->require[r]) == 0;
    bool here = !p->has_phases;
    for (uint32_t i = 0; i < m->rt->n_order[x->phase]; i++)
      here = here || strcmp(m->rt->devs[m->rt->order[x->phase][i]].name, p->require[r]) == 0;
    if (!taken && here)
      return tni_fail(err, TN_E_UNSUPPORTED, p->file, "profile '%s' requires '%s', which takes no node of '%s'",
                      p->name, p->require[r], m->name);
  }
  for (uint32_t n = 0; p->n_require && n < x->view.n_nodes; n++) {
    const tn_node *node = x->view.nodes[n];
    if (!m->rt->devs[x->part.device_of[n]].is_host || !tni_is_weight_product(&x->view, node)) continue;
    const tni_claim *why = &x->claims.node[m->rt->order[x->phase][0]][n];
    return tni_fail(err, TN_E_UNSUPPORTED, node->name,
                    "profile '%s' has `require`, but matrix product '%s' falls back to the host: %s", p->name,
                    node->name, why->text);
  }
  return TN_OK;
}

/* Devices for hardware that is not here claim, lower and pack; they cannot run. */
static tn_status refuse_offline(const tn_model *m, const tni_exec *x, tn_error *err) {
  for (uint32_t i = 0; i < x->part.n_clusters; i++) {
    const tni_dev *d = &m->rt->devs[x->part.clusters[i].device];
    if (d->device->caps->flags & TN_CAPS_OFFLINE)
      return tni_fail(err, TN_E_UNSUPPORTED, d->name,
                      "device '%s' of plugin '%s' is offline: it claims and packs for hardware that is not here, and "
                      "cannot run; `tenon check`, `inspect` and `pack` work with it",
                      d->device->caps->name ? d->device->caps->name : "", d->name);
  }
  return TN_OK;
}

static tn_status make_ready(tn_model *m, tn_error *err) {
  tn_status st = refuse_unsupported(m, err);
  const bool runs = !(m->flags & (TN_MODEL_INSPECT | TN_MODEL_PACK));
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++) st = check_require(m, &m->execs[i], err);
  if (st == TN_OK) st = check_chunk(m, err);
  if (st == TN_OK) st = tni_states_layouts(m, err);
  for (uint32_t i = 0; st == TN_OK && runs && i < m->n_execs; i++) st = refuse_offline(m, &m->execs[i], err);
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++) {
    st = tni_exec_lower(m, &m->execs[i], err);
    if (st == TN_OK) st = tni_exec_order(m, &m->execs[i], err);
  }
  if (st == TN_OK) st = tni_runtime_cancelled(m->rt, m->path, err);
  if (st == TN_OK) st = tni_blocks_states(m, err);
  if (st == TN_OK && !(m->flags & TN_MODEL_PACK)) st = tni_dense_constants(m, err);
  if (st == TN_OK) st = tni_packed_collect(m, err);
  return st == TN_OK ? tni_embeddings_find(m, err) : st;
}

enum {
  TN_MODEL_ALL = TN_MODEL_INSPECT | TN_MODEL_REFERENCE | TN_MODEL_CAPTURE | TN_MODEL_CALIBRATE | TN_MODEL_PACK |
                 TN_MODEL_UNREAD | TN_MODEL_DECODER | TN_MODEL_SOURCE
};

/* The caller's options, of whatever size it was compiled with; lists are copied. */
static tn_status read_opts(tn_model *m, const tn_model_opts *in, tn_error *err) {
  tn_model_opts o;
  tn_status st = tni_take(&o, sizeof o, in, "tn_model_opts", err);
  if (st != TN_OK) return st;
  m->flags = o.flags;
  m->order_seed = o.order_seed;
  st = tni_known_bits(o.flags, TN_MODEL_ALL, "tn_model_opts.flags", err);
  if (st == TN_OK) st = tni_known_bits(o.reserved | o.reserved2 | o.reserved3 | o.reserved4, 0, "tn_model_opts.reserved", err);
  if (st == TN_OK) st = tni_counted(o.dim_names, o.n_dims, "tn_model_opts.dim_names", err);
  if (st == TN_OK) st = tni_counted(o.dim_values, o.n_dims, "tn_model_opts.dim_values", err);
  if (st == TN_OK) st = tni_counted(o.disabled_passes, o.n_disabled_passes, "tn_model_opts.disabled_passes", err);
  if (st == TN_OK) st = tni_counted(o.overridable, o.n_overridable, "tn_model_opts.overridable", err);
  if (st != TN_OK) return st;
  m->max_seq = o.max_seq ? o.max_seq : m->rt->profile->max_seq;
  if (!m->max_seq) m->max_seq = o.default_max_seq;
  if (o.max_seq < 0 || o.default_max_seq < 0) return tni_fail(err, TN_E_INVALID, "max_seq", "a number below 0");
  m->fixed_names = TNI_NEW_ARRAY(m->arena, const char *, o.n_dims);
  m->fixed_values = TNI_NEW_ARRAY(m->arena, int64_t, o.n_dims);
  m->disabled = TNI_NEW_ARRAY(m->arena, const char *, o.n_disabled_passes);
  m->overridable = TNI_NEW_ARRAY(m->arena, const char *, o.n_overridable);
  if (!m->fixed_names || !m->fixed_values || !m->disabled || !m->overridable) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < o.n_dims; i++) {
    m->fixed_values[i] = o.dim_values[i];
    if (!(m->fixed_names[m->n_fixed++] = tni_arena_strdup(m->arena, o.dim_names[i]))) return tni_fail_memory(err, NULL);
  }
  for (uint32_t i = 0; i < o.n_disabled_passes; i++)
    if (!(m->disabled[m->n_disabled++] = tni_arena_strdup(m->arena, o.disabled_passes[i])))
      return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < o.n_overridable; i++)
    if (!(m->overridable[m->n_overridable++] = tni_arena_strdup(m->arena, o.overridable[i])))
      return tni_fail_memory(err, NULL);
  return TN_OK;
}

/* What sessions need beside packed weights. */
static tn_status attach_segments(tn_model *m, tn_error *err) {
  tn_status st = TN_OK;
  tni_embeddings_open(m);
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++) st = tni_exec_attach(m, &m->execs[i], err);
  if (st == TN_OK && (m->flags & (TN_MODEL_REFERENCE | TN_MODEL_CAPTURE))) st = tni_refcache_create(m, err);
  if (st == TN_OK && (m->flags & TN_MODEL_CALIBRATE)) st = tni_recorder_create(m->graph, &m->recorder, err);
  return st;
}

static tn_status load_stages(tn_model *m, const char *path, const tn_model_opts *o, tn_error *err) {
  tn_status st = read_opts(m, o, err);
  if (st == TN_OK) st = find_file(m, path, err);
  if (st == TN_OK) tni_model_budget(m);
  if (st == TN_OK) st = import_graph(m, err);
  if (st == TN_OK) st = tni_runtime_cancelled(m->rt, m->path, err);
  if (st == TN_OK) st = place_model(m, err);
  if (st == TN_OK) st = tni_runtime_cancelled(m->rt, m->path, err);
  const bool unread = m->flags & TN_MODEL_UNREAD, inspect = unread || (m->flags & TN_MODEL_INSPECT);
  bool whole = true;
  for (uint32_t i = 0; i < m->n_execs; i++) whole = whole && m->execs[i].part.n_unsupported == 0;
  if (st == TN_OK && !unread && (whole || !inspect)) st = make_ready(m, err);
  if (st != TN_OK || inspect) return st;
  st = tni_packed_open(m, err);
  if (st == TN_OK && m->flags & TN_MODEL_PACK) st = tni_ahead_compile(m, err);
  return st == TN_OK && !(m->flags & TN_MODEL_PACK) ? attach_segments(m, err) : st;
}

static tn_status load_once(tn_runtime *rt, const char *path, const tn_model_opts *o, tn_model **out, tn_error *err) {
  tn_model *m = calloc(1, sizeof *m);
  if (!m || !(m->arena = tni_arena_create())) {
    free(m);
    return tni_fail_memory(err, path);
  }
  m->rt = rt;
  m->counted = true;
  __atomic_fetch_add(&rt->holders, 1, __ATOMIC_ACQ_REL);
  tn_status st = load_stages(m, path, o, err);
  st = tni_budget_status(&m->budget, st, m->path ? m->path : path, err);
  m->budget = (tni_budget){.bytes = m->budget.bytes}; /* what sessions add is not the load's */
  (void)tni_files_failed(m, &st, err);
  if (st == TN_E_CANCELLED) tni_runtime_resume(rt);
  if (st != TN_OK) {
    tn_model_destroy(m);
    return st;
  }
  *out = m;
  return TN_OK;
}

tn_status tn_model_load(tn_runtime *rt, const char *path, const tn_model_opts *o, tn_model **out, tn_error *err) {
  tni_error_begin(err);
  tn_error local;
  tn_status st;
  if (!rt || !path || !out) return tni_fail(err, TN_E_INVALID, "tn_model_load", "a NULL argument");
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  do st = load_once(rt, path, o, out, err);
  while (tni_losses_retry(rt, &st, err));
  return st;
}

static void destroy_model(void *arg) {
  tn_model *m = arg;
  for (uint32_t i = 0; i < m->n_execs; i++) tni_exec_finish(m, &m->execs[i]);
  tni_devconst_release(m);
  tni_refcache_destroy(m);
  tni_packed_close(m);
  tni_recorder_destroy(m->recorder);
  tni_calib_destroy(m->calib);
  tni_model_destroy(m->import);
  tni_arena_destroy(m->arena);
  free(m);
}

void tni_model_release(tn_model *m) {
  if (__atomic_fetch_sub(&m->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
  tn_runtime *rt = m->rt;
  const bool counted = m->counted;
  tn_error why;
  tni_error_init(&why);
  if (m->next) tni_model_release(m->next);
  if (!tni_model_hangs(m) && !tni_deadline_do(rt, NULL, destroy_model, m, &why)) tni_losses_note(rt, &why);
  if (counted) tni_runtime_release(rt);
}

void tn_model_destroy(tn_model *m) {
  if (!m) return;
  const int32_t n = __atomic_load_n(&m->holders, __ATOMIC_ACQUIRE);
  if (n > 0)
    tni_log_line(
        &m->rt->log, TN_LOG_ERROR,
        "tn_model_destroy before tn_session_destroy: %d session%s of '%s' %s still there; the model stays until then",
        n, n == 1 ? "" : "s", m->name, n == 1 ? "is" : "are");
  tni_model_release(m);
}

int64_t tn_model_max_seq(const tn_model *m) { return m ? m->max_seq : 0; }
uint32_t tn_model_n_inputs(const tn_model *m) { return m ? m->n_inputs : 0; }
uint32_t tn_model_n_outputs(const tn_model *m) { return m ? m->n_outputs : 0; }
const tn_io_info *tn_model_input(const tn_model *m, uint32_t i) { return m && i < m->n_inputs ? m->inputs[i] : NULL; }
const tn_io_info *tn_model_output(const tn_model *m, uint32_t i) {
  return m && i < m->n_outputs ? m->outputs[i] : NULL;
}

tn_status tn_model_dump(tn_model *m, const char *format, const char *path, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  TNI_NOT_NULL(format);
  TNI_NOT_NULL(path);
  bool dot = strcmp(format, "dot") == 0;
  if (!dot && strcmp(format, "text") != 0)
    return tni_fail(err, TN_E_INVALID, format, "unknown dump format '%s' (dot, text)", format);
  FILE *f = fopen(path, "w");
  if (!f) return tni_fail(err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
  (dot ? tni_graph_dump_dot : tni_graph_dump_text)(m->graph, f);
  const int why = tni_close_written(f);
  return why ? tni_fail(err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why))
             : TN_OK;
}
