/* SPDX-License-Identifier: Apache-2.0
 *
 * One product's result: solved, kept as WORK/NUMBER.solved, read again. A file is written under another name first, so
 * that what is there is whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/internal.h"

static const char MAGIC[8] = "tnqz004";

typedef struct head {
  char magic[8], format[64];
  int64_t N, K, blocks, per_row;
} head;

void tni_qz_solved_finish(tni_qz_solved *s) {
  free(s->codes);
  free(s->scales);
  free(s->zeros);
  free(s->steps);
  free(s->parents);
  free(s->q);
  *s = (tni_qz_solved){0};
}

static const tni_qz_format *format_of(const tni_qz *z, const tni_qz_product *p) { return &z->formats[p->format]; }

static tn_status make_room(tni_qz *z, const tni_qz_product *p, tni_qz_solved *s) {
  const tni_quant_grid *g = &format_of(z, p)->grid;
  const int64_t block = tni_qz_block(format_of(z, p), p->K), blocks = (p->K + block - 1) / block;
  *s = (tni_qz_solved){.N = p->N, .K = p->K, .blocks = blocks, .per_row = (p->K + g->vec - 1) / g->vec};
  const size_t m = (size_t)(p->N * blocks);
  s->codes = malloc((size_t)(p->N * s->per_row));
  s->scales = malloc(m * sizeof(float));
  s->q = malloc((size_t)(p->N * p->K) * sizeof(float));
  if (!g->levels) s->zeros = malloc(m * sizeof(float));
  if (g->steps) s->steps = malloc(m);
  if (g->steps) s->parents = malloc((size_t)p->N * sizeof(float));
  if (s->codes && s->scales && s->q && (g->levels || s->zeros) && (!g->steps || (s->steps && s->parents))) return TN_OK;
  tni_qz_solved_finish(s);
  return tni_fail_memory(z->err, p->name);
}

void tni_qz_file_name(const tni_qz *z, uint32_t i, const char *end, char out[TNI_QZ_PATH]) {
  snprintf(out, TNI_QZ_PATH, "%s/%05u%s", z->work, i, end);
}

static void fill_values(const tni_qz_format *f, tni_qz_solved *s) {
  const tni_quant_grid *g = &f->grid;
  const int64_t block = tni_qz_block(f, s->K), vec = g->vec;
  for (int64_t n = 0; n < s->N; n++)
    for (int64_t k = 0; k < s->K; k++) {
      const int64_t at = n * s->blocks + k / block;
      const uint8_t code = s->codes[n * s->per_row + k / vec];
      const float level = g->levels ? g->levels[k % vec * g->grid.n_codes + code] : (float)code - s->zeros[at];
      s->q[n * s->K + k] = level * s->scales[at];
    }
}

/* A grid of float32 scales in a model of float16: later products see what the file will have. */
static void round_scales(const tni_qz *z, const tni_qz_product *p, tni_qz_solved *s) {
  if (format_of(z, p)->grid.levels || !tni_qz_writes_halves(z, p)) return;
  for (int64_t i = 0; i < s->N * s->blocks; i++) {
    s->scales[i] = tni_f16_to_f32(tni_f32_to_f16(s->scales[i]));
    s->zeros[i] = tni_f16_to_f32(tni_f32_to_f16(s->zeros[i]));
  }
  fill_values(format_of(z, p), s);
}

enum { PARTS = 5 };

/* What a file holds after its head. */
static void parts_of(const tni_qz_solved *s, tni_qz_part out[PARTS]) {
  const size_t m = (size_t)(s->N * s->blocks);
  out[0] = (tni_qz_part){s->codes, (size_t)(s->N * s->per_row)};
  out[1] = (tni_qz_part){s->scales, m * sizeof(float)};
  out[2] = (tni_qz_part){s->zeros, s->zeros ? m * sizeof(float) : 0};
  out[3] = (tni_qz_part){s->steps, s->steps ? m : 0};
  out[4] = (tni_qz_part){s->parents, s->parents ? (size_t)s->N * sizeof(float) : 0};
}

static head head_of(const tni_qz *z, const tni_qz_product *p, const tni_qz_solved *s) {
  head h = {.N = s->N, .K = s->K, .blocks = s->blocks, .per_row = s->per_row};
  memcpy(h.magic, MAGIC, sizeof MAGIC);
  memcpy(h.format, format_of(z, p)->name, sizeof h.format);
  return h;
}

tn_status tni_qz_solved_read(tni_qz *z, uint32_t i, tni_qz_solved *out, bool *found) {
  const tni_qz_product *p = &z->products[i];
  char path[TNI_QZ_PATH];
  head there;
  *found = false;
  tni_qz_file_name(z, i, ".solved", path);
  FILE *f = fopen(path, "rb");
  if (!f) return TN_OK;
  const tn_status st = make_room(z, p, out);
  if (st == TN_OK) {
    tni_qz_part parts[PARTS];
    const head h = head_of(z, p, out);
    parts_of(out, parts);
    *found = fread(&there, sizeof there, 1, f) == 1 && memcmp(&h, &there, sizeof h) == 0;
    for (int k = 0; *found && k < PARTS; k++) *found = !parts[k].n || fread(parts[k].p, parts[k].n, 1, f) == 1;
    if (*found)
      fill_values(format_of(z, p), out);
    else
      tni_qz_solved_finish(out);
  }
  fclose(f);
  return st;
}

tn_status tni_qz_keep(const tni_qz *z, uint32_t i, const char *end, const tni_qz_part *parts, uint32_t n) {
  char path[TNI_QZ_PATH], whole[TNI_QZ_PATH], tmp[32];
  snprintf(tmp, sizeof tmp, "%s.tmp", end);
  tni_qz_file_name(z, i, tmp, path);
  tni_qz_file_name(z, i, end, whole);
  FILE *f = fopen(path, "wb");
  bool ok = f;
  for (uint32_t k = 0; ok && k < n; k++) ok = !parts[k].n || fwrite(parts[k].p, parts[k].n, 1, f) == 1;
  if (f && tni_close_written(f) != 0) ok = false;
  if (ok && rename(path, whole) == 0) return TN_OK;
  return tni_fail(z->err, TN_E_IO, path, "cannot write '%s'", path);
}

static tn_status keep_solved(const tni_qz *z, uint32_t i, const tni_qz_solved *s) {
  head h = head_of(z, &z->products[i], s);
  tni_qz_part parts[1 + PARTS] = {{&h, sizeof h}};
  parts_of(s, parts + 1);
  return tni_qz_keep(z, i, ".solved", parts, 1 + PARTS);
}

tn_status tni_qz_read_weight(const tni_qz *z, const tni_qz_product *p, float *w) {
  /* The walked graph may have it as another product left it that has the same constant. */
  const tni_model *m = z->floats ? z->floats : z->import;
  const tni_tensor *t = tni_graph_value(m->graph, p->weight)->tensor;
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

uint32_t tni_qz_codes_of(const tni_qz *z, uint32_t i) {
  const tni_qz_product *p = &z->products[i];
  if (!(z->o.flags & TN_QUANTIZE_ROUND) || i >= z->n_products) return i;
  for (uint32_t k = 0; k < i; k++)
    if (z->products[k].weight == p->weight && z->products[k].kn == p->kn) return k;
  return i;
}

static tn_status solve_matrix(tni_qz *z, const tni_quant_task *t, const tni_qz_solved *out) {
  const tni_quant_codes codes = {.codes = out->codes,
                                 .scales = out->scales,
                                 .zeros = out->zeros,
                                 .steps = out->steps,
                                 .parents = out->parents,
                                 .q = out->q};
  return tni_quant_solve(t, &codes, &z->run.run, z->err);
}

/* Row `from` of one is row `to` of another. */
static void copy_row(const tni_qz_solved *a, int64_t from, const tni_qz_solved *b, int64_t to) {
  const size_t blocks = (size_t)a->blocks, per_row = (size_t)a->per_row, K = (size_t)a->K;
  memcpy(b->codes + (size_t)to * per_row, a->codes + (size_t)from * per_row, per_row);
  memcpy(b->scales + (size_t)to * blocks, a->scales + (size_t)from * blocks, blocks * sizeof(float));
  memcpy(b->q + (size_t)to * K, a->q + (size_t)from * K, K * sizeof(float));
  if (a->zeros) memcpy(b->zeros + (size_t)to * blocks, a->zeros + (size_t)from * blocks, blocks * sizeof(float));
  if (a->steps) memcpy(b->steps + (size_t)to * blocks, a->steps + (size_t)from * blocks, blocks);
  if (a->parents) b->parents[to] = a->parents[from];
}

/* The rows of group g as a matrix of their own. t: the task of all rows. */
static tn_status solve_group(tni_qz *z, const tni_qz_product *p, const tni_qz_seen *seen, uint32_t g,
                             const tni_quant_task *t, const tni_qz_solved *out) {
  const size_t K = (size_t)p->K;
  tni_qz_product part = *p;
  tni_quant_task own = *t;
  tni_qz_solved s = {0};
  int64_t at = 0;
  part.N = 0;
  for (int64_t r = 0; r < p->N; r++) part.N += seen->group[r] == g;
  if (!part.N) return TN_OK;
  float *w = malloc((size_t)part.N * K * sizeof *w), *added = malloc((size_t)part.N * K * sizeof *added);
  tn_status st = w && added ? make_room(z, &part, &s) : tni_fail_memory(z->err, p->name);
  for (int64_t r = 0; st == TN_OK && r < p->N; r++) {
    if (seen->group[r] != g) continue;
    memcpy(w + (size_t)at * K, t->w + (size_t)r * K, K * sizeof *w);
    if (t->added) memcpy(added + (size_t)at * K, t->added + (size_t)r * K, K * sizeof *added);
    at++;
  }
  own.N = part.N;
  own.w = w;
  own.h = seen->h + g * K * K;
  own.drift = seen->drift + g * K * K;
  own.added = t->added ? added : NULL;
  if (st == TN_OK) st = solve_matrix(z, &own, &s);
  at = 0;
  for (int64_t r = 0; st == TN_OK && r < p->N; r++)
    if (seen->group[r] == g) copy_row(&s, at++, out, r);
  tni_qz_solved_finish(&s);
  free(w);
  free(added);
  return st;
}

tn_status tni_qz_solve(tni_qz *z, uint32_t i, const tni_qz_seen *seen, tni_qz_solved *out) {
  const tni_qz_product *p = &z->products[i];
  const size_t n = (size_t)(p->N * p->K);
  bool found;
  tn_status st = z->o.progress ? z->o.progress(z->o.user, p->name, z->n_done, z->n_items) : TN_OK;
  if (st != TN_OK) return tni_fail(z->err, st, p->name, "stopped at '%s'", p->name);
  st = tni_qz_solved_read(z, i, out, &found);
  if (st != TN_OK || found) return st;
  if ((st = make_room(z, p, out))) return st;
  float *w = malloc(n * sizeof *w);
  st = w ? tni_qz_read_weight(z, p, w) : tni_fail_memory(z->err, p->name);
  const tni_quant_task task = {.N = p->N,
                               .K = p->K,
                               .w = w,
                               .h = seen ? seen->h : NULL,
                               .drift = seen ? seen->drift : NULL,
                               .added = seen ? seen->added : NULL,
                               .grid = &format_of(z, p)->grid,
                               .damp = .3f,
                               .sweeps = 3};
  if (st == TN_OK && !(seen && seen->group)) st = solve_matrix(z, &task, out);
  for (uint32_t g = 0; st == TN_OK && seen && seen->group && g < seen->n_groups; g++)
    st = solve_group(z, p, seen, g, &task, out);
  if (st != TN_OK) tni_error_prefix(z->err, "product '%s'", p->name);
  if (st == TN_OK) round_scales(z, p, out);
  if (st == TN_OK) st = keep_solved(z, i, out);
  if (st != TN_OK) tni_qz_solved_finish(out);
  free(w);
  return st;
}
