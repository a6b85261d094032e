/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/gen.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/operands.h"

enum { MAX_MODEL = 1 << 16 };

static void add_node(fz_scope *s);

static Onnx__GraphProto *subgraph(fz_scope *outer, uint32_t n_in, uint32_t n_out) {
  fz_scope s = *outer;
  s.depth++;
  s.graph = FZ_NEW(s.arena, GraphProto, graph_proto);
  s.graph->name = fz_text(s.arena, "s%u", (*s.count)++);
  for (uint32_t i = 0; i < n_in; i++) {
    char *name = fz_text(s.arena, "p%u", (*s.count)++);
    static const int64_t none[1];
    /* A loop's first two are its counter and its condition. */
    const uint32_t dtype = i == 0 ? TN_DT_I64 : i == 1 ? TN_DT_BOOL : s.base.dtype;
    const bool counter = i < 2 && fz_often(s.b, 200);
    FZ_PUSH(s.arena, s.graph, input,
            counter ? fz_info(s.arena, name, dtype, none, 0)
                    : fz_info(s.arena, name, s.base.dtype, s.base.dims, s.base.rank));
    fz_scope_add(&s, name, counter ? dtype : s.base.dtype, s.base.dims, counter ? 0 : s.base.rank);
  }
  const uint32_t n = fz_below(s.b, 3);
  for (uint32_t i = 0; i < n; i++) add_node(&s);
  for (uint32_t i = 0; i < n_out && s.n_values; i++) {
    /* An output that is an input or captured goes through an Identity, as exporters write it. */
    Onnx__NodeProto *copy = FZ_NEW(s.arena, NodeProto, node_proto);
    char *name = fz_text(s.arena, "o%u", (*s.count)++);
    const uint32_t at = i == 0 && n_in > 1 ? s.n_values - n_in + 1 : s.n_values - 1 - fz_below(s.b, s.n_values);
    copy->op_type = fz_text(s.arena, "Identity");
    FZ_PUSH(s.arena, copy, input, s.values[at < s.n_values ? at : 0].name);
    FZ_PUSH(s.arena, copy, output, name);
    FZ_PUSH(s.arena, s.graph, node, copy);
    Onnx__ValueInfoProto *v = FZ_NEW(s.arena, ValueInfoProto, value_info_proto);
    v->name = name;
    FZ_PUSH(s.arena, s.graph, output, v);
  }
  return s.graph;
}

static void attributes(fz_scope *s, Onnx__NodeProto *node, const fz_op *op) {
  char name[64];
  uint32_t type;
  bool required;
  for (uint32_t i = 0; fz_attr_spec(op, i, name, &type, &required); i++) {
    if (strcmp(name, "num_scan_inputs") == 0) {
      Onnx__AttributeProto *at = fz_attribute(s->arena, s->b, name, type, *s->seed);
      at->i = (int64_t)node->n_input - (at->i & 1);
      FZ_PUSH(s->arena, node, attribute, at);
      continue;
    }
    if (!fz_often(s->b, required ? 250 : op->row ? 80 : 200)) continue;
    if (type != TN_ATTR_GRAPH) {
      FZ_PUSH(s->arena, node, attribute, fz_attribute(s->arena, s->b, name, type, (*s->seed)++));
      continue;
    }
    if (s->depth == FZ_MAX_DEPTH) continue;
    Onnx__AttributeProto *at = FZ_NEW(s->arena, AttributeProto, attribute_proto);
    at->name = fz_text(s->arena, "%s", name);
    FZ_SET(at, type, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    const bool branch = strstr(name, "branch") != NULL, loop = strcmp(op->name, "Loop") == 0;
    at->g = subgraph(s, branch ? 0 : (uint32_t)node->n_input, (uint32_t)node->n_output + loop);
    FZ_PUSH(s->arena, node, attribute, at);
  }
}

static void add_node(fz_scope *s) {
  fz_bytes *b = s->b;
  const fz_op op = fz_pick_op((uint32_t)fz_u8(b) << 8 | fz_u8(b));
  Onnx__NodeProto *n = FZ_NEW(s->arena, NodeProto, node_proto);
  fz_scope_base(s);
  n->op_type = fz_text(s->arena, "%s", op.name);
  if (*op.domain) n->domain = fz_text(s->arena, "%s", op.domain);
  n->name = fz_text(s->arena, "n%u", (*s->count)++);
  const size_t letters = strlen(op.operands);
  uint32_t most = op.in_max < 99 ? op.in_max : op.in_min + 3;
  if (most > op.in_min && fz_often(b, 100)) most = op.in_min;
  const uint32_t n_in = op.in_min + fz_below(b, most - op.in_min + 1), n_out_most = op.out_max < 99 ? op.out_max : 3;
  for (uint32_t i = 0; i < n_in; i++)
    FZ_PUSH(s->arena, n, input, fz_operand(s, op.operands[i < letters ? i : letters - 1]));
  const uint32_t least = op.out_min ? op.out_min : 1;
  const uint32_t n_out = n_out_most > least ? least + fz_below(b, n_out_most - least + 1) : least;
  for (uint32_t i = 0; i < n_out; i++) FZ_PUSH(s->arena, n, output, fz_text(s->arena, "v%u", (*s->count)++));
  attributes(s, n, &op);
  FZ_PUSH(s->arena, s->graph, node, n);
  for (uint32_t i = 0; i < n_out; i++) fz_scope_add(s, n->output[i], s->base.dtype, s->base.dims, s->base.rank);
}

static void add_outputs(tni_arena *a, Onnx__GraphProto *g, const Onnx__NodeProto *n) {
  for (size_t i = 0; i < n->n_output; i++) {
    Onnx__ValueInfoProto *v = FZ_NEW(a, ValueInfoProto, value_info_proto);
    v->name = n->output[i];
    FZ_PUSH(a, g, output, v);
  }
}

Onnx__ModelProto *fz_generate(tni_arena *a, fz_bytes *b) {
  static const uint8_t opsets[] = {21, 23, 24, 26, 27, 28, 18, 17, 13, 12, 11, 9};
  uint32_t count = 0;
  uint64_t seed = 1;
  const uint8_t r = fz_u8(b);
  Onnx__ModelProto *m = fz_new_model(a, r < 240 ? opsets[r % sizeof opsets] : r % 30);
  fz_scope s = {.arena = a, .b = b, .graph = m->graph, .count = &count, .seed = &seed};
  seed = fz_u8(b);
  const uint32_t n = 1 + fz_below(b, 4);
  for (uint32_t i = 0; i < n; i++) add_node(&s);
  for (size_t i = 0; i < m->graph->n_node; i++) add_outputs(a, m->graph, m->graph->node[i]);
  return m;
}

uint8_t *fz_generate_bytes(const uint8_t *data, size_t n, size_t *size) {
  tni_arena *a = tni_arena_create();
  uint8_t *out = malloc(MAX_MODEL);
  fz_bytes b = {data, n};
  if (!a || !out) abort();
  *size = fz_pack(&fz_generate(a, &b)->base, out, MAX_MODEL);
  tni_arena_destroy(a);
  if (*size) return out;
  free(out);
  return NULL;
}

void fz_add_node(tni_arena *a, fz_bytes *b, Onnx__GraphProto *g, char *const *names, uint32_t n_names) {
  uint32_t count = 1000 + fz_u8(b) * 16u;
  uint64_t seed = fz_u8(b);
  fz_scope s = {.arena = a, .b = b, .graph = g, .count = &count, .seed = &seed};
  for (uint32_t i = 0; i < n_names; i++) fz_scope_add(&s, names[i], TN_DT_F32, NULL, -1);
  add_node(&s);
  add_outputs(a, g, g->node[g->n_node - 1]);
}
