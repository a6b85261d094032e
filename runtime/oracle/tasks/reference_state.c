/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches for the oracle: the host's kernels take values as the graph has them, dense and of its dtype; the memory of a
 * cache has another order of axes, and may have another dtype.
 */
#include <math.h>
#include <string.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/tasks/evaluation.h"

/* Positions of a cache as the graph's dense tensor t has them: dims [0] batch, [1] and [2] heads and positions. */
typedef struct walker {
  const tni_sregion *q;
  const tni_tensor *t;
  uint32_t axis; /* of the positions, in q */
  int64_t total; /* positions that t has */
} walker;

static walker make_walker(const tni_sregion *q, const tni_tensor *t) {
  const uint32_t axis = t->rank == 3 ? 1 : 2;
  return (walker){q, t, axis, t->dims[axis]};
}

/* Positions [first, end), in both directions, row by row. */
static void move_rows_of_state(const walker *w, int64_t first, int64_t end, bool to_cache) {
  const tni_sregion *q = w->q;
  const int64_t size = q->dims[3], rows = q->dims[w->axis], other = q->dims[3 - w->axis];
  const int64_t elem = tni_elem_size(q->dtype), dense = tni_elem_size(w->t->dtype);
  for (int64_t b = 0; b < q->dims[0]; b++)
    for (int64_t o = 0; o < other; o++)
      for (int64_t p = first; p < end; p++) {
        const int64_t at = b * q->strides[0] + o * q->strides[3 - w->axis] + p % rows * q->strides[w->axis];
        const int64_t d = w->axis == 1 ? (b * w->total + p) * other + o : (b * other + o) * w->total + p;
        char *row = (char *)q->ptr + at * elem, *user = (char *)w->t->data + d * size * dense;
        if (to_cache)
          tni_kv_store(q->dtype, row, w->t->dtype, user, 1, size);
        else
          tni_kv_load(q->dtype, row, w->t->dtype, user, 1, size);
      }
}

tn_status tni_ref_state_load(tni_evaluation *ev, const tni_sregion *q, tni_tensor *t) {
  t->data = tni_arena_alloc(ev->arena, t->bytes ? t->bytes : 1, 64);
  if (!t->data) return tni_fail_memory(ev->err, NULL);
  if (q->rank != 4 || !q->ptr) return tni_fail(ev->err, TN_E_INTERNAL, NULL, "the reference cannot reach a cache");
  const walker w = make_walker(q, t);
  const int64_t rows = q->dims[w.axis], valid = ev->x->valid;
  if (rows < w.total) { /* a ring: what it does not hold is 0 */
    memset(t->data, 0, t->bytes);
    move_rows_of_state(&w, valid > rows ? valid - rows : 0, valid < w.total ? valid : w.total, false);
  } else {
    move_rows_of_state(&w, 0, w.total, false);
  }
  return TN_OK;
}

void tni_ref_state_store(const tni_sexec *x, const tni_sregion *q, const tni_tensor *t) {
  if (q->rank != 4 || !q->ptr) return;
  const walker w = make_walker(q, t);
  move_rows_of_state(&w, x->pos, x->valid < w.total ? x->valid : w.total, true);
}

tn_status tni_ref_state_bound(tni_evaluation *ev, const tni_sregion *q, tni_evaluated *e) {
  const float *x = e->t.data, half = q->dtype == TN_DT_BF16 ? 0x1p-8f : 0x1p-11f;
  const int64_t size = q->rank == 4 ? q->dims[3] : 0;
  int64_t count = 0;
  if (q->dtype == e->t.dtype || e->t.dtype != TN_DT_F32 || size < 1) return TN_OK;
  if (tni_dims_count(e->t.dims, e->t.rank, &count) != TN_OK) return TN_E_LIMIT;
  e->bound = tni_arena_alloc(ev->arena, (size_t)(count + 1) * sizeof(float), 64);
  if (!e->bound) return tni_fail_memory(ev->err, NULL);
  const float least = (float)(1e-5 * tni_ref_largest(&e->t));
  for (int64_t row = 0; row + size <= count; row += size) {
    float most = 0;
    for (int64_t i = row; i < row + size; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    for (int64_t i = row; i < row + size; i++) {
      const float step = isinf(x[i]) ? 0 : fabsf(x[i]) * half + 0x1p-25f; /* floats keep an infinity, bytes do not */
      e->bound[i] = (q->dtype == TN_DT_I8 ? most / 254 * (1 + 0x1p-14f) : step) + least;
    }
  }
  return TN_OK;
}
