/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of whole models: the table and all products rounded, one after another, each with the inputs that those before
 * it give. A sum of losses of single products says little of that where few products, or narrow ones, have few bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/loss.h"
#include "runtime/quantize/sense.h"
#include "runtime/quantize/walk.h"

typedef struct whole {
  tni_qz *z;
  tni_qz_walker w;
  tni_qz_loss loss;
  tn_id x; /* whose squares these are; TN_NONE: of none */
  float *squares;
} whole;

/* squares [K] of p's input over all sequences. */
static tn_status sum_squares(whole *a, const tni_qz_product *p) {
  if (a->x == p->x) return TN_OK;
  free(a->squares);
  a->squares = calloc((size_t)p->K, sizeof *a->squares);
  a->x = p->x;
  tn_status st = a->squares ? TN_OK : tni_fail_memory(a->z->err, p->name);
  for (uint32_t s = 0; st == TN_OK && s < a->w.n_seqs; s++) {
    float *x;
    int64_t rows;
    st = tni_qz_value(&a->w, a->w.state + (size_t)s * a->w.g->n_values, p->x, p, p->K, &x, &rows);
    if (st != TN_OK) break;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t k = 0; k < p->K; k++) a->squares[k] += x[r * p->K + k] * x[r * p->K + k];
    free(x);
  }
  return st;
}

/* p's weight in a format, as it is stored. */
static tn_status round_weight(whole *a, const tni_qz_product *p, uint32_t format, float **stored) {
  float *w = malloc((size_t)(p->N * p->K) * sizeof *w), *q = NULL;
  tn_status st = w ? tni_qz_read_weight(a->z, p, w) : tni_fail_memory(a->z->err, p->name);
  if (st == TN_OK) st = sum_squares(a, p);
  if (st == TN_OK) st = tni_qz_rounded(a->z, p, format, w, p->N, a->squares, &q);
  if (st == TN_OK) st = tni_qz_stored(&a->w, p, q, stored);
  free(w);
  free(q);
  return st;
}

/* From p to the next product, or to the model's end, with p's weight rounded. */
static tn_status pass(whole *a, uint32_t i, uint32_t format, double *loss) {
  tni_qz *z = a->z;
  const tni_qz_product *p = &z->products[i];
  float *stored;
  tn_status st = z->o.progress ? z->o.progress(z->o.user, p->name, i, z->n_items) : TN_OK;
  if (st != TN_OK) return tni_fail(z->err, st, p->name, "stopped at '%s'", p->name);
  st = round_weight(a, p, format, &stored);
  if (st != TN_OK) return st;
  void *before = tni_qz_swap(&a->w, p, stored);
  st = i + 1 < z->n_products ? tni_qz_run_segment(&a->w, p->node, z->products[i + 1].node)
                             : tni_qz_loss_of(&a->loss, &a->w, p->node, loss);
  (void)tni_qz_swap(&a->w, p, before);
  free(stored);
  tni_model_rest(z->import);
  return st;
}

static tn_status measure(tni_qz *z, const uint32_t *formats, double *loss) {
  int64_t tokens;
  tn_id at = 0;
  const uint32_t table = z->n_items > z->n_products ? formats[z->n_products] : TNI_QZ_FLOAT;
  whole a = {.z = z, .x = TN_NONE};
  tn_status st = tni_qz_walk_begin(&a.w, z, z->import->graph, tni_qz_sense_texts(z, &tokens));
  if (st == TN_OK) st = tni_qz_loss_begin(&a.loss, &a.w);
  if (st == TN_OK && table != TNI_QZ_FLOAT) {
    st = tni_qz_run_rounded_table(&a.w, table);
    at = z->products[z->n_products].node + 1;
  }
  if (st == TN_OK) st = tni_qz_run_segment(&a.w, at, z->products[0].node);
  for (uint32_t i = 0; st == TN_OK && i < z->n_products; i++) st = pass(&a, i, formats[i], loss);
  tni_qz_loss_end(&a.loss);
  tni_qz_walk_end(&a.w);
  free(a.squares);
  return st;
}

tn_status tni_qz_whole_losses(tni_qz *z, const uint32_t *formats, uint32_t n, double *losses) {
  tn_status st = TN_OK;
  for (uint32_t c = 0; st == TN_OK && c < n; c++) {
    char path[TNI_QZ_PATH];
    tni_qz_file_name(z, c, ".whole", path);
    FILE *f = fopen(path, "rb");
    const bool kept = f && fread(&losses[c], sizeof losses[c], 1, f) == 1;
    if (f) fclose(f);
    if (kept) continue;
    st = measure(z, formats + (size_t)c * z->n_items, &losses[c]);
    const tni_qz_part all = {&losses[c], sizeof losses[c]};
    if (st == TN_OK) st = tni_qz_keep(z, c, ".whole", &all, 1);
  }
  return st;
}
