/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of writing: the message under way and its data file.
 */
#ifndef TENON_QUANTIZE_WRITE_H
#define TENON_QUANTIZE_WRITE_H

#include <stdio.h>

#include "onnx.pb-c.h"
#include "runtime/base/base.h"
#include "runtime/onnx/wire/wire.h"
#include "runtime/quantize/internal.h"

#define TNI_QZ_CONTRIB "com.microsoft"
#define TNI_QZ_DATA_FILE "model.onnx_data"

typedef struct tni_qz_writer {
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
  tni_map *products, *read; /* by name: outputs of products, with their numbers; what is read once they are replaced */
  tni_map *made; /* by name: where initializers and nodes of `front` are that were added */
  char *levels[TNI_QZ_FORMATS], *steps[TNI_QZ_FORMATS]; /* names of tables that were written */
  bool contrib, own;                                   /* which domains were written */
  Onnx__NodeProto **front; /* of QDQ: they read constants alone */
  size_t n_front;
} tni_qz_writer;

/* --- data.c --- */
tn_status tni_qz_no_memory(tni_qz_writer *w);
/* t's elements, n bytes at p, go into the data file. */
TN_MUST_CHECK tn_status tni_qz_put_tensor(tni_qz_writer *w, Onnx__TensorProto *t, const void *p, uint64_t n);

/* --- opset.c --- */
/* Nodes of g and of graphs in it. */
size_t tni_qz_count_nodes(const Onnx__GraphProto *g);
/* The model at opset 21. TN_E_UNSUPPORTED, with the node: it has what differs there. Adds up to an initializer a node. */
TN_MUST_CHECK tn_status tni_qz_raise_opset(tni_qz_writer *w);

/* --- product.c --- */
enum { TNI_QZ_TENSORS = 5 }; /* that a product has at most */
/* Product i takes the place of n: MatMulNBits where its format is a uniform grid, else MatMulLevels of ai.tenon; of QDQ
 * MatMul. The item after the products is the table: GatherBlockQuantized. */
TN_MUST_CHECK tn_status tni_qz_write_item(tni_qz_writer *w, Onnx__NodeProto *n, uint32_t i);
/* The Gather n reads the codes of the lender, whose node m is written; *reshape has to stand before n. */
TN_MUST_CHECK tn_status tni_qz_share_codes(tni_qz_writer *w, Onnx__NodeProto *n, const Onnx__NodeProto *m,
                                           Onnx__NodeProto *reshape);

#endif
