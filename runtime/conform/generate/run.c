/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/generate/run.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/conform/real/real.h"
#include "runtime/onnx/onnx.h"
#include "runtime/place/place.h"

enum { MOST_OUT = TNI_CN_MAX_OUT };

typedef struct gen_case {
  const tni_gen_recipe *g;
  tni_cn_graph b;
  char folder[64];
  bool took; /* something of it */
} gen_case;

/* Inputs of one length, between guards: nothing may be read beside them. */
typedef struct gen_inputs {
  tni_cf_block block[TNI_CN_MAX_IN];
  tn_tensor t[TNI_CN_MAX_IN];
  const tn_tensor *list[TNI_CN_MAX_IN];
  uint32_t n;
} gen_inputs;

/* What a run gave, copied. */
typedef struct gen_outputs {
  void *data[MOST_OUT];
  uint64_t bytes[MOST_OUT];
  uint32_t n;
} gen_outputs;

/* --- inputs and outputs ------------------------------------------------------------------------------------------- */

static bool inputs_make(tni_cf *cf, const gen_case *c, int64_t S, uint64_t stream, gen_inputs *in) {
  const int64_t sym[TNI_CF_MAX_SYMBOLS] = {S, 1, 1, 1, 1, 1, 1, 1};
  memset(in, 0, sizeof *in);
  for (uint32_t i = 0; i < c->b.n_in; i++) {
    const tn_value *v = &tni_graph_value(c->b.g, c->b.in[i])->pub;
    tn_tensor *t = &in->t[i];
    int64_t count = 1;
    *t = (tn_tensor){.h = {sizeof *t, 1, 0}, .name = v->name, .dtype = (tn_dtype)v->dtype, .rank = v->rank};
    for (uint32_t k = 0; k < v->rank; k++) {
      if (tni_ex_eval(c->b.g->exprs, v->dims[k], sym, tni_ex_n_symbols(c->b.g->exprs), &t->dims[k]) != TN_OK)
        return tni_cf_fail(cf, "the kit's own graph: dims of '%s'", v->name), false;
      count *= t->dims[k];
    }
    t->bytes = (uint64_t)count * sizeof(float);
    if (!tni_cf_block_make(&in->block[i], t->bytes, 64, 0xff, true)) return tni_cf_fail(cf, "no memory"), false;
    t->data = in->block[i].p;
    tni_cf_rng r = tni_cf_rng_of(cf, c->g->values + stream * 16 + i);
    for (int64_t k = 0; k < count; k++) ((float *)in->block[i].p)[k] = (float)tni_cf_rng_normal(&r) * (k % 41 ? 1 : 6);
    in->list[in->n++] = t;
  }
  return true;
}

static void inputs_free(tni_cf *cf, gen_inputs *in) {
  for (uint32_t i = 0; i < TNI_CN_MAX_IN; i++) {
    if (!tni_cf_block_holds(&in->block[i])) tni_cf_fail(cf, "bytes beside an input were written");
    tni_cf_block_finish(&in->block[i]);
  }
}

static void outputs_free(gen_outputs *o) {
  for (uint32_t i = 0; i < o->n; i++) free(o->data[i]);
  o->n = 0;
}

static bool session_run(tni_cf *cf, tn_session *s, const gen_case *c, const gen_inputs *in, const char *how,
                        gen_outputs *out) {
  tn_tensor t[MOST_OUT];
  tn_error err;
  tni_error_init(&err);
  memset(t, 0, sizeof t);
  for (uint32_t i = 0; i < c->b.n_out; i++) t[i].h = (tn_hdr){sizeof t[i], 1, 0};
  const tn_status st = tn_session_run(s, TN_PHASE_ANY, in->list, in->n, t, c->b.n_out, &err);
  if (st != TN_OK) return tni_cf_fail(cf, "%s: %s: %s (%s)", how, err.where, err.message, tni_status_name(st)), false;
  for (out->n = 0; out->n < c->b.n_out; out->n++) {
    out->bytes[out->n] = t[out->n].bytes;
    if (!(out->data[out->n] = malloc(t[out->n].bytes + 1))) return tni_cf_fail(cf, "no memory"), false;
    if (t[out->n].bytes) memcpy(out->data[out->n], t[out->n].data, t[out->n].bytes);
  }
  return true;
}

static bool outputs_same(tni_cf *cf, const gen_case *c, const gen_outputs *a, const gen_outputs *b, int64_t S,
                         const char *how) {
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->bytes[i] == b->bytes[i] && !memcmp(a->data[i], b->data[i], a->bytes[i])) continue;
    const float *x = a->data[i], *y = b->data[i];
    uint64_t at = 0;
    while (a->bytes[i] == b->bytes[i] && !memcmp(&x[at], &y[at], sizeof *x)) at++;
    tni_cf_fail(cf, "S = %lld, output %u: other bits %s, from element %llu on: %.9g, then %.9g", (long long)S, i, how,
                (unsigned long long)at, a->bytes[i] ? (double)x[at] : 0, b->bytes[i] ? (double)y[at] : 0);
    (void)c;
    return false;
  }
  return true;
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
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
      if (!tni_ex_is_const(c->b.g->exprs, val->dims[k], &shape[i].dims[k])) shape[i].dims[k] = -1;
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
 * other values and another length. */
static bool one_length(tni_cf *cf, const gen_case *c, tn_session **s, uint32_t run) {
  const int64_t S = c->g->rows[run], other = c->g->rows[(run + 1) % c->g->n_runs];
  gen_inputs in, in2;
  gen_outputs out[4] = {{.n = 0}};
  bool ok = inputs_make(cf, c, S, 2 * run, &in);
  ok = inputs_make(cf, c, other, 2 * run + 1, &in2) && ok;
  ok = ok && session_run(cf, s[JUDGED], c, &in, "a judged run", &out[0]);
  ok = ok && session_run(cf, s[FIRST], c, &in, "a run", &out[1]);
  ok = ok && outputs_same(cf, c, &out[0], &out[1], S, "where no task is watched");
  ok = ok && session_run(cf, s[SECOND], c, &in2, "a run of a second session", &out[2]);
  ok = ok && session_run(cf, s[FIRST], c, &in, "the same run again", &out[3]);
  ok = ok && outputs_same(cf, c, &out[1], &out[3], S, "from the same inputs, once another session had run");
  for (int i = 0; i < 4; i++) outputs_free(&out[i]);
  inputs_free(cf, &in);
  inputs_free(cf, &in2);
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
      rows |= c->g->rows[i];
    }
    if (ok) (void)tni_cf_judge_session(cf, s[JUDGED], false, !rows);
  }
  for (int i = 0; i < SESSIONS; i++) tn_session_destroy(s[i]);
  for (int i = 0; i < 2; i++) tn_model_destroy(m[i]);
}

void tni_gen_run(tni_cf *cf, const tni_gen_recipe *g) {
  gen_case c = {.g = g};
  if (!tni_gen_build(g, cf, &c.b))
    tni_cf_fail(cf, "the kit's own graph: %s", c.b.err.message);
  else if (save_graph(cf, &c))
    tni_cf_with_runtime(cf, g->threads, run_models, &c);
  if (!c.took && cf->verdict == TNI_CF_PASS) tni_cf_skip(cf, "it takes nothing of this graph");
  if (c.folder[0]) (void)nftw(c.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  tni_cn_destroy(&c.b);
}
