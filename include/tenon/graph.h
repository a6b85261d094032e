/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/graph.h: the graph that a plugin sees, what it claims of it and what the host took; a part of the vendor ABI.
 *
 * A graph is read only and valid for the call. A program may keep ids and expressions, and tn_graph.ctx, which outlives
 * it. Of a tn_graph host->eval, range, divides, order and symbols read ctx alone: for measure and bind a program keeps
 *   tn_graph head = {.h = TN_HDR(tn_graph), .ctx = g->ctx};
 * and not `head = *g`, as the host's struct may be shorter. All else (nodes, values, arrays such as tn_value.dims,
 * names) is copied where it is needed later. Names are for messages.
 * The rules of structs and threads are those of tenon/plugin.h, which includes this file and has TN_HDR.
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/format.h>
#include <tenon/ops.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_graph_ctx tn_graph_ctx; /* the host's own */

/* Concrete values of a graph's symbols. */
typedef struct tn_dims {
  tn_hdr h;
  const int64_t *v; /* [n] by symbol id */
  uint32_t n;
  uint32_t reserved;
} tn_dims;

enum {
  TN_SYM_PADDABLE = 1, /* it may be rounded up: what lies past the real length reaches nothing that is kept */
  TN_SYM_DATA = 2      /* only the run knows it */
};
typedef struct tn_symbol {
  tn_hdr h;
  const char *name;
  int64_t lo;     /* it is at least this */
  int64_t hi;     /* and at most this */
  uint32_t flags; /* TN_SYM_* */
  uint32_t reserved;
} tn_symbol;

enum {
  TN_ATTR_NONE = 0, TN_ATTR_INT = 1, TN_ATTR_FLOAT = 2, TN_ATTR_STRING = 3, TN_ATTR_INTS = 4, TN_ATTR_FLOATS = 5,
  TN_ATTR_TENSOR = 6, TN_ATTR_GRAPH = 7, TN_ATTR_STRINGS = 8
};
typedef struct tn_attr {
  tn_hdr h;
  uint32_t type; /* TN_ATTR_* */
  /* What a STRING says where its operator lists the values, by the numbers of attrs.h (TN_WORD_*); of STRINGS, value i of
   * the first six is (word >> 5 * i) & 31. 0: absent, any text may stand there, or the host did not fill it in. */
  uint32_t word;
  uint64_t n; /* count of ints, floats, strings, bytes of s; 0: absent */
  union {
    int64_t i;
    double f;
    const int64_t *ints;
    const float *floats;
    const char *s; /* terminated */
    const char *const *strings;
    const void *p;
  } u;
  const char *name; /* 1.1: as ONNX calls it */
} tn_attr;

/* A KV cache owned by the host, updated in place. A cache is two values of kind STATE that are one memory: the first, as
 * the run finds it, has no producer; the second is written by a TensorScatter, which appends this run's rows to it
 * (TN_APPEND) and nothing else. A STATE slot may name either. Both have the dims of the whole context, rows of this run
 * included; on a session that keeps its caches, dims[axis] may be rounded up to a bucket, and rows from `valid` on are
 * finite but arbitrary. The view of a 3-D value [batch, rows, heads * size] has rank 4, [batch, rows, heads, size]; that of a
 * 4-D one has the value's dims. How the memory lies is in its strides, never in dims: there is room for more rows.
 * TN_STATE_CIRCULAR (from lower on, where the agreed layout has TN_LAYOUT_CIRCULAR): the memory is a ring of fewer rows
 * than there are positions. Its view has R = dims[axis] rows, the value's dims are still those of the whole context, and
 * pos, valid and all keys are counted by position: position p lies in row p % R. An append of n rows writes rows pos % R,
 * (pos + 1) % R, ...; of more than R rows the last R stay. Position p can be read while p >= valid - R. The host sees to
 * it that no query of a run looks back further than that: every reader is an Attention with left_window_size w, and
 * R >= w + n. What has been written over is finite. */
enum { TN_STATE_CIRCULAR = 1 };
typedef struct tn_state {
  tn_hdr h;
  uint32_t axis;    /* the sequence */
  uint32_t flags;   /* TN_STATE_* */
  int64_t capacity; /* rows; 0: not known before the view is */
  tn_id pos;        /* STEP value int64 [batch]: rows before this run */
  tn_id valid;      /* STEP value int64 [batch]: rows with it */
  int64_t heads;    /* of a 3-D value: heads that its last dim holds; 0: one */
} tn_state;

/* STEP: small tensors that the host writes before a step (positions, lengths, values of shape arithmetic). */
enum {
  TN_VALUE_INPUT = 1, TN_VALUE_CONST = 2, TN_VALUE_ACT = 3, TN_VALUE_OUTPUT = 4, TN_VALUE_STATE = 5, TN_VALUE_STEP = 6
};
typedef struct tn_value {
  tn_hdr h;
  uint32_t kind;  /* TN_VALUE_* */
  uint32_t dtype; /* TN_DT_* */
  uint32_t rank;
  uint32_t n_uses;
  const tn_expr *dims;   /* [rank] */
  const tn_id *uses;     /* [n_uses] nodes; a node that reads it twice stands twice */
  tn_id producer;        /* node, or TN_NONE */
  tn_id origin;          /* value id in the imported graph, or TN_NONE */
  const tn_state *state; /* of kind STATE */
  const tn_weight *data; /* CONST of rank 2: as [N,K] = [dims[0], dims[1]] */
  const tn_stats *stats; /* on the calibration text, or NULL */
  const char *name;
} tn_value;

typedef struct tn_node {
  tn_hdr h;
  uint32_t op; /* TN_OP_* */
  uint16_t n_in;
  uint16_t n_out;
  uint32_t n_attr;
  uint32_t reserved;
  const tn_id *in;            /* [n_in] values; absent: TN_NONE */
  const tn_id *out;           /* [n_out] values; absent: TN_NONE */
  /* [n_attr] In the order of attrs.h, defaults filled in; one without a default, which the model leaves out, has n 0. Of
   * a custom operator: what the model wrote, in its order; look them up by name. */
  const tn_attr *const *attr;
  const char *name;
  const char *domain; /* "" is ai.onnx */
  const char *type;   /* 1.1: the operator's name in its domain */
} tn_node;

/* 1.1. An operator of a vendor's own: nodes of a model with this domain and type are known where a plugin of the profile
 * lists it (tn_plugin.ops). They come to claim with op TN_OP_UNKNOWN, and some device must take them: the host has no
 * kernel for them. Nothing folds, fuses or removes them but where nobody reads their results.
 * shape: what goes in and what comes out, as text, so that shapes are known without the plugin's code:
 *   "[b..., k], [k, n], ?[n] -> [b..., 2 * n]"
 * Operands, then results, in the node's order. An operand's dims are names and numbers. A name stands for the dim and
 * must say the same wherever it comes again; `b...` stands for any number of dims, once in an operand; ? marks an operand
 * that may be absent, and ends the list where more may follow that nobody looks at ("?..."). A result's dims are
 * expressions of names, numbers, + - * / (rounded up) and brackets; a name that no operand has is an INT attribute of the
 * node. A result has the dtype of the first operand, or the one before its bracket: "float32[b..., n]". */
typedef struct tn_custom_op {
  tn_hdr h;
  const char *domain; /* "com.acme": not one of Tenon's or ONNX's */
  const char *type;
  uint32_t since; /* opset version of the domain that it is known from */
  uint32_t until; /* and to; 0: on */
  const char *shape;
} tn_custom_op;

typedef struct tn_graph {
  tn_hdr h;
  tn_graph_ctx *ctx; /* the host's */
  uint32_t phase;    /* TN_PHASE_* */
  uint32_t n_nodes;
  uint32_t n_values;
  uint32_t n_symbols;
  const tn_node *const *nodes; /* in topological order */
  const tn_value *const *values;
  const tn_symbol *const *symbols;
  uint8_t hash[32];
} tn_graph;

/* ------------------------------------------------------------------------------------------------------- claims */

/* GROUP_ONLY: alone it is a no (reason stays TN_WHY_NONE); the node may be taken with a group of the same claim() that
 * names it. There has to be one: a node of no group is NO, with a reason. */
enum { TN_YES = 1, TN_NO = 2, TN_GROUP_ONLY = 3 };
enum {
  TN_WHY_NONE = 0, TN_WHY_OP = 1, TN_WHY_DTYPE = 2, TN_WHY_SHAPE = 3, TN_WHY_ATTR = 4, TN_WHY_NOT_CONST = 5,
  TN_WHY_NO_STATS = 6, TN_WHY_FLOAT = 7, TN_WHY_DRIVER = 8, TN_WHY_OPTION = 9, TN_WHY_TOO_BIG = 10, TN_WHY_CPU = 11
};
/* IN (1.1): lhs is one of the values of the claim's sets[rhs]. */
enum { TN_REL_EQ = 1, TN_REL_LE = 2, TN_REL_GE = 3, TN_REL_MOD = 4, TN_REL_IN = 5 };
/* Leaf. lhs rel rhs must hold at run time (MOD: lhs % rhs == 0).
 * The host takes a claim only where it can promise that: where the relation is proved when the model is loaded (sizes of
 * weights, say), and in these two cases. Else the claim counts as a no, whose text names the constraint. So LE and GE of a
 * length that only the run knows are a no: nothing bounds a context from above (docs/symbolic-shapes.md).
 * MOD of the context, rhs up to 65536: the host rounds it up where that is proved to change nothing (TN_SYM_PADDABLE).
 * EQ and IN of the positions of a run: prompts are cut into pieces of the (largest) length, and a shorter one is padded to
 * the next allowed, where runs can be padded; decoding asks for S = 1. Else, and in TN_PHASE_ANY, the claim is a no. */
typedef struct tn_constraint {
  tn_expr lhs;
  uint32_t rel; /* TN_REL_* */
  int64_t rhs;
} tn_constraint;

/* 1.1. Leaf. Values of a constraint IN: ascending, each at least 1 (positions: 65536 at most), 64 at most. */
typedef struct tn_value_set {
  const int64_t *v; /* [n] */
  uint32_t n;
  uint32_t reserved;
} tn_value_set;

/* A layout that a plugin accepts for a STATE.
 * dtype TN_DT_I8 is a quantized cache of floats: what one head has at one position, `size` elements, is `size` codes,
 * zeros up to a multiple of 4 bytes, and a float32 scale after them; an element is code * scale in float32. Who appends
 * rounds so, a being the largest |x| of the row: scale = a / 127, code = x * (127 / a) in float32, half to even, a below
 * 2^-120 counting as 0 (codes and scale 0); a row with an inf or NaN gets scale NaN. Strides count bytes then, and the
 * last dim of the order must be the size.
 * Who attends over rows of TN_DT_BF16 may round queries, times their scale, and probabilities to that type too.
 * Over rows of TN_DT_F16 it may do so too, and sum up to 32 terms in that type; over TN_DT_I8 it may make codes and a
 * scale of a query as of a row, and of a block's probabilities, times the scales of their rows.
 * TN_LAYOUT_CIRCULAR: it may be a ring (TN_STATE_CIRCULAR); the host makes it one where all who touch it agree and
 * every reader has a window. */
enum { TN_LAYOUT_CIRCULAR = 1 };
typedef struct tn_layout {
  tn_hdr h;
  uint32_t dtype; /* TN_DT_* */
  uint32_t rank;
  uint8_t order[8];     /* of its view's dims, outermost first */
  uint32_t inner_align; /* elements between neighbours along order[2]: a multiple of it (0 or 1: dense) */
  uint32_t pitch_align; /* and along order[1] */
  uint32_t flags;       /* TN_LAYOUT_* */
  uint32_t reserved;
} tn_layout;

typedef struct tn_claim {
  tn_hdr h;
  uint32_t verdict; /* TN_YES, TN_NO, TN_GROUP_ONLY */
  uint32_t reason;  /* TN_WHY_* of a no */
  uint32_t n_constraints;
  uint32_t reserved;
  const tn_constraint *constraints; /* [n_constraints] all must hold */
  const tn_format *format;          /* the weight format it would use, or NULL */
  const int64_t *params;            /* [n_params] the format's params */
  double cost_ns;                   /* at the dims given to claim; 0 = unknown */
  double macs;                      /* multiply-adds, at the same dims */
  uint64_t weight_bytes;            /* of packed weights that it would hold */
  uint32_t n_params;
  uint32_t reserved2;
  char text[120];           /* why not; empty for yes */
  const tn_value_set *sets; /* 1.1: [n_sets] of constraints IN */
  uint32_t n_sets;
  uint32_t reserved3;
} tn_claim;

/* Copies what it is given. A status other than OK says that an answer was wrong, or that memory ended: claim returns it. */
typedef struct tn_claim_sink {
  tn_hdr h;
  void *ctx; /* the host's, the first argument of what follows */
  /* Every node, exactly once. */
  tn_status (*node)(void *ctx, tn_id node, const tn_claim *c);
  /* All or nothing; groups may overlap. What a node outside reads too is one of tn_subgraph.outputs, and is written too. */
  tn_status (*group)(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c);
  /* Layouts of a cache, best first, 64 at most, alignments up to 65536. Once a cache, by either of its two values. */
  tn_status (*state)(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n);
} tn_claim_sink;

/* What the host took of the claims, to be lowered.
 * An operand may be of any kind, the activation of a product too: a CONST is a need without a format and a WEIGHT slot,
 * a STATE is a slot of that kind, with strides. A device that takes neither there looks at tn_value.kind in claim. */
typedef struct tn_subgraph {
  tn_hdr h;
  const tn_graph *graph;
  const tn_id *nodes;              /* [n_nodes] */
  const tn_id *group_of;           /* [n_nodes] index of the group that a node was taken with, or TN_NONE */
  const tn_id *inputs;             /* [n_inputs] values from outside: INPUT, ACT, STEP; constants are not listed */
  const tn_id *outputs;            /* [n_outputs] values that are read outside */
  const tn_id *states;             /* [n_states] */
  const tn_layout *const *layouts; /* [n_states] as agreed */
  uint32_t n_nodes;
  uint32_t n_inputs;
  uint32_t n_outputs;
  uint32_t n_states;
  uint8_t hash[32];
} tn_subgraph;

#ifdef __cplusplus
}
#endif
#endif
