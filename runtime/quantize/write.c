/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's message with what was solved in the place of products. All else stays as it was written, but that
 * constants of 1 KiB and more lie in model.onnx_data. What the file says and Tenon's schema lacks (doc strings,
 * metadata) is left out.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/write.h"

typedef tni_qz_writer writer;

/* What folding makes of a constant. */
static tn_status put_folded(writer *w, Onnx__TensorProto *t, bool *changed) {
  void *data;
  uint64_t n;
  tn_status st = tni_fold_elements(w->z->fold, t->name, &data, &n, w->z->err);
  *changed = data != NULL;
  if (!data) return st;
  st = tni_qz_put_tensor(w, t, data, n);
  w->z->n_folded++;
  free(data);
  return st;
}

static tn_status move_initializer(writer *w, Onnx__TensorProto *t) {
  const tn_id v = t->name ? tni_graph_find(w->source->graph, t->name) : TN_NONE;
  const tni_tensor *e = v == TN_NONE ? NULL : tni_graph_value(w->source->graph, v)->tensor;
  if (w->z->fold) {
    bool changed;
    const tn_status st = put_folded(w, t, &changed);
    if (st != TN_OK || changed) return st;
  }
  const bool here = !t->n_tenon_span && !(t->has_data_location && t->data_location);
  if (here) return TN_OK;
  if (!e || (!e->data && e->bytes))
    return tni_fail(w->z->err, TN_E_UNSUPPORTED, t->name ? t->name : "", "constant '%s' cannot be written again",
                    t->name ? t->name : "");
  return tni_qz_put_tensor(w, t, e->data, e->bytes);
}

/* Elements of a node's own tensor that stayed in the file. */
static tn_status restore_attr(writer *w, Onnx__TensorProto *t, const char *node) {
  if (!t || !t->n_tenon_span) return TN_OK;
  const tni_payload *p = &w->stripped.spans[t->tenon_span[0]];
  if (t->n_tenon_span > 1 || (p->field != 9 && p->field != 4 && p->field != 10))
    return tni_fail(w->z->err, TN_E_UNSUPPORTED, node, "node '%s' holds a large tensor of packed integers", node);
  t->n_tenon_span = 0;
  t->has_raw_data = 1;
  t->raw_data = (ProtobufCBinaryData){.len = p->bytes, .data = (uint8_t *)w->source->files[0].data + p->offset};
  return TN_OK;
}

static tn_status restore_nodes(writer *w, Onnx__NodeProto **nodes, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
      const Onnx__AttributeProto *a = nodes[i]->attribute[k];
      const tn_status st = restore_attr(w, a->t, nodes[i]->name ? nodes[i]->name : "");
      if (st) return st;
    }
  return TN_OK;
}

/* --- names --- */

static tn_status note_read(writer *w, const Onnx__GraphProto *g);

static tn_status note_name(writer *w, const char *name) {
  return !name || tni_map_put_str(w->read, name, 0) ? TN_OK : tni_qz_no_memory(w);
}

static tn_status note_node(writer *w, const Onnx__NodeProto *n) {
  tn_status st = TN_OK;
  for (size_t i = 0; st == TN_OK && i < n->n_input; i++) st = note_name(w, n->input[i]);
  for (size_t i = 0; st == TN_OK && i < n->n_attribute; i++) {
    const Onnx__AttributeProto *a = n->attribute[i];
    if (a->g) st = note_read(w, a->g);
    for (size_t k = 0; st == TN_OK && k < a->n_graphs; k++) st = note_read(w, a->graphs[k]);
  }
  return st;
}

/* What nodes of g and of graphs in it read, and g gives. */
static tn_status note_read(writer *w, const Onnx__GraphProto *g) {
  tn_status st = TN_OK;
  for (size_t i = 0; st == TN_OK && i < g->n_output; i++) st = note_name(w, g->output[i]->name);
  for (size_t i = 0; st == TN_OK && i < g->n_node; i++) st = note_node(w, g->node[i]);
  return st;
}

/* The same from an empty set. */
static tn_status note_all(writer *w, const Onnx__GraphProto *g) {
  tni_map_destroy(w->read);
  w->read = tni_map_create();
  return w->read ? note_read(w, g) : tni_qz_no_memory(w);
}

static bool is_read(const writer *w, const char *name) {
  uint64_t any;
  return tni_map_get_str(w->read, name, &any);
}

/* A Transpose of a weight that nobody reads any more: its weight is not noted. */
static bool is_idle(const writer *w, const Onnx__NodeProto *n) {
  return n->op_type && strcmp(n->op_type, "Transpose") == 0 && n->n_output && !is_read(w, n->output[0]);
}

static tn_status drop_transposes(writer *w, Onnx__GraphProto *g) {
  size_t kept = 0;
  const tn_status st = note_all(w, g);
  for (size_t i = 0; st == TN_OK && i < g->n_node; i++)
    if (!is_idle(w, g->node[i])) g->node[kept++] = g->node[i];
  if (st != TN_OK || kept == g->n_node) return st;
  g->n_node = kept;
  return note_all(w, g);
}

static tn_status replace_products(writer *w, Onnx__GraphProto *g) {
  const tni_qz *z = w->z;
  uint32_t found = 0, wanted = 0;
  if (!(w->products = tni_map_create())) return tni_qz_no_memory(w);
  for (uint32_t i = 0; i < z->n_items; i++) {
    if (z->products[i].format == TNI_QZ_FLOAT) continue;
    if (!tni_map_put_str(w->products, z->products[i].output, i)) return tni_qz_no_memory(w);
    wanted++;
  }
  for (size_t i = 0; i < g->n_node; i++) {
    Onnx__NodeProto *n = g->node[i];
    uint64_t p;
    if (n->n_output != 1 || !tni_map_get_str(w->products, n->output[0], &p)) continue;
    const tn_status st = tni_qz_write_item(w, n, (uint32_t)p);
    if (st) return st;
    found++;
  }
  return found == wanted ? TN_OK
                         : tni_fail(z->err, TN_E_UNSUPPORTED, z->path,
                                    "%u of %u products and tables stand in functions or subgraphs of '%s'",
                                    wanted - found, wanted, z->path);
}

static Onnx__NodeProto *node_that_gives(const Onnx__GraphProto *g, const char *output) {
  for (size_t i = 0; i < g->n_node; i++)
    if (g->node[i]->n_output && strcmp(g->node[i]->output[0], output) == 0) return g->node[i];
  return NULL;
}

/* The table of embeddings reads what the lender was written with. */
static tn_status share_codes(writer *w, Onnx__GraphProto *g) {
  const tni_qz *z = w->z;
  if (z->lender == TNI_QZ_FLOAT) return TN_OK;
  const Onnx__NodeProto *m = node_that_gives(g, z->products[z->lender].output);
  Onnx__NodeProto *n = node_that_gives(g, z->products[z->n_products].output), *reshape = TNI_NEW(w->arena, Onnx__NodeProto);
  Onnx__NodeProto **nodes = TNI_NEW_ARRAY(w->arena, Onnx__NodeProto *, g->n_node + 1);
  if (!reshape || !nodes) return tni_qz_no_memory(w);
  if (!m || !n)
    return tni_fail(z->err, TN_E_UNSUPPORTED, z->path, "the table of '%s' stands in a function or subgraph", z->path);
  nodes[0] = reshape;
  memcpy(nodes + 1, g->node, g->n_node * sizeof *nodes);
  g->node = nodes;
  g->n_node++;
  return tni_qz_share_codes(w, n, m, reshape);
}

/* The model at opset 21, with the nodes that make weights before all others. */
static tn_status write_qdq(writer *w, Onnx__GraphProto *g) {
  Onnx__NodeProto **all = TNI_NEW_ARRAY(w->arena, Onnx__NodeProto *, w->n_front + g->n_node + 1);
  if (!all) return tni_qz_no_memory(w);
  if (w->n_front) memcpy(all, w->front, w->n_front * sizeof *all);
  if (g->n_node) memcpy(all + w->n_front, g->node, g->n_node * sizeof *all);
  g->node = all;
  g->n_node += w->n_front;
  return tni_qz_raise_opset(w);
}

static tn_status gather_initializers(writer *w, Onnx__GraphProto *g) {
  for (size_t i = 0; i < g->n_initializer; i++) {
    Onnx__TensorProto *t = g->initializer[i];
    if (t->name && !is_read(w, t->name)) continue;
    const tn_status st = move_initializer(w, t);
    if (st) return st;
    w->initializers[w->n_initializers++] = t;
  }
  g->initializer = w->initializers;
  g->n_initializer = w->n_initializers;
  return TN_OK;
}

static tn_status import_domain(writer *w, const char *domain) {
  Onnx__ModelProto *m = w->model;
  for (size_t i = 0; i < m->n_opset_import; i++)
    if (m->opset_import[i]->domain && strcmp(m->opset_import[i]->domain, domain) == 0) return TN_OK;
  Onnx__OperatorSetIdProto **sets = TNI_NEW_ARRAY(w->arena, Onnx__OperatorSetIdProto *, m->n_opset_import + 1);
  Onnx__OperatorSetIdProto *own = TNI_NEW(w->arena, Onnx__OperatorSetIdProto);
  if (!sets || !own) return tni_qz_no_memory(w);
  if (m->n_opset_import) memcpy(sets, m->opset_import, m->n_opset_import * sizeof *sets);
  onnx__operator_set_id_proto__init(own);
  own->domain = (char *)(uintptr_t)domain;
  own->has_version = 1;
  own->version = 1;
  sets[m->n_opset_import++] = own;
  m->opset_import = sets;
  return TN_OK;
}

static tn_status write_message(writer *w) {
  char path[TNI_QZ_PATH];
  snprintf(path, sizeof path, "%s/model.onnx", w->stage);
  const size_t n = onnx__model_proto__get_packed_size(w->model);
  uint8_t *buf = malloc(n + 1);
  if (!buf) return tni_qz_no_memory(w);
  onnx__model_proto__pack(w->model, buf);
  FILE *f = fopen(path, "wb");
  if (f) fwrite(buf, 1, n, f);
  const int why = f ? tni_close_written(f) : errno;
  free(buf);
  return why ? tni_fail(w->z->err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why))
             : TN_OK;
}

static tn_status write_all(writer *w) {
  Onnx__GraphProto *g = w->model->graph;
  if (!g) return tni_fail(w->z->err, TN_E_CORRUPT, w->z->path, "'%s' has no graph", w->z->path);
  const bool qdq = w->z->o.flags & TN_QUANTIZE_QDQ && !w->z->fold;
  const size_t n = g->n_initializer + TNI_QZ_TENSORS * (size_t)w->z->n_items + (qdq ? tni_qz_count_nodes(g) : 0) + 1;
  w->initializers = TNI_NEW_ARRAY(w->arena, Onnx__TensorProto *, n);
  w->front = TNI_NEW_ARRAY(w->arena, Onnx__NodeProto *, w->z->n_products + 1);
  if (!w->initializers || !w->front) return tni_qz_no_memory(w);
  tn_status st = restore_nodes(w, g->node, g->n_node);
  for (size_t i = 0; st == TN_OK && i < w->model->n_functions; i++)
    st = restore_nodes(w, w->model->functions[i]->node, w->model->functions[i]->n_node);
  if (st == TN_OK && !w->z->fold) st = replace_products(w, g);
  if (st == TN_OK && !w->z->fold) st = share_codes(w, g);
  if (st == TN_OK && qdq) st = write_qdq(w, g);
  if (st != TN_OK) return st;
  st = drop_transposes(w, g);
  if (st == TN_OK) st = gather_initializers(w, g);
  if (st == TN_OK && w->contrib) st = import_domain(w, TNI_QZ_CONTRIB);
  if (st == TN_OK && w->own) st = import_domain(w, TNI_OWN_DOMAIN);
  w->model->producer_name = (char *)"tenon";
  return st == TN_OK ? write_message(w) : st;
}

tn_status tni_qz_write(tni_qz *z, const char *stage) {
  writer w = {.z = z, .stage = stage};
  char path[TNI_QZ_PATH];
  tni_arena *scratch = NULL;
  ProtobufCMessage *msg = NULL;
  const ProtobufCMessageDescriptor *root = &onnx__model_proto__descriptor;
  const tni_scan_limits lim = {32, UINT64_C(256) << 20};
  snprintf(path, sizeof path, "%s/%s", stage, TNI_QZ_DATA_FILE);
  tn_status st = (w.arena = tni_arena_create()) && (w.made = tni_map_create()) ? TN_OK : tni_qz_no_memory(&w);
  if (st == TN_OK) st = tni_import_file(z->path, NULL, NULL, &w.source, z->err);
  if (st == TN_OK)
    st = tni_scan(root, w.source->files[0].data, w.source->files[0].bytes, &lim, z->path, &w.stripped, z->err);
  if (st == TN_OK) st = tni_unpack(root, &w.stripped, UINT64_C(1) << 30, z->path, &scratch, &msg, z->err);
  if (st == TN_OK && !(w.data = fopen(path, "wb")))
    st = tni_fail(z->err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
  w.model = (Onnx__ModelProto *)msg;
  if (st == TN_OK) st = write_all(&w);
  const int why = w.data ? tni_close_written(w.data) : 0;
  if (why && st == TN_OK)
    st = tni_fail(z->err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why));
  tni_map_destroy(w.products);
  tni_map_destroy(w.read);
  tni_map_destroy(w.made);
  tni_stripped_finish(&w.stripped);
  if (scratch) tni_arena_destroy(scratch);
  tni_model_destroy(w.source);
  if (w.arena) tni_arena_destroy(w.arena);
  return st;
}
