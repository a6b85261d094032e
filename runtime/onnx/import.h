/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX import: bytes -> graph. No arithmetic on tensor elements, no copy of weights: constants point into the mapped
 * model or external data files, which the import keeps mapped.
 */
#ifndef TENON_ONNX_IMPORT_H
#define TENON_ONNX_IMPORT_H

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/graph/graph.h"

/* Bounds against hostile files; 0: the default in parentheses. */
typedef struct tni_import_limits {
  uint32_t max_depth;    /* nesting of messages, subgraphs and functions (32) */
  uint32_t max_nodes;    /* in all graphs together after function inlining (1,000,000) */
  uint64_t max_meta;     /* bytes of the message without tensor payloads (256 MiB) */
} tni_import_limits;

/* A loaded model: graph, mappings, what the file says of itself. */
typedef struct tni_model {
  tni_graph *graph;
  tni_file *files; /* files[0]: the model; then external data, in order of first use */
  const char **paths;
  uint32_t n_files;
  int64_t ir_version;
  const char *producer, *producer_version;
  uint32_t n_nodes_file; /* nodes as written, subgraphs included */
} tni_model;

/* path: a .onnx file. Statuses: TN_E_INVALID / TN_E_CORRUPT / TN_E_LIMIT / TN_E_UNAVAILABLE (missing file), the message
 * naming the file, node or tensor. Nothing is left behind on failure. */
TN_MUST_CHECK tn_status tni_import_file(const char *path, const tni_import_limits *lim, const tni_log *log,
                                        tni_model **out, tn_error *err);
/* The same from memory (fuzzing, tests); external data is looked up in dir (NULL: refused). bytes must outlive it. */
TN_MUST_CHECK tn_status tni_import_bytes(const void *bytes, uint64_t n, const char *dir, const tni_import_limits *lim,
                                         const tni_log *log, tni_model **out, tn_error *err);
void tni_model_destroy(tni_model *m);

/* A TensorProto file (.pb) as test-data sets hold them. The tensor's data lies on the arena. name may be NULL. */
TN_MUST_CHECK tn_status tni_import_tensor(const void *bytes, uint64_t n, const char *file, tni_arena *arena,
                                          tni_tensor *out, const char **name, tn_error *err);
/* Writes a TensorProto (raw_data). Returns malloc'd bytes. */
TN_MUST_CHECK tn_status tni_export_tensor(const tni_tensor *t, const char *name, void **bytes, uint64_t *n);

#endif
