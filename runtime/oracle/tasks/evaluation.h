/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle that gates: what a plugin's task should have computed, on the host, with unpack(pack(W)) and the declared
 * numerics of the format (docs/numerics.md). Used instead of the device (TN_MODEL_REFERENCE) or beside it
 * (TN_MODEL_CAPTURE).
 */
#ifndef TENON_ORACLE_TASKS_EVALUATION_H
#define TENON_ORACLE_TASKS_EVALUATION_H

#include "runtime/oracle/tasks/tasks.h"

/* One node's reference outputs, on the evaluation's arena. bound: allowed |difference| per element, or NULL for
 * nodes whose bound is relative to the largest output. */
typedef struct tni_evaluated {
  tn_id value;
  tni_tensor t;
  float *bound;
} tni_evaluated;

typedef struct tni_evaluation {
  tn_session *s;
  tni_sexec *x;
  uint32_t task;
  tni_arena *arena;
  tni_evaluated *done;
  uint32_t n_done;
  tn_error *err;
  bool judges; /* results are compared: bounds are wanted */
} tni_evaluation;

/* The region that holds v for this task: its own, or that of a TEMP slot that names it. TN_NONE: none. */
uint32_t tni_ref_region(const tni_sexec *x, uint32_t task, tn_id v);
/* Computes every node of the task from the task's own inputs; done[] holds what they give. */
TN_MUST_CHECK tn_status tni_evaluate(tni_evaluation *ev);

/* --- what nodes read and write (reference_read.c, reference_state.c) --- */

/* What a node of the task reads: a constant, something computed here, or the memory that the task was given. */
TN_MUST_CHECK tn_status tni_ref_operand(tni_evaluation *ev, tn_id v, tni_tensor *out);
/* A cache as a dense tensor of the graph's dtype (t has dtype, dims, bytes), and this run's rows back. */
TN_MUST_CHECK tn_status tni_ref_state_load(tni_evaluation *ev, const tni_sregion *q, tni_tensor *t);
void tni_ref_state_store(const tni_sexec *x, const tni_sregion *q, const tni_tensor *t);
/* What a cache of another dtype than the graph's may be off by, element by element: e->bound; half a step of what it is
 * kept as beside what float32 sums may be. */
TN_MUST_CHECK tn_status tni_ref_state_bound(tni_evaluation *ev, const tni_sregion *q, tni_evaluated *e);
/* Memory for value v at the dims of the run. */
TN_MUST_CHECK tn_status tni_ref_output(tni_evaluation *ev, tn_id v, tni_evaluated *out);
/* Constant matrix v as floats [N,K]: unpacked, with its format's numerics, where the task's program packs it, else as
 * it is (stored [K,N] where kn), with those of products in f32. */
TN_MUST_CHECK tn_status tni_ref_weight(tni_evaluation *ev, tn_id v, bool kn, const float **w, int64_t *N, int64_t *K,
                                       const tn_numerics **num);
/* The need that packs constant matrix `weight`, and as which of its parts; NULL: none. */
const tni_need *tni_ref_need(const tni_program *p, tn_id weight, uint32_t *part);
/* What the need's format declares, with a static scale from its parameters; NULL: no memory. */
const tn_numerics *tni_ref_numerics(const tni_evaluation *ev, const tni_program *p, const tni_need *need);
/* Floats [N,K] of a part of a need: the model's, where it keeps them (tni_refcache_create), else on ev's arena. */
TN_MUST_CHECK tn_status tni_ref_unpacked(tni_evaluation *ev, const tni_program *p, const tni_need *need, uint32_t part,
                                         const float **out);
/* dtype, dims and bytes of v in this run. */
TN_MUST_CHECK tn_status tni_ref_header(tni_evaluation *ev, tn_id v, tni_tensor *t);
/* --- kinds of nodes --- */

/* The node has a shape operand that the task has no memory of; its outputs. */
bool tni_ref_is_shaped(const tni_evaluation *ev, tn_id node);
TN_MUST_CHECK tn_status tni_ref_shaped(tni_evaluation *ev, tn_id node, tni_evaluated *outs);
/* A tenon.FusedMatMul of f32: outs[n_out], with bounds carried through the chain (docs/numerics.md). */
TN_MUST_CHECK tn_status tni_ref_fused(tni_evaluation *ev, tn_id node, tni_evaluated *outs);

/* What f32 results of attention may be off by, from its operands: out->bound, not under 1e-5 of the largest. */
TN_MUST_CHECK tn_status tni_ref_attend_bound(tni_evaluation *ev, const tn_node *n, tni_evaluated *out);
/* A LayerNormalization of f32, ONNX's or tenon's, computed in double: out->t, and out->bound, not under 1e-5 of the largest. */
TN_MUST_CHECK tn_status tni_ref_norm(tni_evaluation *ev, const tn_node *n, tni_evaluated *out);
/* Adds what graph.h (tn_layout) lets who attends over rows of bfloat16, float16 or int8 round. */
TN_MUST_CHECK tn_status tni_ref_kept_bound(tni_evaluation *ev, const tn_node *n, tni_evaluated *out);
/* Bounds of what n gives from those of what it reads, where the task has computed that: bounds of outs, not under 1e-5 of the
 * largest. Without any, or of another operator than those that it knows, nothing. */
TN_MUST_CHECK tn_status tni_ref_carry(tni_evaluation *ev, const tn_node *n, tni_evaluated *outs);
/* The largest magnitude of t's floats that is finite: by one infinity, as a mask has them, any difference would be small. */
double tni_ref_largest(const tni_tensor *t);
/* No element's bound is under `least` and 1e-5 of the largest result; what is raised stays finite, as an infinite bound
 * judges nothing. */
TN_MUST_CHECK tn_status tni_ref_raise(tni_evaluation *ev, const char *name, double least, tni_evaluated *out);
/* Input i of n as floats; NULL: it is not there, or has no magnitudes. */
TN_MUST_CHECK tn_status tni_ref_floats(tni_evaluation *ev, const tn_node *n, uint32_t i, float **x, int64_t *count);

#endif
