/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalizations of channels: BatchNormalization, InstanceNormalization, GroupNormalization, each X * a + b per channel
 * with a and b from scale, bias and statistics.
 *
 * f32 and halves: statistics and X in f32 (sums as hot.h states, over planes in order), a and b in double and rounded
 * once; f64 in double.
 */
#include <math.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

typedef struct channels {
  const tn_run *run;
  const tni_tensor *x, *scale, *bias, *mean, *var;
  tni_tensor *y;
  const tni_hot *hot;
  int64_t n, c, plane; /* X [n, c, plane] */
  int64_t groups;
  double eps;
} channels;

/* y = x * a + b for `count` elements from `at` on. */
static void scale_run(const channels *k, int64_t at, int64_t count, double a, double b, tni_poll *poll) {
  const uint32_t t = k->x->dtype;
  if (t == TN_DT_F64) {
    const f64u *x = (const f64u *)k->x->data + at;
    f64u *y = (f64u *)k->y->data + at;
    for (int64_t i = 0, to; (to = tni_poll_until(poll, i, count)) > i;)
      for (; i < to; i++) y[i] = x[i] * a + b;
    return;
  }
  const float fa = (float)a, fb = (float)b;
  float v[TNI_CHUNK];
  for (int64_t i = 0; i < count && !tni_poll_stop(poll, TNI_CHUNK); i += TNI_CHUNK) {
    const int64_t n = count - i < TNI_CHUNK ? count - i : TNI_CHUNK;
    tni_load_f32(t, k->x->data, at + i, n, v);
    for (int64_t j = 0; j < n; j++) v[j] = v[j] * fa + fb;
    tni_store_f32(t, k->y->data, at + i, n, v);
  }
}

/* Sum of (x - mean)^power over `count` elements from `at` on; power 1 or 2. */
static double sum_run(const channels *k, int64_t at, int64_t count, double mean, int power, tni_poll *poll) {
  const uint32_t t = k->x->dtype;
  double sum = 0;
  if (t == TN_DT_F64) {
    const f64u *x = (const f64u *)k->x->data + at;
    for (int64_t i = 0, to; (to = tni_poll_until(poll, i, count)) > i;)
      for (; i < to; i++) sum += power == 1 ? x[i] : (x[i] - mean) * (x[i] - mean);
    return sum;
  }
  float v[TNI_CHUNK];
  for (int64_t i = 0; i < count && !tni_poll_stop(poll, TNI_CHUNK); i += TNI_CHUNK) {
    const int64_t n = count - i < TNI_CHUNK ? count - i : TNI_CHUNK;
    tni_load_f32(t, k->x->data, at + i, n, v);
    sum += (double)(power == 1 ? k->hot->sum(v, n) : k->hot->sum_sq(v, n, (float)mean));
  }
  return sum;
}

/* --- BatchNormalization */

static void batch_planes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const channels *k = arg;
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t c = i % k->c;
    const double a = tni_get_f64(k->scale, c) / sqrt(tni_get_f64(k->var, c) + k->eps);
    scale_run(k, i * k->plane, k->plane, a, tni_get_f64(k->bias, c) - tni_get_f64(k->mean, c) * a, &poll);
  }
}

typedef struct training {
  channels k;
  tni_tensor *running_mean, *running_var;
  double momentum;
} training;

/* Statistics over batch and plane; running = given * momentum + of this batch * (1 - momentum). */
static void train_channels(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const training *t = arg;
  const channels *k = &t->k;
  const double count = (double)k->n * (double)k->plane;
  const int64_t batch = k->plane ? k->n : 0; /* beside a plane of nothing it may be absurd */
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t c = begin; c < end; c++) {
    double mean = 0, var = 0;
    for (int64_t n = 0; n < batch; n++) mean += sum_run(k, (n * k->c + c) * k->plane, k->plane, 0, 1, &poll);
    mean /= count;
    for (int64_t n = 0; n < batch; n++) var += sum_run(k, (n * k->c + c) * k->plane, k->plane, mean, 2, &poll);
    var /= count;
    const double a = tni_get_f64(k->scale, c) / sqrt(var + k->eps), b = tni_get_f64(k->bias, c) - mean * a;
    for (int64_t n = 0; n < batch; n++) scale_run(k, (n * k->c + c) * k->plane, k->plane, a, b, &poll);
    const double m = t->momentum;
    if (t->running_mean) tni_put_f64(t->running_mean, c, tni_get_f64(k->mean, c) * m + mean * (1 - m));
    if (t->running_var) tni_put_f64(t->running_var, c, tni_get_f64(k->var, c) * m + var * (1 - m));
  }
}

static channels shape_of(const tni_kargs *a) {
  channels k = {
      .run = a->run, .x = a->in[0], .scale = a->in[1], .bias = a->in[2], .y = a->out[0], .hot = tni_hot_get()};
  const tni_tensor *x = a->in[0];
  k.n = x->rank ? x->dims[0] : 1;
  k.c = x->rank > 1 ? x->dims[1] : 1;
  k.plane = x->rank > 2 ? tni_dim_product(x, 2, x->rank) : 1;
  k.eps = tni_at_f(a->node, TNI_A_EPSILON, 1e-5);
  return k;
}

static tn_status check_channels(const tni_kargs *a, const channels *k, uint32_t n_in) {
  const char *name = tni_op_by_id(a->node->op)->name;
  for (uint32_t i = 1; i < n_in; i++)
    if (tni_knumel(a->in[i]) != k->c)
      return tni_kfail(a, TN_E_INVALID, "%s: input %u has %lld elements for %lld channels", name, i,
                       (long long)tni_knumel(a->in[i]), (long long)k->c);
  return tni_knumel(k->y) == tni_knumel(k->x) ? TN_OK : tni_kfail(a, TN_E_INVALID, "%s: the output does not fit", name);
}

tn_status tni_k_batch_norm(const tni_kargs *a) {
  training t = {.k = shape_of(a), .momentum = tni_at_f(a->node, TNI_A_MOMENTUM, 0.9)};
  t.k.mean = a->in[3];
  t.k.var = a->in[4];
  const tn_status s = check_channels(a, &t.k, 5);
  if (s) return s;
  if (tni_at_i(a->node, TNI_A_TRAINING_MODE, 0)) {
    t.running_mean = a->n_out > 1 ? a->out[1] : NULL;
    t.running_var = a->n_out > 2 ? a->out[2] : NULL;
    tni_kfor(a->run, t.k.c, 3 * t.k.n * t.k.plane, train_channels, &t);
    return TN_OK;
  }
  if (a->n_out > 1 && (a->out[1] || (a->n_out > 2 && a->out[2])))
    return tni_kfail(a, TN_E_INVALID, "BatchNormalization: running statistics are outputs of training_mode only");
  tni_kfor(a->run, t.k.n * t.k.c, t.k.plane, batch_planes, &t.k);
  return TN_OK;
}

/* --- InstanceNormalization is GroupNormalization with one channel per group */

static void groups_of(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const channels *k = arg;
  const int64_t per = k->c / k->groups, count = per * k->plane;
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t g = begin; g < end; g++) {
    const double mean = sum_run(k, g * count, count, 0, 1, &poll) / (double)count;
    const double inv = 1 / sqrt(sum_run(k, g * count, count, mean, 2, &poll) / (double)count + k->eps);
    for (int64_t i = 0; i < per; i++) {
      const int64_t c = g % k->groups * per + i;
      const double s = tni_get_f64(k->scale, c) * inv;
      scale_run(k, g * count + i * k->plane, k->plane, s, tni_get_f64(k->bias, c) - mean * s, &poll);
    }
  }
}

tn_status tni_k_group_norm(const tni_kargs *a) {
  channels k = shape_of(a);
  const tn_status s = check_channels(a, &k, 3);
  if (s) return s;
  k.groups = a->node->op == TN_OP_GROUP_NORMALIZATION ? tni_at_i(a->node, TNI_A_NUM_GROUPS, 0) : k.c;
  if (!tni_knumel(k.x)) return TN_OK;
  if (k.groups < 1 || k.c % k.groups)
    return tni_kfail(a, TN_E_INVALID, "GroupNormalization: %lld channels in %lld groups", (long long)k.c,
                     (long long)k.groups);
  tni_kfor(a->run, k.n * k.groups, 3 * (k.c / k.groups) * k.plane, groups_of, &k);
  return TN_OK;
}
