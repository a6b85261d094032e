/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/mutate.h"

#include <string.h>

#include "tests/fuzz/gen.h"
#include "tests/fuzz/mutate_node.h"
#include "tests/fuzz/values.h"

enum { DECISIONS = 512 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);

static void change_opset(fz_bytes *b, Onnx__ModelProto *m) {
  if (m->n_opset_import) FZ_SET(m->opset_import[fz_below(b, (uint32_t)m->n_opset_import)], version, 1 + fz_u8(b) % 28);
}

static void change_graph(tni_arena *a, fz_bytes *b, Onnx__GraphProto *g, const fz_parts *p) {
  const uint32_t at = fz_below(b, (uint32_t)g->n_node);
  switch (fz_below(b, 10)) {
    case 0:
      if (g->n_node) memmove(&g->node[at], &g->node[at + 1], (--g->n_node - at) * sizeof *g->node);
      break;
    case 1:
      if (g->n_node) FZ_PUSH(a, g, node, fz_copy(a, &g->node[at]->base));
      break;
    case 2:
      if (p->n_values) {
        Onnx__ValueInfoProto *v = FZ_NEW(a, ValueInfoProto, value_info_proto);
        v->name = p->values[fz_below(b, p->n_values)];
        FZ_PUSH(a, g, output, v);
      }
      break;
    case 3: /* what was an input becomes a constant */
      if (g->n_input) {
        const Onnx__ValueInfoProto *v = g->input[fz_below(b, (uint32_t)g->n_input)];
        const int64_t dims[] = {1 + fz_below(b, 4), 1 + fz_below(b, 4), 2, 2};
        if (v->name) FZ_PUSH(a, g, initializer, fz_tensor(a, v->name, fz_dtype(b), dims, fz_below(b, 5), fz_u8(b)));
      }
      break;
    case 4:
      g->n_output -= g->n_output > 1;
      break;
    case 5:
      if (p->n_graphs > 1 && p->n_attrs) { /* a graph in another place */
        Onnx__AttributeProto *to = p->attrs[fz_below(b, p->n_attrs)];
        Onnx__GraphProto *from = p->graphs[1 + fz_below(b, p->n_graphs - 1)];
        if (to->g) to->g = fz_copy(a, &from->base);
      }
      break;
    default:
      fz_add_node(a, b, g, p->values, p->n_values);
      break;
  }
}

/* Makes a function of a node and a call of the node. */
static void make_function(tni_arena *a, fz_bytes *b, Onnx__ModelProto *m) {
  Onnx__GraphProto *g = m->graph;
  if (!g || !g->n_node || m->n_functions > 4) return;
  Onnx__NodeProto *n = g->node[fz_below(b, (uint32_t)g->n_node)];
  Onnx__FunctionProto *f = FZ_NEW(a, FunctionProto, function_proto);
  f->name = fz_text(a, "F%u", (unsigned)m->n_functions);
  f->domain = fz_text(a, "local");
  for (size_t i = 0; i < n->n_input; i++) FZ_PUSH(a, f, input, n->input[i]);
  for (size_t i = 0; i < n->n_output; i++) FZ_PUSH(a, f, output, n->output[i]);
  FZ_PUSH(a, f, node, fz_copy(a, &n->base));
  if (m->n_opset_import) FZ_PUSH(a, f, opset_import, m->opset_import[0]);
  Onnx__OperatorSetIdProto *o = FZ_NEW(a, OperatorSetIdProto, operator_set_id_proto);
  o->domain = f->domain;
  FZ_SET(o, version, 1);
  FZ_PUSH(a, m, opset_import, o);
  if (fz_u8(b) & 1) FZ_PUSH(a, f, opset_import, o); /* it may then call itself */
  FZ_PUSH(a, m, functions, f);
  n->op_type = f->name;
  n->domain = f->domain;
  n->n_attribute = 0;
}

static void change(tni_arena *a, fz_bytes *b, Onnx__ModelProto *m) {
  fz_parts *p = fz_alloc(a, sizeof *p);
  memset(p, 0, sizeof *p);
  fz_find_parts(m, p);
  const uint8_t r = fz_u8(b);
  if (r < 8)
    change_opset(b, m);
  else if (r < 12)
    make_function(a, b, m);
  else if (r < 20 && p->n_names)
    *p->names[fz_below(b, p->n_names)] = p->n_values ? p->values[fz_below(b, p->n_values)] : fz_text(a, "z");
  else if (r < 60 && p->n_graphs)
    change_graph(a, b, p->graphs[fz_below(b, p->n_graphs)], p);
  else if (r < 110 && p->n_attrs)
    fz_change_attribute(a, b, p->attrs[fz_below(b, p->n_attrs)]);
  else if (r < 150 && p->n_tensors)
    fz_change_tensor(a, b, p->tensors[fz_below(b, p->n_tensors)]);
  else if (r < 190 && p->n_types)
    fz_change_type(a, b, p->types[fz_below(b, p->n_types)]);
  else if (p->n_nodes)
    fz_change_node(a, b, p->nodes[fz_below(b, p->n_nodes)], p);
}

static void decide(uint8_t *d, uint32_t seed) {
  uint64_t s = seed;
  for (uint32_t i = 0; i < DECISIONS; i += 8) {
    const uint64_t v = fz_next(&s);
    memcpy(d + i, &v, 8);
  }
}

size_t fz_mutate(uint8_t *data, size_t n, size_t most, uint32_t seed) {
  uint8_t d[DECISIONS];
  decide(d, seed);
  fz_bytes b = {d, sizeof d};
  if (fz_below(&b, 16) == 0) return LLVMFuzzerMutate(data, n, most);
  tni_arena *a = tni_arena_create();
  Onnx__ModelProto *m = a ? fz_unpack(a, data, n) : NULL;
  if (!m && a) m = fz_generate(a, &b); /* no model: a new one */
  size_t out = 0;
  if (m) {
    const uint32_t times = 1 + fz_below(&b, 4);
    for (uint32_t i = 0; i < times; i++) change(a, &b, m);
    out = fz_pack(&m->base, data, most);
  }
  tni_arena_destroy(a);
  return out ? out : LLVMFuzzerMutate(data, n, most);
}

/* y's nodes and what they read go into x, under names of their own where both have one. */
static void join(tni_arena *a, fz_bytes *b, Onnx__ModelProto *x, Onnx__ModelProto *y) {
  fz_parts *p = fz_alloc(a, sizeof *p), *q = fz_alloc(a, sizeof *q);
  memset(p, 0, sizeof *p);
  memset(q, 0, sizeof *q);
  fz_find_parts(x, p);
  fz_find_parts(y, q);
  for (uint32_t i = 0; i < q->n_names; i++)
    if (*q->names[i] && **q->names[i]) *q->names[i] = fz_text(a, "y.%s", *q->names[i]);
  Onnx__GraphProto *g = x->graph, *h = y->graph;
  for (size_t i = 0; i < h->n_input; i++) FZ_PUSH(a, g, input, h->input[i]);
  for (size_t i = 0; i < h->n_initializer; i++) FZ_PUSH(a, g, initializer, h->initializer[i]);
  for (size_t i = 0; i < h->n_node; i++) FZ_PUSH(a, g, node, h->node[i]);
  for (size_t i = 0; i < h->n_output; i++) FZ_PUSH(a, g, output, h->output[i]);
  /* An edge from one to the other. */
  for (uint32_t i = 0; i < 2 && p->n_values && h->n_node; i++) {
    Onnx__NodeProto *n = h->node[fz_below(b, (uint32_t)h->n_node)];
    if (n->n_input) n->input[fz_below(b, (uint32_t)n->n_input)] = p->values[fz_below(b, p->n_values)];
  }
}

size_t fz_cross(const uint8_t *x, size_t n_x, const uint8_t *y, size_t n_y, uint8_t *out, size_t most, uint32_t seed) {
  uint8_t d[DECISIONS];
  decide(d, seed);
  fz_bytes b = {d, sizeof d};
  tni_arena *a = tni_arena_create();
  Onnx__ModelProto *m = a ? fz_unpack(a, x, n_x) : NULL, *other = m ? fz_unpack(a, y, n_y) : NULL;
  size_t n = 0;
  if (m && other && m->graph && other->graph) {
    join(a, &b, m, other);
    n = fz_pack(&m->base, out, most);
  }
  tni_arena_destroy(a);
  return n;
}
