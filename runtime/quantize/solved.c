/* SPDX-License-Identifier: Apache-2.0
 *
 * One product's result: solved, kept as WORK/NUMBER.solved, read again. A file is written under another name first, so
 * that what is there is whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/quantize/internal.h"

static const char MAGIC[8] = "tnqz001";

typedef struct head {
  char magic[8];
  int64_t N, K, blocks;
} head;

void tni_qz_solved_finish(tni_qz_solved *s) {
  free(s->codes);
  free(s->scales);
  free(s->zeros);
  free(s->q);
  *s = (tni_qz_solved){0};
}

static tn_status make_room(tni_qz *z, const tni_qz_product *p, tni_qz_solved *s) {
  const int64_t block = z->o.block, blocks = (p->K + block - 1) / block;
  const size_t n = (size_t)(p->N * p->K), m = (size_t)(p->N * blocks);
  *s = (tni_qz_solved){.N = p->N,
                       .K = p->K,
                       .blocks = blocks,
                       .codes = malloc(n),
                       .scales = malloc(m * sizeof(float)),
                       .zeros = malloc(m * sizeof(float)),
                       .q = malloc(n * sizeof(float))};
  if (s->codes && s->scales && s->zeros && s->q) return TN_OK;
  tni_qz_solved_finish(s);
  return tni_fail_memory(z->err, p->name);
}

static void file_name(const tni_qz *z, uint32_t i, const char *end, char out[TNI_QZ_PATH]) {
  snprintf(out, TNI_QZ_PATH, "%s/%05u%s", z->work, i, end);
}

bool tni_qz_is_solved(const tni_qz *z, uint32_t i) {
  char path[TNI_QZ_PATH];
  file_name(z, i, ".solved", path);
  return access(path, R_OK) == 0;
}

static void fill_values(const tni_qz *z, tni_qz_solved *s) {
  for (int64_t i = 0; i < s->N * s->K; i++) {
    const int64_t at = i / s->K * s->blocks + i % s->K / z->o.block;
    s->q[i] = ((float)s->codes[i] - s->zeros[at]) * s->scales[at];
  }
}

tn_status tni_qz_solved_read(tni_qz *z, uint32_t i, tni_qz_solved *out, bool *found) {
  const tni_qz_product *p = &z->products[i];
  char path[TNI_QZ_PATH];
  head h = {.N = 0};
  *found = false;
  file_name(z, i, ".solved", path);
  FILE *f = fopen(path, "rb");
  if (!f) return TN_OK;
  tn_status st = make_room(z, p, out);
  const size_t n = (size_t)(p->N * p->K);
  if (st == TN_OK) {
    const size_t m = (size_t)(p->N * out->blocks);
    *found = fread(&h, sizeof h, 1, f) == 1 && memcmp(h.magic, MAGIC, sizeof MAGIC) == 0 && h.N == p->N &&
             h.K == p->K && h.blocks == out->blocks && fread(out->codes, 1, n, f) == n &&
             fread(out->scales, sizeof(float), m, f) == m && fread(out->zeros, sizeof(float), m, f) == m;
    if (*found) fill_values(z, out);
    if (!*found) tni_qz_solved_finish(out);
  }
  fclose(f);
  return st;
}

static tn_status keep(tni_qz *z, uint32_t i, const tni_qz_solved *s) {
  char path[TNI_QZ_PATH], whole[TNI_QZ_PATH];
  head h = {.N = s->N, .K = s->K, .blocks = s->blocks};
  memcpy(h.magic, MAGIC, sizeof MAGIC);
  file_name(z, i, ".tmp", path);
  file_name(z, i, ".solved", whole);
  const size_t n = (size_t)(s->N * s->K), m = (size_t)(s->N * s->blocks);
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(&h, sizeof h, 1, f) == 1 && fwrite(s->codes, 1, n, f) == n &&
            fwrite(s->scales, sizeof(float), m, f) == m && fwrite(s->zeros, sizeof(float), m, f) == m;
  if (f && tni_close_written(f) != 0) ok = false;
  if (ok && rename(path, whole) == 0) return TN_OK;
  return tni_fail(z->err, TN_E_IO, path, "cannot write '%s'", path);
}

/* [N,K] of a weight that is stored either way. */
static tn_status read_weight(const tni_qz *z, const tni_qz_product *p, float *w) {
  const tni_tensor *t = tni_graph_value(z->import->graph, p->weight)->tensor;
  if (!p->kn) {
    tni_tensor_to_f32(t, 0, p->N * p->K, w);
    return TN_OK;
  }
  float *row = malloc((size_t)p->N * sizeof *row);
  if (!row) return tni_fail_memory(z->err, p->name);
  for (int64_t k = 0; k < p->K; k++) {
    tni_tensor_to_f32(t, k * p->N, p->N, row);
    for (int64_t n = 0; n < p->N; n++) w[n * p->K + k] = row[n];
  }
  free(row);
  return TN_OK;
}

tn_status tni_qz_solve(tni_qz *z, uint32_t i, float *h, tni_qz_solved *out) {
  const tni_qz_product *p = &z->products[i];
  const size_t n = (size_t)(p->N * p->K);
  bool found;
  tn_status st = z->o.progress ? z->o.progress(z->o.user, p->name, z->n_done, z->n_products) : TN_OK;
  if (st != TN_OK) return tni_fail(z->err, st, p->name, "stopped at '%s'", p->name);
  st = tni_qz_solved_read(z, i, out, &found);
  if (st != TN_OK || found) return st;
  if ((st = make_room(z, p, out))) return st;
  float *w = malloc(n * sizeof *w), *own = h ? NULL : calloc((size_t)(p->K * p->K), sizeof *own);
  if (!w || (!h && !own)) st = tni_fail_memory(z->err, p->name);
  if (st == TN_OK) st = read_weight(z, p, w);
  const tni_quant_task task = {
      .N = p->N, .K = p->K, .w = w, .h = h ? h : own, .grid = &z->grid, .damp = .1f, .sweeps = 3, .round = !h};
  const tni_quant_codes codes = {.codes = out->codes, .scales = out->scales, .zeros = out->zeros, .q = out->q};
  if (st == TN_OK && (st = tni_quant_solve(&task, &codes, &z->run.run, z->err)))
    tni_error_prefix(z->err, "product '%s'", p->name);
  if (st == TN_OK) st = keep(z, i, out);
  if (st != TN_OK) tni_qz_solved_finish(out);
  free(w);
  free(own);
  return st;
}
