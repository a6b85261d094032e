/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/dims/nms.h"

#include <string.h>

static float float_at_index(const void *p, int64_t i) {
  float f;
  memcpy(&f, (const char *)p + (size_t)i * sizeof f, sizeof f);
  return f;
}

static bool one_float(const tni_tensor *t, float *v) {
  if (!t || !t->rank ? !t : !t->dims[0]) return true; /* absent or empty */
  if (t->dtype != TN_DT_F32 || t->bytes < sizeof *v || !t->data) return false;
  *v = float_at_index(t->data, 0);
  return true;
}

bool tni_nms_read(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, tni_nms *n, const char **why) {
  const tni_tensor *b = n_in > 0 ? in[0] : NULL, *s = n_in > 1 ? in[1] : NULL, *most = n_in > 2 ? in[2] : NULL;
  const tni_tensor *iou = n_in > 3 ? in[3] : NULL, *score = n_in > 4 ? in[4] : NULL;
  *n = (tni_nms){.center = tni_at_i(node, TNI_A_CENTER_POINT_BOX, 0) != 0};
  *why = "boxes or scores have no data";
  if (!b || !s || (b->bytes && !b->data) || (s->bytes && !s->data)) return false;
  *why = "boxes and scores do not fit together";
  if (b->dtype != TN_DT_F32 || s->dtype != TN_DT_F32 || b->rank != 3 || s->rank != 3 || b->dims[2] != 4 ||
      b->dims[0] != s->dims[0] || b->dims[1] != s->dims[2])
    return false;
  n->boxes = b->data;
  n->scores = s->data;
  n->n_batches = s->dims[0];
  n->n_classes = s->dims[1];
  n->n_boxes = s->dims[2];
  *why = "a threshold is not one number";
  if (most && (!most->rank || most->dims[0])) {
    if (most->bytes < sizeof n->most || !most->data || (most->dtype != TN_DT_I64)) return false;
    memcpy(&n->most, most->data, sizeof n->most);
  }
  if (!one_float(iou, &n->iou) || !one_float(score, &n->score)) return false;
  n->has_score = score && (!score->rank || score->dims[0]);
  if (n->most > n->n_boxes) n->most = n->n_boxes;
  return true;
}

uint64_t tni_nms_work(int64_t n_boxes) { return n_boxes > 0 ? 2 * (uint64_t)n_boxes : 1; }

typedef struct box {
  float lo[2], hi[2];
} box;

static inline box box_at(const tni_nms *n, int64_t batch, int64_t i) {
  const int64_t p = (batch * n->n_boxes + i) * 4;
  box b;
  for (int d = 0; d < 2; d++) {
    const float u = float_at_index(n->boxes, p + d), v = float_at_index(n->boxes, p + 2 + d);
    b.lo[d] = n->center ? u - v / 2 : u < v ? u : v;
    b.hi[d] = n->center ? u + v / 2 : u < v ? v : u;
  }
  return b;
}

static bool boxes_overlap(const tni_nms *n, const box *a, const box *b) {
  float common = 1, area_a = 1, area_b = 1;
  for (int d = 0; d < 2; d++) {
    const float lo = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d], hi = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
    if (!(hi > lo)) return false;
    common *= hi - lo;
    area_a *= a->hi[d] - a->lo[d];
    area_b *= b->hi[d] - b->lo[d];
  }
  const float all = area_a + area_b - common;
  return common > 0 && area_a > 0 && area_b > 0 && all > 0 && common / all > n->iou;
}

enum { SIFT = 32 }; /* elements that one takes as long as, about */

/* The box that comes first: higher score, then lower index. */
static bool scores_before(const void *scores, int64_t row, int64_t a, int64_t b) {
  const float x = float_at_index(scores, row + a), y = float_at_index(scores, row + b);
  return x > y || (!(x < y) && a < b);
}

static void sift_boxes(const tni_nms *n, int64_t row, int64_t *heap, int64_t count, int64_t i) {
  for (int64_t c; (c = 2 * i + 1) < count; i = c) {
    if (c + 1 < count && scores_before(n->scores, row, heap[c + 1], heap[c])) c++;
    if (!scores_before(n->scores, row, heap[c], heap[i])) return;
    const int64_t t = heap[i];
    heap[i] = heap[c];
    heap[c] = t;
  }
}

/* Selected boxes of one batch and class into kept; returns how many, -1: to stop. A NaN is no score. */
static int64_t select_class(const tni_nms *n, int64_t batch, int64_t row, int64_t *heap, int64_t *kept) {
  int64_t count = 0, found = 0;
  if (tni_poll_stop(n->poll, n->n_boxes)) return -1;
  for (int64_t i = 0; i < n->n_boxes; i++) {
    const float s = float_at_index(n->scores, row + i);
    if (s == s && (!n->has_score || s > n->score)) heap[count++] = i;
  }
  for (int64_t i = count / 2; i-- > 0;) {
    if (tni_poll_stop(n->poll, SIFT)) return -1;
    sift_boxes(n, row, heap, count, i);
  }
  while (count > 0 && found < n->most) {
    const int64_t i = heap[0];
    const box b = box_at(n, batch, i);
    bool free = true;
    if (tni_poll_stop(n->poll, SIFT + 4 * found)) return -1;
    for (int64_t k = 0; k < found && free; k++) {
      const box other = box_at(n, batch, kept[k]);
      free = !boxes_overlap(n, &b, &other);
    }
    if (free) kept[found++] = i;
    heap[0] = heap[--count];
    sift_boxes(n, row, heap, count, 0);
  }
  return found;
}

int64_t tni_nms_select(const tni_nms *n, int64_t *work, void *out, int64_t cap) {
  int64_t total = 0;
  for (int64_t r = 0; r < n->n_batches * n->n_classes && n->most > 0; r++) {
    int64_t *kept = work + n->n_boxes;
    const int64_t found = select_class(n, r / n->n_classes, r * n->n_boxes, work, kept);
    if (found < 0) return -1;
    for (int64_t k = 0; k < found && out && total + k < cap; k++) {
      const int64_t triple[3] = {r / n->n_classes, r % n->n_classes, kept[k]};
      memcpy((char *)out + (size_t)(total + k) * sizeof triple, triple, sizeof triple);
    }
    total += found;
  }
  return total;
}
