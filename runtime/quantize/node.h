/* SPDX-License-Identifier: Apache-2.0
 *
 * A node on its way into the file, and what it is made of.
 */
#ifndef TENON_QUANTIZE_NODE_H
#define TENON_QUANTIZE_NODE_H

#include "runtime/quantize/write.h"

enum { TNI_QZ_INPUTS = 6, TNI_QZ_ATTRS = 5 };

typedef struct tni_qz_node {
  tni_qz_writer *w;
  const tni_qz_product *p; /* whose codes it has */
  const tni_qz_format *f;
  tni_qz_solved s;
  char *in[TNI_QZ_INPUTS]; /* [0] is the activation */
  size_t n_in;
  Onnx__AttributeProto *attrs[TNI_QZ_ATTRS];
  size_t n_attrs;
  bool by_rows; /* scales and zeros are matrices, as GatherBlockQuantized has them */
} tni_qz_node;

TN_MUST_CHECK Onnx__TensorProto *tni_qz_new_tensor(tni_qz_writer *w, const char *name, int32_t dtype, size_t n_dims,
                                                   const int64_t *dims);
/* OF_WHAT in the data file, once; *name lives as long as w's arena. */
TN_MUST_CHECK tn_status tni_qz_add_initializer(tni_qz_writer *w, const char *of, const char *what, int32_t dtype, size_t n_dims,
                                               const int64_t *dims, const void *data, uint64_t n, char **name);
/* The next operand, an initializer. */
TN_MUST_CHECK tn_status tni_qz_add_operand(tni_qz_node *x, const char *what, int32_t dtype, size_t n_dims, const int64_t *dims,
                                           const void *data, uint64_t n);
/* v, one number of each block, in the model's own type. */
TN_MUST_CHECK tn_status tni_qz_add_floats(tni_qz_node *x, const char *what, const float *v, size_t n_dims, const int64_t *dims);
TN_MUST_CHECK tn_status tni_qz_add_int(tni_qz_node *x, const char *name, int64_t value);
/* usual: all zeros are 2^(bits - 1). codes: they are codes of the same bits. */
void tni_qz_look_at_zeros(const tni_qz_node *x, bool *usual, bool *codes);
/* n takes the operands and attributes of x. */
TN_MUST_CHECK tn_status tni_qz_take(tni_qz_node *x, Onnx__NodeProto *n, const char *op, const char *domain);

/* --- qdq.c --- */
/* n becomes MatMul of what DequantizeLinear makes, which is put into w->front. */
TN_MUST_CHECK tn_status tni_qz_write_qdq(tni_qz_node *x, Onnx__NodeProto *n);

#endif
