/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/feed.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/graph/ir.h"
#include "tests/fuzz/bytes.h"

struct fz_feed {
  tni_arena *arena;
  const tn_tensor **in;
  uint64_t seed;
};

static void put_float(void *p, uint32_t dtype, float v) {
  const double d = (double)v;
  if (dtype == TN_DT_F64 || dtype == TN_DT_C128)
    memcpy(p, &d, sizeof d);
  else
    memcpy(p, &v, sizeof v);
}

static float number(uint64_t r) {
  static const float odd[] = {0.0f / 1, -0.0f, 1e30f, -1e30f, 1e-40f, 0.5f, 3e9f, -3e9f};
  if (r % 64 == 0) return r & 64 ? __builtin_inff() : __builtin_nanf("");
  if (r % 16 == 1) return odd[r >> 8 & 7];
  return (float)((int)(r >> 16 & 31) - 12) / (r & 256 ? 4 : 1);
}

void fz_fill(void *p, uint32_t dtype, uint64_t bytes, uint64_t *seed) {
  const uint32_t bits = tni_dtype_bits(dtype);
  const bool cplx = dtype == TN_DT_C64 || dtype == TN_DT_C128, real = dtype == TN_DT_F32 || dtype == TN_DT_F64;
  const uint32_t size = bits < 8 ? 1 : bits / 8 / (cplx ? 2 : 1);
  for (uint64_t i = 0; size && i + size <= bytes; i += size) {
    const uint64_t r = fz_next(seed);
    uint8_t *at = (uint8_t *)p + i;
    if (cplx || real) {
      put_float(at, dtype, number(r));
    } else if (dtype == TN_DT_BOOL) {
      *at = r & 1;
    } else if (size == 1 || dtype == TN_DT_F16 || dtype == TN_DT_BF16) {
      memcpy(at, &r, size);
    } else { /* whole numbers */
      const int64_t v =
          r % 32 == 0 ? (int64_t)(r >> 5) * (r & 64 ? 1 : -1) : (int64_t)(r >> 16 & 7) - (r & 1024 ? 2 : 0);
      memcpy(at, &v, size);
    }
  }
}

static int64_t size_of(const fz_feed *f, const char *name) {
  static const int64_t sizes[] = {1, 2, 3, 4, 2, 1, 5, 0};
  uint64_t h = f->seed;
  for (const char *c = name ? name : ""; *c; c++) h = (h ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
  return sizes[h >> 20 & 7];
}

static bool tensor(fz_feed *f, const tn_io_info *io, uint32_t dtype, int32_t rank, tn_tensor *t) {
  int64_t count;
  *t = (tn_tensor){.h = {sizeof *t, 1, 0}, .name = io->name, .dtype = dtype, .rank = (uint32_t)rank};
  for (uint32_t i = 0; i < t->rank; i++)
    t->dims[i] = io->rank < 0       ? (int64_t)(fz_next(&f->seed) & 3)
                 : io->dims[i] >= 0 ? io->dims[i]
                                    : size_of(f, io->dim_names[i]);
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK || count > FZ_MAX_ELEMENTS ||
      tni_dtype_bytes(dtype, count, &t->bytes) != TN_OK)
    return false;
  void *p = tni_arena_alloc(f->arena, t->bytes + 1, 64);
  t->data = t->bytes ? p : NULL;
  if (p) fz_fill(p, dtype, t->bytes, &f->seed);
  return p != NULL;
}

/* A sequence of up to two tensors, an optional of up to one. */
static bool list(fz_feed *f, const tn_io_info *io, tn_tensor *t) {
  const uint64_t r = fz_next(&f->seed);
  const uint32_t n = (uint32_t)(r % (io->dtype == TN_DT_SEQUENCE ? 3 : 2));
  const tn_tensor **p = TNI_NEW_ARRAY(f->arena, const tn_tensor *, n + 1);
  for (uint32_t i = 0; p && i < n; i++) {
    tn_tensor *e = TNI_NEW(f->arena, tn_tensor);
    if (!e || !tensor(f, io, r & 16 ? TN_DT_F32 : TN_DT_I64, (int32_t)(r >> 8 & 3), e)) return false;
    p[i] = e;
  }
  *t = (tn_tensor){.h = {sizeof *t, 1, 0},
                   .name = io->name,
                   .dtype = io->dtype,
                   .rank = 1,
                   .dims = {n},
                   .data = p,
                   .bytes = n * sizeof *p};
  return p != NULL;
}

static bool fill(fz_feed *f, const tn_model *m) {
  const uint32_t n = tn_model_n_inputs(m);
  f->in = TNI_NEW_ARRAY(f->arena, const tn_tensor *, n + 1);
  for (uint32_t i = 0; f->in && i < n; i++) {
    const tn_io_info *io = tn_model_input(m, i);
    tn_tensor *t = TNI_NEW(f->arena, tn_tensor);
    const bool is_list = io->dtype == TN_DT_SEQUENCE || io->dtype == TN_DT_OPTIONAL;
    const int32_t rank = io->rank >= 0 ? io->rank : (int32_t)(fz_next(&f->seed) & 3);
    if (!t || (is_list ? !list(f, io, t) : !tensor(f, io, io->dtype, rank, t))) return false;
    f->in[i] = t;
  }
  return f->in != NULL;
}

fz_feed *fz_feed_create(const tn_model *m, uint64_t seed) {
  fz_feed *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->seed = seed;
  f->arena = tni_arena_create();
  if (f->arena && fill(f, m)) return f;
  fz_feed_destroy(f);
  return NULL;
}

const tn_tensor *const *fz_feed_in(const fz_feed *f) { return f->in; }

void fz_feed_destroy(fz_feed *f) {
  if (f) tni_arena_destroy(f->arena);
  free(f);
}
