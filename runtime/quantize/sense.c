/* SPDX-License-Identifier: Apache-2.0
 *
 * Sensitivities. The float model is walked over the first texts. At a product the inputs of all sequences give H, and
 * every format is tried by rounding on some rows: the error of its outputs over their square. For products that are
 * measured, the whole product is rounded to the reference format and the rest of the model runs once more with it: the
 * divergence of the logits. A loss is quadratic in the error, so that other formats follow by the ratio of errors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/loss.h"
#include "runtime/quantize/sense.h"
#include "runtime/quantize/walk.h"

enum { TOKENS = 2048, ROWS = 256, SOME = 20 };
/* Products times weights up to which each product is measured: a few minutes. */
static const double EACH = 2e9;

typedef struct senser {
  tni_qz *z;
  tni_qz_walker w;
  tni_qz_loss loss;
  uint32_t reference;
  tni_qz_senses *out;
  bool *asked; /* [n_products]: to be measured */
  tn_id at;    /* the node that the walk stands before */
} senser;

/* --- kept in the work folder --- */

static bool read_kept(const tni_qz *z, uint32_t i, tni_qz_sense *s) {
  char path[TNI_QZ_PATH];
  tni_qz_file_name(z, i, ".sense", path);
  FILE *f = fopen(path, "rb");
  const bool ok = f && fread(s, sizeof *s, 1, f) == 1;
  if (f) fclose(f);
  return ok;
}

/* --- one product --- */

static tn_status try_formats(senser *s, const tni_qz_product *p, const float *w, const float *h, const float *squares,
                             tni_qz_sense *out) {
  const int64_t N = p->N < ROWS ? p->N : ROWS;
  float *some = malloc((size_t)(N * p->K) * sizeof *some), *none = calloc((size_t)(N * p->K), sizeof *none);
  tn_status st = some && none ? TN_OK : tni_fail_memory(s->z->err, p->name);
  double power = 0;
  for (int64_t r = 0; st == TN_OK && r < N; r++)
    memcpy(some + r * p->K, w + r * p->N / N * p->K, (size_t)p->K * sizeof *some);
  if (st == TN_OK) st = tni_quant_error(some, none, h, N, p->K, &s->z->run.run, &power, s->z->err);
  for (uint32_t i = 0; st == TN_OK && i < s->z->n_open; i++) {
    float *q;
    double error = 0;
    st = tni_qz_rounded(s->z, p, i, some, N, squares, &q);
    if (st == TN_OK) st = tni_quant_error(some, q, h, N, p->K, &s->z->run.run, &error, s->z->err);
    free(q);
    out->error[i] = power > 0 ? error / power : 0;
  }
  free(some);
  free(none);
  return st;
}

/* The rest of the model with the product rounded, each sequence on a copy of its state. */
static tn_status measure(senser *s, const tni_qz_product *p, const float *w, const float *squares, double *loss) {
  float *q, *stored = NULL;
  tn_status st = tni_qz_rounded(s->z, p, s->reference, w, p->N, squares, &q);
  if (st == TN_OK) st = tni_qz_stored(&s->w, p, q, &stored);
  free(q);
  if (st != TN_OK) return st;
  void *before = tni_qz_swap(&s->w, p, stored);
  st = tni_qz_loss_of(&s->loss, &s->w, s->at, loss);
  (void)tni_qz_swap(&s->w, p, before);
  free(stored);
  return st;
}

static tn_status sense_one(senser *s, uint32_t i, const float *h) {
  tni_qz *z = s->z;
  const tni_qz_product *p = &z->products[i];
  tni_qz_sense *out = &s->out->of[i];
  tn_status st = z->o.progress ? z->o.progress(z->o.user, p->name, i, z->n_items) : TN_OK;
  if (st != TN_OK) return tni_fail(z->err, st, p->name, "stopped at '%s'", p->name);
  *out = (tni_qz_sense){.measured = s->asked[i]};
  float *w = malloc((size_t)(p->N * p->K) * sizeof *w), *squares = malloc((size_t)p->K * sizeof *squares);
  st = w && squares ? tni_qz_read_weight(z, p, w) : tni_fail_memory(z->err, p->name);
  for (int64_t k = 0; st == TN_OK && k < p->K; k++) squares[k] = h[k * p->K + k];
  if (st == TN_OK) st = try_formats(s, p, w, h, squares, out);
  if (st == TN_OK && s->asked[i]) st = measure(s, p, w, squares, &out->loss);
  free(w);
  free(squares);
  const tni_qz_part whole = {out, sizeof *out};
  return st == TN_OK ? tni_qz_keep(z, i, ".sense", &whole, 1) : st;
}

/* --- all --- */

/* Each product, or SOME, which the golden ratio spreads over the model; the last one among them. */
static void ask(senser *s) {
  const tni_qz *z = s->z;
  double weights = 0;
  for (uint32_t i = 0; i < z->n_products; i++) weights += (double)z->products[i].N * (double)z->products[i].K;
  const bool each = z->n_products <= SOME || weights * z->n_products <= EACH;
  for (uint32_t i = 0; i < z->n_products; i++) s->asked[i] = each || i == z->n_products - 1;
  uint32_t n = each ? z->n_products : 1;
  for (uint32_t j = 1; !each && n < SOME; j++) {
    const double at = j * .6180339887498949;
    const uint32_t i = (uint32_t)((at - floor(at)) * z->n_products);
    n += !s->asked[i];
    s->asked[i] = true;
  }
  s->out->n_measured = n;
}

static tn_status stop_at(senser *s, uint32_t first, bool *done) {
  tni_qz *z = s->z;
  const tni_qz_product *p = &z->products[first];
  float *h = calloc((size_t)(p->K * p->K), sizeof *h);
  tn_status st = h ? TN_OK : tni_fail_memory(z->err, p->name);
  bool summed = false;
  for (uint32_t i = first; st == TN_OK && i < z->n_products; i++) {
    const tni_qz_product *q = &z->products[i];
    if (q->x != p->x || q->K != p->K || done[i]) continue;
    done[i] = true;
    if (read_kept(z, i, &s->out->of[i])) continue;
    for (uint32_t k = 0; st == TN_OK && !summed && k < s->w.n_seqs; k++)
      st = tni_qz_add_moments(&s->w, s->w.state + (size_t)k * s->w.g->n_values, p, h);
    summed = true;
    if (st == TN_OK) st = sense_one(s, i, h);
  }
  free(h);
  return st;
}

/* After the products, since the loss has the float model's outputs then. */
static tn_status sense_table(senser *s) {
  tni_qz *z = s->z;
  const uint32_t i = z->n_products;
  if (z->n_items == i || read_kept(z, i, &s->out->of[i])) return TN_OK;
  const tn_status st = tni_qz_sense_table(z, &s->loss, s->w.n_seqs, s->reference, &s->out->of[i]);
  const tni_qz_part whole = {&s->out->of[i], sizeof s->out->of[i]};
  return st == TN_OK ? tni_qz_keep(z, i, ".sense", &whole, 1) : st;
}

static tn_status walk(senser *s) {
  tni_qz *z = s->z;
  bool *done = calloc(z->n_products, sizeof *done);
  tn_status st = done ? TN_OK : tni_fail_memory(z->err, z->path);
  if (st == TN_OK) st = tni_qz_loss_begin(&s->loss, &s->w);
  for (uint32_t i = 0; st == TN_OK && i < z->n_products; i++) {
    if (done[i]) continue;
    st = tni_qz_run_segment(&s->w, s->at, z->products[i].node);
    s->at = z->products[i].node;
    tni_model_rest(z->import);
    if (st == TN_OK) st = stop_at(s, i, done);
  }
  if (st == TN_OK) st = sense_table(s);
  free(done);
  return st;
}

/* --- what errors say of losses --- */

/* Names that differ in numbers alone are of one kind. */
static bool same_kind(const char *a, const char *b) {
  for (;; a++, b++) {
    while (*a >= '0' && *a <= '9') a++;
    while (*b >= '0' && *b <= '9') b++;
    if (*a != *b) return false;
    if (!*a) return true;
  }
}

/* From measured products other than i: the geometric mean of loss over error, of i's kind where there is one. */
static double predict(const senser *s, uint32_t i) {
  double sum[2] = {0};
  uint32_t n[2] = {0};
  for (uint32_t k = 0; k < s->z->n_products; k++) {
    const tni_qz_sense *o = &s->out->of[k];
    if (k == i || !o->measured || !(o->loss > 0) || !(o->error[s->reference] > 0)) continue;
    const bool kind = same_kind(s->z->products[i].name, s->z->products[k].name);
    const double ratio = log(o->loss / o->error[s->reference]);
    sum[0] += ratio, n[0]++;
    if (kind) sum[1] += ratio, n[1]++;
  }
  const int by = n[1] > 0;
  return n[by] ? s->out->of[i].error[s->reference] * exp(sum[by] / n[by]) : s->out->of[i].error[s->reference];
}

static double rank_of(const double *v, uint32_t n, uint32_t i) {
  double rank = 0;
  for (uint32_t k = 0; k < n; k++) rank += v[k] < v[i] ? 1 : k != i && v[k] == v[i] ? .5 : 0;
  return rank;
}

static double correlate(const double *a, const double *b, uint32_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (uint32_t i = 0; i < n; i++) {
    const double x = rank_of(a, n, i) - (n - 1) / 2., y = rank_of(b, n, i) - (n - 1) / 2.;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static tn_status fill_losses(senser *s) {
  const uint32_t n = s->z->n_products;
  double *said = malloc(2 * n * sizeof *said), *measured = said + n;
  if (!said) return tni_fail_memory(s->z->err, s->z->path);
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    if (s->out->of[i].measured) {
      said[m] = predict(s, i);
      measured[m++] = s->out->of[i].loss;
    }
  s->out->rank = correlate(said, measured, m);
  free(said);
  for (uint32_t i = 0; i < n; i++)
    if (!s->out->of[i].measured) s->out->of[i].loss = predict(s, i);
  return TN_OK;
}

uint32_t tni_qz_sense_texts(const tni_qz *z, int64_t *tokens) {
  uint32_t n = 0;
  *tokens = 0;
  for (; n < z->n_seqs && (!n || *tokens + z->seqs[n].n <= TOKENS); n++) *tokens += z->seqs[n].n;
  return n;
}

double tni_qz_sense_cost(const tni_qz_sense *s, uint32_t reference, uint32_t format) {
  return s->error[reference] > 0 ? s->loss * s->error[format] / s->error[reference] : 0;
}

void tni_qz_senses_finish(tni_qz_senses *s) {
  free(s->of);
  s->of = NULL;
}

tn_status tni_qz_sense_all(tni_qz *z, uint32_t reference, tni_qz_senses *out) {
  *out = (tni_qz_senses){.of = calloc(z->n_items, sizeof *out->of)};
  senser s = {.z = z, .reference = reference, .out = out, .asked = calloc(z->n_products, sizeof(bool))};
  const uint32_t n_seqs = tni_qz_sense_texts(z, &out->tokens);
  if (!out->of || !s.asked) {
    free(s.asked);
    return tni_fail_memory(z->err, z->path);
  }
  ask(&s);
  tn_status st = tni_qz_walk_begin(&s.w, z, z->import->graph, n_seqs);
  if (st == TN_OK) st = walk(&s);
  out->logits = s.loss.logits;
  tni_qz_loss_end(&s.loss);
  tni_qz_walk_end(&s.w);
  if (st == TN_OK) st = fill_losses(&s);
  free(s.asked);
  return st;
}
