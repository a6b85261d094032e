/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's message with MatMulNBits in the place of products that were solved. All else stays as it was written, but
 * that constants of 1 KiB and more lie in model.onnx_data. What the file says and Tenon's schema lacks (doc strings,
 * metadata) is left out.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "runtime/onnx/wire/wire.h"
#include "runtime/quantize/internal.h"

#define DATA_FILE "model.onnx_data"
#define CONTRIB "com.microsoft"
enum { ALIGN = 64, ATTRS = 4 };

typedef struct writer {
  tni_qz *z;
  const char *stage;
  tni_arena *arena;
  tni_model *source; /* the model again: where its constants lie */
  tni_stripped stripped;
  Onnx__ModelProto *model;
  Onnx__TensorProto **initializers;
  size_t n_initializers;
  FILE *data;
  uint64_t at;
} writer;

static tn_status no_memory(writer *w) { return tni_fail_memory(w->z->err, w->z->path); }

static tn_status put_data(writer *w, const void *p, uint64_t n) {
  static const char zeros[ALIGN];
  const uint64_t pad = (ALIGN - w->at % ALIGN) % ALIGN;
  if ((pad && fwrite(zeros, 1, pad, w->data) != pad) || (n && fwrite(p, 1, n, w->data) != n))
    return tni_fail(w->z->err, tni_errno_status(errno, TN_E_IO), w->stage, "cannot write '%s/%s': %s", w->stage,
                    DATA_FILE, strerror(errno));
  w->at += pad + n;
  return TN_OK;
}

static Onnx__StringStringEntryProto *entry(writer *w, const char *key, const char *value) {
  Onnx__StringStringEntryProto *e = TNI_NEW(w->arena, Onnx__StringStringEntryProto);
  if (!e) return NULL;
  onnx__string_string_entry_proto__init(e);
  e->key = (char *)(uintptr_t)key;
  e->value = tni_arena_strdup(w->arena, value);
  return e->value ? e : NULL;
}

/* t's elements, n bytes at p, go into the data file. */
static tn_status put_tensor(writer *w, Onnx__TensorProto *t, const void *p, uint64_t n) {
  char offset[24], length[24];
  const tn_status st = put_data(w, p, n);
  if (st) return st;
  snprintf(offset, sizeof offset, "%" PRIu64, w->at - n);
  snprintf(length, sizeof length, "%" PRIu64, n);
  t->external_data = TNI_NEW_ARRAY(w->arena, Onnx__StringStringEntryProto *, 3);
  if (!t->external_data || !(t->external_data[0] = entry(w, "location", DATA_FILE)) ||
      !(t->external_data[1] = entry(w, "offset", offset)) || !(t->external_data[2] = entry(w, "length", length)))
    return no_memory(w);
  t->n_external_data = 3;
  t->has_data_location = 1;
  t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  t->n_tenon_span = 0;
  t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
  t->has_raw_data = 0;
  return TN_OK;
}

static tn_status move_initializer(writer *w, Onnx__TensorProto *t) {
  const tn_id v = t->name ? tni_graph_find(w->source->graph, t->name) : TN_NONE;
  const tni_tensor *e = v == TN_NONE ? NULL : tni_graph_value(w->source->graph, v)->tensor;
  const bool here = !t->n_tenon_span && !(t->has_data_location && t->data_location);
  if (here) return TN_OK;
  if (!e || (!e->data && e->bytes))
    return tni_fail(w->z->err, TN_E_UNSUPPORTED, t->name ? t->name : "", "constant '%s' cannot be written again",
                    t->name ? t->name : "");
  return put_tensor(w, t, e->data, e->bytes);
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

/* --- products --- */

static Onnx__TensorProto *new_tensor(writer *w, const char *name, int32_t dtype, size_t n_dims, const int64_t *dims) {
  Onnx__TensorProto *t = TNI_NEW(w->arena, Onnx__TensorProto);
  if (!t) return NULL;
  onnx__tensor_proto__init(t);
  t->name = tni_arena_strdup(w->arena, name);
  t->dims = TNI_NEW_ARRAY(w->arena, int64_t, n_dims);
  if (!t->name || !t->dims) return NULL;
  memcpy(t->dims, dims, n_dims * sizeof *dims);
  t->n_dims = n_dims;
  t->has_data_type = 1;
  t->data_type = dtype;
  return t;
}

static tn_status add_initializer(writer *w, const tni_qz_product *p, const char *what, int32_t dtype, size_t n_dims,
                                 const int64_t *dims, const void *data, uint64_t n, char **name) {
  char buf[1024];
  snprintf(buf, sizeof buf, "%s_%s", p->output, what);
  Onnx__TensorProto *t = new_tensor(w, buf, dtype, n_dims, dims);
  if (!t) return no_memory(w);
  *name = t->name;
  w->initializers[w->n_initializers++] = t;
  return put_tensor(w, t, data, n);
}

/* Codes low bits first, blocks whole. */
static void pack_bits(const uint8_t *codes, int64_t n, uint32_t bits, uint8_t *out) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = i * bits;
    const uint32_t v = (uint32_t)codes[i] << at % 8;
    out[at / 8] |= (uint8_t)v;
    if (v > 255) out[at / 8 + 1] |= (uint8_t)(v >> 8);
  }
}

static tn_status add_codes(writer *w, const tni_qz_product *p, const tni_qz_solved *s, char **name) {
  const uint32_t bits = w->z->o.bits;
  const int64_t block = w->z->o.block, block_bytes = block * bits / 8, row = s->blocks * block_bytes;
  uint8_t *packed = calloc((size_t)(s->N * row), 1);
  if (!packed) return no_memory(w);
  for (int64_t n = 0; n < s->N; n++) pack_bits(s->codes + n * s->K, s->K, bits, packed + n * row);
  const int64_t dims[] = {s->N, s->blocks, block_bytes};
  const tn_status st = add_initializer(w, p, "codes", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 3, dims, packed,
                                       (uint64_t)(s->N * row), name);
  free(packed);
  return st;
}

static tn_status add_zeros(writer *w, const tni_qz_product *p, const tni_qz_solved *s, char **name) {
  const uint32_t bits = w->z->o.bits;
  const int64_t row = (s->blocks * bits + 7) / 8;
  uint8_t *packed = calloc((size_t)(s->N * row), 1), *codes = malloc((size_t)s->blocks);
  tn_status st = packed && codes ? TN_OK : no_memory(w);
  for (int64_t n = 0; st == TN_OK && n < s->N; n++) {
    for (int64_t b = 0; b < s->blocks; b++) codes[b] = (uint8_t)s->zeros[n * s->blocks + b];
    pack_bits(codes, s->blocks, bits, packed + n * row);
  }
  const int64_t dims[] = {s->N * row};
  if (st == TN_OK)
    st = add_initializer(w, p, "zeros", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 1, dims, packed, (uint64_t)(s->N * row),
                         name);
  free(packed);
  free(codes);
  return st;
}

static tn_status add_scales(writer *w, const tni_qz_product *p, const tni_qz_solved *s, char **name) {
  const int64_t n = s->N * s->blocks, dims[] = {n};
  const tni_value *stored = tni_graph_value(w->z->import->graph, p->weight);
  if (stored->pub.dtype != TN_DT_F16)
    return add_initializer(w, p, "scales", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1, dims, s->scales,
                           (uint64_t)n * sizeof(float), name);
  uint16_t *half = malloc((size_t)n * sizeof *half);
  if (!half) return no_memory(w);
  for (int64_t i = 0; i < n; i++) half[i] = tni_f32_to_f16(s->scales[i]);
  const tn_status st = add_initializer(w, p, "scales", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, 1, dims, half,
                                       (uint64_t)n * sizeof *half, name);
  free(half);
  return st;
}

static Onnx__AttributeProto *new_attr(writer *w, const char *name, int64_t value) {
  Onnx__AttributeProto *a = TNI_NEW(w->arena, Onnx__AttributeProto);
  if (!a) return NULL;
  onnx__attribute_proto__init(a);
  a->name = (char *)(uintptr_t)name;
  a->has_type = 1;
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  a->has_i = 1;
  a->i = value;
  return a;
}

static tn_status replace_node(writer *w, Onnx__NodeProto *n, uint32_t i) {
  const tni_qz_product *p = &w->z->products[i];
  tni_qz_solved s;
  bool found;
  tn_status st = tni_qz_solved_read(w->z, i, &s, &found);
  if (st == TN_OK && !found)
    st = tni_fail(w->z->err, TN_E_CORRUPT, p->name, "what was solved of '%s' is gone from '%s'", p->name, w->z->work);
  if (st != TN_OK) return st;
  char **in = TNI_NEW_ARRAY(w->arena, char *, 4);
  Onnx__AttributeProto **attrs = TNI_NEW_ARRAY(w->arena, Onnx__AttributeProto *, ATTRS);
  st = in && attrs ? add_codes(w, p, &s, &in[1]) : no_memory(w);
  if (st == TN_OK) st = add_scales(w, p, &s, &in[2]);
  if (st == TN_OK && (w->z->o.flags & TN_QUANTIZE_ZEROS)) st = add_zeros(w, p, &s, &in[3]);
  if (st == TN_OK &&
      (!(attrs[0] = new_attr(w, "K", p->K)) || !(attrs[1] = new_attr(w, "N", p->N)) ||
       !(attrs[2] = new_attr(w, "bits", w->z->o.bits)) || !(attrs[3] = new_attr(w, "block_size", w->z->o.block))))
    st = no_memory(w);
  tni_qz_solved_finish(&s);
  if (st != TN_OK) return st;
  in[0] = n->input[0];
  n->input = in;
  n->n_input = w->z->o.flags & TN_QUANTIZE_ZEROS ? 4 : 3;
  n->op_type = (char *)"MatMulNBits";
  n->domain = (char *)CONTRIB;
  n->attribute = attrs;
  n->n_attribute = ATTRS;
  return TN_OK;
}

static uint32_t product_of(const writer *w, const Onnx__NodeProto *n) {
  for (uint32_t i = 0; n->n_output == 1 && i < w->z->n_products; i++)
    if (strcmp(w->z->products[i].output, n->output[0]) == 0) return i;
  return UINT32_MAX;
}

/* --- the whole --- */

static bool name_is_read(const Onnx__GraphProto *g, const char *name);

static bool node_reads(const Onnx__NodeProto *n, const char *name) {
  for (size_t i = 0; i < n->n_input; i++)
    if (strcmp(n->input[i], name) == 0) return true;
  for (size_t i = 0; i < n->n_attribute; i++) {
    const Onnx__AttributeProto *a = n->attribute[i];
    if (a->g && name_is_read(a->g, name)) return true;
    for (size_t k = 0; k < a->n_graphs; k++)
      if (name_is_read(a->graphs[k], name)) return true;
  }
  return false;
}

static bool name_is_read(const Onnx__GraphProto *g, const char *name) {
  for (size_t i = 0; i < g->n_output; i++)
    if (g->output[i]->name && strcmp(g->output[i]->name, name) == 0) return true;
  for (size_t i = 0; i < g->n_node; i++)
    if (node_reads(g->node[i], name)) return true;
  return false;
}

/* A Transpose of a weight that nobody reads any more. */
static void drop_transposes(Onnx__GraphProto *g) {
  size_t kept = 0;
  for (size_t i = 0; i < g->n_node; i++) {
    const Onnx__NodeProto *n = g->node[i];
    const bool gone =
        n->op_type && strcmp(n->op_type, "Transpose") == 0 && n->n_output && !name_is_read(g, n->output[0]);
    if (!gone) g->node[kept++] = g->node[i];
  }
  g->n_node = kept;
}

static tn_status replace_products(writer *w, Onnx__GraphProto *g) {
  uint32_t found = 0;
  for (size_t i = 0; i < g->n_node; i++) {
    const uint32_t p = product_of(w, g->node[i]);
    if (p == UINT32_MAX) continue;
    const tn_status st = replace_node(w, g->node[i], p);
    if (st) return st;
    found++;
  }
  return found == w->z->n_products ? TN_OK
                                   : tni_fail(w->z->err, TN_E_UNSUPPORTED, w->z->path,
                                              "%u of %u products stand in functions or subgraphs of '%s'",
                                              w->z->n_products - found, w->z->n_products, w->z->path);
}

static tn_status gather_initializers(writer *w, Onnx__GraphProto *g) {
  for (size_t i = 0; i < g->n_initializer; i++) {
    Onnx__TensorProto *t = g->initializer[i];
    if (t->name && !name_is_read(g, t->name)) continue;
    const tn_status st = move_initializer(w, t);
    if (st) return st;
    w->initializers[w->n_initializers++] = t;
  }
  g->initializer = w->initializers;
  g->n_initializer = w->n_initializers;
  return TN_OK;
}

static tn_status import_contrib(writer *w) {
  Onnx__ModelProto *m = w->model;
  for (size_t i = 0; i < m->n_opset_import; i++)
    if (m->opset_import[i]->domain && strcmp(m->opset_import[i]->domain, CONTRIB) == 0) return TN_OK;
  Onnx__OperatorSetIdProto **sets = TNI_NEW_ARRAY(w->arena, Onnx__OperatorSetIdProto *, m->n_opset_import + 1);
  Onnx__OperatorSetIdProto *own = TNI_NEW(w->arena, Onnx__OperatorSetIdProto);
  if (!sets || !own) return no_memory(w);
  if (m->n_opset_import) memcpy(sets, m->opset_import, m->n_opset_import * sizeof *sets);
  onnx__operator_set_id_proto__init(own);
  own->domain = (char *)CONTRIB;
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
  if (!buf) return no_memory(w);
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
  w->initializers = TNI_NEW_ARRAY(w->arena, Onnx__TensorProto *, g->n_initializer + 3 * (size_t)w->z->n_products + 1);
  if (!w->initializers) return no_memory(w);
  tn_status st = restore_nodes(w, g->node, g->n_node);
  for (size_t i = 0; st == TN_OK && i < w->model->n_functions; i++)
    st = restore_nodes(w, w->model->functions[i]->node, w->model->functions[i]->n_node);
  if (st == TN_OK) st = replace_products(w, g);
  if (st != TN_OK) return st;
  drop_transposes(g);
  st = gather_initializers(w, g);
  if (st == TN_OK) st = import_contrib(w);
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
  snprintf(path, sizeof path, "%s/%s", stage, DATA_FILE);
  tn_status st = (w.arena = tni_arena_create()) ? TN_OK : no_memory(&w);
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
  tni_stripped_finish(&w.stripped);
  if (scratch) tni_arena_destroy(scratch);
  tni_model_destroy(w.source);
  if (w.arena) tni_arena_destroy(w.arena);
  return st;
}
