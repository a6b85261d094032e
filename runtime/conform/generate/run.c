/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/generate/run.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/conform/generate/keep.h"
#include "runtime/conform/real/real.h"
#include "runtime/onnx/save/save.h"
#include "runtime/place/place.h"

static bool session_run(tni_cf *cf, tn_session *s, const gen_case *c, uint32_t phase, const gen_inputs *in,
                        const char *how, gen_outputs *out) {
  tn_tensor t[MOST_OUT];
  tn_error err;
  tni_error_init(&err);
  memset(t, 0, sizeof t);
  for (uint32_t i = 0; i < c->b.n_out; i++) t[i].h = (tn_hdr){sizeof t[i], 1, 0};
  const tn_status st = tn_session_run(s, phase, in->list, in->n, t, c->b.n_out, &err);
  if (st != TN_OK) return tni_cf_fail(cf, "%s: %s: %s (%s)", how, err.where, err.message, tni_status_name(st)), false;
  return tni_gen_outputs(cf, t, c->b.n_out, out);
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
}

static bool dim_known(const gen_case *c, tn_expr e, int64_t *d) {
  const int64_t sym[TNI_CF_MAX_SYMBOLS] = {c->g->length, 1, 1, 1, 1, 1, 1, 1};
  const uint32_t n = tni_ex_n_symbols(c->b.g->exprs);
  if (tni_ex_is_const(c->b.g->exprs, e, d)) return true;
  return tni_gen_is_constant(c->g) && n <= TNI_CF_MAX_SYMBOLS && tni_ex_eval(c->b.g->exprs, e, sym, n, d) == TN_OK;
}

static bool save_graph(tni_cf *cf, gen_case *c) {
  tni_saved in[TNI_CN_MAX_IN], out[MOST_OUT];
  tni_tensor shape[TNI_CN_MAX_IN + MOST_OUT];
  tn_error err;
  tni_error_init(&err);
  tn_id *nodes = TNI_NEW_ARRAY(cf->arena, tn_id, c->b.g->n_nodes + 1);
  if (!nodes) return false;
  for (uint32_t i = 0; i < c->b.g->n_nodes; i++) nodes[i] = i;
  for (uint32_t i = 0; i < c->b.n_in + c->b.n_out; i++) {
    const tn_id v = i < c->b.n_in ? c->b.in[i] : c->b.out[i - c->b.n_in];
    const tn_value *val = &tni_graph_value(c->b.g, v)->pub;
    shape[i] = (tni_tensor){.dtype = val->dtype, .rank = val->rank};
    for (uint32_t k = 0; k < val->rank; k++)
      if (!dim_known(c, val->dims[k], &shape[i].dims[k])) shape[i].dims[k] = -1;
    *(i < c->b.n_in ? &in[i] : &out[i - c->b.n_in]) = (tni_saved){v, &shape[i]};
  }
  snprintf(c->folder, sizeof c->folder, "/tmp/tenon-generated-XXXXXX");
  if (!mkdtemp(c->folder)) return c->folder[0] = '\0', tni_cf_fail(cf, "/tmp cannot be written"), false;
  if (tni_save_nodes(c->b.g, nodes, c->b.g->n_nodes, in, c->b.n_in, out, c->b.n_out, c->folder, &err) == TN_OK)
    return true;
  tni_cf_fail(cf, "the kit's own graph: %s", err.message);
  return false;
}

/* Each node that the plugin took stands in the nodes of one task of its program. */
static bool nodes_once(tni_cf *cf, const tn_model *m) {
  for (uint32_t e = 0; e < m->n_execs; e++)
    for (uint32_t p = 0; p < m->execs[e].n_programs; p++) {
      const tni_program *prog = &m->execs[e].programs[p];
      for (uint32_t i = 0; !prog->dev->is_host && i < prog->cluster->n_nodes; i++) {
        uint32_t times = 0;
        const tn_id node = prog->cluster->nodes[i];
        for (uint32_t t = 0; t < prog->info->n_tasks; t++)
          for (uint32_t k = 0; k < prog->info->tasks[t]->n_nodes; k++) times += prog->info->tasks[t]->nodes[k] == node;
        if (times == 1) continue;
        tni_cf_fail(cf, "node '%s' stands in the `nodes` of %u tasks, not of one (plugin.h, tn_task)",
                    m->execs[e].view.nodes[node]->name, times);
        return false;
      }
    }
  return true;
}

static bool takes_something(const tn_model *m) {
  for (uint32_t e = 0; e < m->n_execs; e++)
    for (uint32_t p = 0; p < m->execs[e].n_programs; p++)
      if (!m->execs[e].programs[p].dev->is_host) return true;
  return false;
}

static bool model_open(tni_cf *cf, tn_runtime *rt, const gen_case *c, uint32_t flags, uint32_t order, tn_model **m,
                       tn_session **s, uint32_t n) {
  tn_error err;
  tni_error_init(&err);
  const tn_model_opts o = {.h = {sizeof o, 1, 0}, .flags = flags, .order_seed = order};
  tn_status st = tn_model_load(rt, c->folder, &o, m, &err);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = tn_session_create(*m, &s[i], &err);
  /* A graph that the host itself cannot place is no matter of the plugin's, which is named where it is one. */
  const bool hosts = st == TN_E_UNSUPPORTED && !strstr(err.message, "plugin");
  if (st != TN_OK && hosts)
    tni_cf_skip(cf, "the host does not place this graph: %s: %s", err.where, err.message);
  else if (st != TN_OK)
    tni_cf_fail(cf, "%s: %s (%s)", err.where, err.message, tni_status_name(st));
  return st == TN_OK;
}

/* --- the runs ----------------------------------------------------------------------------------------------------- */

enum { JUDGED, FIRST, SECOND, SESSIONS };

/* One length: judged; the same bits from a session that nobody watches; again, after another session had its turn with
 * other values and another length. In a profile with phases, prefill and decode in turns. */
static bool one_length(tni_cf *cf, const gen_case *c, tn_session **s, uint32_t run) {
  const int64_t S = tni_gen_rows(c->g, run), other = tni_gen_rows(c->g, (run + 1) % c->g->n_runs);
  const uint32_t phase = !c->phases ? TN_PHASE_ANY : run % 2 ? TN_PHASE_DECODE : TN_PHASE_PREFILL;
  gen_inputs in, in2;
  gen_outputs out[4] = {{.n = 0}};
  bool ok = tni_gen_inputs(cf, c, S, c->g->rows[run] % 50, 2 * run, &in);
  ok = tni_gen_inputs(cf, c, other, 7, 2 * run + 1, &in2) && ok;
  ok = ok && session_run(cf, s[JUDGED], c, phase, &in, "a judged run", &out[0]);
  ok = ok && session_run(cf, s[FIRST], c, phase, &in, "a run", &out[1]);
  ok = ok && tni_gen_same(cf, &out[0], &out[1], S,
                          "where no task is watched (what others read of a group has to be written too: graph.h, group)");
  ok = ok && session_run(cf, s[SECOND], c, phase, &in2, "a run of a second session", &out[2]);
  ok = ok && session_run(cf, s[FIRST], c, phase, &in, "the same run again", &out[3]);
  ok = ok && tni_gen_same(cf, &out[1], &out[3], S, "from the same inputs, once another session had run");
  for (int i = 0; i < 4; i++) tni_gen_outputs_free(&out[i]);
  tni_gen_inputs_free(cf, &in);
  tni_gen_inputs_free(cf, &in2);
  return ok;
}

static void run_models(tni_cf *cf, tn_runtime *rt, void *arg) {
  gen_case *c = arg;
  tn_model *m[2] = {NULL, NULL};
  tn_session *s[SESSIONS] = {NULL};
  bool ok = model_open(cf, rt, c, TN_MODEL_CAPTURE, c->g->order, &m[0], &s[JUDGED], 1);
  c->took = ok && takes_something(m[0]);
  if (ok && c->took && nodes_once(cf, m[0]) && model_open(cf, rt, c, 0, 0, &m[1], &s[FIRST], 2)) {
    uint32_t rows = 0;
    for (uint32_t i = 0; ok && i < c->g->n_runs; i++) {
      ok = one_length(cf, c, s, i);
      rows |= tni_gen_rows(c->g, i);
    }
    if (ok) (void)tni_cf_judge_session(cf, s[JUDGED], false, !rows);
    if (ok && c->g->kept) tni_gen_keep(cf, c, m[0], m[1]);
  }
  for (int i = 0; i < SESSIONS; i++) tn_session_destroy(s[i]);
  for (int i = 0; i < 2; i++) tn_model_destroy(m[i]);
}

/* --- as it runs in use --------------------------------------------------------------------------------------------- */

/* Nodes of images and of their elements: few roundings, and none of them grows. */
static bool is_of_images(const gen_case *c) {
  bool images = false;
  for (uint32_t i = 0; i < c->b.g->n_nodes; i++)
    switch (tni_graph_node(c->b.g, i)->pub.op) {
      case TN_OP_CONV:
      case TN_OP_MAX_POOL:
      case TN_OP_AVERAGE_POOL:
      case TN_OP_GLOBAL_AVERAGE_POOL:
        images = true;
        break;
      case TN_OP_NEG:
      case TN_OP_ABS:
      case TN_OP_ERF:
      case TN_OP_ELU:
      case TN_OP_TANH:
      case TN_OP_GELU:
      case TN_OP_SWISH:
      case TN_OP_ADD:
      case TN_OP_SUB:
      case TN_OP_MUL:
      case TN_OP_DIV:
      case TN_OP_MAX:
      case TN_OP_EXP:
      case TN_OP_SQRT:
      case TN_OP_RELU:
      case TN_OP_CLIP:
      case TN_OP_SIGMOID:
      case TN_OP_LEAKY_RELU:
      case TN_OP_HARD_SWISH:
      case TN_OP_HARD_SIGMOID:
      case TN_OP_GLOBAL_MAX_POOL:
      case TN_OP_BATCH_NORMALIZATION:
        break;
      default:
        return false;
    }
  return images;
}

/* Finite numbers of the host are finite, and off by 2 % of the largest at most. */
static bool is_near(tni_cf *cf, const gen_outputs *got, const gen_outputs *want, int64_t S) {
  for (uint32_t i = 0; i < want->n; i++) {
    const float *x = got->data[i], *y = want->data[i];
    const uint64_t n = want->bytes[i] / sizeof *y;
    double top = 0;
    for (uint64_t k = 0; k < n; k++) top = isfinite(y[k]) ? fmax(top, fabs((double)y[k])) : top;
    for (uint64_t k = 0; k < n; k++) {
      if (!isfinite(y[k]) || fabs((double)x[k] - (double)y[k]) <= 0.02 * top + 1e-20) continue;
      tni_cf_fail(cf,
                  "S = %lld, output %u: wrong without TN_HOST_CHECKED, as it runs in use, and right with it: element %llu is "
                  "%.9g, the host has %.9g",
                  (long long)S, i, (unsigned long long)k, (double)x[k], (double)y[k]);
      return false;
    }
  }
  return true;
}

/* The first two lengths, against the host. What is fused is judged as a whole: no value between is seen. */
static void run_in_use(tni_cf *cf, tn_runtime *rt, void *arg) {
  gen_case *c = arg;
  tn_model *m[2] = {NULL, NULL};
  tn_session *s[2] = {NULL, NULL};
  bool ok = model_open(cf, rt, c, 0, 0, &m[0], &s[0], 1) && model_open(cf, rt, c, TN_MODEL_REFERENCE, 0, &m[1], &s[1], 1);
  for (uint32_t run = 0; ok && run < c->g->n_runs && run < 2; run++) {
    const int64_t S = tni_gen_rows(c->g, run);
    const uint32_t phase = !c->phases ? TN_PHASE_ANY : run % 2 ? TN_PHASE_DECODE : TN_PHASE_PREFILL;
    gen_inputs in;
    gen_outputs out[2] = {{.n = 0}};
    ok = tni_gen_inputs(cf, c, S, c->g->rows[run] % 50, 2 * run, &in);
    ok = ok && session_run(cf, s[0], c, phase, &in, "a run without TN_HOST_CHECKED", &out[0]);
    ok = ok && session_run(cf, s[1], c, phase, &in, "the host's run", &out[1]) && is_near(cf, &out[0], &out[1], S);
    for (int i = 0; i < 2; i++) tni_gen_outputs_free(&out[i]);
    tni_gen_inputs_free(cf, &in);
  }
  for (int i = 0; i < 2; i++) tn_session_destroy(s[i]);
  for (int i = 0; i < 2; i++) tn_model_destroy(m[i]);
}

void tni_gen_run(tni_cf *cf, const tni_gen_recipe *g) {
  gen_case c = {.g = g, .phases = tni_cf_needs_phases(cf->listing)};
  if (!tni_gen_build(g, cf, &c.b))
    tni_cf_fail(cf, "the kit's own graph: %s", c.b.err.message);
  else if (save_graph(cf, &c))
    tni_cf_with_runtime(cf, g->threads, g->refuse, NULL, run_models, &c);
  if (c.took && cf->verdict == TNI_CF_PASS && is_of_images(&c))
    tni_cf_with_unchecked(cf, g->threads, g->refuse, run_in_use, &c);
  if (!c.took && cf->verdict == TNI_CF_PASS) tni_cf_skip(cf, "it takes nothing of this graph");
  if (c.folder[0]) (void)nftw(c.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  tni_cn_destroy(&c.b);
}
