/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX import: bytes -> graph. No arithmetic on tensor elements, no copy of weights: constants point into the mapped
 * model or external data files, which the import keeps mapped.
 *
 * Alignment. Protobuf aligns nothing, so the payload of a tensor in a single-file model lies wherever it lies. Payloads
 * below 1 MiB that are not aligned to their elements are copied (16 MiB at most in all), as are those below 1 KiB;
 * larger ones stay in the mapping as they are. Readers of CONST data read it bytewise (memcpy, unaligned loads) or ask
 * tni_tensor_align for a copy first. Data that was copied or decoded is aligned to 64.
 *
 * What becomes of the model:
 *   - Constant nodes and initializers become CONST values; an initializer that is also listed as an input is no input.
 *   - Local functions are inlined; names made so are "CALL/name". Nodes keep their names; unnamed ones are called after
 *     their first output.
 *   - Nodes of ai.onnx are rewritten to the newest form of their operator (upgrade.c); unknown ones stay as they are.
 *   - Unnamed dims of inputs are symbols "<input>.<axis>". Declared shapes of other values are hints only.
 *   - Trailing absent inputs of a node are dropped.
 */
#ifndef TENON_ONNX_IMPORT_H
#define TENON_ONNX_IMPORT_H

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"

/* Bounds against hostile files; 0: the default in parentheses. */
typedef struct tni_import_limits {
  uint32_t max_depth; /* nesting of graphs and function calls (32, at most 128); messages nest 4 times that + 8 */
  uint32_t max_nodes; /* in all graphs together after function inlining, calls included (1,000,000) */
  /* Bytes of the message without tensor payloads (256 MiB, at most 4 GiB). Unpacked it may take four times that, and so
   * may attributes and decoded typed data (int64_data and the like) together. */
  uint64_t max_meta;
  tni_budget *budget; /* of the load, or NULL: graphs count in it */
  /* Initializers of the main graph that stay inputs where they are listed there, with their value as tni_value.preset;
   * TN_E_INVALID where the IR version is below 4. Other names mean nothing. */
  const char *const *overridable;
  uint32_t n_overridable;
  /* Channels in a block of com.microsoft.nchwc where the model's shapes do not tell: 8 or 16. 0: such a model is
   * refused. What shapes tell holds. */
  uint32_t nchwc_block;
  bool copy; /* files become copies in memory, which nobody else can change (tni_file_read) */
} tni_import_limits;

/* A tensor whose elements are not in the files, because nothing reads them (left_out.h). file: in the model's folder;
 * content: XXH3-128 of the elements, low and high; weight: the constant that is equal to it and packed, or NULL. */
typedef struct tni_left_out {
  const char *name, *file, *weight;
  uint64_t offset, bytes, content[2];
} tni_left_out;

/* A loaded model: graph, mappings, what the file says of itself. */
typedef struct tni_model {
  tni_graph *graph;
  tni_file *files; /* files[0]: the model; then external data, in order of first use */
  const char **paths;
  uint32_t n_files;
  int64_t ir_version;
  const char *producer, *producer_version;
  uint32_t n_nodes_file; /* nodes as written, subgraphs included */
  const tni_left_out *left;
  uint32_t n_left;
  struct tni_model *part; /* what was joined to it, or NULL; its files are among files */
  const char *whole_hash; /* of the model with what was left out (tni_calib_model_hash), or NULL */
} tni_model;

/* path: a .onnx file. lim, log, err may be NULL. Statuses, the message naming the file, node or tensor:
 *   TN_E_CORRUPT      truncated or no protobuf (with the offset), external data that is too short
 *   TN_E_INVALID      the format allows it, ONNX does not: missing inputs, cycles, duplicate names, wrong lengths;
 *                     external data outside of the folder (absolute, "..", a link that leads out, but to where a model
 *                     is stored that path is a link to)
 *   TN_E_LIMIT        a bound of lim, rank over TN_MAX_RANK, sizes that overflow
 *   TN_E_UNSUPPORTED  an ai.onnx opset outside of 1..28, sparse initializers, data types after INT2
 *   TN_E_UNAVAILABLE  a missing file
 * Nothing is left behind on failure. The graph is finished (tni_graph_finish). */
TN_MUST_CHECK tn_status tni_import_file(const char *path, const tni_import_limits *lim, const tni_log *log,
                                        tni_model **out, tn_error *err);
/* The same from memory (fuzzing, tests); external data is looked up in dir (NULL: refused). bytes must outlive the
 * model. Constants have no origin file. */
TN_MUST_CHECK tn_status tni_import_bytes(const void *bytes, uint64_t n, const char *dir, const tni_import_limits *lim,
                                         const tni_log *log, tni_model **out, tn_error *err);
void tni_model_destroy(tni_model *m);
/* Pages of its files that were read leave memory; those that are needed come again. */
void tni_model_rest(const tni_model *m);

/* Whether t's data is aligned to its elements; see "Alignment". */
bool tni_tensor_aligned(const tni_tensor *t);
/* Makes t's data aligned: nothing where it is, otherwise a copy on arena takes its place. For who loads a model to run
 * it and needs typed pointers; before other threads read the graph. */
TN_MUST_CHECK tn_status tni_tensor_align(tni_tensor *t, tni_arena *arena, tn_error *err);

/* A TensorProto file (.pb) as test-data sets hold them. The tensor's data lies on the arena (STRING: none), and so does
 * *name (name may be NULL). file is for messages and may be NULL. Errors as above. */
TN_MUST_CHECK tn_status tni_import_tensor(const void *bytes, uint64_t n, const char *file, tni_arena *arena,
                                          tni_tensor *out, const char **name, tn_error *err);
/* What a test-data file holds: a tensor, or a sequence or optional of such. Lies on one arena. */
typedef struct tni_datum {
  uint32_t form, n;         /* n: elements of a sequence; of an optional none or one */
  tni_tensor t;             /* of a tensor */
  struct tni_datum **items; /* [n] */
} tni_datum;
enum { TNI_DATUM_DEPTH = 8 };
/* The same for a file that holds a value of this form: TensorProto, SequenceProto, OptionalProto. TN_E_UNSUPPORTED:
 * maps, sparse tensors. TN_E_LIMIT: nested deeper than TNI_DATUM_DEPTH. */
TN_MUST_CHECK tn_status tni_import_datum(const void *bytes, uint64_t n, const char *file, uint32_t form,
                                         tni_arena *arena, tni_datum *out, const char **name, tn_error *err);
/* Writes a TensorProto (raw_data). *bytes is malloc'd. TN_E_INVALID for STRING, TN_E_NO_MEMORY. name may be NULL. */
TN_MUST_CHECK tn_status tni_export_tensor(const tni_tensor *t, const char *name, void **bytes, uint64_t *n);

#define TNI_OWN_DOMAIN "ai.tenon" /* of MatMulLevels */
/* Names of the operators of com.microsoft that are rewritten at import, in order; NULL past the end. */
const char *tni_contrib_name(uint32_t i);

#endif
