/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/quantize/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"

enum { F32 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, F16 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 };

Onnx__TensorProto *tni_qz_new_tensor(tni_qz_writer *w, const char *name, int32_t dtype, size_t n_dims, const int64_t *dims) {
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

tn_status tni_qz_add_initializer(tni_qz_writer *w, const char *of, const char *what, int32_t dtype, size_t n_dims,
                                 const int64_t *dims, const void *data, uint64_t n, char **name) {
  char buf[1024];
  uint64_t at;
  snprintf(buf, sizeof buf, "%s_%s", of, what);
  if (tni_map_get_str(w->made, buf, &at)) {
    *name = w->initializers[at]->name;
    return TN_OK;
  }
  Onnx__TensorProto *t = tni_qz_new_tensor(w, buf, dtype, n_dims, dims);
  if (!t || !tni_map_put_str(w->made, buf, w->n_initializers)) return tni_qz_no_memory(w);
  *name = t->name;
  w->initializers[w->n_initializers++] = t;
  return tni_qz_put_tensor(w, t, data, n);
}

tn_status tni_qz_add_operand(tni_qz_node *x, const char *what, int32_t dtype, size_t n_dims, const int64_t *dims,
                             const void *data, uint64_t n) {
  return tni_qz_add_initializer(x->w, x->p->output, what, dtype, n_dims, dims, data, n, &x->in[x->n_in++]);
}

tn_status tni_qz_add_int(tni_qz_node *x, const char *name, int64_t value) {
  Onnx__AttributeProto *a = TNI_NEW(x->w->arena, Onnx__AttributeProto);
  if (!a) return tni_qz_no_memory(x->w);
  onnx__attribute_proto__init(a);
  a->name = (char *)(uintptr_t)name;
  a->has_type = 1;
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  a->has_i = 1;
  a->i = value;
  x->attrs[x->n_attrs++] = a;
  return TN_OK;
}

tn_status tni_qz_add_floats(tni_qz_node *x, const char *what, const float *v, size_t n_dims, const int64_t *dims) {
  const int64_t n = x->s.N * x->s.blocks;
  if (!tni_qz_writes_halves(x->w->z, x->p))
    return tni_qz_add_operand(x, what, F32, n_dims, dims, v, (uint64_t)n * sizeof *v);
  uint16_t *half = malloc((size_t)n * sizeof *half);
  if (!half) return tni_qz_no_memory(x->w);
  for (int64_t i = 0; i < n; i++) half[i] = tni_f32_to_f16(v[i]);
  const tn_status st = tni_qz_add_operand(x, what, F16, n_dims, dims, half, (uint64_t)n * sizeof *half);
  free(half);
  return st;
}

void tni_qz_look_at_zeros(const tni_qz_node *x, bool *usual, bool *codes) {
  const float middle = (float)(1u << (x->f->bits - 1)), top = 2 * middle - 1;
  *usual = x->f->grid.grid.zero_kind == TN_ZERO_HALF;
  *codes = true;
  for (int64_t i = 0; i < x->s.N * x->s.blocks; i++) {
    const float z = x->s.zeros[i];
    *usual = *usual && z == middle;
    *codes = *codes && z >= 0 && z <= top && rintf(z) == z;
  }
}

tn_status tni_qz_take(tni_qz_node *x, Onnx__NodeProto *n, const char *op, const char *domain) {
  tni_qz_writer *w = x->w;
  n->input = tni_arena_memdup(w->arena, x->in, sizeof x->in, _Alignof(char *));
  n->attribute = tni_arena_memdup(w->arena, x->attrs, sizeof x->attrs, _Alignof(Onnx__AttributeProto *));
  if (!n->input || !n->attribute) return tni_qz_no_memory(w);
  n->n_input = x->n_in;
  n->n_attribute = x->n_attrs;
  n->op_type = (char *)(uintptr_t)op;
  n->domain = (char *)(uintptr_t)domain;
  w->own = w->own || strcmp(domain, TNI_OWN_DOMAIN) == 0;
  w->contrib = w->contrib || strcmp(domain, TNI_QZ_CONTRIB) == 0;
  return TN_OK;
}
