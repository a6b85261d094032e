/* SPDX-License-Identifier: Apache-2.0
 *
 * From the unpacked message to tni_graph: scopes of names, nodes, subgraphs, inlined functions. Private to
 * runtime/onnx.
 *
 * Every graph, subgraph and function body is converted in a scope of its own. All names that a scope defines are
 * declared before its nodes are converted, so nodes may stand in any order. A subgraph reads names of the scopes around
 * it; a function body reads only its parameters.
 */
#ifndef TENON_ONNX_CONVERT_H
#define TENON_ONNX_CONVERT_H

#include "runtime/onnx/context.h"

struct tni_scope;

/* One function call that is being inlined. */
typedef struct tni_call {
  const Onnx__FunctionProto *fn;
  const Onnx__NodeProto *node; /* carries the attributes */
  const struct tni_call *up;   /* the call whose body holds this one */
  struct tni_scope *site;      /* names around the call: its subgraph attributes see them */
} tni_call;

typedef struct tni_scope {
  struct tni_scope *up; /* around a subgraph; NULL for the main graph and for function bodies */
  tni_graph *g;         /* a function body shares its caller's */
  tni_map *names;       /* name as written -> value id in g; TN_NONE: an absent parameter */
  tni_map *results;     /* function body: name of an output -> value id of the caller, or NULL */
  const tni_call *call; /* the body that this scope is in, or NULL */
  Onnx__OperatorSetIdProto *const *opsets;
  size_t n_opsets;
  const char *prefix; /* of names made here: "" or "CALL/" */
  uint32_t depth;     /* graphs and calls around */
} tni_scope;

/* A node while it is being made. in has room for TNI_DRAFT_ROOM more, raw for TNI_DRAFT_ATTRS. */
enum { TNI_DRAFT_ROOM = 5, TNI_DRAFT_ATTRS = 3 };
typedef struct tni_draft {
  const char *name, *domain, *type;
  int64_t version;
  tn_id *in, *out;
  uint32_t n_in, n_out;
  tni_raw_attr *raw;
  uint32_t n_raw;
} tni_draft;

/* --- draft.c --- */
/* The attribute of that name, or NULL; takes it out, if it is there. */
tni_raw_attr *tni_draft_attr(tni_draft *d, const char *name);
void tni_draft_drop_attr(tni_draft *d, const char *name);

/* --- upgrade_first.c --- */
/* Forms of opsets 1 to 5 that opset 6 has in other words: attributes and version of the draft change. */
void tni_upgrade_first(tni_draft *d);

/* --- scope.c --- */
/* A new value for `name`, or the caller's where name is an output of the function that s is the body of. */
TN_MUST_CHECK tn_status tni_declare(tni_import *c, tni_scope *s, const char *name, uint32_t kind, tn_id *id);
/* The value that `name` means in s; captures it where it is of a graph around. what: who asks, for messages. */
TN_MUST_CHECK tn_status tni_resolve(tni_import *c, tni_scope *s, const char *name, const char *what, tn_id *id);
/* Name of a node for messages and for the graph; unnamed ones go by their first output. */
const char *tni_node_label(const Onnx__NodeProto *n);
/* Whether n is the ONNX operator `type` of the standard domain. */
bool tni_is_standard(const Onnx__NodeProto *n, const char *type);
/* PREFIX + name on scratch memory; name itself without a prefix. NULL without memory. */
const char *tni_prefixed(tni_import *c, const tni_scope *s, const char *name);

/* --- convert.c --- */
/* Converts the model's main graph into g (created, empty) and finishes it. */
TN_MUST_CHECK tn_status tni_convert_model(tni_import *c, tni_graph *g);
/* Converts gp into a new graph that s->g owns. */
TN_MUST_CHECK tn_status tni_convert_subgraph(tni_import *c, tni_scope *s, const Onnx__GraphProto *gp, tni_graph **out);
/* Declares what nodes define (Constants become CONST values), takes the declared shapes, then converts the nodes. */
TN_MUST_CHECK tn_status tni_convert_nodes(tni_import *c, tni_scope *s, Onnx__NodeProto *const *nodes, size_t n,
                                          Onnx__ValueInfoProto *const *hints, size_t n_hints);

/* --- node.c --- */
TN_MUST_CHECK tn_status tni_convert_node(tni_import *c, tni_scope *s, const Onnx__NodeProto *n);
/* Makes value v the constant that node n (a Constant) states. */
TN_MUST_CHECK tn_status tni_convert_constant(tni_import *c, tni_scope *s, const Onnx__NodeProto *n, tn_id v);

/* --- function.c --- */
/* Index of all functions by name; duplicates are errors. */
TN_MUST_CHECK tn_status tni_index_functions(tni_import *c);
/* The function that n calls, or NULL. */
const Onnx__FunctionProto *tni_find_function(const tni_import *c, const Onnx__NodeProto *n);
/* Checks an opset list: ai.onnx within TNI_OPSET_MIN..MAX. who: "model" or a function's name. */
TN_MUST_CHECK tn_status tni_check_opsets(tni_import *c, Onnx__OperatorSetIdProto *const *sets, size_t n,
                                         const char *who);

/* --- call.c --- */
/* Inlines fn for the call n in s. in, out: the call's values (TN_NONE: absent). */
TN_MUST_CHECK tn_status tni_inline_call(tni_import *c, tni_scope *s, const Onnx__FunctionProto *fn,
                                        const Onnx__NodeProto *n, const tn_id *in, uint32_t n_in, const tn_id *out,
                                        uint32_t n_out);

/* --- upgrade.c --- */
/* Rewrites d, written for d->version of ai.onnx, into the newest form that ops.def lists: attributes that became inputs
 * become constants of g, old broadcasting becomes Unsqueeze or Reshape. Nodes may be added to g. Others stay as they
 * are. */
TN_MUST_CHECK tn_status tni_upgrade(tni_import *c, tni_graph *g, tni_draft *d);

#endif
