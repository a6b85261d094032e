/* SPDX-License-Identifier: Apache-2.0
 *
 * NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: scores [N, C, S...], labels [N, S...], weights [C].
 *
 * A label's loss is -weight[label] * log p[label]; the second operator takes scores and makes log p = x - log sum exp x
 * over the classes itself. An ignored label has loss and weight zero. Computed in double, summed in ascending order.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

typedef struct loss {
  const tn_run *run;
  const tni_tensor *x, *labels, *weights;
  tni_tensor *log_prob; /* NULL: not wanted */
  int64_t classes, inner;
  bool softmax, ignores;
  int64_t ignored;
} loss;

/* Index of class 0 of label i. */
static int64_t class_column(const loss *l, int64_t i) { return (i / l->inner) * l->classes * l->inner + i % l->inner; }

/* log of the sum of exp over the classes. */
static double log_total(const loss *l, int64_t at, tni_poll *poll) {
  double max = -INFINITY, sum = 0;
  for (int64_t c = 0, to; (to = tni_poll_until(poll, c, l->classes)) > c;)
    for (; c < to; c++) {
      const double v = tni_get_f64(l->x, at + c * l->inner);
      max = v > max || isnan(v) ? v : max;
    }
  if (isinf(max) || isnan(max)) return max;
  for (int64_t c = 0, to; (to = tni_poll_until(poll, c, l->classes)) > c;)
    for (; c < to; c++) sum += exp(tni_get_f64(l->x, at + c * l->inner) - max);
  return max + log(sum);
}

static void log_prob_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const loss *l = arg;
  tni_poll poll = {l->run, TNI_POLL};
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = class_column(l, i);
    const double total = log_total(l, at, &poll);
    for (int64_t c = 0, to; (to = tni_poll_until(&poll, c, l->classes)) > c;)
      for (; c < to; c++) {
        const int64_t k = at + c * l->inner;
        tni_put_f64(l->log_prob, k, tni_get_f64(l->x, k) - total);
      }
  }
}

static bool is_ignored(const loss *l, int64_t label) { return l->ignores && label == l->ignored; }

static tn_status check_labels(const tni_kargs *a, const loss *l) {
  const int64_t n = tni_knumel(l->labels);
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0; i < n; i++) {
    if (tni_poll_stop(&poll, 1)) return TN_E_CANCELLED;
    const int64_t v = tni_get_i64(l->labels, i);
    if (!is_ignored(l, v) && (v < 0 || v >= l->classes))
      return tni_kfail(a, TN_E_INVALID, "label %lld of %lld classes", (long long)v, (long long)l->classes);
  }
  return TN_OK;
}

/* Loss of label i, already weighted; its weight into *w. */
static double loss_of(const loss *l, int64_t i, double *w, tni_poll *poll) {
  const int64_t label = tni_get_i64(l->labels, i), at = class_column(l, i);
  *w = 0;
  if (is_ignored(l, label)) return 0;
  *w = l->weights ? tni_get_f64(l->weights, label) : 1;
  const double x = tni_get_f64(l->x, at + label * l->inner);
  return -*w * (l->softmax ? x - log_total(l, at, poll) : x);
}

static tn_status check_loss(const tni_kargs *a, loss *l) {
  const uint32_t rank = l->x->rank;
  if (rank < 2 || l->labels->rank != rank - 1)
    return tni_kfail(a, TN_E_INVALID, "scores of rank %u, labels of rank %u", rank, l->labels->rank);
  for (uint32_t d = 0; d + 1 < rank; d++)
    if (l->labels->dims[d] != l->x->dims[d ? d + 1 : 0])
      return tni_kfail(a, TN_E_INVALID, "axis %u of labels does not meet the scores", d);
  l->classes = l->x->dims[1];
  l->inner = tni_dim_product(l->x, 2, rank);
  if (l->weights && tni_knumel(l->weights) != l->classes)
    return tni_kfail(a, TN_E_INVALID, "%lld weights for %lld classes", (long long)tni_knumel(l->weights),
                     (long long)l->classes);
  return check_labels(a, l);
}

tn_status tni_k_loss(const tni_kargs *a) {
  const tn_attr *ignore = tni_at(a->node, TNI_A_IGNORE_INDEX);
  const uint32_t reduction = tni_at_word(a->node, TNI_A_REDUCTION); /* both operators list the same words */
  loss l = {.run = a->run,
            .x = a->in[0],
            .labels = a->in[1],
            .weights = a->n_in > 2 ? a->in[2] : NULL,
            .log_prob = a->n_out > 1 ? a->out[1] : NULL,
            .softmax = a->node->op == TN_OP_SOFTMAX_CROSS_ENTROPY_LOSS,
            .ignores = ignore && ignore->n,
            .ignored = tni_at_i(a->node, TNI_A_IGNORE_INDEX, 0)};
  tn_status st = check_loss(a, &l);
  if (st) return st;
  const int64_t n = tni_knumel(l.labels);
  if (l.log_prob) tni_kfor(a->run, n, l.classes * 16, log_prob_body, &l);
  if (!a->out[0]) return TN_OK;
  const bool none = reduction == TN_WORD_NEGATIVE_LOG_LIKELIHOOD_LOSS_REDUCTION_NONE,
             sum = reduction == TN_WORD_NEGATIVE_LOG_LIKELIHOOD_LOSS_REDUCTION_SUM;
  double total = 0, weight = 0, w;
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0; i < n && !tni_poll_stop(&poll, l.softmax ? 4 * l.classes : 4); i++) {
    const double v = loss_of(&l, i, &w, &poll);
    if (none) tni_put_f64(a->out[0], i, v);
    total += v;
    weight += w;
  }
  if (!none) tni_put_f64(a->out[0], 0, sum ? total : total / weight);
  return TN_OK;
}
