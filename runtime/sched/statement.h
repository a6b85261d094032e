/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory statement of `inspect`: bytes before anything runs.
 */
#ifndef TENON_SCHED_STATEMENT_H
#define TENON_SCHED_STATEMENT_H

#include "runtime/sched/internal.h"

typedef struct tni_statement {
  uint64_t weights; /* constants read from the model's own files */
  uint64_t packed;  /* packed weights */
  uint64_t kv;      /* caches; where they cannot be kept, past inputs as the caller holds them (old and new) */
  uint64_t arena;   /* activations, temporaries and scratch */
  uint64_t bound;   /* no plan of any order that was looked at could take less than this for the arena */
  uint64_t outputs; /* memory of the outputs */
  uint64_t scratch; /* part of arena: the largest task's */
  uint64_t total;
  int64_t *dims; /* by symbol, malloc'd: what the statement was made for */
  uint32_t n_dims;
} tni_statement;

/* Needs lowered programs; a model with unsupported nodes has no statement. */
TN_MUST_CHECK tn_status tni_statement_make(tn_model *m, tni_statement *out, tn_error *err);

#endif
