/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs, plans and arguments. Each linear is a block of three or four tasks: quantize (CPU) -> products (NPU) beside
 * shadow (CPU) -> merge (CPU). TEMP slots join them:
 *   xq    int8 [chunk][K rounded up to 32], for the device
 *   marks which elements are outliers: uint32 count[chunk], then a bitmap [chunk][K rounded up to 64] (with shadow)
 *   acc   int32 [chunk][N rounded up to 32] of each weight, from the device, each at a multiple of 128
 *   sum   int64 [chunk][N of all weights]: the shadow; rows without outliers are not written (with shadow)
 */
#ifndef TENON_NPU_INT8_PROGRAM_H
#define TENON_NPU_INT8_PROGRAM_H

#include <pthread.h>

#include "plugins/npu-int8-sim/attend.h"
#include "plugins/npu-int8-sim/linear.h"

enum { TNI_NPU_QUANTIZE = 0, TNI_NPU_PRODUCT = 1, TNI_NPU_SHADOW = 2, TNI_NPU_MERGE = 3, TNI_NPU_ATTEND = 4 };

/* A weight's rows for the shadow: hot ones are always here, others are kept while they are in use (least recently used
 * goes first). One lock, held for a row's copy. */
typedef struct tni_npu_rows {
  const tn_blob *blob;
  const uint8_t *ptr; /* all of it, where the host has it in memory */
  uint64_t pitch;
  uint32_t n_kept, n_hot; /* rows of `kept`; the first n_hot never leave */
  int64_t *channel;       /* [n_kept]; -1: free */
  uint64_t *used;         /* [n_kept] */
  uint64_t clock, reads;  /* reads from disk so far */
  int8_t *kept;           /* [n_kept][pitch] */
  uint32_t *at;           /* [K]: index in kept, or TN_NONE */
} tni_npu_rows;

/* What a chain reads beside products: a use of the merge task. */
typedef struct tni_npu_operand {
  uint32_t kind, use; /* TNI_CM_ONE .. */
} tni_npu_operand;

typedef struct tni_npu_strip {
  int64_t N;
  tni_npu_operand load[TN_CHAIN_MAX_INPUTS]; /* of prog.loads */
  uint32_t store[TNI_CM_MAX_RESULTS];        /* of prog.stores: uses; TN_NONE: not wanted */
  tn_id slot[TNI_CM_MAX_RESULTS];            /* their slots */
  tni_cm_strip prog;
} tni_npu_strip;

/* gate: products whose only use is to be x of these, computed in the same graph (NPU3: a block's feed-forward part). It
 * is a block too, with a quantize task and weights, but has no sums of its own: x and xq of this block are its. */
typedef struct tni_npu_block {
  tni_npu_linear l;
  struct tni_npu_block *gate;
  tni_cm_strip between; /* with a gate: its chain */
  const char *name;
  const tn_expr *x_dims; /* all but the last */
  uint32_t x_rank;
  int64_t N;                                                                     /* of all weights */
  tn_id x, xq, marks, acc, sum, w[TN_FUSED_MAX_PARTS], rows[TN_FUSED_MAX_PARTS]; /* slots */
  int64_t n0[TN_FUSED_MAX_PARTS];                                                /* a weight's first column of N */
  float w_scale[TN_FUSED_MAX_PARTS];
  npusim_graph *graph;                   /* of all its products; NULL: not prepared yet */
  uint32_t w_handle[TN_FUSED_MAX_PARTS]; /* 0: not set */
  uint64_t w_at[TN_FUSED_MAX_PARTS];
  const tn_blob *ahead[TN_FUSED_MAX_PARTS]; /* of programs that are compiled ahead of time (offline.c) */
  tni_npu_rows cold[TN_FUSED_MAX_PARTS];
  int64_t *order;       /* [K] channels, most outliers first; NULL where calibration did not count */
  int64_t n_hot;        /* channels of it that cover the part asked for */
  double outliers;      /* expected per row */
  pthread_mutex_t lock; /* of cold */
  bool locked;          /* the lock was made */
  uint32_t n_strips, n_tiles;
  tni_npu_strip *strips[TN_FUSED_MAX_PARTS];
} tni_npu_block;

struct tni_npu_task {
  tn_task pub; /* first */
  uint32_t kind, reserved;
  tni_npu_block *b;       /* NULL: ATTEND */
  tni_npu_attention *att; /* of ATTEND */
};

struct tn_program {
  tni_cm_mem mem;
  tni_npu_device *device;
  tn_graph graph; /* head of the graph it was lowered from */
  tn_program_info info;
  tn_need **needs;
  tn_slot **slots;
  tni_npu_task **tasks;
  tni_npu_block **blocks;
  tni_npu_attention **attentions;
  uint32_t n_blocks, n_attentions;
  struct tni_npu_attends *attends; /* graphs of plans that are bound */
  const void **raw;                /* [n_slots]: constants as they are */
};

/* Sizes of a block's TEMP slots and scratch for M rows; TN_E_LIMIT on overflow. */
typedef struct tni_npu_room {
  uint64_t xq, marks, acc, sum, acc_at[TN_FUSED_MAX_PARTS];
  uint64_t words;                                  /* uint64s of a row of the bitmap */
  uint64_t bitmap_at;                              /* in marks */
  uint64_t shadow_bytes, merge_bytes, tile_floats; /* scratch, per worker where merging */
} tni_npu_room;

struct tn_plan {
  tn_program *program;
  const tni_npu_task *task;
  npusim_graph *attention; /* ATTEND: shared with other layers; M is the batch then */
  int64_t keys;
  int64_t M;
  tni_npu_room room;
};

struct tn_args {
  const tn_plan *plan;
  uint32_t n, in_use; /* in_use: items of a submit that has not come back to them yet; atomic */
  struct tni_npu_place {
    uint8_t *ptr; /* CPU tasks */
    uint32_t handle, reserved;
    uint64_t at;              /* tasks of the device */
    int64_t row, head, batch; /* ATTEND: where these begin, in elements */
  } place[];
};

enum { TNI_NPU_BATCH = 32, TNI_NPU_TILE_ROWS = 8, TNI_NPU_TILE_COLUMNS = 64, TNI_NPU_MIDDLE_TILES = 16 };

/* Memory of a use of the task's `slot`; NULL: it has none. */
const struct tni_npu_place *tni_npu_place_of(const tn_args *a, tn_id slot);
/* The scratch. */
uint8_t *tni_npu_scratch(const tn_args *a);

/* Rows of weights for the shadow (rows.c). */
TN_MUST_CHECK tn_status tni_npu_rows_set(tn_program *p, tni_npu_block *b, uint32_t w, const tn_blob *blob,
                                         tn_error *err);
/* Copies row k of weight w to dst[pitch]. Any thread. */
TN_MUST_CHECK tn_status tni_npu_rows_get(tni_npu_block *b, uint32_t w, int64_t k, int8_t *dst);
uint64_t tni_npu_rows_bytes(const tni_npu_block *b, uint32_t w);
/* Channels by outliers, from calibration. */
TN_MUST_CHECK tn_status tni_npu_rows_order(tn_program *p, tni_npu_block *b, const tn_stats *s, double hot);

/* What quantize reads: the gate's, or its own. */
static inline const tni_npu_linear *tni_npu_input(const tni_npu_block *b) { return b->gate ? &b->gate->l : &b->l; }
/* Products of its graph, the gate's first; returns how many. */
uint32_t tni_npu_shapes(const tni_npu_block *b, int64_t rows, npusim_shape shape[NPUSIM_MAX_GEMMS]);
/* Sums of unshadowed rows as floats: to[rows][TNI_NPU_TILE_COLUMNS], zeros after the columns. */
void tni_npu_dequantize(const int32_t *from, int64_t pitch, int64_t rows, int64_t columns, double scale, float *to);
/* The graph of a PRODUCT task (prepare.c), unless it is there. */
TN_MUST_CHECK tn_status tni_npu_prepare(const tn_program *p, const tni_npu_task *t, tn_error *err);

/* q of one element, f32 division; lo and hi are whole numbers of at most 2^22. */
static inline int32_t tni_npu_round(float x, float s, float lo, float hi) {
  float v = x / s;
  v = v > hi ? hi : v;
  v = v < lo ? lo : v;
  v = v == v ? v : 0.0f;
  return (int32_t)((v + 12582912.0f) - 12582912.0f); /* half to even: 1.5 * 2^23 */
}

#endif
