/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of one import share. Private to runtime/onnx.
 *
 * tni_import is made by import.c for one call; everything in it dies with the call except what hangs on the model.
 */
#ifndef TENON_ONNX_CONTEXT_H
#define TENON_ONNX_CONTEXT_H

#include "onnx.pb-c.h"
#include "runtime/base/base.h"
#include "runtime/onnx/import.h"
#include "runtime/onnx/wire/wire.h"

enum { TNI_OPSET_MIN = 1, TNI_OPSET_MAX = 28 };
enum { TNI_MAX_EXTERNAL = 16384, TNI_MAX_ATTRIBUTES = 1024, TNI_MAX_OPSETS = 256 }; /* searched one by one */
/* A payload that is not aligned to its elements is copied when smaller than the first, up to the second in all. */
enum { TNI_ALIGN_COPY = 1 << 20, TNI_ALIGN_COPY_ALL = 16 << 20 };

struct tni_scope;
struct tni_import;
struct tni_nchwc;

/* What converting a node comes back to, where it holds graphs or calls a function (convert.h has the types). */
typedef struct tni_nested {
  tn_status (*subgraph)(struct tni_import *c, struct tni_scope *s, const Onnx__GraphProto *gp, tni_graph **out);
  tn_status (*call)(struct tni_import *c, struct tni_scope *s, const Onnx__FunctionProto *fn, const Onnx__NodeProto *n,
                    const tn_id *in, uint32_t n_in, const tn_id *out, uint32_t n_out);
} tni_nested;

typedef struct tni_import {
  const char *file; /* for messages */
  const uint8_t *bytes;
  const char *origin; /* name of the mapped model file for tni_origin; NULL: bytes are not a file */
  const tni_payload *spans;
  uint32_t n_spans;
  const char *dir; /* where external data lies; NULL: refused */
  tni_import_limits lim;
  const tni_log *log;
  tn_error *err;
  tni_arena *arena;   /* of the main graph (or the caller's, for a lone tensor) */
  tni_arena *scratch; /* dies with the import */
  tni_exprs *exprs;
  tni_model *model; /* NULL for a lone tensor */
  const tni_left_out *left;
  uint32_t n_left;
  tni_map *external;  /* location -> index into model->files */
  uint32_t cap_files; /* room in model->files and model->paths */
  tni_map *functions; /* "domain:name:overload" -> index into proto->functions */
  tni_map *symbols;   /* what names in the dims of the inputs are; see value_info.c */
  const Onnx__ModelProto *proto;
  const tni_nested *nested;
  uint64_t copied;  /* bytes of attributes and decoded tensors on arenas, limited to 4 * max_meta */
  uint64_t aligned; /* bytes copied for alignment only */
  uint32_t n_nodes; /* nodes and calls made so far, in all graphs */
  uint32_t n_calls;
  struct tni_nchwc *nchwc; /* blocks of channels (nchwc.h), made when a node asks; NULL: none did */
  const struct tni_length *lengths; /* what nodes say of the rows of each sequence (lengths.c), the last one first */
} tni_import;

/* --- tensor.c --- */
/* Reads a TensorProto: dtype, dims and data are checked against each other. The data stays in the mapping where it can
 * (it may be unaligned: import.h); typed varints and small payloads are decoded or copied to the arena. A STRING tensor
 * keeps its count only (data NULL, bytes 0). what: for messages ("initializer", "attribute 'value' of node 'n'"). */
TN_MUST_CHECK tn_status tni_read_tensor(tni_import *c, const Onnx__TensorProto *t, const char *what, tni_arena *arena,
                                        tni_tensor *out, tni_origin *origin);
/* Takes n bytes from the budget for copies. */
TN_MUST_CHECK tn_status tni_charge(tni_import *c, uint64_t n);
/* Terminated copy of n bytes on arena, charged; NULL: c->err is set. */
char *tni_onnx_copy_bytes(tni_import *c, tni_arena *arena, const void *p, size_t n);

/* --- lengths.c --- */
/* Node `node` of the main graph says in `value`, int32 or int64 [batch], how many rows of its past, the input `past`
 * [batch, heads, rows, size], and of this run are valid, less one; in `total` how many there are. Returns where the
 * rows of each sequence begin, int64 [batch], which the session writes (tni_graph.step_pos); TN_NONE where they cannot
 * be followed, or without memory. */
tn_id tni_lengths_note(tni_import *c, tni_graph *g, tn_id value, tn_id total, tn_id past, const char *node);
/* Makes g->lengths of what was noted; g is finished. */
TN_MUST_CHECK tn_status tni_lengths_graph(tni_import *c, tni_graph *g);

/* --- external.c --- */
/* Finds the external payload of t, which needs `bytes`: *data points into a mapping of the model. */
TN_MUST_CHECK tn_status tni_external_data(tni_import *c, const Onnx__TensorProto *t, uint64_t bytes,
                                          const uint8_t **data, tni_origin *origin);

/* --- value_info.c --- */
/* Reads the names of all dims of the main graph's inputs: which of them are expressions. An expression whose value the
 * shapes of the inputs leave open is no more than a name, as it is to ONNX Runtime. Before tni_input_type. */
TN_MUST_CHECK tn_status tni_input_dims(tni_import *c, const Onnx__ValueInfoProto *const *infos, uint32_t n);
/* Sets dtype and dims of an input value; unnamed dims become symbols "<name>.<axis>". Inputs of subgraphs get their
 * rank and fixed dims only. */
TN_MUST_CHECK tn_status tni_input_type(tni_import *c, tni_graph *g, tn_id v, const Onnx__ValueInfoProto *info);
/* Sets dtype (where unknown) and hint dims. new_symbols: dims may name symbols that no input has. */
TN_MUST_CHECK tn_status tni_hint_type(tni_import *c, tni_graph *g, tn_id v, const Onnx__ValueInfoProto *info,
                                      bool new_symbols);
/* A type as numbers, from the outside in: TNI_FORM_*, and a dtype after the TENSOR: what attributes of types become. */
TN_MUST_CHECK tn_status tni_type_ints(tni_import *c, const Onnx__TypeProto *t, int64_t *v, uint32_t cap, uint32_t *n);

#endif
