/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration: what the activations of a model look like on a text, for weight formats and kernels that need it.
 *
 *   record   tni_recorder, fed by the scheduler with each activation that meets a constant weight, twice over one text
 *   keep     tni_recorder_keep, tni_recorder_resume: a recorder as a file, so that one that was stopped goes on
 *   file     tni_calib_write, tni_calib_read: YAML, bound to one model by a hash (docs/calibration.md)
 *   attach   tni_calib_attach: tn_value.stats of the activations, tn_weight.x of the weights, on every view
 *
 * An activation is known by the weights that it meets, whose names passes keep; where a weight meets several, by its
 * own name, unless a pass made that. A tni_calib is immutable after reading; any thread. A tni_recorder takes tensors
 * from any thread.
 */
#ifndef TENON_CALIB_CALIB_H
#define TENON_CALIB_CALIB_H

#include "runtime/graph/graph.h"

enum { TNI_CALIB_HEX = 32 };

/* One activation. stats: n channels; ch_over, ch_mean and ch_weight (the mean of x^2) are all there. */
typedef struct tni_calib_entry {
  tn_stats stats;
  const char *name;
  const char *const *weights;
  uint32_t n_weights;
} tni_calib_entry;

typedef struct tni_calib {
  tni_arena *arena;
  const char *file; /* for messages */
  const char *model_name, *text_name;
  char model[TNI_CALIB_HEX + 1], text[TNI_CALIB_HEX + 1]; /* hashes in hexadecimal */
  uint64_t tokens;
  const tni_calib_entry *entries;
  uint32_t n_entries;
} tni_calib;

/* Reads a calibration file. TN_E_INVALID with file:line:column where it is malformed, naming the key; a file that is
 * not there is TN_E_INVALID too. */
TN_MUST_CHECK tn_status tni_calib_read(const char *path, tni_calib **out, tn_error *err);
void tni_calib_destroy(tni_calib *c); /* NULL is fine */
/* Writes one: a temporary file beside path, fsync, rename. On failure path is what it was. */
TN_MUST_CHECK tn_status tni_calib_write(const tni_calib *c, const char *path, tn_error *err);

/* XXH3-128 of what makes a model this one: the graph as imported (operators, attributes, edges, dims), and of every
 * constant name, dtype, dims and content. Of constants above 64 KiB, sixteen pages of 4 KiB spread evenly, so that
 * nothing has to be read from the disk as a whole. Before passes. */
TN_MUST_CHECK tn_status tni_calib_model_hash(const tni_graph *g, char hex[TNI_CALIB_HEX + 1], tn_error *err);
/* XXH3-128 of n bytes, in hexadecimal. */
void tni_calib_text_hash(const void *p, size_t n, char hex[TNI_CALIB_HEX + 1]);

/* The product at a node: one activation and constant matrices. false: it is none. Gemm with transA is none. */
typedef struct tni_product {
  tn_id x, weights[TN_FUSED_MAX_PARTS]; /* values */
  bool kn[TN_FUSED_MAX_PARTS];          /* stored [K,N] */
  uint32_t n_weights;
  int64_t K;
} tni_product;
bool tni_calib_product(const tni_graph *g, tn_id node, tni_product *p);

/* Sets stats on g's values and x on the tn_weights of its constants, after tni_graph_view has made those; what is new
 * hangs on the arena. A weight that meets several activations gets their union: the larger absmax and p999, the sums of
 * counts, means by rows. *products, *found (both may be NULL): how many there are, how many got statistics.
 * TN_E_INVALID: an activation has another number of channels than the file says. */
TN_MUST_CHECK tn_status tni_calib_attach(const tni_calib *c, tni_graph *g, tni_arena *arena, uint32_t *products,
                                         uint32_t *found, tn_error *err);

typedef struct tni_recorder tni_recorder;
/* Finds what is to be recorded in g, whose ids must not change from here on. */
TN_MUST_CHECK tn_status tni_recorder_create(const tni_graph *g, tni_recorder **out, tn_error *err);
void tni_recorder_destroy(tni_recorder *r); /* NULL is fine */
/* The value that is to be recorded before this node runs, or TN_NONE. Each value has one such node. */
tn_id tni_recorder_value(const tni_recorder *r, tn_id node);
/* One more run's rows of value x (a float tensor [.., K]). TN_E_INVALID: it holds what is not finite. */
TN_MUST_CHECK tn_status tni_recorder_add(tni_recorder *r, tn_id x, const tni_tensor *t, tn_error *err);
/* Ends the first pass, which found maxima and percentiles; the second, over the same rows, counts what is above. */
TN_MUST_CHECK tn_status tni_recorder_next(tni_recorder *r, tn_error *err);
/* What was recorded, on the arena; activations that never ran are left out. TN_E_INVALID: the two passes saw different
 * rows, or there was no second. */
TN_MUST_CHECK tn_status tni_recorder_result(const tni_recorder *r, tni_arena *arena, const tni_calib_entry **out,
                                            uint32_t *n, tn_error *err);

/* Of what a recorder that is kept has recorded, and how far it is. */
typedef struct tni_calib_place {
  char model[TNI_CALIB_HEX + 1], text[TNI_CALIB_HEX + 1], options[TNI_CALIB_HEX + 1]; /* hashes in hexadecimal */
  uint64_t done; /* the caller's count of what has run in this pass */
} tni_calib_place;
/* Writes r as it is: PATH.tmp, fsync, rename. Not while a run adds to it. TN_E_IO: path is what it was. */
TN_MUST_CHECK tn_status tni_recorder_keep(tni_recorder *r, const tni_calib_place *at, const char *path, tn_error *err);
/* r, which has recorded nothing yet, becomes the one that was kept, bit for bit. at: of what; done is set. *pass: 1 or 2.
 * TN_E_UNAVAILABLE: there is no such file. TN_E_IO: it cannot be read. TN_E_CORRUPT: it is damaged, or no such file.
 * TN_E_INVALID: it is of something else, or r has recorded something. Nothing changes then. */
TN_MUST_CHECK tn_status tni_recorder_resume(tni_recorder *r, tni_calib_place *at, const char *path, uint32_t *pass,
                                            tn_error *err);

#endif
