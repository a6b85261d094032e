/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host's kernel files share: element types that may lie anywhere, threading and broadcasting helpers.
 *
 * Constants point into mapped model files and need not be aligned, so every kernel reads and writes through the `...u`
 * types (alignment 1, may alias): compilers emit unaligned vector accesses for them and UBSan has nothing to say.
 */
#ifndef TENON_OPS_KERNEL_ELEMENTS_H
#define TENON_OPS_KERNEL_ELEMENTS_H

#include <stdbool.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/ops/kernel/args.h"

#define TNI_UNALIGNED __attribute__((aligned(1), may_alias))
typedef float f32u TNI_UNALIGNED;
typedef double f64u TNI_UNALIGNED;
typedef int8_t i8u TNI_UNALIGNED;
typedef uint8_t u8u TNI_UNALIGNED;
typedef int16_t i16u TNI_UNALIGNED;
typedef uint16_t u16u TNI_UNALIGNED;
typedef int32_t i32u TNI_UNALIGNED;
typedef uint32_t u32u TNI_UNALIGNED;
typedef int64_t i64u TNI_UNALIGNED;
typedef uint64_t u64u TNI_UNALIGNED;

/* Integer dtypes: X(TN_DT_ suffix, unaligned type, plain type, lowest, highest). */
#define TNI_INT_TYPES(X)                      \
  X(I8, i8u, int8_t, INT8_MIN, INT8_MAX)      \
  X(U8, u8u, uint8_t, 0, UINT8_MAX)           \
  X(I16, i16u, int16_t, INT16_MIN, INT16_MAX) \
  X(U16, u16u, uint16_t, 0, UINT16_MAX)       \
  X(I32, i32u, int32_t, INT32_MIN, INT32_MAX) \
  X(U32, u32u, uint32_t, 0, UINT32_MAX)       \
  X(I64, i64u, int64_t, INT64_MIN, INT64_MAX) \
  X(U64, u64u, uint64_t, 0, UINT64_MAX)

/* Elements that go through one stack buffer at a time where a kernel converts (halves). */
enum { TNI_CHUNK = 256 };

/* --- tensors --- */
int64_t tni_knumel(const tni_tensor *t);
/* Product of dims [from, to). */
int64_t tni_dim_product(const tni_tensor *t, uint32_t from, uint32_t to);
/* Bytes of one element; 0 for types below a byte and strings. */
uint32_t tni_elem_size(uint32_t dtype);
bool tni_is_half(uint32_t dtype);
/* Axis in [0, rank), or -1. rank 0 counts as 1. */
int32_t tni_kaxis(int64_t axis, uint32_t rank);
/* Element i of an integer or bool tensor as int64 (any integer dtype). */
int64_t tni_get_i64(const tni_tensor *t, int64_t i);
/* Element i of any numeric tensor as double. */
double tni_get_f64(const tni_tensor *t, int64_t i);
/* Element i of a numeric or bool tensor set to v: floats rounded, integers toward zero and clamped, bool v != 0. */
void tni_put_f64(const tni_tensor *t, int64_t i, double v);
/* Toward zero, clamped to the range; NaN is 0. */
int64_t tni_clamp_i64(double v);
/* Elements [first, first + n) of a float tensor (f16, bf16, f32, f64) as f32, and back (round half to even). */
void tni_load_f32(uint32_t dtype, const void *src, int64_t first, int64_t n, float *dst);
void tni_store_f32(uint32_t dtype, void *dst, int64_t first, int64_t n, const float *src);

/* --- errors --- */
/* Fails with the node's name in `where`. */
tn_status tni_kfail(const tni_kargs *a, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);
/* "op: no host kernel for dtype" */
tn_status tni_kdtype(const tni_kargs *a, uint32_t dtype);

/* --- threads --- */
/* body over [0, n) where one index costs about `cost` elements of work; small jobs run in the calling thread. Asks
 * about every TNI_POLL elements whether it is to stop, and then leaves the rest out. A body whose single index may take
 * long asks as well (poll.h). What was left out must not be read as an index or a size. */
void tni_kfor(tn_run *run, int64_t n, int64_t cost, tn_body body, void *arg);
/* The same for bodies that ask by themselves, and want pieces as large as there are. */
void tni_kfor_polled(tn_run *run, int64_t n, int64_t cost, tn_body body, void *arg);

/* --- broadcasting --- */
enum { TNI_BCAST_MAX = TN_CHAIN_MAX_INPUTS };
/* Output dims with the sizes-1 dropped and neighbours merged; st: element strides of each operand (0: broadcast). The
 * innermost stride is 0 or 1 always. */
typedef struct tni_bcast {
  uint32_t rank, n;
  int64_t dims[TN_MAX_RANK];
  int64_t st[TNI_BCAST_MAX][TN_MAX_RANK];
} tni_bcast;

/* false: an input does not broadcast to out. */
bool tni_bcast_init(tni_bcast *b, const tni_tensor *out, const tni_tensor *const *in, uint32_t n);

/* n elements: dst dense; src[i] advances by step[i] (0 or 1) elements. */
typedef void (*tni_bcast_fn)(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n);
void tni_bcast_run(tn_run *run, const tni_bcast *b, void *dst, uint32_t dst_size, const void *const *src,
                   const uint32_t *src_size, tni_bcast_fn fn, const void *ctx);

/* --- strided copies --- */
enum { TNI_COPY_RANK = 2 * TN_MAX_RANK };
/* dst[i . ds] = src[i . ss] for all i < dims; strides in elements, of either sign. */
typedef struct tni_scopy {
  uint32_t rank;
  int64_t dims[TNI_COPY_RANK], ss[TNI_COPY_RANK], ds[TNI_COPY_RANK];
} tni_scopy;
void tni_copy_strided(tn_run *run, uint32_t elem_size, const tni_scopy *c, void *dst, const void *src);
/* Row-major strides of t. */
void tni_kstrides(const tni_tensor *t, int64_t *st);
/* Strides of input i: those of a cache, or row-major. */
void tni_kin_strides(const tni_kargs *a, uint32_t i, int64_t *st);
/* dst = src, bytes of dst; large ones over the pool. */
void tni_kcopy(tn_run *run, void *dst, const void *src, uint64_t bytes);

/* --- bounds: what Relu and Clip do to f32 --- */
typedef struct tni_bounds {
  float lo, hi; /* infinite: none. NaN bounds nothing */
} tni_bounds;
static inline void tni_bound(const tni_bounds *b, float *y, int64_t n) {
  const float lo = b->lo, hi = b->hi;
  for (int64_t i = 0; i < n; i++) {
    const float v = y[i] < lo ? lo : y[i];
    y[i] = v > hi ? hi : v;
  }
}
/* Conv with what stands after it, NULL: nothing. The bits of the two one after the other; f32 only. */
tn_status tni_conv_bounded(const tni_kargs *a, const tni_bounds *bounds);

/* --- scratch of single operators (tni_ops_scratch) --- */
uint64_t tni_dft_scratch(const tn_node *node, const tni_tensor *out, uint32_t n_workers);
uint64_t tni_det_scratch(const tni_tensor *x, uint32_t n_workers);
uint64_t tni_unique_scratch(const tni_tensor *x);

/* --- kernels: one prototype per name in ops.def's kernel column --- */
#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  tn_status tni_k_##kernel(const tni_kargs *a);
#include "runtime/graph/ops.def"
#undef TNI_OP

#endif
