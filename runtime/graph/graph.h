/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph: nodes, values, initializers, symbols.
 *
 * Nodes and values begin with the ABI's own structs (tn_node, tn_value), so that what a plugin sees is what the core
 * has; the private tail is the core's. Everything hangs on the graph's arena and dies with it. A graph is built and
 * changed by one thread; afterwards it is read by any.
 *
 * Life: create -> (importer) add_value/add_node/set_io -> tni_graph_finish (uses, order, verify) -> shape inference and
 * passes -> tni_graph_compact -> read only.
 */
#ifndef TENON_GRAPH_GRAPH_H
#define TENON_GRAPH_GRAPH_H

#include <stdio.h>

#include "runtime/base/arena.h"
#include "runtime/base/error.h"
#include "runtime/graph/op.h"
#include "runtime/shape/expr/expr.h"

#define TNI_RANK_UNKNOWN UINT32_MAX

/* A dense, row-major tensor. Sub-byte types: two (four) elements a byte, low bits first. data may lie in a mapping. */
typedef struct tni_tensor {
  uint32_t dtype, rank;
  int64_t dims[TN_MAX_RANK];
  void *data;
  uint64_t bytes;
} tni_tensor;

/* Where a constant's bytes came from, for cache stamps and lazy reading. file NULL: in memory. */
typedef struct tni_origin {
  const char *file;
  uint64_t offset;
} tni_origin;

typedef struct tni_graph tni_graph;

typedef struct tni_value {
  tn_value pub; /* kind, dtype, rank, dims, uses, producer, name: see plugin.h. rank may be TNI_RANK_UNKNOWN */
  tni_tensor *tensor; /* CONST: its elements; NULL otherwise */
  tni_origin origin;
  const tn_expr *elems; /* known symbolic elements of a small integer or bool tensor (n_elems of them), or NULL */
  uint32_t n_elems;
  uint32_t out_index;    /* which output of its producer */
  bool declared;         /* the model's value_info gave dims: a hint, exporters get them wrong */
  uint32_t hint_rank;
  const tn_expr *hint_dims;
  bool is_output; /* a graph output */
} tni_value;

/* Attribute as the model wrote it, before typing. Graph attributes hold subgraphs. */
typedef struct tni_raw_attr {
  const char *name;
  tn_attr a;
  tni_tensor *tensor;
  tni_graph **graphs;
  uint32_t n_graphs;
} tni_raw_attr;

typedef struct tni_node {
  tn_node pub;       /* op, n_in, n_out, n_attr, in, out, attr, name, domain */
  const tni_op *op;  /* NULL: unknown to the table; then only type and raw attributes stand */
  const char *type;  /* ONNX op_type */
  int64_t version;   /* opset version of its domain */
  const tni_raw_attr *raw;
  uint32_t n_raw;
  bool dead; /* removed by a pass; compact drops it */
} tni_node;

struct tni_graph {
  tni_arena *arena;
  tni_exprs *exprs; /* symbols and expressions; one per model, shared by subgraphs */
  const char *name;
  tni_node **nodes; /* topological order after finish */
  uint32_t n_nodes, cap_nodes;
  tni_value **values;
  uint32_t n_values, cap_values;
  tn_id *inputs, *outputs; /* value ids; inputs without initializers only */
  uint32_t n_inputs, n_outputs;
  uint32_t phase;
  const tni_graph *outer; /* of a subgraph */
};

/* exprs NULL: the graph makes its own and frees it. */
TN_MUST_CHECK tn_status tni_graph_create(tni_exprs *exprs, const char *name, tni_graph **out, tn_error *err);
void tni_graph_destroy(tni_graph *g);

/* Adds a value; name is copied and may be "" for a fresh unique one. Returns TN_NONE without memory. */
tn_id tni_graph_add_value(tni_graph *g, const char *name, uint32_t kind, uint32_t dtype);
/* rank and dims are copied. */
TN_MUST_CHECK tn_status tni_value_set_dims(tni_graph *g, tn_id v, uint32_t rank, const tn_expr *dims);
/* Makes v a CONST with this tensor (the struct is copied, data is not); dims become constants. */
TN_MUST_CHECK tn_status tni_value_set_tensor(tni_graph *g, tn_id v, const tni_tensor *t, const tni_origin *origin);
/* Adds a node. in/out are copied; absent inputs are TN_NONE. raw attributes are copied shallowly (arena strings).
 * The op is looked up in the table; an unknown op is kept with op == NULL. Attribute typing errors (wrong type, missing
 * required) are TN_E_INVALID naming the node. */
TN_MUST_CHECK tn_status tni_graph_add_node(tni_graph *g, const char *name, const char *domain, const char *type,
                                           int64_t version, const tn_id *in, uint32_t n_in, const tn_id *out,
                                           uint32_t n_out, const tni_raw_attr *raw, uint32_t n_raw, tn_id *id,
                                           tn_error *err);
TN_MUST_CHECK tn_status tni_graph_set_io(tni_graph *g, const tn_id *in, uint32_t n_in, const tn_id *out,
                                         uint32_t n_out);

/* Producers, uses, topological order (cycles, missing inputs, double producers are errors naming the node or tensor),
 * arity against the table. Called by the importer at its end, and by passes after changes. */
TN_MUST_CHECK tn_status tni_graph_finish(tni_graph *g, tn_error *err);
/* Drops dead nodes and unused values and renumbers. Ids change. */
TN_MUST_CHECK tn_status tni_graph_compact(tni_graph *g, tn_error *err);
/* Removes nodes whose outputs nobody uses (keeps graph outputs). Returns how many. Uses must be current. */
uint32_t tni_graph_dce(tni_graph *g);
/* All uses of value `from` become uses of `to` (graph outputs included). Uses are updated. */
TN_MUST_CHECK tn_status tni_graph_replace(tni_graph *g, tn_id from, tn_id to);

/* What plugins see. nodes/values/symbols pointers live on the graph's arena; call after compact. `ctx` is the graph. */
TN_MUST_CHECK tn_status tni_graph_view(tni_graph *g, uint32_t phase, tn_graph *out, tn_error *err);

/* Attributes by name, through the node's schema row. Absent ones give the row's default. NULL where the op has none. */
const tn_attr *tni_attr(const tn_node *n, const char *name);
int64_t tni_attr_i(const tn_node *n, const char *name, int64_t dflt);
double tni_attr_f(const tn_node *n, const char *name, double dflt);
const char *tni_attr_s(const tn_node *n, const char *name, const char *dflt);
/* INTS attribute: count, pointer in *v (NULL when absent). */
uint32_t tni_attr_ints(const tn_node *n, const char *name, const int64_t **v);
/* TENSOR attribute or NULL. */
const tni_tensor *tni_attr_tensor(const tn_node *n, const char *name);

tni_node *tni_graph_node(const tni_graph *g, tn_id id);
tni_value *tni_graph_value(const tni_graph *g, tn_id id);
/* Value by name, or TN_NONE. */
tn_id tni_graph_find(const tni_graph *g, const char *name);

void tni_graph_dump_text(const tni_graph *g, FILE *f);
void tni_graph_dump_dot(const tni_graph *g, FILE *f);

/* --- tensors and dtypes (dtype.c) --- */
/* Bits of one element (4 for INT4 ...); 0 for STRING and unknown. */
uint32_t tni_dtype_bits(uint32_t dtype);
/* "float32", "int64", ... ; never NULL. */
const char *tni_dtype_name(uint32_t dtype);
/* Product of dims; TN_E_LIMIT on overflow or negative dims. */
TN_MUST_CHECK tn_status tni_dims_count(const int64_t *dims, uint32_t rank, int64_t *count);
/* Bytes of count elements, rounded up to whole bytes. */
TN_MUST_CHECK tn_status tni_dtype_bytes(uint32_t dtype, int64_t count, uint64_t *bytes);
/* Elements [first, first+n) of t as float / int64; any numeric dtype (halves, bf16, 8- and 4-bit floats and ints). */
void tni_tensor_to_f32(const tni_tensor *t, int64_t first, int64_t n, float *dst);
void tni_tensor_to_i64(const tni_tensor *t, int64_t first, int64_t n, int64_t *dst);
float tni_f16_to_f32(uint16_t h);
uint16_t tni_f32_to_f16(float f); /* round half to even */
float tni_bf16_to_f32(uint16_t h);
uint16_t tni_f32_to_bf16(float f);

#endif
