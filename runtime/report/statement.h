/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory statement of `inspect`: what a process will have resident at most for the model's limits, before anything
 * runs. File-backed memory (packed weights, constants in the model's files, libraries) is clean and shared between
 * processes; the rest is the process's own.
 */
#ifndef TENON_REPORT_STATEMENT_H
#define TENON_REPORT_STATEMENT_H

#include "runtime/place/place.h"

typedef struct tni_statement {
  uint64_t weights; /* constants as they lie in the model's files; of tables the rows that a context can look up */
  uint64_t packed;  /* packed weights */
  uint64_t on_disk; /* of packed: what is read from its file when it is needed, and takes no memory */
  uint64_t kv;      /* caches; where they cannot be kept, past inputs as the caller holds them (old and new) */
  uint64_t arena;   /* activations, temporaries and scratch */
  uint64_t bound;   /* no plan of any order that was looked at could take less than this for the arena */
  uint64_t outputs; /* memory of the outputs */
  uint64_t scratch; /* part of arena: the largest task's */
  uint64_t buffers; /* inputs as a session keeps them, and constants that had to be moved */
  uint64_t base_anonymous, base_file; /* process, libraries, graph, programs and plans */
  uint64_t packing;                   /* a first start while it packs: base, and the largest tensor, raw and packed */
  uint64_t loading;                   /* what loading took at most */
  uint64_t anonymous, file;
  uint64_t total; /* the largest of running (anonymous + file), packing and loading */
  int64_t *dims;  /* by symbol, malloc'd: what the statement was made for */
  uint32_t n_dims;
} tni_statement;

/* Needs lowered programs; a model with unsupported nodes has no statement. */
TN_MUST_CHECK tn_status tni_statement_make(tn_model *m, tni_statement *out, tn_error *err);

#endif
