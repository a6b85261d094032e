/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph that reads rows, and the graph that makes them of token ids, as one graph: a decoder and its table of
 * embeddings, what a decoder makes of its encoder's output and that encoder.
 */
#include "runtime/session/model_import.h"

#include <stdlib.h>
#include <string.h>

typedef struct joiner {
  tni_graph *g, *from;
  tn_id *to; /* [values of from] */
  tn_error *err;
} joiner;

static tn_id join_value(joiner *j, const tni_value *v) {
  const char *name = tni_graph_find(j->g, v->pub.name) == TN_NONE ? v->pub.name : "";
  const bool fixed = v->pub.kind == TN_VALUE_CONST;
  const tn_id id = tni_graph_add_value(j->g, name, TN_VALUE_ACT, v->pub.dtype);
  if (id == TN_NONE || !fixed) return id;
  return tni_value_set_tensor(j->g, id, v->tensor, &v->origin) == TN_OK ? id : TN_NONE;
}

static tn_status join_node(joiner *j, const tni_node *n) {
  const uint32_t n_in = n->pub.n_in, n_out = n->pub.n_out;
  for (uint32_t a = 0; a < n->n_raw; a++)
    if (n->raw[a].n_graphs)
      return tni_fail(j->err, TN_E_UNSUPPORTED, n->pub.name, "'%s' has subgraphs: not a table of embeddings",
                      n->pub.name);
  tn_id *v = calloc((size_t)n_in + n_out + 1, sizeof *v);
  if (!v) return tni_fail_memory(j->err, n->pub.name);
  for (uint32_t i = 0; i < n_in + n_out; i++) {
    const tn_id id = i < n_in ? n->pub.in[i] : n->pub.out[i - n_in];
    v[i] = id == TN_NONE ? TN_NONE : j->to[id];
  }
  const tn_status st = tni_graph_add_node(j->g, n->pub.name, n->pub.domain, n->type, n->version, v, n_in, v + n_in,
                                          n_out, n->raw, n->n_raw, NULL, j->err);
  free(v);
  return st;
}

/* An input of `from` as one of g that is as long as `rows` has rows. */
static tn_id join_input(joiner *j, tn_id input, tn_id rows) {
  const tni_value *v = j->from->values[input];
  const tn_id in = tni_graph_add_value(j->g, v->pub.name, TN_VALUE_INPUT, v->pub.dtype);
  return in != TN_NONE && tni_value_set_dims(j->g, in, 2, j->g->values[rows]->pub.dims) == TN_OK ? in : TN_NONE;
}

/* Inputs of `from` take the place of `rows` among g's. */
static tn_status join_inputs(joiner *j, tn_id rows) {
  tni_graph *g = j->g;
  tn_id *inputs = TNI_NEW_ARRAY(g->arena, tn_id, (size_t)g->n_inputs + j->from->n_inputs);
  uint32_t n = 0;
  if (!inputs) return tni_fail_memory(j->err, g->name);
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    for (uint32_t k = 0; g->inputs[i] == rows && k < j->from->n_inputs; k++) inputs[n++] = j->to[j->from->inputs[k]];
    if (g->inputs[i] != rows) inputs[n++] = g->inputs[i];
  }
  return tni_graph_set_io(g, inputs, n, g->outputs, g->n_outputs);
}

/* Rows become what `from` gives. */
static tn_status join_graphs(joiner *j, tn_id rows) {
  tni_graph *g = j->g;
  for (uint32_t i = 0; i < j->from->n_values; i++) j->to[i] = TN_NONE;
  for (uint32_t i = 0; i < j->from->n_inputs; i++) j->to[j->from->inputs[i]] = join_input(j, j->from->inputs[i], rows);
  for (uint32_t i = 0; i < j->from->n_values; i++) {
    if (j->from->values[i]->pub.kind != TN_VALUE_INPUT) j->to[i] = join_value(j, j->from->values[i]);
    if (j->to[i] == TN_NONE) return tni_fail_memory(j->err, g->name);
  }
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < j->from->n_nodes; i++) st = join_node(j, j->from->nodes[i]);
  if (st == TN_OK) st = join_inputs(j, rows);
  if (st == TN_OK) st = tni_graph_replace(g, rows, j->to[j->from->outputs[0]]);
  return st == TN_OK ? tni_graph_finish(g, j->err) : st;
}

/* Inputs of ids and, where `masked`, a mask, [batch, positions]; one output of rows [batch, positions, size]. */
static tn_status check_part(const tni_graph *part, const char *path, const tni_value *rows, bool masked,
                            tn_error *err) {
  for (uint32_t i = 0; i < part->n_inputs; i++) {
    const tni_value *v = part->values[part->inputs[i]];
    const bool mask = masked && strcmp(v->pub.name, "attention_mask") == 0;
    if (strcmp(v->pub.name, "input_ids") != 0 && !mask)
      return tni_fail(err, TN_E_UNSUPPORTED, path, "'%s' %sreads '%.60s': ids alone do not make '%s' with it", path,
                      part->n_inputs > 1 ? "also " : "", v->pub.name, rows->pub.name);
  }
  if (part->n_inputs < 1 || part->n_inputs > (masked ? 2u : 1u) || part->n_outputs != 1 || rows->pub.rank != 3)
    return tni_fail(err, TN_E_UNSUPPORTED, path, "'%s' is not one graph that makes '%s' of input_ids", path,
                    rows->pub.name);
  return TN_OK;
}

/* files of `part` come along; part itself lives as long as m. */
static tn_status keep_files(tni_model *m, tni_model *part, tn_error *err) {
  const uint32_t n = m->n_files + part->n_files;
  tni_file *files = realloc(m->files, n * sizeof *files);
  if (files) m->files = files;
  const char **paths = files ? realloc(m->paths, n * sizeof *paths) : NULL;
  if (!paths) return tni_fail_memory(err, m->paths[0]);
  m->paths = paths;
  for (uint32_t i = 0; i < part->n_files; i++) {
    m->paths[m->n_files] = part->paths[i];
    m->files[m->n_files++] = part->files[i];
  }
  part->n_files = 0;
  m->n_nodes_file += part->n_nodes_file;
  m->part = part;
  return TN_OK;
}

tn_status tni_model_join(tni_model *m, const char *rows, const char *path, bool masked, const tni_import_limits *lim,
                         const tni_log *log, tn_error *err) {
  const tn_id id = tni_graph_find(m->graph, rows);
  tni_model *part = NULL;
  if (id == TN_NONE || m->part) return tni_fail(err, TN_E_INVALID, rows, "there is no such input to make");
  tn_status st = tni_import_file(path, lim, log, &part, err);
  if (st != TN_OK) return st;
  st = check_part(part->graph, path, m->graph->values[id], masked, err);
  joiner j = {m->graph, part->graph, calloc((size_t)part->graph->n_values + 1, sizeof *j.to), err};
  if (st == TN_OK && !j.to) st = tni_fail_memory(err, path);
  if (st == TN_OK) st = join_graphs(&j, id);
  free(j.to);
  if (st == TN_OK) st = keep_files(m, part, err);
  if (st != TN_OK) tni_model_destroy(part);
  return st;
}
