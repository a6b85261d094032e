/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of the kit's own: one operator from a line of text, or several by hand; and tensors of their values.
 */
#ifndef TENON_CONFORM_DRIVE_BUILD_H
#define TENON_CONFORM_DRIVE_BUILD_H

#include "runtime/conform/case/case.h"
#include "runtime/ops/kernel/kernel.h"

enum { TNI_CN_MAX_IN = 10, TNI_CN_MAX_OUT = 8 };

/* One operand. kind: 'x' an input of the graph of the row's dtype, 'h' the same, a mask that hides, 'f' one of float32,
 * 'i' int64 in [0, limit), 'b' bool, 'u' uint8, 's' int8, 'w' a constant of the row's dtype, 'c' a constant of float32,
 * 'k' a constant of given int64s, 'U' of uint8, 'I' of int8, 'N' of int32, 'q' of float32 above 0 (these four given, or
 * random), '-' absent. */
typedef struct tni_cn_operand {
  char kind;
  tn_id value;
  int64_t limit;
} tni_cn_operand;

typedef struct tni_cn_graph {
  tni_graph *g;
  tn_id in[TNI_CN_MAX_IN], out[TNI_CN_MAX_OUT];
  tni_cn_operand operand[TNI_CN_MAX_IN];
  uint32_t n_in, n_out, dtype;
  tn_id node;
  tn_error err;
} tni_cn_graph;

/* A graph of one operator. inputs: operands as "x[S,64] w[64,32] - i[S]<50> k[2]=1,-1": dims are expressions of the
 * symbols S and T (ids 0 and 1, 1 to 4096, S paddable); attrs: "axis=-1 epsilon=1e-5 perm=0,2,1", typed by the
 * operator's row. n_out outputs, shapes by inference. Constants are normal values times `scale`, from r. false: b->err.
 */
typedef struct tni_cn_spec {
  const char *op, *domain, *inputs, *attrs;
  int64_t version;
  uint32_t dtype, n_out;
  float scale;
  int64_t longest; /* of S and T; 0: 4096 */
} tni_cn_spec;
bool tni_cn_build(tni_cn_graph *b, const tni_cn_spec *s, tni_cf_rng *r);
void tni_cn_destroy(tni_cn_graph *b);

/* A graph by hand, for products: begin, values and nodes, end. */
bool tni_cn_begin(tni_cn_graph *b, uint32_t dtype);
/* S and T are at most `longest`. */
bool tni_cn_begin_long(tni_cn_graph *b, uint32_t dtype, int64_t longest);
tn_id tni_cn_value(tni_cn_graph *b, const char *name, uint32_t kind, uint32_t dtype, const char *dims);
/* data: floats, converted to dtype and kept on the graph's arena. */
tn_id tni_cn_constant(tni_cn_graph *b, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dims,
                      const float *data);
/* Bytes and what quantizes: kind 'U', 'I' of 8 bits, 'N' of 32, 'q' scales. given: n numbers, the first of them again after the
 * last; n 0: random ones from r. */
tn_id tni_cn_quantizing(tni_cn_graph *b, const char *name, char kind, uint32_t rank, const int64_t *dims,
                        const float *given, uint32_t n, tni_cf_rng *r);
bool tni_cn_node(tni_cn_graph *b, const char *domain, const char *op, int64_t version, const tn_id *in, uint32_t n_in,
                 const tn_id *out, uint32_t n_out, const tni_raw_attr *attr, uint32_t n_attr);
/* A cache as `like` says: `before` as a run finds it, `after` with the rows of x, which a TensorScatter appends; where
 * the two are one value, others append. */
bool tni_cn_append(tni_cn_graph *b, const tn_state *like, tn_id before, tn_id x, tn_id after);
/* Inputs and outputs; orders, infers. Positions of a run are S. */
bool tni_cn_end(tni_cn_graph *b);
/* After end, of a graph with caches: S+T may be rounded up, by T. */
void tni_cn_pad(tni_cn_graph *b);

/* A tensor of v at dims sym, data on a. NULL data without memory or where dims are unknown. */
tni_tensor tni_cn_tensor(const tni_cn_graph *b, tn_id v, const int64_t *sym, tni_arena *a);
int64_t tni_cn_count(const tni_tensor *t);
void tni_cn_store(tni_tensor *t, const float *x);
/* As floats, on a. */
float *tni_cn_floats(const tni_tensor *t, tni_arena *a);
/* The greatest magnitude of n numbers, NaN apart; 0 of none. */
double tni_cn_greatest(const float *x, int64_t n);

#endif
