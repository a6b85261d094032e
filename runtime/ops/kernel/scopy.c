/* SPDX-License-Identifier: Apache-2.0
 *
 * One strided copy for all that moves elements: dims are merged first, then runs are copied as bytes, exchanged pairs
 * of dims in tiles, everything else element by element.
 */
#include "runtime/ops/kernel/elements.h"

void tni_kstrides(const tni_tensor *t, int64_t *st) {
  int64_t s = 1;
  for (uint32_t d = t->rank; d-- > 0;) {
    st[d] = s;
    s *= t->dims[d];
  }
}

void tni_kin_strides(const tni_kargs *a, uint32_t i, int64_t *st) {
  st[TNI_ST_RING] = st[TNI_ST_HEADS] = 0;
  tni_kstrides(a->in[i], st);
  if (a->in_strides && a->in_strides[i]) memcpy(st, a->in_strides[i], TN_MAX_RANK * sizeof *st);
}

typedef struct bytes_job {
  char *dst;
  const char *src;
  uint64_t bytes;
} bytes_job;
enum { COPY_BLOCK = 65536 };

static void copy_blocks(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const bytes_job *j = arg;
  const uint64_t from = (uint64_t)begin * COPY_BLOCK, to = (uint64_t)end * COPY_BLOCK;
  (void)worker;
  memcpy(j->dst + from, j->src + from, (to < j->bytes ? to : j->bytes) - from);
}

void tni_kcopy(tn_run *run, void *dst, const void *src, uint64_t bytes) {
  bytes_job j = {dst, src, bytes};
  if (!bytes) return;
  tni_kfor(run, (int64_t)((bytes + COPY_BLOCK - 1) / COPY_BLOCK), COPY_BLOCK / 4, copy_blocks, &j);
}

/* Drops dims of 1 and merges neighbours that are contiguous on both sides. false: nothing to copy. */
static bool normalize_copy(const tni_scopy *c, tni_scopy *o) {
  o->rank = 0;
  for (uint32_t d = 0; d < c->rank; d++) {
    if (c->dims[d] == 0) return false;
    if (c->dims[d] == 1) continue;
    const uint32_t p = o->rank - 1;
    if (o->rank && o->ss[p] == c->ss[d] * c->dims[d] && o->ds[p] == c->ds[d] * c->dims[d]) {
      o->dims[p] *= c->dims[d];
      o->ss[p] = c->ss[d];
      o->ds[p] = c->ds[d];
      continue;
    }
    o->dims[o->rank] = c->dims[d];
    o->ss[o->rank] = c->ss[d];
    o->ds[o->rank++] = c->ds[d];
  }
  return true;
}

static void move_back(tni_scopy *c, uint32_t from, uint32_t to) {
  const int64_t n = c->dims[from], s = c->ss[from], d = c->ds[from];
  for (uint32_t i = from; i < to; i++) {
    c->dims[i] = c->dims[i + 1];
    c->ss[i] = c->ss[i + 1];
    c->ds[i] = c->ds[i + 1];
  }
  c->dims[to] = n;
  c->ss[to] = s;
  c->ds[to] = d;
}

enum { RUN, TILE, ELEMENTS };
typedef struct copy_job {
  const tn_run *run;
  tni_scopy c;
  uint32_t size, outer; /* dims before `outer` are walked */
  int kind;
  char *dst;
  const char *src;
} copy_job;

#define FOR_SIZE(size, DO) \
  switch (size) {          \
    case 1:                \
      DO(u8u) break;       \
    case 2:                \
      DO(u16u) break;      \
    case 4:                \
      DO(u32u) break;      \
    case 8:                \
      DO(u64u) break;      \
    default:               \
      DO(u128) break;      \
  }
typedef struct u128 {
  u64u w[2];
} u128;

static void copy_elements(const copy_job *j, char *dst, const char *src, tni_poll *poll) {
  const uint32_t l = j->c.rank - 1;
  const int64_t n = j->c.dims[l], ss = j->c.ss[l], ds = j->c.ds[l];
#define DO(T)                                                         \
  {                                                                   \
    T *d = (T *)(void *)dst;                                          \
    const T *s = (const T *)(const void *)src;                        \
    for (int64_t i = 0, to; (to = tni_poll_until(poll, i, n)) > i;) { \
      if (ss == 0 && ds == 1)                                         \
        for (; i < to; i++) d[i] = *s;                                \
      else                                                            \
        for (; i < to; i++) d[i * ds] = s[i * ss];                    \
    }                                                                 \
  }
  FOR_SIZE(j->size, DO)
#undef DO
}

/* dims [p, l]: dense along p in the source and along l in the destination. */
static void copy_tile(const copy_job *j, char *dst, const char *src, tni_poll *poll) {
  enum { T0 = 16 };
  const uint32_t l = j->c.rank - 1, p = l - 1;
  const int64_t np = j->c.dims[p], nl = j->c.dims[l], ss = j->c.ss[l], ds = j->c.ds[p];
#define DO(T)                                                                                                         \
  for (int64_t x = 0; x < np; x += T0)                                                                                \
    for (int64_t y = 0; y < nl && !tni_poll_stop(poll, T0 * T0); y += T0) {                                           \
      const int64_t xe = x + T0 < np ? x + T0 : np, ye = y + T0 < nl ? y + T0 : nl;                                   \
      for (int64_t i = x; i < xe; i++)                                                                                \
        for (int64_t k = y; k < ye; k++) ((T *)(void *)dst)[i * ds + k] = ((const T *)(const void *)src)[i + k * ss]; \
    }
  FOR_SIZE(j->size, DO)
#undef DO
}

static void copy_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const copy_job *j = arg;
  const tni_scopy *c = &j->c;
  int64_t idx[TNI_COPY_RANK] = {0}, so = 0, dof = 0, rest = begin;
  tni_poll poll = {j->run, TNI_POLL};
  (void)worker;
  for (uint32_t d = j->outer; d-- > 0;) {
    idx[d] = rest % c->dims[d];
    rest /= c->dims[d];
    so += idx[d] * c->ss[d];
    dof += idx[d] * c->ds[d];
  }
  for (int64_t r = begin; r < end; r++) {
    char *dst = j->dst + dof * j->size;
    const char *src = j->src + so * j->size;
    if (j->kind == RUN)
      memcpy(dst, src, (size_t)c->dims[c->rank - 1] * j->size);
    else if (j->kind == TILE)
      copy_tile(j, dst, src, &poll);
    else
      copy_elements(j, dst, src, &poll);
    for (uint32_t d = j->outer; d-- > 0;) {
      so += c->ss[d];
      dof += c->ds[d];
      if (++idx[d] < c->dims[d]) break;
      so -= c->ss[d] * c->dims[d];
      dof -= c->ds[d] * c->dims[d];
      idx[d] = 0;
    }
  }
}

void tni_copy_strided(tn_run *run, uint32_t elem_size, const tni_scopy *c, void *dst, const void *src) {
  copy_job j;
  memset(&j, 0, sizeof j);
  j.run = run;
  j.size = elem_size;
  j.dst = dst;
  j.src = src;
  j.kind = ELEMENTS;
  if (!normalize_copy(c, &j.c)) return;
  if (!j.c.rank) {
    memcpy(dst, src, elem_size);
    return;
  }
  const uint32_t l = j.c.rank - 1;
  if (j.c.ss[l] == 1 && j.c.ds[l] == 1) {
    if (l == 0) {
      tni_kcopy(run, dst, src, (uint64_t)j.c.dims[0] * elem_size);
      return;
    }
    j.kind = RUN;
  } else if (j.c.ds[l] == 1) {
    for (uint32_t p = 0; p < l && j.kind == ELEMENTS; p++)
      if (j.c.ss[p] == 1 && j.c.dims[p] > 1) {
        move_back(&j.c, p, l - 1);
        j.kind = TILE;
      }
  }
  j.outer = j.kind == TILE ? l - 1 : l;
  int64_t rows = 1, inner = 1;
  for (uint32_t d = 0; d < j.outer; d++) rows *= j.c.dims[d];
  for (uint32_t d = j.outer; d <= l; d++) inner *= j.c.dims[d];
  tni_kfor(run, rows, inner, copy_rows, &j);
}
