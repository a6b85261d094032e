/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants that a model brings quantized (MatMulNBits, GatherBlockQuantized): floats to everybody who asks for
 * elements, codes and scales to who can use them.
 *
 * w[n, k] = (code - zero) * scale, computed in f32: a difference that is exact, one product. Codes are unsigned, of 2
 * to 8 bits; scale and zero belong to row n and the block of k. Rows of codes and of zeros begin at a byte. Codes lie
 * one after the other from the low bits up; those of 3, 5, 6 and 7 bits run on in the next byte.
 *
 * levels: w[n, k] = value[code of k / vec][k % vec] * scale, zero_kind NONE, block a multiple of vec; a row has
 * ceil(K / vec) codes. With n_steps, `scales` is [N], one parent a row, and scale = parent * steps[index] in f32;
 * indices lie as codes do, of index_bits each. Codes are below n and indices below n_steps: whoever makes one checks.
 *
 * bits TNI_STORED_HALVES: the constant is stored as float16 or bfloat16 (scale_dtype) and stands in the graph as
 * float32, which widening makes exact. `codes` are its elements, row by row; there are no scales, no zeros and no grid.
 *
 * A tensor with `quantized` set has the dtype and dims of its floats and bytes as they would take; data is NULL until
 * somebody who must have floats in memory asks for them (tni_quantized_dense). The struct hangs on the graph's arena,
 * what it points to lies in the mapped model. Read only, any thread.
 */
#ifndef TENON_GRAPH_QUANTIZED_H
#define TENON_GRAPH_QUANTIZED_H

#include "runtime/graph/ir.h"

enum { TNI_STORED_HALVES = 16 };
enum { TNI_ZERO_MIDDLE = 0, TNI_ZERO_CODES = 1, TNI_ZERO_VALUES = 2, TNI_ZERO_NONE = 3 };

typedef struct tni_quantized_levels {
  uint32_t n, vec;    /* codes; weights along K that one gives */
  const float *value; /* [n][vec] */
  uint32_t n_steps, index_bits;
  const float *steps;   /* [n_steps]; NULL: scales are as ever */
  const uint8_t *index; /* [N][index_row_bytes] */
  int64_t index_row_bytes;
} tni_quantized_levels;

/* Pieces, and where their bytes lie in the model's files. file NULL: not stored so, or not known. */
enum { TNI_QUANTIZED_CODES, TNI_QUANTIZED_SCALES, TNI_QUANTIZED_ZEROS, TNI_QUANTIZED_INDEX, TNI_QUANTIZED_PIECES };

typedef struct tni_quantized {
  uint32_t bits, zero_kind; /* zeros: 2^(bits-1) everywhere, codes, values of scale_dtype, or 0 everywhere */
  int64_t N, K, block;      /* the tensor is [N, K], or [K, N] where transposed */
  bool transposed;
  uint32_t scale_dtype; /* f32, f16, bf16 */
  int64_t row_bytes, zero_row_bytes, blocks;
  const uint8_t *codes;               /* [N][row_bytes] */
  const uint8_t *scales;              /* [N][blocks] */
  const uint8_t *zeros;               /* [N][zero_row_bytes], or [N][blocks] values; NULL: neither */
  uint32_t fits, zeros_are;           /* what tni_quantized_look found: dtype that every scale fits, TN_ZERO_* */
  const tni_quantized_levels *levels; /* NULL: w = (code - zero) * scale */
  uint8_t flip; /* xor'ed into each code: 2^(bits-1) for two's complement, whose zeros are flipped too */
  tni_origin from[TNI_QUANTIZED_PIECES];
} tni_quantized;

/* Code i of a row. */
static inline uint32_t tni_quantized_code(const uint8_t *row, int64_t i, uint32_t bits) {
  const uint64_t at = (uint64_t)i * bits, shift = at % 8;
  uint32_t v = row[at / 8] >> shift;
  if (shift + bits > 8) v |= (uint32_t)row[at / 8 + 1] << (8 - shift);
  return v & ((1u << bits) - 1);
}
/* Code i, where zeros were. */
static inline void tni_quantized_put(uint8_t *row, int64_t i, uint32_t bits, uint32_t code) {
  const uint64_t at = (uint64_t)i * bits, shift = at % 8;
  row[at / 8] |= (uint8_t)(code << shift);
  if (shift + bits > 8) row[at / 8 + 1] |= (uint8_t)(code >> (8 - shift));
}

/* Fills fits and zeros_are: reads all scales and zeros once. Whoever makes one calls it last. */
void tni_quantized_look(tni_quantized *q);
/* Elements [k0, k1) of row n. */
void tni_quantized_row(const tni_quantized *q, int64_t n, int64_t k0, int64_t k1, float *dst);
/* Codes of a row. */
static inline int64_t tni_quantized_row_codes(const tni_quantized *q) {
  return q->levels ? (q->K + q->levels->vec - 1) / q->levels->vec : q->K;
}
/* The same as codes, one a byte; scales and zeros of all blocks of row n as f32. Any may be NULL. */
void tni_quantized_grid(const tni_quantized *q, int64_t n, uint8_t *codes, float *scales, float *zeros);
/* Of codes, scales and zeros as they are stored. */
uint64_t tni_quantized_bytes(const tni_quantized *q);
/* The matrix dims[2] of halves at data, in the tensor's order or (turned) as its transpose. */
tni_quantized tni_stored_halves(uint32_t dtype, const void *data, int64_t rows, int64_t columns, bool turned);
static inline bool tni_is_stored_halves(const tni_quantized *q) { return q && q->bits == TNI_STORED_HALVES; }
/* The pieces; bytes is 0 where there is none. Not of stored halves. */
typedef struct tni_quantized_piece {
  const void *data;
  uint64_t bytes;
} tni_quantized_piece;
void tni_quantized_pieces(const tni_quantized *q, tni_quantized_piece pieces[TNI_QUANTIZED_PIECES]);
/* As plugins see it. Not of stored halves. */
void tni_quantized_view(const tni_quantized *q, tn_quant *out);
/* Elements [first, first + n) in the tensor's order. */
void tni_quantized_read(const tni_quantized *q, int64_t first, int64_t n, float *dst);
/* Floats of t's dtype in memory of the arena; nothing where they are already. TN_E_NO_MEMORY, TN_E_LIMIT. */
TN_MUST_CHECK tn_status tni_quantized_dense(tni_tensor *t, tni_arena *arena);

#endif
