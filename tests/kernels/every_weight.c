/* SPDX-License-Identifier: Apache-2.0
 *
 * Every weight of every layer of a real model, read back through a plugin's own kernels: what libtenon's placement
 * packs for the plugin is given to it again by its vtable, one matrix at a time, and rows with a single element that is
 * not zero must give unpack(pack(W)) times that element. Of such a sum all terms but one are zero: the bound is that of
 * one product in the declared types, 0 for wide integers, whatever K is. One row (GEMV), few and many rows (GEMM).
 *
 * every-weight PLUGIN.so MODEL [--kernels COPY.so] [--broken] [--calibrate] [--m M,M,..] [VARIANT ...], PLUGIN.so
 * beside its manifest, MODEL a folder; variants as of every-plugin. --kernels: the kernels of another build of the
 * plugin;
 * --broken: it has a broken one, and 0 is returned where every variant shows it. --calibrate: it wants statistics. 77
 * where there is no device.
 */
#include <float.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/placement.h"
#include "runtime/ops/kernel/args.h"
#include "tests/kernels/anyhost.h"

enum { MAX_SET = 16, MAX_MS = 8, MAX_MODELS = 4, MAX_MAGNITUDES = 8 };

typedef struct job {
  const char *so, *kernels, *variant;
  const char *models[MAX_MODELS], *model; /* model: of the tally */
  uint32_t n_models;
  int64_t M[MAX_MS];
  uint32_t n_m, phase;
  bool broken, stats;
} job;

typedef struct tally {
  const job *j;
  const placed_weight *w;                                              /* under test */
  uint64_t matrices, weights, read, runs, wrong, shown, others; /* shown: weights among what is wrong */
  bool here;
} tally;

static void complain(tally *t, int64_t M, const char *what) {
  if (t->wrong++ < 5)
    printf("  WRONG %s [%s] %s [%lld,%lld], M %lld: %s\n", t->j->model, t->j->variant, t->w->name, (long long)t->w->N,
           (long long)t->w->K, (long long)M, what);
}

/* Elements of which quantizing loses nothing but the rounding of a scale. */
static uint32_t magnitudes(const tn_numerics *num, float *out) {
  static const float wide[] = {1, -1, 0x1p-40f, 3, -0x1p40f, -777.25f, 1e-3f, 0x1p20f},
                     halves[] = {1, -1, 2, -8, 0.0625f, 1.5f, -1024, 6},
                     codes[] = {127, -127, 1, -1, 64, -128, 300, -40000};
  const bool fixed = num->act_scheme == TN_ACT_STATIC, half = num->act_dtype == TN_DT_F16;
  uint32_t n = 0;
  for (uint32_t i = 0; i < MAX_MAGNITUDES; i++) {
    const float v = fixed ? codes[i] * num->act_scale : half ? halves[i] : wide[i];
    if (!(num->finite_max > 0) || (double)fabsf(v) <= num->finite_max) out[n++] = v;
  }
  return n;
}

static tn_numerics numerics_for(const tn_blob *b) {
  tn_numerics num = tni_numerics_of(numerics_of(b));
  if (num.act_scheme == TN_ACT_STATIC && num.act_scale == 0 && b->n_params)
    memcpy(&num.act_scale, &(uint32_t){(uint32_t)b->params[0]}, sizeof num.act_scale);
  return num;
}

/* What is left of x once it is quantized. */
static double quantized(const tn_numerics *num, float x) {
  if (num->act_scheme != TN_ACT_STATIC) return (double)x;
  return (double)rintf(x / num->act_scale) * (double)num->act_scale;
}

/* Relative: one product in the declared types; where activations are scaled by their own magnitude, that scale is
 * rounded and so is what it gives back. */
static double bound_of(const tn_numerics *num) {
  const bool scaled = num->act_scheme == TN_ACT_ABSMAX || num->act_scheme == TN_ACT_RUNSUM;
  return tni_reference_bound(num, 1) + (scaled ? 2 * 0x1p-24 : 0);
}

/* Rows k0, k0 + 1, ... of a diagonal matrix; behind K they stay empty. */
static int64_t diagonal(const any_product *p, int64_t k0, const float *v, uint32_t n, float *x) {
  memset(x, 0, (size_t)(p->M * p->K) * sizeof *x);
  int64_t m = 0;
  for (; m < p->M && k0 + m < p->K; m++) x[m * p->K + k0 + m] = v[(uint64_t)(k0 + m + p->M) % n];
  return m;
}

/* u: [N,K]. What stands in column k0 + m of u must be what row m gave. */
static void compare(tally *t, const any_product *p, const tn_numerics *num, const float *u, int64_t k0, const float *x,
                    const float *y, int64_t rows) {
  const double rel = bound_of(num), tiny = num->denormals == TN_DENORM_FLUSH ? (double)FLT_MIN : 5 * 0x1p-149;
  for (int64_t m = 0; m < rows; m++) {
    const int64_t k = k0 + m;
    const double at = quantized(num, x[m * p->K + k]);
    for (int64_t n = 0; n < p->N; n++) {
      const double want = (double)u[n * p->K + k] * at, got = (double)y[m * p->N + n];
      const double more = tni_reference_averages_at(num, u + n * p->K, p->K, k, x[m * p->K + k]);
      const bool ok = rel > 0 ? fabs(got - want) <= rel * fabs(want) + tiny + more : (float)want == y[m * p->N + n];
      if (ok) continue;
      char text[160];
      snprintf(text, sizeof text, "weight [%lld,%lld]: %.9g instead of %.9g for an activation of %g", (long long)n,
               (long long)k, got, want, at);
      complain(t, p->M, text);
      t->shown++;
    }
  }
  t->read += (uint64_t)(rows * p->N);
}

static void read_back(tally *t, any_product *p) {
  const int64_t box[4] = {0, p->N, 0, p->K};
  tn_blob b = *p->weights;
  b.ptr = b.ctx; /* what was packed, not what the device was given */
  const tn_numerics num = numerics_for(&b);
  float v[MAX_MAGNITUDES], *u = malloc((size_t)(p->N * p->K + 1) * sizeof *u),
                           *x = malloc((size_t)(p->M * p->K + 1) * sizeof *x),
                           *y = malloc((size_t)(p->M * p->N + 1) * sizeof *y);
  if (!u || !x || !y || b.format->unpack(&b, box, u) != TN_OK) abort();
  const uint32_t n = magnitudes(&num, v);
  for (int64_t k = 0; k < p->K; k += p->M) {
    const int64_t rows = diagonal(p, k, v, n, x);
    memset(y, 0xff, (size_t)(p->M * p->N) * sizeof *y);
    t->runs++;
    if (any_step(p, x, y) != TN_OK) {
      complain(t, p->M, p->why);
      break;
    }
    compare(t, p, &num, u, k, x, y, rows);
  }
  if (any_guards(p) != TN_OK) complain(t, p->M, p->why);
  free(u);
  free(x);
  free(y);
}

/* A need of another format (rows of the shadow, say) hangs on the same product: its weights are read where activations
 * need them. */
static bool is_main(const any_product *p, const placed_weight *w) {
  return p->claim.format && !strcmp(p->claim.format->name, w->format);
}

static void same_bytes(tally *t, const any_product *p, const placed_weight *w) {
  if (p->weights->bytes != w->n_bytes || memcmp(p->weights->ctx, w->bytes, w->n_bytes) != 0)
    complain(t, p->M, "libtenon packed other bytes");
}

static void matrix(tally *t, fake *f, const placed_weight *w) {
  t->w = w;
  for (uint32_t i = 0; i < t->j->n_m; i++) {
    any_product p;
    f->h.threads = t->j->M[i] > 1 ? 2 : 1; /* a thread for each of many short runs would be most of the time */
    any_init_weights(&p, f, w->N, w->K, t->j->phase, w->stats.h.size ? &w->stats : NULL, w->kn);
    if (!any_claimed(&p)) {
      complain(t, t->j->M[i], p.claim.text);
    } else if (!is_main(&p, w)) {
      t->others += i == 0;
      i = t->j->n_m;
    } else if (any_prepare(&p, p.only_m ? p.only_m : t->j->M[i]) != TN_OK || !p.weights) {
      complain(t, t->j->M[i], p.why);
    } else {
      if (i == 0) t->matrices++, t->weights += (uint64_t)(w->N * w->K), same_bytes(t, &p, w);
      read_back(t, &p);
      if (p.only_m) i = t->j->n_m;
    }
    any_free(&p);
  }
}

static tally model(job *j, fake *f, const placement_req *r) {
  tally t = {.j = j};
  placement all;
  tn_error err;
  t.here = placement_read(r, &all, &err);
  if (!t.here) printf("  WRONG %s [%s]: %s\n", j->model, j->variant, err.message);
  for (uint32_t i = 0; i < all.n && !(j->broken && t.shown); i++) matrix(&t, f, &all.w[i]);
  printf(
      "%s [%s] on %s, %s: %llu matrices, %llu weights, %llu read back in %llu runs, %llu wrong; %llu of other "
      "formats\n",
      r->plugin, j->variant, f->device->caps->name, j->model, (unsigned long long)t.matrices,
      (unsigned long long)t.weights, (unsigned long long)t.read, (unsigned long long)t.runs,
      (unsigned long long)t.wrong, (unsigned long long)t.others);
  placement_free(&all);
  return t;
}

static int variant(job *j, const char *text) {
  char copy[256], file[PATH_MAX], dir[PATH_MAX], plugin[64];
  const char *set[MAX_SET] = {""};
  fake f = {.h.threads = 2, .set = set};
  int rc = 0;
  j->variant = text;
  j->phase = TN_PHASE_ANY;
  snprintf(copy, sizeof copy, "%s", text);
  if (!realpath(j->so, file)) return 1;
  memcpy(dir, file, sizeof dir);
  snprintf(plugin, sizeof plugin, "%s", basename(file));
  plugin[strcspn(plugin, ".")] = '\0';
  const char *folder = dirname(dir);
  f.n_set = fake_variant(copy, set, MAX_SET, &j->phase);
  if (!fake_open(&f, j->kernels ? j->kernels : j->so) || (f.device->caps->flags & TN_CAPS_OFFLINE)) {
    printf("no device [%s]: %s\n", text, f.err.message);
    fake_close(&f);
    return 77;
  }
  for (uint32_t i = 0; i < j->n_models; i++) {
    j->model = j->models[i];
    const placement_req r = {.plugin = plugin,
                             .plugin_dir = folder,
                             .model = j->model,
                             .options = set,
                             .n_options = f.n_set,
                             .phase = j->phase,
                             .need_stats = j->stats};
    const tally t = model(j, &f, &r);
    rc |= !t.here || !t.matrices || (j->broken ? !t.shown : t.wrong || t.read < t.weights);
  }
  fake_close(&f);
  return rc || (!j->broken && f.h.live);
}

static uint32_t numbers(const char *text, int64_t *out, uint32_t cap) {
  uint32_t n = 0;
  char *end;
  for (const char *at = text; *at && n < cap; at = *end ? end + 1 : end) out[n++] = strtoll(at, &end, 10);
  return n;
}

int main(int argc, char **argv) {
  job j = {.n_m = 2, .M = {1, 96}};
  int rc = 0, variants = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--kernels") && i + 1 < argc)
      j.kernels = argv[++i];
    else if (!strcmp(argv[i], "--model") && i + 1 < argc && j.n_models < MAX_MODELS)
      j.models[j.n_models++] = argv[++i];
    else if (!strcmp(argv[i], "--m") && i + 1 < argc)
      j.n_m = numbers(argv[++i], j.M, MAX_MS);
    else if (!strcmp(argv[i], "--broken"))
      j.broken = true;
    else if (!strcmp(argv[i], "--calibrate"))
      j.stats = true;
    else if (!j.so)
      j.so = argv[i];
    else {
      variants++;
      const int one = variant(&j, argv[i]);
      if (one == 77 && !rc) rc = 77;
      if (one != 0 && one != 77) rc = 1;
    }
  }
  if (!j.so || !j.n_models || !variants) return 2;
  return rc;
}
