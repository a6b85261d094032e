/* SPDX-License-Identifier: Apache-2.0
 *
 * One product in the file: MatMulNBits with codes, scales and zeros of a uniform grid, or MatMulLevels with codes,
 * scales and the tables of a grid of levels (docs/operators-contrib.md). Tables of a format are written once. QDQ is
 * qdq.c's. And the table of embeddings: GatherBlockQuantized, of its own codes or of a product's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/quantize/node.h"

enum { U8 = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, F32 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };

typedef tni_qz_node product;

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
  const tn_status st = tni_qz_add_operand(x, what, U8, n_dims, dims, packed, (uint64_t)(x->s.N * row_bytes));
  free(packed);
  return st;
}

/* --- uniform grids --- */

static tn_status add_values(product *x, const char *what, const float *v) {
  const int64_t n = x->s.N * x->s.blocks, matrix[] = {x->s.N, x->s.blocks};
  return tni_qz_add_floats(x, what, v, x->by_rows ? 2 : 1, x->by_rows ? matrix : &n);
}

/* Zeros as codes where they are such, else as numbers; nothing where all are usual. */
static tn_status add_zeros(product *x) {
  const int64_t n = x->s.N * x->s.blocks, row = (x->s.blocks * x->f->bits + 7) / 8, bytes = x->s.N * row;
  const int64_t matrix[] = {x->s.N, row};
  bool usual, codes;
  tni_qz_look_at_zeros(x, &usual, &codes);
  if (usual) return TN_OK;
  if (!codes) return add_values(x, "zeros", x->s.zeros);
  uint8_t *plain = calloc((size_t)x->s.N, (size_t)x->s.blocks);
  if (!plain) return tni_qz_no_memory(x->w);
  for (int64_t i = 0; i < n; i++) plain[i] = (uint8_t)x->s.zeros[i];
  const tn_status st = add_codes(x, "zeros", plain, x->s.blocks, x->f->bits, 1 + x->by_rows,
                                 x->by_rows ? matrix : &bytes, row);
  free(plain);
  return st;
}

/* dims: of codes, whose rows take row_bytes. */
static tn_status add_grid(product *x, size_t n_dims, const int64_t *dims, int64_t row_bytes) {
  const int64_t block = tni_qz_block(x->f, x->s.K);
  tn_status st = add_codes(x, "codes", x->s.codes, x->s.K, x->f->bits, n_dims, dims, row_bytes);
  if (st == TN_OK) st = add_values(x, "scales", x->s.scales);
  if (st == TN_OK) st = add_zeros(x);
  if (st == TN_OK) st = tni_qz_add_int(x, "bits", x->f->bits);
  if (st == TN_OK) st = tni_qz_add_int(x, "block_size", block);
  return st;
}

static tn_status add_uniform(product *x) {
  const int64_t bytes = tni_qz_block(x->f, x->s.K) * x->f->bits / 8, dims[] = {x->s.N, x->s.blocks, bytes};
  return add_grid(x, 3, dims, x->s.blocks * bytes);
}

/* --- levels --- */

/* A table of the format, written when it is needed first. */
static tn_status add_table(product *x, const char *what, size_t n_dims, const int64_t *dims, const float *v,
                           char **made) {
  const uint64_t n = (uint64_t)(dims[0] * (n_dims > 1 ? dims[1] : 1)) * sizeof *v;
  tn_status st = TN_OK;
  if (!*made) st = tni_qz_add_initializer(x->w, x->f->name, what, F32, n_dims, dims, v, n, made);
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
  if (st == TN_OK && steps) st = tni_qz_add_operand(x, "scales", F32, 1, &x->s.N, x->s.parents, (uint64_t)x->s.N * 4);
  if (st == TN_OK && !steps) st = tni_qz_add_operand(x, "scales", F32, 1, &n_scales, x->s.scales, (uint64_t)n_scales * 4);
  if (st == TN_OK) st = add_table(x, "levels", 2, table, g->levels, &x->w->levels[number]);
  if (st == TN_OK && steps) st = add_table(x, "steps", 1, &n_steps, g->steps, &x->w->steps[number]);
  if (st == TN_OK && steps)
    st = add_codes(x, "index", x->s.steps, x->s.blocks, TNI_QZ_INDEX_BITS, 2, index, index[1]);
  if (st == TN_OK) st = tni_qz_add_int(x, "bits", x->f->bits);
  if (st == TN_OK) st = tni_qz_add_int(x, "block_size", tni_qz_block(x->f, x->s.K));
  return st;
}

/* --- the node --- */

static tn_status rewrite(product *x, Onnx__NodeProto *n) {
  const bool levels = x->f->grid.levels;
  tn_status st = tni_qz_add_int(x, "K", x->p->K);
  if (st == TN_OK) st = tni_qz_add_int(x, "N", x->p->N);
  x->in[x->n_in++] = n->input[0];
  if (st == TN_OK) st = levels ? add_levels(x) : add_uniform(x);
  if (st != TN_OK) return st;
  return levels ? tni_qz_take(x, n, "MatMulLevels", TNI_OWN_DOMAIN) : tni_qz_take(x, n, "MatMulNBits", TNI_QZ_CONTRIB);
}

/* Attributes of a Gather's node, which has its operands. */
static tn_status finish_gather(product *x, Onnx__NodeProto *n) {
  tn_status st = tni_qz_add_int(x, "gather_axis", 0);
  if (st == TN_OK) st = tni_qz_add_int(x, "quantize_axis", 1);
  return st == TN_OK ? tni_qz_take(x, n, "GatherBlockQuantized", TNI_QZ_CONTRIB) : st;
}

/* A row of the table lies in whole blocks. */
static tn_status rewrite_gather(product *x, Onnx__NodeProto *n) {
  const int64_t dims[] = {x->s.N, x->s.K * x->f->bits / 8};
  tn_status st = add_grid(x, 2, dims, dims[1]);
  if (st != TN_OK) return st;
  memmove(x->in + 2, x->in + 1, (x->n_in - 1) * sizeof *x->in); /* codes, indices, scales, zeros */
  x->in[1] = n->input[1];
  x->n_in++;
  return finish_gather(x, n);
}

/* m, the node of a product that is written, has [N, blocks, bytes] of codes: its rows by a Reshape before n. */
tn_status tni_qz_share_codes(tni_qz_writer *w, Onnx__NodeProto *n, const Onnx__NodeProto *m, Onnx__NodeProto *reshape) {
  const tni_qz_product *lender = &w->z->products[w->z->lender];
  const tni_qz_format *f = &w->z->formats[lender->format];
  product x = {.w = w, .p = &w->z->products[w->z->n_products], .f = f};
  const int64_t shape[] = {lender->N, lender->K * f->bits / 8}, two = 2;
  char name[1024];
  snprintf(name, sizeof name, "%s_shape", x.p->output);
  Onnx__TensorProto *t = tni_qz_new_tensor(w, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, &two);
  snprintf(name, sizeof name, "%s_codes", x.p->output);
  char **in = TNI_NEW_ARRAY(w->arena, char *, 2), **out = TNI_NEW_ARRAY(w->arena, char *, 1);
  if (!t || !in || !out || !(out[0] = tni_arena_strdup(w->arena, name)) ||
      !(t->int64_data = tni_arena_memdup(w->arena, shape, sizeof shape, _Alignof(int64_t))))
    return tni_qz_no_memory(w);
  t->n_int64_data = 2;
  w->initializers[w->n_initializers++] = t;
  onnx__node_proto__init(reshape);
  in[0] = m->input[1];
  in[1] = t->name;
  reshape->name = out[0];
  reshape->op_type = (char *)(uintptr_t) "Reshape";
  reshape->input = in;
  reshape->n_input = 2;
  reshape->output = out;
  reshape->n_output = 1;
  x.in[x.n_in++] = out[0];
  x.in[x.n_in++] = n->input[1];
  for (size_t i = 2; i < m->n_input; i++) x.in[x.n_in++] = m->input[i];
  tn_status st = tni_qz_add_int(&x, "bits", f->bits);
  if (st == TN_OK) st = tni_qz_add_int(&x, "block_size", tni_qz_block(f, lender->K));
  return st == TN_OK ? finish_gather(&x, n) : st;
}

tn_status tni_qz_write_item(tni_qz_writer *w, Onnx__NodeProto *n, uint32_t i) {
  const uint32_t of = tni_qz_codes_of(w->z, i);
  const tni_qz_product *p = &w->z->products[of];
  const uint32_t lender = w->z->lender;
  const bool table = i == w->z->n_products, lends = lender != TNI_QZ_FLOAT && of == tni_qz_codes_of(w->z, lender);
  product x = {.w = w, .p = p, .f = &w->z->formats[p->format], .by_rows = table || lends};
  bool found;
  tn_status st = tni_qz_solved_read(w->z, of, &x.s, &found);
  if (st == TN_OK && !found)
    st = tni_fail(w->z->err, TN_E_CORRUPT, p->name, "what was solved of '%s' is gone from '%s'", p->name, w->z->work);
  const bool qdq = w->z->o.flags & TN_QUANTIZE_QDQ;
  if (st == TN_OK) st = table ? rewrite_gather(&x, n) : qdq ? tni_qz_write_qdq(&x, n) : rewrite(&x, n);
  tni_qz_solved_finish(&x.s);
  return st;
}
