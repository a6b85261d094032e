/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the numbers family share: values, graphs of one operator from a line of text, references and
 * bounds. docs/conformance-numbers.md states every bound and where it comes from.
 */
#ifndef TENON_CONFORM_NUM_H
#define TENON_CONFORM_NUM_H

#include "runtime/conform/drive.h"
#include "runtime/ops/kernel/kernel.h"

/* --- values (num_values.c) --- */

/* Patterns of activations and weights. Each is meant to break something: rounding (TIES), range (HUGE, DENORMAL),
 * scales (OUTLIER, TINY_MIXED), signs (ONE_SIGN, NEG_ZERO), groups of one value (EQUAL), zeros. */
enum {
  TNI_CN_NORMAL,
  TNI_CN_ZERO,
  TNI_CN_MAX,
  TNI_CN_ALTERNATING,
  TNI_CN_DENORMAL,
  TNI_CN_HUGE,
  TNI_CN_OUTLIER,
  TNI_CN_TINY_MIXED,
  TNI_CN_ONE_SIGN,
  TNI_CN_NEG_ZERO,
  TNI_CN_TIES,
  TNI_CN_EQUAL,
  TNI_CN_TINY_SCALE,
  TNI_CN_PATTERNS
};
const char *tni_cn_pattern(int p);
/* n values; group: how many make one group (EQUAL, OUTLIER, TIES); top: none is larger in magnitude. */
void tni_cn_fill(float *x, size_t n, int pattern, int64_t group, double top, tni_cf_rng *r);

/* --- graphs (num_graph.c) --- */

enum { TNI_CN_MAX_IN = 10, TNI_CN_MAX_OUT = 8 };

/* One operand. kind: 'x' an input of the graph of the row's dtype, 'f' one of float32, 'i' int64 in [0, limit), 'b'
 * bool, 'w' a constant of the row's dtype, 'c' a constant of float32, 'k' a constant of given int64s, '-' absent. */
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
} tni_cn_spec;
bool tni_cn_build(tni_cn_graph *b, const tni_cn_spec *s, tni_cf_rng *r);
void tni_cn_destroy(tni_cn_graph *b);

/* A graph by hand, for products: begin, values and nodes, end. */
bool tni_cn_begin(tni_cn_graph *b, uint32_t dtype);
tn_id tni_cn_value(tni_cn_graph *b, const char *name, uint32_t kind, uint32_t dtype, const char *dims);
/* data: floats, converted to dtype and kept on the graph's arena. */
tn_id tni_cn_constant(tni_cn_graph *b, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dims,
                      const float *data);
bool tni_cn_node(tni_cn_graph *b, const char *domain, const char *op, int64_t version, const tn_id *in, uint32_t n_in,
                 const tn_id *out, uint32_t n_out, const tni_raw_attr *attr, uint32_t n_attr);
/* Inputs and outputs; orders, infers. Positions of a run are S. */
bool tni_cn_end(tni_cn_graph *b);

/* A tensor of v at dims sym, data on a. NULL data without memory or where dims are unknown. */
tni_tensor tni_cn_tensor(const tni_cn_graph *b, tn_id v, const int64_t *sym, tni_arena *a);
int64_t tni_cn_count(const tni_tensor *t);
void tni_cn_store(tni_tensor *t, const float *x);
/* As floats, on a. */
float *tni_cn_floats(const tni_tensor *t, tni_arena *a);

/* --- references (num_judge.c) --- */

/* Unit of the last place of a float dtype, relative: 2^-24, 2^-11, 2^-8. */
double tni_cn_unit(uint32_t dtype);
/* Smallest positive normal and denormal number. */
double tni_cn_tiny(uint32_t dtype, bool flush);

typedef struct tni_cn_found {
  int64_t bad, first;             /* elements outside; index of the first */
  double got, want, bound, worst; /* of the first; largest |difference| / bound */
} tni_cn_found;
/* got against want element by element; bound [n]; both NaN is fine where nan_fine. Infinite bounds are passed over. */
tni_cn_found tni_cn_compare(const float *got, const float *want, const float *bound, int64_t n);
/* "12 of 51 elements outside the bound, first [7]: 1.25 instead of 1.5 (allowed 1e-06)" */
void tni_cn_complain(tni_cf *cf, const char *where, const tni_cn_found *f, int64_t n);

/* --- the groups of cases; each names its own --- */
void tni_cn_format_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_product_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_op_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_cache_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);
void tni_cn_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);

#endif
