/* SPDX-License-Identifier: Apache-2.0
 *
 * NonMaxSuppression's selection, for the shape rule (how many) and the kernel (which).
 * Source: ONNX's Operators document, NonMaxSuppression.
 */
#ifndef TENON_SHAPE_DIMS_NMS_H
#define TENON_SHAPE_DIMS_NMS_H

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"

/* boxes f32 [batches, boxes, 4], scores f32 [batches, classes, boxes]. score_threshold counts where has_score. */
typedef struct tni_nms {
  const void *boxes, *scores; /* any alignment */
  int64_t n_batches, n_classes, n_boxes;
  int64_t most; /* boxes per batch and class */
  float iou, score;
  bool has_score, center;
  tni_poll *poll; /* whoever reads the node sets it */
} tni_nms;

/* Reads the node's inputs (boxes, scores, most, iou, score; the last three may be NULL or empty). false: dtypes, dims
 * or data do not fit, *why (static) says which. */
bool tni_nms_read(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, tni_nms *n, const char **why);
/* int64 that tni_nms_select needs. */
uint64_t tni_nms_work(int64_t n_boxes);
/* Triples (batch, class, box) into out (NULL: count only), at most cap. Returns how many there are. Per batch and
 * class: by falling score, of equal scores the lower box first, those that overlap no selected one by more than iou.
 * -1: to stop. */
int64_t tni_nms_select(const tni_nms *n, int64_t *work, void *out, int64_t cap);

#endif
