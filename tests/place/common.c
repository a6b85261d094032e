/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place_test.h"

static float ones[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static tn_id value_of(tni_graph *g, const char *name) {
  tn_id v = tni_graph_find(g, name);
  if (v != TN_NONE) return v;
  uint32_t kind = *name == 'x' ? TN_VALUE_INPUT : *name == 's' ? TN_VALUE_STEP : TN_VALUE_ACT;
  v = tni_graph_add_value(g, name, kind, TN_DT_F32);
  const tn_expr dims[] = {tni_ex_const(g->exprs, 4), tni_ex_const(g->exprs, 4)};
  tn_status st = tni_value_set_dims(g, v, 2, dims);
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 2, .dims = {4, 4}, .data = ones, .bytes = sizeof ones};
  if (*name == 'w') st = tni_value_set_tensor(g, v, &t, NULL);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  return v;
}

static uint32_t values_of(tni_graph *g, char *list, tn_id *ids) {
  uint32_t n = 0;
  char *save = NULL;
  for (char *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save)) ids[n++] = value_of(g, p);
  return n;
}

void fixture_init(fixture *f, const char *nodes, const char *outputs) {
  memset(f, 0, sizeof *f);
  tni_error_init(&f->err);
  f->arena = tni_arena_create();
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "test", &f->g, &f->err), TN_OK);
  char *text = strdup(nodes), *save = NULL;
  tn_id in[64], out[64];
  int index = 0;
  for (char *p = strtok_r(text, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
    char *ins = strchr(p, ':'), name[16];
    *ins++ = '\0';
    char *outs = strchr(ins, ':');
    *outs++ = '\0';
    snprintf(name, sizeof name, "n%d", index++);
    uint32_t n_in = values_of(f->g, ins, in), n_out = values_of(f->g, outs, out);
    tn_status st = tni_graph_add_node(f->g, name, "", p, 13, in, n_in, out, n_out, NULL, 0, NULL, &f->err);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  }
  free(text);
  uint32_t n_in = 0;
  for (uint32_t v = 0; v < f->g->n_values; v++)
    if (f->g->values[v]->pub.kind == TN_VALUE_INPUT && n_in < 64) in[n_in++] = v;
  text = strdup(outputs);
  uint32_t n_out = values_of(f->g, text, out);
  free(text);
  CU_ASSERT_EQUAL_FATAL(tni_graph_set_io(f->g, in, n_in, out, n_out), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f->g, &f->err), TN_OK);
  f->view.h = (tn_hdr)TN_HDR(tn_graph);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f->g, TN_PHASE_ANY, &f->view, &f->err), TN_OK);
}

void fixture_finish(fixture *f) {
  tni_graph_destroy(f->g);
  tni_arena_destroy(f->arena);
}

tn_id value_id(const fixture *f, const char *name) {
  tn_id v = tni_graph_find(f->g, name);
  CU_ASSERT_NOT_EQUAL_FATAL(v, TN_NONE);
  return v;
}

tn_status answer_table(fake *d, const tn_graph *g, const tn_claim_sink *sink, tn_error *err) {
  (void)err;
  tn_claim c = {.h = TN_HDR(tn_claim)};
  for (tn_id i = 0; i < g->n_nodes; i++) {
    c.verdict = d->verdicts ? d->verdicts[i] : TN_YES;
    c.reason = c.verdict == TN_YES ? TN_WHY_NONE : TN_WHY_OP;
    tn_status st = sink->node(sink->ctx, i, &c);
    if (st != TN_OK) return st;
  }
  c.verdict = TN_YES;
  for (uint32_t k = 0; k < d->n_groups; k++) {
    tn_id ids[64];
    uint32_t n = 0;
    for (const char *p = d->groups[k]; *p && n < 64; p += strcspn(p, ","), p += *p == ',')
      ids[n++] = (tn_id)strtoul(p, NULL, 10);
    tn_status st = sink->group(sink->ctx, ids, n, &c);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  (void)at;
  return ((fake *)d)->answer((fake *)d, g, sink, err);
}

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  (void)s, (void)err;
  *out = (tn_program *)d;
  return TN_OK;
}

static const tn_program_info *info(const tn_program *p) { return ((const fake *)p)->info; }
static void release(tn_program *p) { ((fake *)p)->released++; }
static tn_status run(const tn_plan *plan, tn_args *a, tn_run *r, tn_error *err) {
  (void)plan, (void)a, (void)r, (void)err;
  return TN_OK;
}

void fake_init(fake *d, tni_dev *dev, const char *name) {
  static const tn_caps caps = {.h = TN_HDR(tn_caps), .name = "fake"};
  memset(d, 0, sizeof *d);
  d->pub = (tn_device){.h = TN_HDR(tn_device),
                       .caps = &caps,
                       .claim = claim,
                       .lower = lower,
                       .info = info,
                       .release = release,
                       .run = run};
  d->answer = answer_table;
  tni_devlock_init(&d->lock);
  *dev = (tni_dev){.name = name, .device = &d->pub, .lock = &d->lock};
}

void fake_finish(fake *d) { tni_devlock_finish(&d->lock); }
