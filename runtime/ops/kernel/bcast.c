/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/kernel/elements.h"

/* Element stride of operand t in out's dim d (dims align at the end); 0 where it is broadcast, -1: does not fit. */
static int64_t operand_stride(const tni_tensor *t, const tni_tensor *out, uint32_t d) {
  const uint32_t pad = out->rank - t->rank;
  if (d < pad) return 0;
  const int64_t n = t->dims[d - pad];
  if (n == 1 && out->dims[d] != 1) return 0;
  if (n != out->dims[d]) return -1;
  return tni_dim_product(t, d - pad + 1, t->rank);
}

static bool axes_mergeable(const tni_bcast *b, const int64_t *st, int64_t inner) {
  for (uint32_t k = 0; k < b->n; k++)
    if (st[k] != b->st[k][b->rank - 1] * inner) return false;
  return true;
}

/* Built from the innermost dim outward, then turned round. */
bool tni_bcast_init(tni_bcast *b, const tni_tensor *out, const tni_tensor *const *in, uint32_t n) {
  memset(b, 0, sizeof *b);
  b->n = n;
  for (uint32_t i = 0; i < n; i++)
    if (in[i]->rank > out->rank) return false;
  for (uint32_t d = out->rank; d-- > 0;) {
    int64_t st[TNI_BCAST_MAX] = {0};
    for (uint32_t k = 0; k < n; k++)
      if ((st[k] = operand_stride(in[k], out, d)) < 0) return false;
    if (out->dims[d] == 1) continue;
    if (b->rank && axes_mergeable(b, st, b->dims[b->rank - 1])) {
      b->dims[b->rank - 1] *= out->dims[d];
      continue;
    }
    for (uint32_t k = 0; k < n; k++) b->st[k][b->rank] = st[k];
    b->dims[b->rank++] = out->dims[d];
  }
  if (!b->rank) b->dims[b->rank++] = 1;
  for (uint32_t i = 0, j = b->rank - 1; i < j; i++, j--) {
    int64_t t = b->dims[i];
    b->dims[i] = b->dims[j];
    b->dims[j] = t;
    for (uint32_t k = 0; k < n; k++) {
      t = b->st[k][i];
      b->st[k][i] = b->st[k][j];
      b->st[k][j] = t;
    }
  }
  return true;
}

typedef struct bcast_walk {
  const tni_bcast *b;
  char *dst;
  const char *src[TNI_BCAST_MAX];
  uint32_t dst_size, src_size[TNI_BCAST_MAX];
  int64_t inner, chunk, per_row;
  tni_bcast_fn fn;
  const void *ctx;
} bcast_walk;

/* Units are pieces of at most `chunk` elements of one row. */
static void walk_units(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const bcast_walk *w = arg;
  const tni_bcast *b = w->b;
  int64_t idx[TN_MAX_RANK] = {0}, off[TNI_BCAST_MAX] = {0}, step[TNI_BCAST_MAX] = {0};
  int64_t row = begin / w->per_row, piece = begin % w->per_row;
  (void)worker;
  int64_t rest = row;
  for (uint32_t d = b->rank - 1; d-- > 0;) {
    idx[d] = rest % b->dims[d];
    rest /= b->dims[d];
    for (uint32_t k = 0; k < b->n; k++) off[k] += idx[d] * b->st[k][d];
  }
  for (uint32_t k = 0; k < b->n; k++) step[k] = b->st[k][b->rank - 1];
  for (int64_t u = begin; u < end; u++) {
    const int64_t at = piece * w->chunk, n = w->inner - at < w->chunk ? w->inner - at : w->chunk;
    const void *src[TNI_BCAST_MAX] = {NULL};
    for (uint32_t k = 0; k < b->n; k++) src[k] = w->src[k] + (off[k] + at * step[k]) * w->src_size[k];
    w->fn(w->ctx, w->dst + (row * w->inner + at) * w->dst_size, src, step, n);
    if (++piece < w->per_row) continue;
    piece = 0;
    row++;
    for (uint32_t d = b->rank - 1; d-- > 0;) {
      for (uint32_t k = 0; k < b->n; k++) off[k] += b->st[k][d];
      if (++idx[d] < b->dims[d]) break;
      for (uint32_t k = 0; k < b->n; k++) off[k] -= b->st[k][d] * b->dims[d];
      idx[d] = 0;
    }
  }
}

void tni_bcast_run(tn_run *run, const tni_bcast *b, void *dst, uint32_t dst_size, const void *const *src,
                   const uint32_t *src_size, tni_bcast_fn fn, const void *ctx) {
  enum { PIECE = 8192 };
  bcast_walk w = {.b = b, .dst = dst, .dst_size = dst_size, .fn = fn, .ctx = ctx};
  int64_t rows = 1;
  for (uint32_t d = 0; d + 1 < b->rank; d++) rows *= b->dims[d];
  w.inner = b->dims[b->rank - 1];
  if (rows == 0 || w.inner == 0) return;
  w.chunk = w.inner < PIECE ? w.inner : PIECE;
  w.per_row = (w.inner + w.chunk - 1) / w.chunk;
  for (uint32_t k = 0; k < b->n; k++) {
    w.src[k] = src[k];
    w.src_size[k] = src_size[k];
  }
  tni_kfor(run, rows * w.per_row, w.chunk, walk_units, &w);
}
