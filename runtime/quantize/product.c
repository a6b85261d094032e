/* SPDX-License-Identifier: Apache-2.0
 *
 * One product in the file: MatMulNBits with codes, scales and zeros of a uniform grid, or MatMulLevels with codes,
 * scales and the tables of a grid of levels (docs/operators-contrib.md). Tables of a format are written once. For QDQ it
 * is MatMul of a DequantizeLinear.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/quantize/write.h"

enum { U8 = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, F32 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { F16 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, I8 = ONNX__TENSOR_PROTO__DATA_TYPE__INT8, INPUTS = 6, ATTRS = 5 };
enum { U4 = 21, I4 = 22 }; /* of TensorProto, which Tenon's schema does not name */

/* A product on its way into the file. */
typedef struct product {
  tni_qz_writer *w;
  const tni_qz_product *p;
  const tni_qz_format *f;
  tni_qz_solved s;
  char *in[INPUTS]; /* [0] is the activation */
  size_t n_in;
  Onnx__AttributeProto *attrs[ATTRS];
  size_t n_attrs;
} product;

static Onnx__TensorProto *new_tensor(tni_qz_writer *w, const char *name, int32_t dtype, size_t n_dims,
                                     const int64_t *dims) {
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

static tn_status add_initializer(tni_qz_writer *w, const char *of, const char *what, int32_t dtype, size_t n_dims,
                                 const int64_t *dims, const void *data, uint64_t n, char **name) {
  char buf[1024];
  snprintf(buf, sizeof buf, "%s_%s", of, what);
  Onnx__TensorProto *t = new_tensor(w, buf, dtype, n_dims, dims);
  if (!t) return tni_qz_no_memory(w);
  *name = t->name;
  w->initializers[w->n_initializers++] = t;
  return tni_qz_put_tensor(w, t, data, n);
}

/* The product's next operand. */
static tn_status add_operand(product *x, const char *what, int32_t dtype, size_t n_dims, const int64_t *dims,
                             const void *data, uint64_t n) {
  return add_initializer(x->w, x->p->output, what, dtype, n_dims, dims, data, n, &x->in[x->n_in++]);
}

static tn_status add_int(product *x, const char *name, int64_t value) {
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

/* n codes of each of N rows, low bits first, into rows of row_bytes. */
static uint8_t *pack_rows(const uint8_t *codes, int64_t N, int64_t n, uint32_t bits, int64_t row_bytes) {
  uint8_t *packed = calloc((size_t)(N * row_bytes) + 1, 1);
  for (int64_t r = 0; packed && r < N; r++)
    for (int64_t i = 0; i < n; i++) tni_quantized_put(packed + r * row_bytes, i, bits, codes[r * n + i]);
  return packed;
}

static tn_status add_codes(product *x, const char *what, const uint8_t *codes, int64_t n, uint32_t bits, size_t n_dims,
                           const int64_t *dims, int64_t row_bytes) {
  uint8_t *packed = pack_rows(codes, x->s.N, n, bits, row_bytes);
  if (!packed) return tni_qz_no_memory(x->w);
  const tn_status st = add_operand(x, what, U8, n_dims, dims, packed, (uint64_t)(x->s.N * row_bytes));
  free(packed);
  return st;
}

/* --- uniform grids --- */

/* In the model's own type. */
static tn_status add_floats(product *x, const char *what, const float *v, size_t n_dims, const int64_t *dims) {
  const int64_t n = x->s.N * x->s.blocks;
  const tni_value *stored = tni_graph_value(x->w->z->import->graph, x->p->weight);
  if (stored->pub.dtype != TN_DT_F16) return add_operand(x, what, F32, n_dims, dims, v, (uint64_t)n * sizeof *v);
  uint16_t *half = malloc((size_t)n * sizeof *half);
  if (!half) return tni_qz_no_memory(x->w);
  for (int64_t i = 0; i < n; i++) half[i] = tni_f32_to_f16(v[i]);
  const tn_status st = add_operand(x, what, F16, n_dims, dims, half, (uint64_t)n * sizeof *half);
  free(half);
  return st;
}

static tn_status add_values(product *x, const char *what, const float *v) {
  const int64_t n = x->s.N * x->s.blocks;
  return add_floats(x, what, v, 1, &n);
}

/* usual: all zeros are 2^(bits - 1). codes: they are codes of the same bits. */
static void look_at_zeros(const product *x, bool *usual, bool *codes) {
  const float middle = (float)(1u << (x->f->bits - 1)), top = 2 * middle - 1;
  *usual = x->f->grid.grid.zero_kind == TN_ZERO_HALF;
  *codes = true;
  for (int64_t i = 0; i < x->s.N * x->s.blocks; i++) {
    const float z = x->s.zeros[i];
    *usual = *usual && z == middle;
    *codes = *codes && z >= 0 && z <= top && rintf(z) == z;
  }
}

/* Zeros as codes where they are such, else as numbers; nothing where all are usual. */
static tn_status add_zeros(product *x) {
  const int64_t row = (x->s.blocks * x->f->bits + 7) / 8, bytes = x->s.N * row, n = x->s.N * x->s.blocks;
  bool usual, codes;
  look_at_zeros(x, &usual, &codes);
  if (usual) return TN_OK;
  if (!codes) return add_values(x, "zeros", x->s.zeros);
  uint8_t *plain = calloc((size_t)x->s.N, (size_t)x->s.blocks);
  if (!plain) return tni_qz_no_memory(x->w);
  for (int64_t i = 0; i < n; i++) plain[i] = (uint8_t)x->s.zeros[i];
  const tn_status st = add_codes(x, "zeros", plain, x->s.blocks, x->f->bits, 1, &bytes, row);
  free(plain);
  return st;
}

static tn_status add_uniform(product *x) {
  const int64_t block = tni_qz_block(x->f, x->s.K), bytes = block * x->f->bits / 8;
  const int64_t dims[] = {x->s.N, x->s.blocks, bytes};
  tn_status st = add_codes(x, "codes", x->s.codes, x->s.K, x->f->bits, 3, dims, x->s.blocks * bytes);
  if (st == TN_OK) st = add_values(x, "scales", x->s.scales);
  if (st == TN_OK) st = add_zeros(x);
  if (st == TN_OK) st = add_int(x, "bits", x->f->bits);
  if (st == TN_OK) st = add_int(x, "block_size", block);
  return st;
}

/* --- levels --- */

/* A table of the format, written when it is needed first. */
static tn_status add_table(product *x, const char *what, size_t n_dims, const int64_t *dims, const float *v,
                           char **made) {
  const uint64_t n = (uint64_t)(dims[0] * (n_dims > 1 ? dims[1] : 1)) * sizeof *v;
  tn_status st = TN_OK;
  if (!*made) st = add_initializer(x->w, x->f->name, what, F32, n_dims, dims, v, n, made);
  x->in[x->n_in++] = *made;
  return st;
}

static tn_status add_levels(product *x) {
  const tn_grid *g = &x->f->grid.grid;
  const uint32_t number = x->p->format, steps = x->f->grid.n_steps;
  const int64_t codes[] = {x->s.N, (x->s.per_row * x->f->bits + 7) / 8}, n_scales = x->s.N * x->s.blocks;
  const int64_t table[] = {g->n_codes, x->f->grid.vec}, n_steps = steps;
  const int64_t index[] = {x->s.N, (x->s.blocks * TNI_QZ_INDEX_BITS + 7) / 8};
  tn_status st = add_codes(x, "codes", x->s.codes, x->s.per_row, x->f->bits, 2, codes, codes[1]);
  if (st == TN_OK && steps) st = add_operand(x, "scales", F32, 1, &x->s.N, x->s.parents, (uint64_t)x->s.N * 4);
  if (st == TN_OK && !steps) st = add_operand(x, "scales", F32, 1, &n_scales, x->s.scales, (uint64_t)n_scales * 4);
  if (st == TN_OK) st = add_table(x, "levels", 2, table, g->levels, &x->w->levels[number]);
  if (st == TN_OK && steps) st = add_table(x, "steps", 1, &n_steps, g->steps, &x->w->steps[number]);
  if (st == TN_OK && steps)
    st = add_codes(x, "index", x->s.steps, x->s.blocks, TNI_QZ_INDEX_BITS, 2, index, index[1]);
  if (st == TN_OK) st = add_int(x, "bits", x->f->bits);
  if (st == TN_OK) st = add_int(x, "block_size", tni_qz_block(x->f, x->s.K));
  return st;
}

/* --- QDQ: a constant [K,N] of DequantizeLinear, in blocks along K --- */

/* v [N,n] becomes [n,N] of codes of 4 or 8 bits, with sign where there is no zero point: less the middle. */
static uint8_t *turn_codes(const product *x, const uint8_t *v, int64_t n, uint8_t less, uint64_t *bytes) {
  const uint64_t count = (uint64_t)(x->s.N * n);
  const uint32_t bits = x->f->bits;
  *bytes = (count * bits + 7) / 8;
  uint8_t *out = calloc(*bytes + 1, 1);
  for (int64_t r = 0; out && r < x->s.N; r++)
    for (int64_t k = 0; k < n; k++)
      tni_quantized_put(out, k * x->s.N + r, bits, (uint8_t)(v[r * n + k] - less) & (uint8_t)((1u << bits) - 1));
  return out;
}

static tn_status add_turned(product *x, const char *what, int32_t dtype, const uint8_t *v, int64_t n, uint8_t less) {
  const int64_t dims[] = {n, x->s.N};
  uint64_t bytes;
  uint8_t *data = turn_codes(x, v, n, less, &bytes);
  if (!data) return tni_qz_no_memory(x->w);
  const tn_status st = add_operand(x, what, dtype, 2, dims, data, bytes);
  free(data);
  return st;
}

static tn_status add_turned_scales(product *x) {
  const int64_t N = x->s.N, blocks = x->s.blocks, dims[] = {blocks, N};
  float *turned = malloc((size_t)(N * blocks) * sizeof *turned);
  if (!turned) return tni_qz_no_memory(x->w);
  for (int64_t r = 0; r < N; r++)
    for (int64_t b = 0; b < blocks; b++) turned[b * N + r] = x->s.scales[r * blocks + b];
  const tn_status st = add_floats(x, "scales", turned, 2, dims);
  free(turned);
  return st;
}

static tn_status add_turned_zeros(product *x, int32_t dtype) {
  const int64_t n = x->s.N * x->s.blocks;
  uint8_t *plain = malloc((size_t)n);
  if (!plain) return tni_qz_no_memory(x->w);
  for (int64_t i = 0; i < n; i++) plain[i] = (uint8_t)x->s.zeros[i];
  const tn_status st = add_turned(x, "zeros", dtype, plain, x->s.blocks, 0);
  free(plain);
  return st;
}

static tn_status new_node(product *x, const char *name, Onnx__NodeProto **out) {
  Onnx__NodeProto *n = TNI_NEW(x->w->arena, Onnx__NodeProto);
  char **output = TNI_NEW_ARRAY(x->w->arena, char *, 1);
  char text[1024];
  if (!n || !output) return tni_qz_no_memory(x->w);
  onnx__node_proto__init(n);
  snprintf(text, sizeof text, "%s_%s", x->p->output, name);
  n->name = tni_arena_strdup(x->w->arena, text);
  n->output = output;
  n->n_output = 1;
  output[0] = n->name;
  if (!n->name) return tni_qz_no_memory(x->w);
  *out = n;
  return TN_OK;
}

static tn_status put_operands(product *x, Onnx__NodeProto *n) {
  n->input = tni_arena_memdup(x->w->arena, x->in, sizeof x->in, _Alignof(char *));
  n->attribute = tni_arena_memdup(x->w->arena, x->attrs, sizeof x->attrs, _Alignof(Onnx__AttributeProto *));
  if (!n->input || !n->attribute) return tni_qz_no_memory(x->w);
  n->n_input = x->n_in;
  n->n_attribute = x->n_attrs;
  return TN_OK;
}

/* n becomes MatMul of what DequantizeLinear makes, which goes to the front of the graph. */
static tn_status rewrite_qdq(product *x, Onnx__NodeProto *n) {
  const bool wide = x->f->bits == 8;
  const int64_t block = tni_qz_block(x->f, x->s.K);
  bool usual, codes;
  Onnx__NodeProto *dq = NULL;
  look_at_zeros(x, &usual, &codes);
  if (!usual && !codes)
    return tni_fail(x->w->z->err, TN_E_UNSUPPORTED, x->p->name, "zero points of '%s' are no codes, which QDQ wants", x->p->name);
  const int32_t dtype = usual ? (wide ? I8 : I4) : wide ? U8 : U4;
  tn_status st = add_turned(x, "codes", dtype, x->s.codes, x->s.K, usual ? (uint8_t)(1u << (x->f->bits - 1)) : 0);
  if (st == TN_OK) st = add_turned_scales(x);
  if (st == TN_OK && !usual) st = add_turned_zeros(x, dtype);
  if (st == TN_OK) st = add_int(x, "axis", 0);
  if (st == TN_OK) st = add_int(x, "block_size", block < x->s.K ? block : x->s.K);
  if (st == TN_OK) st = new_node(x, "weight", &dq);
  if (st == TN_OK) st = put_operands(x, dq);
  if (st != TN_OK) return st;
  dq->op_type = (char *)"DequantizeLinear";
  x->w->front[x->w->n_front++] = dq;
  x->in[0] = n->input[0];
  x->in[1] = dq->output[0];
  x->n_in = 2;
  x->n_attrs = 0;
  n->op_type = (char *)"MatMul";
  n->domain = NULL;
  return put_operands(x, n);
}

/* --- the node --- */

static tn_status rewrite(product *x, Onnx__NodeProto *n) {
  tni_qz_writer *w = x->w;
  const bool levels = x->f->grid.levels;
  tn_status st = add_int(x, "K", x->p->K);
  if (st == TN_OK) st = add_int(x, "N", x->p->N);
  x->in[x->n_in++] = n->input[0];
  if (st == TN_OK) st = levels ? add_levels(x) : add_uniform(x);
  if (st == TN_OK) st = put_operands(x, n);
  if (st != TN_OK) return st;
  n->op_type = levels ? (char *)"MatMulLevels" : (char *)"MatMulNBits";
  n->domain = levels ? (char *)TNI_OWN_DOMAIN : (char *)TNI_QZ_CONTRIB;
  w->own = w->own || levels;
  w->contrib = w->contrib || !levels;
  return TN_OK;
}

tn_status tni_qz_write_product(tni_qz_writer *w, Onnx__NodeProto *n, uint32_t i) {
  const tni_qz_product *p = &w->z->products[i];
  product x = {.w = w, .p = p, .f = &w->z->formats[p->format]};
  bool found;
  tn_status st = tni_qz_solved_read(w->z, i, &x.s, &found);
  if (st == TN_OK && !found)
    st = tni_fail(w->z->err, TN_E_CORRUPT, p->name, "what was solved of '%s' is gone from '%s'", p->name, w->z->work);
  if (st == TN_OK) st = w->z->o.flags & TN_QUANTIZE_QDQ ? rewrite_qdq(&x, n) : rewrite(&x, n);
  tni_qz_solved_finish(&x.s);
  return st;
}
