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
#ifndef TENON_GRAPH_IR_H
#define TENON_GRAPH_IR_H

#include <stdio.h>

#include <tenon/attrs.h>

#include "runtime/base/base.h"
#include "runtime/expr/expr.h"
#include "runtime/graph/attr_names.h"
#include "runtime/graph/op.h"

#define TNI_RANK_UNKNOWN UINT32_MAX

struct tni_quantized;
struct tni_packed_rows;

/* A dense, row-major tensor. Sub-byte types: two (four) elements a byte, low bits first. data may lie in a mapping.
 * quantized: a constant that the model brings as codes and scales; data is then NULL until somebody must have floats in
 * memory (quantized.h). tni_tensor_to_f32 reads it all the same.
 * rows: a table whose rows Gather reads from a packed weight (rows.h); everybody else reads data. */
typedef struct tni_tensor {
  uint32_t dtype, rank;
  int64_t dims[TN_MAX_RANK];
  void *data;
  uint64_t bytes;
  const struct tni_quantized *quantized;
  const struct tni_packed_rows *rows;
} tni_tensor;

/* Where a constant's bytes came from, for cache stamps and lazy reading. file NULL: in memory. */
typedef struct tni_origin {
  const char *file;
  uint64_t offset;
} tni_origin;

typedef struct tni_graph tni_graph;

/* What a value is that is no tensor: its own dtype is UNDEFINED and its rank unknown. dtype, rank, dims are those of
 * all the tensors in it, as far as they are known to be the same. */
enum { TNI_FORM_TENSOR, TNI_FORM_SEQUENCE, TNI_FORM_OPTIONAL };
typedef struct tni_type {
  uint32_t form;
  uint32_t dtype, rank; /* TENSOR; rank may be TNI_RANK_UNKNOWN */
  const tn_expr *dims;
  const struct tni_type *elem; /* SEQUENCE, OPTIONAL; NULL: not known */
} tni_type;

typedef struct tni_value {
  tn_value pub;       /* kind, dtype, rank, dims, uses, producer, name: see plugin.h. rank may be TNI_RANK_UNKNOWN */
  tni_tensor *tensor; /* CONST: its elements; NULL otherwise */
  const tni_tensor *preset; /* INPUT: its value in a run that does not give it; NULL: it must be given */
  tni_origin origin;
  const tn_expr *elems; /* known symbolic elements of a small integer or bool tensor (n_elems of them), or NULL */
  uint32_t n_elems;
  uint32_t out_index; /* which output of its producer */
  bool declared;      /* the model's value_info gave dims: a hint, exporters get them wrong */
  uint32_t hint_rank;
  const tn_expr *hint_dims;
  const tn_expr *branch_dims; /* of an input that only branches of Ifs read: its dims as declared; NULL: others */
  const tni_type *type; /* SEQUENCE or OPTIONAL; NULL: a tensor, or not known */
  bool is_output;       /* a graph output */
  bool dynamic;         /* its dims are known only when it is made (tni_mark_dynamic) */
  /* Of a subgraph: the value of `outer` that this one stands for, or TN_NONE. Such a value is of kind INPUT, has no
   * producer and is not among the graph's inputs. Kept right when the outer graph renumbers or replaces. */
  tn_id captured;
  uint32_t cap_uses; /* private */
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
  tn_node pub;      /* op, n_in, n_out, n_attr, in, out, attr, name, domain */
  const tni_op *op; /* NULL: unknown to the table; then only type and raw attributes stand */
  const char *type; /* ONNX op_type */
  int64_t version;  /* opset version of its domain */
  const tni_raw_attr *raw;
  uint32_t n_raw;
  bool dead;    /* removed by a pass; compact drops it */
  bool dynamic; /* runs on the host once its operands' dims are there (tni_mark_dynamic) */
  /* Implicit inputs: values of this graph that the node's subgraphs capture. They count among the uses. */
  const tn_id *captures;
  uint32_t n_captures;
  const tn_custom_op *custom; /* op NULL: what a plugin says of it; NULL: nobody knows it. Of the plugin */
} tni_node;

/* A cache, as the pass `cache` made it of a past input and the present output that continues it. `past` and `present`
 * stay among the graph's inputs and outputs, declared as the model declared them, and no node reads or writes them:
 * they are the user's view. The memory is that of two values of kind STATE: `in`, as the run finds it (no producer),
 * and `out`, with this run's rows appended (written by a TensorScatter). Both have the dims of the whole, rows of this
 * run included. perm: axis i of the state, its last axes split as past has them, is axis perm[i] of past. */
typedef struct tni_gstate {
  tn_id past, present, in, out;
  uint32_t axis; /* of the sequence, in past */
  uint32_t rank; /* of past */
  uint32_t perm[TN_MAX_RANK];
} tni_gstate;

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
  tni_gstate *states; /* compact keeps them and their ids right */
  uint32_t n_states;
  /* STEP values int64[batch] without elements, which the session fills: rows before this run, and with it. TN_NONE
   * without states (step_pos: and without past_rows). tn_state of a STATE names them. */
  tn_id step_pos, step_valid;
  /* Where GroupQueryAttention says how many rows of each sequence are valid (its seqlens_k): a graph of its own, owned,
   * that computes this from inputs of this one, which it has by name. Output 2i is int32 or int64 [batch], the
   * rows with this run less one, output 2i + 1 how many rows there are; node length_nodes[i] says so. NULL: all
   * sequences are as long as the past. past_rows: the length of these nodes' past; step_pos is there then from the
   * import on, also where no cache stays in place. */
  struct tni_graph *lengths;
  const char *const *length_nodes;
  tn_expr past_rows;
  /* How many rows there are with this run, as such a node is told (its total_sequence_length); TN_NONE: not said, or
   * the value was left out since. Shape rules read its element. */
  tn_id total_rows;
  /* STEP value int64 [1]: where the rotary tables begin, in one that joins several, that the length of the whole text
   * chooses (pass `tables`). Its element says it by the rows there are with this run; a session that keeps its caches
   * writes it for the text that a run is a part of. TN_NONE: there is no such choice. */
  tn_id tables;
  /* Symbol: how many rows of logits, counted from the end, a run computes (pass `last_rows`); TN_NONE: all. */
  tn_id rows_symbol;
  tn_id rows_end;     /* symbol: where they end; rows of the sequence after it are padding. With rows_symbol */
  tn_expr rows_limit; /* the most that rows_end may be: the sequence, what plain runs compute */
  /* Length of the whole context where padding it cannot reach a result (runtime/roles/roles.h): the session may round
   * it up to what devices ask for. TNI_EXPR_NONE: nothing may be rounded. */
  tn_expr padded;
  tn_id padded_symbol; /* the symbol in it that is chosen so: the past */
  /* Positions of a run, a symbol; TNI_EXPR_NONE without caches that can be kept. The session may add rows after the
   * last real one to bring it to a length that devices ask for, unless step_fixed says why not
   * (runtime/roles/padding.h). */
  tn_expr step;
  const char *step_fixed;
  uint32_t widened;  /* float16 or bfloat16, the coarser: what constants were before all became float32; 0: not so */
  bool keep_codes;   /* folding leaves DequantizeLinear of constants alone */
  uint64_t max_read; /* constants of more bytes are not read: TN_MODEL_UNREAD; 0: all may be */
  uint64_t unpacked_bytes; /* of constants that folding made of quantized ones (runtime/shape/fold.c) */
  uint32_t phase;
  tni_graph *outer; /* of a subgraph: the graph whose node holds it; set by tni_graph_adopt, or before by the builder */
  /* private */
  tni_graph **subs; /* subgraphs of all nodes ever added or given up: owned */
  uint32_t n_subs, cap_subs, depth;
  tni_map *names; /* value ids by name */
  uint32_t n_fresh;
  tn_id twice; /* a value whose name was taken already, or TN_NONE */
  bool owns_exprs, owned, finished;
  uint64_t stamp, compact; /* tni_graph_stamp at the last finish, at the last compact; 0: none */
};

/* exprs NULL: the graph makes its own and frees it. */
TN_MUST_CHECK tn_status tni_graph_create(tni_exprs *exprs, const char *name, tni_graph **out, tn_error *err);
/* What g, its expressions and graphs made for it later take counts in b, which outlives g. */
void tni_graph_bill(tni_graph *g, tni_budget *b);
/* NULL is fine. Subgraphs of its nodes go with it. */
void tni_graph_destroy(tni_graph *g);

/* Adds a value; name is copied and may be "" for a fresh unique one. Returns TN_NONE without memory. A name that is
 * taken already is found out by tni_graph_finish. */
tn_id tni_graph_add_value(tni_graph *g, const char *name, uint32_t kind, uint32_t dtype);
/* rank and dims are copied. rank TNI_RANK_UNKNOWN: dims is not read. TN_E_LIMIT when rank > TN_MAX_RANK. */
TN_MUST_CHECK tn_status tni_value_set_dims(tni_graph *g, tn_id v, uint32_t rank, const tn_expr *dims);
/* Makes v a CONST with this tensor (the struct is copied, data is not); dims become constants. TN_E_LIMIT when rank >
 * TN_MAX_RANK, TN_E_INVALID for a negative dim. origin may be NULL. */
TN_MUST_CHECK tn_status tni_value_set_tensor(tni_graph *g, tn_id v, const tni_tensor *t, const tni_origin *origin);
/* Attributes for tni_graph_add_node, which copies what they point to. */
tni_raw_attr tni_raw_int(const char *name, int64_t v);
tni_raw_attr tni_raw_float(const char *name, double v);
tni_raw_attr tni_raw_string(const char *name, const char *s);
tni_raw_attr tni_raw_ints(const char *name, const int64_t *v, size_t n);
tni_raw_attr tni_raw_floats(const char *name, const float *v, size_t n);
/* Adds a node. in/out are copied; absent ones are TN_NONE; a first output that the operator must have becomes a value
 * that nobody reads. Raw attributes are copied with their strings and lists, but not tensors. Subgraphs in them belong
 * to g from this call on, also when it fails; their `outer` becomes g. name "": "<type>_<index>". The op is looked up
 * in the table; an unknown op is kept with op == NULL. Attributes that the row does not have, that it has with another
 * type, that stand twice, or that it requires and the model lacks are TN_E_INVALID naming node and attribute; those
 * that Tenon refuses are TN_E_UNSUPPORTED. The node is among the uses of its inputs at once, and the producer of those
 * outputs that no live node produces. */
TN_MUST_CHECK tn_status tni_graph_add_node(tni_graph *g, const char *name, const char *domain, const char *type,
                                           int64_t version, const tn_id *in, uint32_t n_in, const tn_id *out,
                                           uint32_t n_out, const tni_raw_attr *raw, uint32_t n_raw, tn_id *id,
                                           tn_error *err);
/* sub belongs to g from this call on, also when it fails; its `outer` becomes g. A node may then hold it, or none.
 * node: for messages. Once more for the same graph does nothing. */
TN_MUST_CHECK tn_status tni_graph_adopt(tni_graph *g, tni_graph *sub, const char *node, tn_error *err);
/* The nodes of sub, a subgraph of this live node that reads values around it and has no inputs of its own, take the
 * node's place; its subgraphs come along. The order is not updated: tni_graph_finish. *done false: sub has inputs or
 * states, nothing changed. */
TN_MUST_CHECK tn_status tni_graph_inline(tni_graph *g, tn_id node, tni_graph *sub, bool *done, tn_error *err);
TN_MUST_CHECK tn_status tni_graph_set_io(tni_graph *g, const tn_id *in, uint32_t n_in, const tn_id *out,
                                         uint32_t n_out);

/* Producers, uses, topological order, verification. Called by the importer at its end on the outermost graph (subgraphs
 * are finished with it; finishing one earlier does no harm where the outer values it reads exist), and by passes after
 * changes. Nodes keep their order as far as producers allow: one that stands too late moves before its first reader.
 * Dead nodes stay where they are, count for nothing and leave the uses. Node ids change when the order does.
 * A value of a subgraph that nothing there makes is looked up by name in the outer graphs and becomes `captured`.
 * A STATE is written by a TensorScatter that reads a STATE, or by nothing; outputs that are the present of one of
 * g->states have no producer.
 * A subgraph that is as its last finish left it only takes types from outside.
 * Errors name the node or tensor: cycles, missing inputs, two producers, a name used twice, a graph input or constant
 * that a node writes, arity against the table, ranks above TN_MAX_RANK, constants whose bytes do not fit their dims. */
TN_MUST_CHECK tn_status tni_graph_finish(tni_graph *g, tn_error *err);
/* Drops dead nodes and unused values and renumbers, subgraphs too, and finishes. Ids change. Graph inputs, outputs of
 * live nodes, and the STEP values that a STATE names stay. */
TN_MUST_CHECK tn_status tni_graph_compact(tni_graph *g, tn_error *err);
/* Marks nodes dead whose outputs no live node uses (keeps graph outputs). Returns how many. Uses must be current, and
 * are so afterwards. */
uint32_t tni_graph_dce(tni_graph *g);
/* All uses of value `from` become uses of `to` (graph outputs and captures of subgraphs included). Uses are updated,
 * the order is not. Where `from` is a graph output the two values exchange names, so that the model's interface keeps
 * its own; TN_E_UNSUPPORTED, nothing changed, where that cannot be: `to` is itself an input, a constant, captured or an
 * output. */
TN_MUST_CHECK tn_status tni_graph_replace(tni_graph *g, tn_id from, tn_id to);
/* The same for many values at once: a node that reads n of them is looked at once and not n times. A pass that goes along
 * the graph's order calls tni_replacing_node on a node before it looks at it. Uses are as they were until the end. */
typedef struct tni_replacing {
  tn_id *to; /* [n]: what stands for a value */
  uint32_t n;
  bool any;
} tni_replacing;
/* false: no memory. */
TN_MUST_CHECK bool tni_replacing_init(tni_replacing *r, const tni_graph *g);
void tni_replacing_free(tni_replacing *r);
/* As tni_graph_replace. */
TN_MUST_CHECK tn_status tni_replacing_add(tni_graph *g, tni_replacing *r, tn_id from, tn_id to);
/* What n reads, as it stands by now. */
void tni_replacing_node(const tni_replacing *r, const tni_node *n);
/* Every node's inputs, and tni_graph_finish; nothing where nothing was added. */
TN_MUST_CHECK tn_status tni_replacing_finish(tni_graph *g, const tni_replacing *r, tn_error *err);

/* What plugins see. nodes/values/symbols pointers live on the graph's arena; call after compact. ctx: see view.h.
 * Constants of rank 2 and a numeric dtype get their tn_weight. hash: SHA-256 over phase, operators, attributes, edges,
 * dtypes, dims and the content of constants up to 4 KiB; names and larger constants' content do not count. */
TN_MUST_CHECK tn_status tni_graph_view(tni_graph *g, uint32_t phase, tn_graph *out, tn_error *err);

/* SHA-256 of the structure: operators, attributes, edges, dtypes, dims, the content of small constants. Names of nodes
 * and values, and the content of large constants, do not count. */
TN_MUST_CHECK tn_status tni_graph_hash(const tni_graph *g, uint32_t phase, uint8_t hash[32]);

/* Attributes by name, through the node's schema row. Absent ones give the row's default. NULL where the op has none.
 * For an op unknown to the table: what the model wrote. n is a node of a graph (the pub of a tni_node). In a typed
 * attribute n == 0 means absent for INT and FLOAT; an absent list, string, tensor or graph is a NULL pointer (an empty
 * list or string is not NULL). u.p of a TENSOR is a tni_tensor, of a GRAPH a tni_graph. */
const tn_attr *tni_attr(const tn_node *n, const char *name);
int64_t tni_attr_i(const tn_node *n, const char *name, int64_t dflt);
double tni_attr_f(const tn_node *n, const char *name, double dflt);
const char *tni_attr_s(const tn_node *n, const char *name, const char *dflt);
/* INTS attribute: count, pointer in *v (NULL when absent). */
uint32_t tni_attr_ints(const tn_node *n, const char *name, const int64_t **v);
/* TENSOR attribute or NULL. */
const tni_tensor *tni_attr_tensor(const tn_node *n, const char *name);
/* How often an attribute was asked for by name in this process. Test builds only (TNI_COUNT_LOOKUPS). */
uint64_t tni_attr_lookups(void);

/* The same by number (TNI_A_*, attr_names.h), which is what runs in a step uses: no text is compared. All that they
 * need of n crosses the ABI: its operator and its attributes in the table's order. NULL or dflt: the operator has none
 * of that name. */
const tn_attr *tni_at(const tn_node *n, uint32_t name);
int64_t tni_at_i(const tn_node *n, uint32_t name, int64_t dflt);
double tni_at_f(const tn_node *n, uint32_t name, double dflt);
const char *tni_at_s(const tn_node *n, uint32_t name, const char *dflt);
/* tn_attr.word: one of TN_WORD_* (attrs.h), 0 where there is none. */
uint32_t tni_at_word(const tn_node *n, uint32_t name);
uint32_t tni_at_ints(const tn_node *n, uint32_t name, const int64_t **v);
const tni_tensor *tni_at_tensor(const tn_node *n, uint32_t name);

tni_node *tni_graph_node(const tni_graph *g, tn_id id);
tni_value *tni_graph_value(const tni_graph *g, tn_id id);
/* Value by name, or TN_NONE. */
tn_id tni_graph_find(const tni_graph *g, const char *name);

void tni_graph_dump_text(const tni_graph *g, FILE *f);
void tni_graph_dump_dot(const tni_graph *g, FILE *f);

/* --- tensors and dtypes (dtype.c, tensor.c) --- */
/* Bits of one element (4 for INT4 ...); 0 for STRING and unknown. */
uint32_t tni_dtype_bits(uint32_t dtype);
/* "float32", "int64", ... ; never NULL. */
const char *tni_dtype_name(uint32_t dtype);
/* Product of dims; TN_E_LIMIT on overflow, negative dims, or where those beside a 0 multiply to over 2^30: loops over
 * the outer dims of a tensor without elements would run for hours. */
TN_MUST_CHECK tn_status tni_dims_count(const int64_t *dims, uint32_t rank, int64_t *count);
/* Bytes of count elements, rounded up to whole bytes. TN_E_UNSUPPORTED for STRING and unknown, TN_E_LIMIT on overflow.
 */
TN_MUST_CHECK tn_status tni_dtype_bytes(uint32_t dtype, int64_t count, uint64_t *bytes);
/* Elements [first, first+n) of t as float / int64; any numeric dtype (halves, bf16, 8- and 4-bit floats, 4- and 2-bit
 * ints); t->data needs no alignment. Complex gives the real part, STRING zeros. To int64: toward zero, saturating, NaN
 * gives 0. */
void tni_tensor_to_f32(const tni_tensor *t, int64_t first, int64_t n, float *dst);
void tni_tensor_to_i64(const tni_tensor *t, int64_t first, int64_t n, int64_t *dst);
/* The same of n elements that lie at data (dense, any alignment). */
void tni_elems_to_f32(uint32_t dtype, const void *data, int64_t first, int64_t n, float *dst);
/* v as one element of f32, f16, bf16, f64, i32, i64 (saturating) or bool: its bytes, at most 8, at `to`. Their number,
 * 0 for another dtype. */
uint32_t tni_elem_encode(uint32_t dtype, double v, unsigned char *to);
/* The code of x in an 8-bit float that has a sign, or in float4e2m1, rounded half to even. What is larger than the
 * largest becomes that if it is to saturate (always in float4e2m1), else infinity or, where there is none, NaN. NaN is
 * 0x80 in the FNUZ types; float4e2m1 has none and gives -0. */
uint32_t tni_f32_to_code(uint32_t dtype, float x, bool saturate);

#endif
