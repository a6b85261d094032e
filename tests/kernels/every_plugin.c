/* SPDX-License-Identifier: Apache-2.0
 *
 * The harness over all plugins: every variant (a format, an instruction set, a phase) x shapes x values inside the
 * declared range, against the host's reference on unpack(pack(W)) under the declared numerics; guards around all
 * memory; one-hot activations that read back every weight; and bits flipped in the packed weights, which must be
 * caught.
 *
 * every-plugin PLUGIN.so [--seed N] [--broken] [VARIANT ...], a VARIANT being key=value,key=value of the plugin's
 * options; "prefill" or "decode" as a word of it sets the phase. Ends with 77 and the reason where the plugin has no
 * device here. --broken: the plugin is a copy with a broken kernel; ends with 0 if every variant shows it.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ops/kernel/args.h"
#include "tests/kernels/anyhost.h"

typedef struct tally {
  const char *plugin, *variant;
  uint64_t products, runs, elements, wrong, refused, flips, caught;
  char reason[120];
} tally;

static void complain(tally *t, const any_product *p, const char *what) {
  if (t->wrong++ < 5)
    printf("  WRONG %s [%s] M %lld N %lld K %lld: %s (seed %llu)\n", t->plugin, t->variant, (long long)p->M,
           (long long)p->N, (long long)p->K, what, (unsigned long long)test_seed);
}

/* --- the oracle -------------------------------------------------------------------------------------------------- */

typedef struct oracle {
  tn_numerics num;
  float *w;          /* [N,K] */
  double *magnitude; /* [N]: sum of |w| */
} oracle;

static void oracle_init(oracle *o, const any_product *p) {
  const int64_t box[4] = {0, p->N, 0, p->K};
  o->w = malloc((size_t)(p->N * p->K) * sizeof *o->w);
  o->magnitude = calloc((size_t)p->N, sizeof *o->magnitude);
  if (!o->w || !o->magnitude) abort();
  if (p->weights) {
    tn_blob b = *p->weights; /* of what was packed, not of what the device was given */
    b.ptr = b.ctx;
    o->num = tni_numerics_of(numerics_of(&b));
    if (o->num.act_scheme == TN_ACT_STATIC && o->num.act_scale == 0 && b.n_params)
      memcpy(&o->num.act_scale, &(uint32_t){(uint32_t)b.params[0]}, sizeof o->num.act_scale);
    if (b.format->unpack(&b, box, o->w) != TN_OK) abort();
  } else {
    o->num = (tn_numerics){.h = TN_HDR(tn_numerics),
                           .act_dtype = TN_DT_F32,
                           .acc_inner = TN_DT_F32,
                           .acc_outer = TN_DT_F32,
                           .finite_max = 1e28};
    for (int64_t n = 0; n < p->N; n++)
      for (int64_t k = 0; k < p->K; k++) o->w[n * p->K + k] = p->g->data[p->w][k * p->N + n];
  }
  for (int64_t i = 0; i < p->N * p->K; i++) o->magnitude[i / p->K] += fabs((double)o->w[i]);
}

static void oracle_free(oracle *o) {
  free(o->w);
  free(o->magnitude);
}

static bool half(uint32_t dtype) { return dtype == TN_DT_F16 || dtype == TN_DT_BF16; }

/* Elements of y that lie outside the declared bound. Where denormals are flushed, a half below 2^-14 may count as 0. */
static int64_t outside(const oracle *o, const any_product *p, const float *x, const float *y) {
  const size_t n = (size_t)(p->M * p->N);
  float *want = malloc((n + 1) * sizeof *want), *e = malloc((n + 1) * sizeof *e);
  tn_run run;
  if (!want || !e) abort();
  tni_run_inline(&run);
  if (tni_reference_product(&o->num, x, p->M, p->K, o->w, p->N, want, e, &run) != TN_OK) abort();
  const bool flush = o->num.denormals == TN_DENORM_FLUSH;
  int64_t bad = 0;
  for (size_t i = 0; i < n; i++) {
    double tiny = flush ? (double)FLT_MIN : (double)(p->K + 4) * 0x1p-149; /* each rounding below the normal numbers */
    if (flush && half(o->num.act_dtype)) tiny += 0x1p-14 * o->magnitude[i % (size_t)p->N];
    bad += !(fabs((double)want[i] - (double)y[i]) <= (double)e[i] + tiny);
  }
  free(want);
  free(e);
  return bad;
}

/* --- one product ------------------------------------------------------------------------------------------------- */

static void check(tally *t, any_product *p, const oracle *o, const float *x, const char *what) {
  const size_t n = (size_t)(p->M * p->N);
  float *y = malloc((n + 1) * sizeof *y);
  char text[400];
  if (!y) abort();
  memset(y, 0xff, n * sizeof *y);
  if (any_run(p, x, y) != TN_OK) {
    snprintf(text, sizeof text, "%s: %s", what, p->why);
    complain(t, p, text);
  } else {
    int64_t bad = outside(o, p, x, y);
    snprintf(text, sizeof text, "%s: %lld elements outside the bound", what, (long long)bad);
    if (bad) complain(t, p, text);
  }
  t->runs++;
  t->elements += n;
  free(y);
}

static void values(tally *t, any_product *p, const oracle *o) {
  const size_t n = (size_t)(p->M * p->K);
  float *x = malloc((n + 1) * sizeof *x);
  if (!x) abort();
  const double top = o->num.finite_max > 0 ? o->num.finite_max : 1e28;
  for (int v = 0; v < V_COUNT; v++) {
    rng r = rng_of(7000 + (uint64_t)v);
    fill(x, n, v, (float)fmin(1e25, top / 8), &r);
    for (size_t i = 0; i < n; i++) x[i] = fmaxf(fminf(x[i], (float)top), -(float)top);
    check(t, p, o, x, pattern_name(v));
  }
  free(x);
}

/* Rows k0, k0 + 1, .. of the identity. */
static void one_hot(tally *t, any_product *p, const oracle *o) {
  float *x = malloc((size_t)(p->M * p->K + 1) * sizeof *x);
  if (!x) abort();
  for (int64_t k0 = 0; k0 < p->K; k0 += p->M) {
    memset(x, 0, (size_t)(p->M * p->K) * sizeof *x);
    for (int64_t m = 0; m < p->M && k0 + m < p->K; m++) x[m * p->K + k0 + m] = 1;
    check(t, p, o, x, "one-hot");
  }
  free(x);
}

typedef struct subject_of_test {
  fake *f;
  uint32_t phase;
  tn_stats stats;
  float zeros[8192];
} setting;

static bool start(tally *t, setting *s, any_product *p, int64_t M, int64_t N, int64_t K, uint64_t flip) {
  s->stats.n = (uint32_t)K;
  any_init(p, s->f, N, K, s->phase, &s->stats, 40 + (uint64_t)(N * 7 + K));
  p->flip = flip;
  if (!any_claimed(p)) {
    t->refused++;
    if (!p->claim.text[0]) complain(t, p, "refused without a reason");
    snprintf(t->reason, sizeof t->reason, "%s", p->claim.text);
    any_free(p);
    return false;
  }
  if (p->only_m) M = p->only_m;
  if (any_prepare(p, M) == TN_OK) return true;
  complain(t, p, p->why);
  any_free(p);
  return false;
}

typedef void (*look_fn)(tally *t, any_product *p, const oracle *o);

static void product(tally *t, setting *s, int64_t M, int64_t N, int64_t K, look_fn look) {
  any_product p;
  oracle o;
  if (!start(t, s, &p, M, N, K, UINT64_MAX)) return;
  t->products++;
  oracle_init(&o, &p);
  look(t, &p, &o);
  oracle_free(&o);
  any_free(&p);
}

/* The element that a changed blob moves most, beside what the bound allows at a one-hot activation; -1: none clearly.
 */
static int64_t most_moved(const oracle *o, const float *meant, int64_t n, int64_t K) {
  const double rel = 4 * tni_reference_bound(&o->num, 256) + 0x1p-12;
  double best = 1;
  int64_t at = -1;
  for (int64_t i = 0; i < n; i++) {
    const int64_t row = i / K * K;
    const double a = (double)o->w[i], b = (double)meant[i],
                 more = tni_reference_averages_at(&o->num, o->w + row, K, i % K, 1) +
                        tni_reference_averages_at(&o->num, meant + row, K, i % K, 1),
                 times = fabs(a - b) / (rel * (fabs(a) + fabs(b)) + more + 0x1p-10);
    if (times > best) best = times, at = i;
  }
  return at;
}

/* A bit of the weights that changes what they mean must show where an activation reads just that weight. */
static void flipped(tally *t, setting *s, int round) {
  enum { N = 64, K = 256 };
  any_product p;
  oracle o;
  rng r = rng_of(600 + (uint64_t)round);
  if (!start(t, s, &p, 1, N, K, UINT64_MAX)) return;
  const uint64_t bytes = p.weights ? p.weights->bytes : 0, flip = bytes ? rng_next(&r) % (bytes * 8) : UINT64_MAX;
  any_free(&p);
  if (!bytes || !start(t, s, &p, 1, N, K, flip)) return;
  oracle_init(&o, &p);
  float *meant = malloc(N * K * sizeof *meant), *x = calloc((size_t)p.M * K, sizeof *x),
        *y = malloc((size_t)p.M * N * sizeof *y);
  uint8_t *copy = malloc(bytes);
  if (!meant || !x || !y || !copy || !p.weights) abort();
  memcpy(copy, p.weights->ctx, bytes);
  copy[flip / 8] ^= (uint8_t)(1u << flip % 8);
  tn_blob b = *p.weights;
  b.ptr = copy;
  const int64_t box[4] = {0, N, 0, K};
  int64_t at = b.format->unpack(&b, box, meant) == TN_OK ? most_moved(&o, meant, N * K, K) : -1;
  if (at >= 0) {
    for (int64_t m = 0; m < p.M; m++) x[m * K + at % K] = 1;
    t->flips++;
    if (any_run(&p, x, y) == TN_OK && outside(&o, &p, x, y)) t->caught++;
  }
  free(copy);
  free(meant);
  free(x);
  free(y);
  oracle_free(&o);
  any_free(&p);
}

/* --- variants ---------------------------------------------------------------------------------------------------- */

static void all_shapes(tally *t, setting *s, bool engines) {
  static const int64_t Ks[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 511},
                       Ns[] = {1, 15, 16, 17, 31, 33, 64, 65, 127, 130}, Ms[] = {1, 2, 5, 8, 13};
  for (size_t i = 0; i < sizeof Ks / sizeof *Ks; i++) product(t, s, Ms[i % 5], 33, Ks[i], values);
  for (size_t i = 0; i < sizeof Ks / sizeof *Ks; i++) product(t, s, 1, 48, Ks[i], values);
  for (size_t i = 0; i < sizeof Ns / sizeof *Ns; i++) product(t, s, Ms[i % 5], Ns[i], 129, values);
  for (size_t i = 0; i < sizeof Ns / sizeof *Ns; i++) product(t, s, 1, Ns[i], 96, values);
  product(t, s, 1, 17, 4099, values);
  product(t, s, 3, 17, 4099, values);
  product(t, s, 97, 40, 130, values);
  if (!engines) product(t, s, 0, 33, 65, values);
  product(t, s, 129, 33, 129, one_hot);
  product(t, s, 1, 33, 129, one_hot);
  for (int i = 0; i < 24; i++) flipped(t, s, i);
}

enum { MAX_SET = 16 };

static int variant(const char *so, const char *text, bool broken) {
  char copy[256];
  const char *set[MAX_SET] = {""};
  static setting s;
  fake f = {.h.threads = 2, .set = set};
  snprintf(copy, sizeof copy, "%s", text);
  s = (setting){.f = &f, .phase = TN_PHASE_ANY};
  s.stats = (tn_stats){.h = TN_HDR(tn_stats), .absmax = 8, .p999 = 4, .ch_over = s.zeros};
  f.n_set = fake_variant(copy, set, MAX_SET, &s.phase);
  tally t = {.plugin = so, .variant = text};
  if (!fake_open(&f, so)) {
    printf("no device [%s]: %s\n", text, f.err.message);
    fake_close(&f);
    return 77;
  }
  t.plugin = f.plugin->name;
  const tn_caps *caps = f.device->caps;
  if (caps->flags & TN_CAPS_OFFLINE) {
    printf("%s is offline here\n", t.plugin);
    fake_close(&f);
    return 77;
  }
  all_shapes(&t, &s, caps->n_engines > 0);
  printf(
      "%s [%s] on %s: %llu products, %llu runs, %llu elements, %llu wrong; %llu refused%s%s; %llu of %llu flips "
      "caught\n",
      t.plugin, text, caps->driver ? caps->driver : caps->name, (unsigned long long)t.products,
      (unsigned long long)t.runs, (unsigned long long)t.elements, (unsigned long long)t.wrong,
      (unsigned long long)t.refused, t.refused ? ", last: " : "", t.reason, (unsigned long long)t.caught,
      (unsigned long long)t.flips);
  fake_close(&f);
  if (f.h.live) printf("  WRONG: %lld allocations are left\n", (long long)f.h.live);
  if (broken) return t.wrong == 0 || !t.products || f.h.live;
  return t.wrong || !t.products || f.h.live || t.caught != t.flips || t.flips < 4;
}

int main(int argc, char **argv) {
  const char *so = NULL;
  int rc = 0, variants = 0;
  bool broken = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--seed") && i + 1 < argc)
      test_seed = strtoull(argv[++i], NULL, 10);
    else if (!strcmp(argv[i], "--broken"))
      broken = true;
    else if (!so)
      so = argv[i];
    else {
      variants++;
      int one = variant(so, argv[i], broken);
      if (one == 77 && !rc) rc = 77;
      if (one != 0 && one != 77) rc = 1;
    }
  }
  if (!so) return 2;
  if (!variants) rc = variant(so, "", broken);
  printf("seed %llu\n", (unsigned long long)test_seed);
  return rc;
}
