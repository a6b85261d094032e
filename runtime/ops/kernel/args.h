/* SPDX-License-Identifier: Apache-2.0
 *
 * Host kernels: one call signature for every operator, used by the host device's tasks, by constant folding and by the
 * oracles. Portable C; f32 accumulation in the order that each kernel's comment states, the same for every thread
 * count.
 */
#ifndef TENON_OPS_KERNEL_ARGS_H
#define TENON_OPS_KERNEL_ARGS_H

#include "runtime/graph/graph.h"

/* in[i] NULL: absent. Outputs have dtype, dims, bytes and data set by the caller; out[i] NULL: not wanted. Tensors of
 * zero elements may have data NULL. Inputs that only the shape rule reads may have data NULL. Inputs and outputs do not
 * overlap, but for the cache that TensorScatter writes in place: one memory for both. in_strides[i], out_strides[i]:
 * element strides of a cache, whose rows may be more than its dims say, the last one 1; NULL: dense, as for all others.
 * Where the last dim of a 3-D cache is heads that lie apart, [TNI_ST_HEAD] is their distance and [TNI_ST_HEADS] their
 * number, else 0. Where rows wrap around, [TNI_ST_RING] is how many there are, else 0: position p lies in row p modulo
 * that. A cache of float values may be kept in another dtype (kvrow.h), which is that of the tensor then.
 * in_strides, out_strides: NULL where there is no cache among them. scratch has the bytes that tni_ops_scratch stated
 * (64-byte aligned). run is never NULL. */
enum { TNI_ST_RING = 5, TNI_ST_HEAD = 6, TNI_ST_HEADS = 7 };
typedef struct tni_kargs {
  const tn_node *node;
  const tni_tensor *const *in;
  tni_tensor *const *out;
  uint32_t n_in, n_out;
  void *scratch;
  tn_run *run;
  tn_error *err;
  const int64_t *const *in_strides, *const *out_strides;
  bool skips_zeros; /* of products: rows of the first operand may be zeros for the sake of not being computed */
} tni_kargs;

typedef tn_status (*tni_kernel_fn)(const tni_kargs *a);

/* The run that a kernel works under. It remembers that it said to stop: then tni_krun_end gives TN_E_CANCELLED,
 * whatever the kernel returned, and the outputs hold anything. Kernels need no more than to leave their loops. */
typedef struct tni_krun {
  tn_run run;
  tn_run *under;
  int32_t stopped; /* atomic */
} tni_krun;
/* Returns &k->run, which lives as long as k; under is the caller's. */
tn_run *tni_krun_begin(tni_krun *k, tn_run *under);
tn_status tni_krun_end(const tni_krun *k, const tni_kargs *a, tn_status s);
/* fn under such a run, which takes the place of a->run. */
tn_status tni_kernel_call(tni_kernel_fn fn, const tni_kargs *a);

/* Kernel of an op row, or NULL. Called through tni_kernel_call. */
tni_kernel_fn tni_ops_kernel(const tni_op *op);
/* Whether the kernel takes these dtypes (the reason into why, at most n bytes). */
bool tni_ops_accepts(const tn_node *node, const tn_value *const *in, uint32_t n_in, char *why, size_t n);
/* The same of operands that are at hand (NULL: absent), for kernels that are called outside of a placement. */
bool tni_ops_takes(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, char *why, size_t n);
/* dtypes (bit by TN_DT_*) that the kernels of op take as this input; 0: there is none. For lists. */
uint32_t tni_ops_dtypes(uint32_t op, uint32_t input);
/* No output (NULL: not asked for) has an element, so there is nothing to compute: dims beside a 0 may be absurd, and
 * kernels go through them. */
bool tni_ops_is_empty(const tni_tensor *const *out, uint32_t n_out);
/* Scratch bytes for concrete dims. out: the first output (dims only), or NULL. */
uint64_t tni_ops_scratch(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, const tni_tensor *out,
                         uint32_t n_workers);

/* A tn_run that works in the calling thread only. */
void tni_run_inline(tn_run *run);

/* tni_eval_fn (infer.h) on host kernels: outputs are allocated on the arena. TN_E_UNSUPPORTED: not these dtypes. ctx: a
 * tn_run, or NULL for inline. */
tn_status tni_ops_eval(void *ctx, const tni_node *node, const tni_tensor *const *in, uint32_t n_in, tni_tensor *out,
                       uint32_t n_out, tni_arena *arena, tn_error *err);

/* The host plugin: same entry type as any other, linked in. */
tn_status tni_host_plugin_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out);

/* --- format reference (the oracle that gates) --- */

/* y[M,N] = quantize(x[M,K]) * w[N,K]^T as num declares it: q as declared, all sums in double, one rounding to f32 at
 * the end. abs[M,N] (may be NULL) gets the sum of absolute terms: |y - device| <= tni_reference_bound(num, K) * abs.
 * bias[N] may be NULL. Threads through run. TN_E_UNSUPPORTED for numerics that it does not know. */
tn_status tni_reference_matmul(const tn_numerics *num, const float *x, int64_t M, int64_t K, const float *w, int64_t N,
                               const float *bias, float *y, float *abs, tn_run *run);
/* Relative bound from the accumulator dtypes and K only. */
double tni_reference_bound(const tn_numerics *num, int64_t K);
/* The same y with all that a device may be off by: e[M,N] is tni_reference_bound times the sum of absolute terms, and
 * what averages of table entries (avg_depth) and halves that are flushed may cost. */
tn_status tni_reference_product(const tn_numerics *num, const float *x, int64_t M, int64_t K, const float *w, int64_t N,
                                float *y, float *e, tn_run *run);
/* By what averages may put off one sum q * w of a group, in sx * w0; 0: sums are exact. */
double tni_reference_averages(const tn_numerics *num);
/* The same of y where x has one element that is not 0, at column k of the row w[K]. */
double tni_reference_averages_at(const tn_numerics *num, const float *w, int64_t K, int64_t k, float x);
/* What a plugin declared, fields that it does not know 0. */
tn_numerics tni_numerics_of(const tn_numerics *declared);

#endif
