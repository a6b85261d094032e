/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report/report_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/graph/graph.h"
#include "runtime/oracle/tasks/tasks.h"
#include "runtime/place/place.h"
#include "runtime/report/nearest.h"
#include "runtime/report/weights.h"
#include "runtime/shape/shape.h"

static json_t *refusals_json(const tn_model *m, const tni_exec *x, uint32_t node) {
  json_t *j = json_object();
  for (uint32_t i = 0; i < m->rt->n_order[x->phase]; i++) {
    uint32_t d = m->rt->order[x->phase][i];
    if (d == x->part.device_of[node]) break;
    const tni_claim *c = &x->claims.node[d][node];
    if (c->verdict == TN_YES) continue;
    const char *why = c->verdict == TN_GROUP_ONLY && !*c->text ? "only as part of a group" : c->text;
    json_object_set_new(j, m->rt->devs[d].name,
                        json_pack("{s:s, s:o}", "code", tni_why_name(c->reason), "text", tni_json_shown(why)));
  }
  return j;
}

/* Of a node that nobody takes: what was asked of it, and what would do. */
static void write_unsupported(tni_json_writer *w, const tni_graph *g, const tni_node *n) {
  char near[512], *attributes = NULL;
  size_t bytes;
  FILE *f = open_memstream(&attributes, &bytes);
  if (f) tni_dump_attrs(n, f);
  if (!f || fclose(f) != 0) tni_json_lacked();
  tni_nearest_node(g, n, near, sizeof near);
  tni_json_put_text(w, "attributes", attributes && *attributes ? attributes + 1 : "");
  tni_json_put_text(w, "nearest", near);
  free(attributes);
}

static void write_node(tni_json_writer *w, const tn_model *m, const tni_exec *x, uint32_t i) {
  const tni_node *n = tni_graph_node(m->graph, i);
  const uint32_t d = x->part.device_of[i];
  tni_json_open(w, NULL, '{');
  tni_json_put_text(w, "name", n->pub.name);
  tni_json_put_text(w, "op", n->type);
  tni_json_put_text(w, "domain", n->pub.domain);
  tni_json_put_count(w, "version", n->version);
  if (d == TN_NONE)
    tni_json_put_tree(w, "device", json_null());
  else
    tni_json_put_text(w, "device", m->rt->devs[d].name);
  const tni_claim *c = tni_partition_claim(&x->part, &x->claims, i);
  if (c && c->format) tni_json_put_text(w, "format", c->format->name);
  if (x->part.group_of[i] != TN_NONE) tni_json_put_count(w, "group", x->part.group_of[i]);
  tni_json_open(w, "inputs", '[');
  for (uint32_t k = 0; k < n->pub.n_in; k++) {
    const tn_id v = n->pub.in[k];
    tni_json_put_text(w, NULL, v == TN_NONE ? "" : tni_dtype_name(tni_graph_value(m->graph, v)->pub.dtype));
  }
  tni_json_shut(w, ']');
  tni_json_put_tree(w, "refusals", refusals_json(m, x, i));
  if (d == TN_NONE) write_unsupported(w, m->graph, n);
  tni_json_shut(w, '}');
}

static const char *phase_name(uint32_t phase) {
  return phase == TN_PHASE_PREFILL ? "prefill" : phase == TN_PHASE_DECODE ? "decode" : "any";
}

json_t *tni_placement_json(const tn_model *m, const tni_exec *x) {
  json_t *j = json_object();
  for (uint32_t d = 0; d < m->rt->n_devs; d++) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->view.n_nodes; i++) count += x->part.device_of[i] == d;
    if (count) json_object_set_new(j, m->rt->devs[d].name, json_integer(count));
  }
  if (x->part.n_unsupported) json_object_set_new(j, "unsupported", json_integer(x->part.n_unsupported));
  return j;
}

/* Multiplications of one row with the weights of node n. */
static json_int_t node_macs(const tn_model *m, const tn_graph *view, const tn_node *n) {
  const int64_t weights = n->op == TN_OP_FUSED_MATMUL ? tni_attr_i(n, "n_weights", 1) : 1;
  json_int_t macs = 0;
  for (int64_t k = 1; k <= weights && k < n->n_in; k++) {
    const tn_value *w = view->values[n->in[k]];
    int64_t rows, columns, both;
    if (tni_ex_is_const(m->graph->exprs, w->dims[0], &rows) && tni_ex_is_const(m->graph->exprs, w->dims[1], &columns) &&
        !__builtin_mul_overflow(rows, columns, &both) && both <= INT64_MAX - macs)
      macs += both;
  }
  return macs;
}

/* Of products with constant weights, by device. */
static json_t *weight_macs(const tn_model *m, const tni_exec *x) {
  json_t *j = json_object();
  for (uint32_t d = 0; d < m->rt->n_devs; d++) {
    json_int_t macs = 0;
    for (uint32_t i = 0; i < x->view.n_nodes; i++) {
      const tn_node *n = x->view.nodes[i];
      if (x->part.device_of[i] == d && tni_is_weight_product(&x->view, n)) macs += node_macs(m, &x->view, n);
    }
    if (macs) json_object_set_new(j, m->rt->devs[d].name, json_integer(macs));
  }
  return j;
}

/* Products with constant weights, and how many the host got although another device stands before it. */
static void count_products(const tn_model *m, const tni_exec *x, json_t *into) {
  const uint32_t *order = m->rt->order[x->phase];
  uint32_t products = 0, fell = 0;
  for (uint32_t i = 0; i < x->view.n_nodes; i++) {
    if (!tni_is_weight_product(&x->view, x->view.nodes[i])) continue;
    const uint32_t d = x->part.device_of[i];
    products++;
    fell += d != TN_NONE && m->rt->devs[d].is_host && m->rt->n_order[x->phase] && !m->rt->devs[order[0]].is_host;
  }
  json_object_set_new(into, "weight_products", json_integer(products));
  json_object_set_new(into, "fell_back", json_integer(fell));
  json_object_set_new(into, "weight_macs", weight_macs(m, x));
}

static json_t *offline_json(const tn_model *m) {
  json_t *j = json_array();
  for (uint32_t d = 0; d < m->rt->n_devs; d++)
    if (m->rt->devs[d].device->caps->flags & TN_CAPS_OFFLINE)
      json_array_append_new(j, tni_json_shown(m->rt->devs[d].name));
  return j;
}

/* One placement; the decode phase's own stands beside the first. */
static void write_phase(tni_json_writer *w, const tn_model *m, const tni_exec *x, bool nodes) {
  json_t *products = json_object();
  tni_json_put_text(w, "phase", phase_name(x->phase));
  if (nodes) {
    tni_json_open(w, "nodes", '[');
    for (uint32_t i = 0; i < x->view.n_nodes; i++) write_node(w, m, x, i);
    tni_json_shut(w, ']');
  }
  tni_json_put_tree(w, "placement", tni_placement_json(m, x));
  count_products(m, x, products);
  tni_json_put_members(w, products);
}

void tni_check_write(const tn_model *m, bool nodes, tni_json_writer *w) {
  uint32_t unsupported = 0;
  tni_json_open(w, NULL, '{');
  tni_json_put_text(w, "model", m->path);
  tni_json_put_text(w, "profile", m->rt->profile->name);
  for (uint32_t e = 0; e < m->n_execs; e++) {
    const tni_exec *x = &m->execs[e];
    unsupported += x->part.n_unsupported;
    if (e > 0) tni_json_open(w, phase_name(x->phase), '{');
    write_phase(w, m, x, nodes);
    if (e > 0) tni_json_shut(w, '}');
  }
  tni_json_put_tree(w, "embeddings", tni_embeddings_json(m));
  tni_json_put_tree(w, "offline", offline_json(m));
  tni_json_put_count(w, "unsupported", unsupported);
  tni_json_shut(w, '}');
}
