/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers by counter: number i of a node is a mix of its seed and i, so that threads change nothing and every
 * run gives the same. The seed is the attribute's bits, or a hash of the node's name where it has none. Mix: the
 * finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

#define PI 3.14159265358979323846

typedef struct rng {
  const tni_kargs *a;
  uint64_t seed;
  double p[2]; /* low and high, or mean and scale */
} rng;

static uint64_t mix_counter(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* In [0, 1), a multiple of 2^-53. */
static double uniform_at(const rng *r, int64_t i) {
  const uint64_t z = mix_counter(r->seed + ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15));
  return (double)(z >> 11) * 0x1p-53;
}

/* Box and Muller: two uniform numbers for one normal one. */
static double normal_at(const rng *r, int64_t i) {
  const double u = 1 - uniform_at(r, 2 * i), v = uniform_at(r, 2 * i + 1);
  return sqrt(-2 * log(u)) * cos(2 * PI * v);
}

static rng make_rng(const tni_kargs *a) {
  rng r = {.a = a};
  const tn_attr *seed = tni_at(a->node, TNI_A_SEED);
  const char *name = a->node->name ? a->node->name : "";
  uint64_t bits = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  if (seed && seed->n) {
    const double s = tni_at_f(a->node, TNI_A_SEED, 0);
    memcpy(&bits, &s, sizeof bits);
  } else {
    for (; *name; name++) bits = (bits ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
  }
  r.seed = mix_counter(bits);
  return r;
}

static void random_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const rng *r = arg;
  const uint32_t op = r->a->node->op;
  const bool is_normal = op == TN_OP_RANDOM_NORMAL || op == TN_OP_RANDOM_NORMAL_LIKE;
  (void)worker;
  for (int64_t i = begin; i < end; i++)
    tni_put_f64(r->a->out[0], i,
                is_normal ? r->p[0] + r->p[1] * normal_at(r, i) : r->p[0] + (r->p[1] - r->p[0]) * uniform_at(r, i));
}

tn_status tni_k_random(const tni_kargs *a) {
  rng r = make_rng(a);
  const uint32_t op = a->node->op;
  const bool is_normal = op == TN_OP_RANDOM_NORMAL || op == TN_OP_RANDOM_NORMAL_LIKE;
  r.p[0] = is_normal ? tni_at_f(a->node, TNI_A_MEAN, 0) : tni_at_f(a->node, TNI_A_LOW, 0);
  r.p[1] = is_normal ? tni_at_f(a->node, TNI_A_SCALE, 1) : tni_at_f(a->node, TNI_A_HIGH, 1);
  tni_kfor(a->run, tni_knumel(a->out[0]), 32, random_body, &r);
  return TN_OK;
}

static void bernoulli_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const rng *r = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) tni_put_f64(r->a->out[0], i, uniform_at(r, i) < tni_get_f64(r->a->in[0], i));
}

tn_status tni_k_bernoulli(const tni_kargs *a) {
  rng r = make_rng(a);
  tni_kfor(a->run, tni_knumel(a->out[0]), 16, bernoulli_body, &r);
  return TN_OK;
}

/* Class of a number in [0, 1): the one whose share of the total it falls in. x are logarithms of weights. */
static int64_t draw_class(const tni_tensor *x, int64_t at, int64_t classes, double max, double total, double u,
                          tni_poll *poll) {
  double sum = 0;
  int64_t last = 0;
  for (int64_t c = 0; c < classes && !tni_poll_stop(poll, 8); c++) {
    const double w = exp(tni_get_f64(x, at + c) - max);
    sum += w;
    if (w > 0) last = c;
    if (u * total < sum) return c;
  }
  return last;
}

tn_status tni_k_multinomial(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  const rng r = make_rng(a);
  if (x->rank != 2) return tni_kfail(a, TN_E_INVALID, "Multinomial: the input is not [batch, classes]");
  const int64_t classes = x->dims[1], samples = a->out[0]->dims[1];
  if (!classes && samples) return tni_kfail(a, TN_E_INVALID, "Multinomial: there is no class");
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t b = 0; b < x->dims[0] && !tni_poll_stop(&poll, 1); b++) {
    double max = -INFINITY, total = 0;
    for (int64_t c = 0; c < classes && !tni_poll_stop(&poll, 1); c++) max = fmax(max, tni_get_f64(x, b * classes + c));
    for (int64_t c = 0; c < classes && !tni_poll_stop(&poll, 8); c++)
      total += exp(tni_get_f64(x, b * classes + c) - max);
    for (int64_t s = 0; s < samples && !tni_poll_stop(&poll, 8); s++) {
      const int64_t i = b * samples + s;
      tni_put_f64(a->out[0], i, (double)draw_class(x, b * classes, classes, max, total, uniform_at(&r, i), &poll));
    }
  }
  return TN_OK;
}
