/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the Attention kernel share: its operands, a tile of queries, and the arithmetic of one block of
 * keys (attention_block.c). The order of the sums stands in k_attention.c.
 */
#ifndef TENON_OPS_NN_ATTENTION_BLOCK_H
#define TENON_OPS_NN_ATTENTION_BLOCK_H

#include "runtime/ops/nn/attention.h"
#include "runtime/ops/hot/hot.h"

enum {
  ROWS = 96,  /* queries of one tile, over all heads of the group; a multiple of TNI_MR */
  FEW = 8,    /* rows that dots8 takes */
  KEYS = 64,  /* keys of one block */
  PART = 256, /* keys that are summed up apart from the others; a multiple of KEYS */
  PIECE = 4,  /* parts in a row for one worker, so that what follows a block is mostly its own next block */
  SLOTS = 8   /* parts that each worker has memory for, besides its own */
};

/* Element strides of a 3D or 4D operand. */
typedef struct operand {
  const void *data;
  int64_t batch, head, row;
  uint32_t dtype; /* keys and values may be kept as other floats than those of Q, or quantized (kvrow.h) */
  int64_t ring;   /* rows, where they wrap around: key k lies in row k % ring; 0: they do not */
} operand;

typedef struct attention {
  operand q, k, v, y, past_k, past_v;
  const tni_tensor *mask, *nonpad, *sinks, *slopes;
  int64_t mask_batch, mask_head, mask_row, mask_keys;
  int64_t batch, heads, kv_heads, group, length, keys, past, size, v_size, v_cols;
  int64_t tiles, left, right; /* windows: -1 is none */
  bool causal;
  bool b16; /* K and V are bfloat16, and are multiplied as such: words of two elements instead of floats */
  const tni_kept *kept; /* K and V are int8, also made of few bits, or halves, and are multiplied as such; else NULL */
  float scale, cap;
  uint32_t dtype;
  const tni_hot *hot;
  float *scratch;
  uint64_t worker_floats;
  tn_run *run;
} attention;

/* What some of the keys gave: largest scores, sums of probabilities and of values, by row of the tile. */
typedef struct sums {
  float *m, *l, *o;
} sums;

/* One worker's memory. */
typedef struct space {
  float *q, *k, *v, *s, *rows;
  sums total, slots[SLOTS];
} space;

typedef struct tile {
  int64_t b, kv, row0, rows;                         /* rows [row0, row0 + rows) of group * length: position-major */
  int64_t at[ROWS], lo[ROWS], hi[ROWS], first, last; /* positions; keys that are seen */
  float decay[ROWS];
  sums to; /* where the blocks are added up */
} tile;

/* Too few rows to pay for packing what they meet once. */
static inline bool few_rows(const tile *t) { return t->rows <= FEW; }
/* The elements of a query with even d, which stand before the others; its words, where these are multiplied. */
static inline int64_t even_elements(const attention *a) { return (a->size + 1) / 2; }
static inline int64_t kept_bytes(const attention *a) {
  if (a->kept) return a->kept->kind == TNI_KEPT_I8 ? 1 : 2;
  return a->b16 ? sizeof(uint16_t) : sizeof(float);
}
/* Elements from one row to the next, as rows are multiplied, without gaps. */
static inline int64_t kept_pitch(const attention *a, int64_t size) {
  return a->kept && a->kept->kind == TNI_KEPT_I8 ? tni_kv_pitch(TN_DT_I8, size) : size;
}
static inline float of_head(const attention *a, const tni_tensor *t, int64_t h) {
  float f;
  tni_load_f32(a->dtype, t->data, h, 1, &f);
  return f;
}

/* Which keys each row of the tile sees, apart from the mask: at, lo, hi, first, last. */
void tni_attention_limits(const attention *a, tile *t);
/* k_attention_scores.c: Y in double; the fourth output of the operator. */
tn_status tni_attention_double(const tni_kargs *k, const attention *a);
tn_status tni_attention_scores(const tni_kargs *k, const attention *a, tni_tensor *out);
/* Adds keys [key, key + n), n <= KEYS, to t->to. */
void tni_attention_block(const attention *a, tile *t, const space *w, int64_t key, int64_t n);

#endif
