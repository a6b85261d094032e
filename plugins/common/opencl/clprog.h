/* SPDX-License-Identifier: Apache-2.0
 *
 * From a claimed subgraph to a list of kernel launches. A node is matched to one operation (clmatch.c); a program keeps
 * the operations and the values they name (cllower.c); a plan has the launches for concrete dims, with every value
 * placed in one arena (clplan.c); args set them into kernel objects over memory (clargs.c).
 *
 * Values that nobody outside reads live in the arena, in half where they come from weights and in their own type where
 * they do not (positions, cosines). With option `split` each operation is a task of its own and values are dense TEMP
 * slots of the graph's dtype, so that each can be judged from its own inputs.
 */
#ifndef TENON_COMMON_OPENCL_CLPROG_H
#define TENON_COMMON_OPENCL_CLPROG_H

#include "plugins/common/opencl/clew.h"
#include "plugins/common/opencl/clplugin.h"
#include "plugins/common/opencl/clrun.h"

typedef struct tni_cl_settings {
  const char *libraries, *type, *name;
  const char *format;
  int64_t min_k, min_n, zero_exact, flush_every, self_test, split, low_priority, fp16, images, wait;
} tni_cl_settings;

/* An item on its way. */
enum { TNI_CL_FLIGHTS = 64 };
typedef struct tni_cl_flight {
  struct tni_cl_device *device;
  tn_ticket *ticket;
  int64_t queued;
  uint64_t bytes;
  uint32_t busy, reserved; /* atomic */
} tni_cl_flight;

typedef struct tni_cl_device {
  tn_device pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  const tni_cl_vendor *vendor;
  tni_cl_settings set;
  tni_cl_api api;
  tni_cl_info info;
  tni_cl_context context;
  tni_cl_kernels kernels;
  const tni_cl_variant *tables[2];
  uint32_t table_n[2];
  const tn_format *format; /* of floats: one of tni_e0m_formats */
  bool keeps;              /* weights that are quantized already take the format that holds their codes */
  int64_t params[1];
  tni_cl_flight flights[TNI_CL_FLIGHTS];
} tni_cl_device;

enum {
  TNI_CLO_NO = 0,
  TNI_CLO_ALIAS,
  TNI_CLO_GATHER,
  TNI_CLO_NORM,
  TNI_CLO_PRODUCT,
  TNI_CLO_EW,
  TNI_CLO_SLICE,
  TNI_CLO_ROTARY,
  TNI_CLO_APPEND,
  TNI_CLO_ATTN,
  TNI_CLO_MATMUL,
  TNI_CLO_CONCAT,
  TNI_CLO_CONCAT_HEADS,
  TNI_CLO_SPLIT
};

/* What a node is. in, out: of the node; after lowering copies. */
typedef struct tni_cl_op {
  uint32_t what, op; /* TNI_CLO_*, TN_OP_* */
  tn_id node;
  const char *name;
  const tn_id *in, *out;
  uint32_t n_in, n_out;
  int64_t i[8]; /* NORM: layer; SLICE, CONCAT, SPLIT: axis; CONCAT_HEADS: heads, shared; ROTARY: interleaved, heads, dim; ATTN: causal, heads, kv
                 * heads, left, right; MATMUL: trans_b; PRODUCT: bias (1: in[2]) */
  float f[2];   /* NORM: eps; ATTN: scale, cap */
  uint8_t perm[TN_MAX_RANK]; /* EW of a Transpose */
  bool permuted, kn;
  int64_t N, K;        /* PRODUCT: of all weights joined */
  tni_cm_fused f_spec; /* PRODUCT: parts and chain; EW: chain only (n_parts 0) */
  uint32_t n_weights;  /* PRODUCT */
  const tn_format *format;
  int64_t weight_n0[TN_FUSED_MAX_PARTS];
  uint32_t strip[TNI_CM_MAX_REGISTERS], n_strips;
  uint32_t need, blob_use, blob_slot; /* PRODUCT, after lowering */
  tni_e0m_geometry geo;
} tni_cl_op;

/* Whether operand i is packed; the device has other constants as they are stored. */
static inline bool tni_cl_is_weight(const tni_cl_op *o, uint32_t i) {
  return o->what == TNI_CLO_PRODUCT && i >= 1 && i <= o->n_weights;
}

/* False (reason TN_WHY_*, static text) where the node is not computed here. Pure but for kernels that are built. */
bool tni_cl_match(tni_cl_device *d, const tn_graph *g, tn_id node, tni_cl_op *out, uint32_t *reason, const char **text);
tn_status tni_cl_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);

/* A value as the program knows it. */
typedef struct tni_cl_value {
  const tn_expr *dims;
  uint32_t rank, kind, dtype;
  uint32_t store;       /* dtype in memory */
  tn_id root;           /* value whose memory it shares, itself if none */
  tn_id slot;           /* TN_NONE: arena */
  uint32_t first, last; /* operations that touch it (of the root) */
  int64_t heads;
  bool used, dense; /* dense: somebody reads it as it lies, without strides */
} tni_cl_value;

typedef struct tni_cl_task {
  tn_task pub;              /* first */
  uint32_t first_op, n_ops; /* operations [first, first + n) */
  uint32_t arena_use;       /* TN_NONE: none */
} tni_cl_task;

struct tn_program {
  tni_cm_mem mem;
  tni_cl_device *device;
  tn_graph graph; /* head only */
  tn_program_info info;
  tn_need **needs;
  tn_slot **slots;
  tni_cl_task **tasks;
  tni_cl_op *ops;
  tni_cl_value *values; /* by value id */
  bool *has_image;      /* by slot: its blob can be read through an image */
  uint32_t n_ops, n_values;
};

enum { TNI_CLP_NONE = 0, TNI_CLP_ARENA = 1, TNI_CLP_USE = 2, TNI_CLP_META = 3 };

/* One operand of a launch. at: bytes from the place's begin. */
typedef struct tni_cl_place {
  uint32_t kind, index; /* TNI_CLP_*; USE: of the task */
  uint64_t at;
} tni_cl_place;

/* A launch; strides of states are patched in when their views are known. */
typedef struct tni_cl_launch {
  tni_cl_shape shape;
  tni_cl_place operands[TNI_CL_MAX_OPERANDS];
  tni_cl_program *program;
  size_t global[3], local[3];
  uint32_t state_use[2]; /* ATTN: k, v; APPEND: cache; TN_NONE */
  uint32_t label;
} tni_cl_launch;

struct tn_plan {
  tn_program *program;
  const tni_cl_task *task;
  tni_cm_mem mem;
  tni_cl_launch *launches;
  uint32_t n_launches, cap_launches;
  int32_t *meta; /* of all EW launches */
  uint32_t n_meta, cap_meta;
  uint64_t arena_bytes;
  double macs, moved;
};

struct tn_args {
  const tn_plan *plan;
  tni_cm_mem mem;
  tn_view *views; /* [n_uses + 1], dims and strides not kept but for states */
  int64_t (*strides)[4];
  cl_kernel *kernels;      /* by launch */
  tni_cl_launch *launches; /* copies, strides patched */
  cl_mem meta;
};

tn_status tni_cl_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *tni_cl_info_of(const tn_program *p);
tn_status tni_cl_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status tni_cl_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
void tni_cl_release(tn_program *p);
tn_status tni_cl_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void tni_cl_unbind(tn_plan *plan);
tn_status tni_cl_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status tni_cl_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void tni_cl_args_free(tn_args *a);
tn_status tni_cl_submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err);

/* Waits until every submitted item has completed. */
void tni_cl_wait_flights(tni_cl_device *d);

/* Launches of all operations of a task for concrete dims; compile false: sizes only. */
tn_status tni_cl_expand(tn_plan *plan, const tn_dims *dims, bool compile, tn_error *err);

#endif
