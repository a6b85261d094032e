/* SPDX-License-Identifier: Apache-2.0
 *
 * A product as QDQ: a constant [K,N] of DequantizeLinear, in blocks along K, and MatMul.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/quantize/node.h"

enum { U8 = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, I8 = ONNX__TENSOR_PROTO__DATA_TYPE__INT8 };
enum { U4 = 21, I4 = 22 }; /* of TensorProto, which Tenon's schema does not name */

/* v [N,n] becomes [n,N] of codes of 4 or 8 bits, with sign where there is no zero point: less the middle. */
static uint8_t *turn_codes(const tni_qz_node *x, const uint8_t *v, int64_t n, uint8_t less, uint64_t *bytes) {
  const uint64_t count = (uint64_t)(x->s.N * n);
  const uint32_t bits = x->f->bits;
  *bytes = (count * bits + 7) / 8;
  uint8_t *out = calloc(*bytes + 1, 1);
  for (int64_t r = 0; out && r < x->s.N; r++)
    for (int64_t k = 0; k < n; k++)
      tni_quantized_put(out, k * x->s.N + r, bits, (uint8_t)(v[r * n + k] - less) & (uint8_t)((1u << bits) - 1));
  return out;
}

static tn_status add_turned(tni_qz_node *x, const char *what, int32_t dtype, const uint8_t *v, int64_t n, uint8_t less) {
  const int64_t dims[] = {n, x->s.N};
  uint64_t bytes;
  uint8_t *data = turn_codes(x, v, n, less, &bytes);
  if (!data) return tni_qz_no_memory(x->w);
  const tn_status st = tni_qz_add_operand(x, what, dtype, 2, dims, data, bytes);
  free(data);
  return st;
}

static tn_status add_turned_scales(tni_qz_node *x) {
  const int64_t N = x->s.N, blocks = x->s.blocks, dims[] = {blocks, N};
  float *turned = malloc((size_t)(N * blocks) * sizeof *turned);
  if (!turned) return tni_qz_no_memory(x->w);
  for (int64_t r = 0; r < N; r++)
    for (int64_t b = 0; b < blocks; b++) turned[b * N + r] = x->s.scales[r * blocks + b];
  const tn_status st = tni_qz_add_floats(x, "scales", turned, 2, dims);
  free(turned);
  return st;
}

static tn_status add_turned_zeros(tni_qz_node *x, int32_t dtype) {
  const int64_t n = x->s.N * x->s.blocks;
  uint8_t *plain = malloc((size_t)n);
  if (!plain) return tni_qz_no_memory(x->w);
  for (int64_t i = 0; i < n; i++) plain[i] = (uint8_t)x->s.zeros[i];
  const tn_status st = add_turned(x, "zeros", dtype, plain, x->s.blocks, 0);
  free(plain);
  return st;
}

static tn_status new_node(tni_qz_node *x, const char *name, Onnx__NodeProto **out) {
  Onnx__NodeProto *n = TNI_NEW(x->w->arena, Onnx__NodeProto);
  char **output = TNI_NEW_ARRAY(x->w->arena, char *, 1);
  if (!n || !output) return tni_qz_no_memory(x->w);
  onnx__node_proto__init(n);
  n->name = tni_arena_strdup(x->w->arena, name);
  n->output = output;
  n->n_output = 1;
  output[0] = n->name;
  if (!n->name) return tni_qz_no_memory(x->w);
  *out = n;
  return TN_OK;
}

static tn_status add_dequantize(tni_qz_node *x, const char *name, Onnx__NodeProto **dq) {
  const bool wide = x->f->bits == 8;
  const int64_t block = tni_qz_block(x->f, x->s.K);
  bool usual, codes;
  tni_qz_look_at_zeros(x, &usual, &codes);
  if (!usual && !codes)
    return tni_fail(x->w->z->err, TN_E_UNSUPPORTED, x->p->name, "zero points of '%s' are no codes, which QDQ wants", x->p->name);
  const int32_t dtype = usual ? (wide ? I8 : I4) : wide ? U8 : U4;
  tn_status st = add_turned(x, "codes", dtype, x->s.codes, x->s.K, usual ? (uint8_t)(1u << (x->f->bits - 1)) : 0);
  if (st == TN_OK) st = add_turned_scales(x);
  if (st == TN_OK && !usual) st = add_turned_zeros(x, dtype);
  if (st == TN_OK) st = tni_qz_add_int(x, "axis", 0);
  if (st == TN_OK) st = tni_qz_add_int(x, "block_size", block < x->s.K ? block : x->s.K);
  if (st == TN_OK) st = new_node(x, name, dq);
  if (st == TN_OK) st = tni_qz_take(x, *dq, "DequantizeLinear", "");
  if (st == TN_OK && !tni_map_put_str(x->w->made, name, x->w->n_front)) st = tni_qz_no_memory(x->w);
  if (st == TN_OK) x->w->front[x->w->n_front++] = *dq;
  return st;
}

tn_status tni_qz_write_qdq(tni_qz_node *x, Onnx__NodeProto *n) {
  char name[1024];
  uint64_t at;
  Onnx__NodeProto *dq = NULL;
  tn_status st = TN_OK;
  snprintf(name, sizeof name, "%s_weight", x->p->output);
  if (tni_map_get_str(x->w->made, name, &at))
    dq = x->w->front[at];
  else
    st = add_dequantize(x, name, &dq);
  if (st != TN_OK) return st;
  x->in[0] = n->input[0];
  x->in[1] = dq->output[0];
  x->n_in = 2;
  x->n_attrs = 0;
  return tni_qz_take(x, n, "MatMul", "");
}
