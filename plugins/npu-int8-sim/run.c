/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU's tasks. Nothing is allocated.
 */
#include <string.h>

#include "plugins/common/cpu/kernels/kernels.h"
#include "plugins/npu-int8-sim/program.h"

enum { GRAIN_BYTES = 32768, GRAIN_MACS = 100000, GRAIN_FLOATS = 8192 };

typedef struct npu_job {
  const tn_plan *plan;
  const tni_npu_block *b;
  const tn_args *args;
  tn_run *run;
  const float *x;
  int8_t *xq;
  uint32_t *counts;
  uint64_t *bitmap;
  const uint8_t *acc;
  int64_t *sum;
  int8_t *fetched; /* SHADOW: rows of weights of the batch */
  int64_t channel[TNI_NPU_BATCH];
  uint32_t n_channels, weight;
  float *tiles;
} npu_job;

static void *slot_memory(const tn_args *a, tn_id slot) {
  const struct tni_npu_place *p = slot == TN_NONE ? NULL : tni_npu_place_of(a, slot);
  return p ? p->ptr : NULL;
}

static npu_job job_of(const tn_plan *plan, const tn_args *a, tn_run *run) {
  const tni_npu_block *b = plan->task->b;
  uint8_t *marks = slot_memory(a, b->marks);
  return (npu_job){.plan = plan,
                   .b = b,
                   .args = a,
                   .run = run,
                   .x = slot_memory(a, b->x),
                   .xq = slot_memory(a, b->xq),
                   .counts = (uint32_t *)(void *)marks,
                   .bitmap = marks ? (uint64_t *)(void *)(marks + plan->room.bitmap_at) : NULL,
                   .acc = slot_memory(a, b->acc),
                   .sum = slot_memory(a, b->sum)};
}

/* --- quantize ----------------------------------------------------------------------------------------------------- */

/* Up to 64 codes; returns the bits of those that do not fit a byte. */
static uint64_t quantize_word(const float *x, int64_t n, float s, float lo, float hi, int8_t *q) {
  int32_t v[64];
  uint64_t bits = 0;
  int32_t top = 0;
  for (int64_t i = 0; i < n; i++) v[i] = tni_npu_round(x[i], s, lo, hi);
  for (int64_t i = 0; i < n; i++) {
    const int32_t c = v[i] < -128 ? -128 : v[i] > 127 ? 127 : v[i];
    top |= c ^ v[i];
    q[i] = (int8_t)c;
  }
  for (int64_t i = 0; top && i < n; i++) bits |= (uint64_t)(v[i] < -128 || v[i] > 127) << i;
  return bits;
}

static void quantize_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const npu_job *j = arg;
  const tni_npu_linear *l = &j->b->l;
  const int64_t K = l->K, Kp = (K + TNI_NPU_TILE - 1) / TNI_NPU_TILE * TNI_NPU_TILE;
  const float hi = l->shadow ? (float)TNI_W8_WIDE_MAX : 127.0f, lo = -hi - 1.0f;
  (void)worker;
  for (int64_t m = begin; m < end && !tni_cm_cancelled(j->run); m++) {
    uint32_t count = 0;
    for (int64_t k = 0; k < K; k += 64) {
      const uint64_t bits =
          quantize_word(j->x + m * K + k, tni_cm_min(64, K - k), l->scale, lo, hi, j->xq + m * Kp + k);
      if (!l->shadow) continue;
      j->bitmap[(uint64_t)m * j->plan->room.words + (uint64_t)k / 64] = bits;
      count += (uint32_t)__builtin_popcountll(bits);
    }
    if (Kp > K) memset(j->xq + m * Kp + K, 0, (size_t)(Kp - K));
    if (l->shadow) j->counts[m] = count;
  }
}

static tn_status run_quantize(const tn_plan *plan, const tn_args *a, tn_run *run) {
  npu_job j = job_of(plan, a, run);
  run->parallel_for(run, plan->M, tni_cm_max(1, GRAIN_BYTES / (4 * j.b->l.K)), quantize_rows, &j);
  return tni_cm_cancelled(run) ? TN_E_CANCELLED : TN_OK;
}

/* --- shadow ------------------------------------------------------------------------------------------------------- */

static void clear_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const npu_job *j = arg;
  (void)worker;
  for (int64_t m = begin; m < end; m++)
    if (j->counts[m]) memset(j->sum + m * j->b->N, 0, (size_t)j->b->N * sizeof *j->sum);
}

/* What the device's clamp left of these channels, times their rows of the weight. */
static void add_batch(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const npu_job *j = arg;
  const tni_npu_linear *l = &j->b->l;
  const int64_t N = l->N[j->weight], pitch = (int64_t)tni_w8r_pitch(N);
  const float hi = (float)TNI_W8_WIDE_MAX, lo = -hi - 1.0f;
  (void)worker;
  for (int64_t m = begin; m < end && !tni_cm_cancelled(j->run); m++) {
    const uint64_t *bits = j->bitmap + (uint64_t)m * j->plan->room.words;
    int64_t *sum = j->sum + m * j->b->N + j->b->n0[j->weight];
    for (uint32_t i = 0; j->counts[m] && i < j->n_channels; i++) {
      const int64_t k = j->channel[i];
      if (!(bits[k / 64] >> (k % 64) & 1)) continue;
      const int32_t q = tni_npu_round(j->x[m * l->K + k], l->scale, lo, hi), r = q < 0 ? q + 128 : q - 127;
      const int8_t *w = j->fetched + i * pitch;
      for (int64_t n = 0; n < N; n++) sum[n] += (int64_t)r * w[n];
    }
  }
}

static tn_status run_batch(npu_job *j) {
  tni_npu_block *b = j->plan->task->b;
  const int64_t pitch = (int64_t)tni_w8r_pitch(b->l.N[j->weight]);
  for (uint32_t i = 0; i < j->n_channels; i++) {
    tn_status st = tni_npu_rows_get(b, j->weight, j->channel[i], j->fetched + i * pitch);
    if (st != TN_OK) return st;
  }
  const int64_t macs = tni_cm_max(1, (int64_t)(b->outliers + 1) * b->l.N[j->weight]);
  j->run->parallel_for(j->run, j->plan->M, tni_cm_max(1, GRAIN_MACS / macs), add_batch, j);
  return tni_cm_cancelled(j->run) ? TN_E_CANCELLED : TN_OK;
}

/* Channels in order, so that rows that are not in memory are read in the order in which they lie. */
static tn_status add_weight(npu_job *j, const uint64_t *any) {
  tn_status st = TN_OK;
  j->n_channels = 0;
  for (uint64_t w = 0; st == TN_OK && w < j->plan->room.words; w++) {
    for (uint64_t bits = any[w]; st == TN_OK && bits; bits &= bits - 1) {
      j->channel[j->n_channels++] = (int64_t)w * 64 + __builtin_ctzll(bits);
      if (j->n_channels < TNI_NPU_BATCH) continue;
      st = run_batch(j);
      j->n_channels = 0;
    }
  }
  return st == TN_OK && j->n_channels ? run_batch(j) : st;
}

/* CPU tasks. */
static tn_status run_shadow(const tn_plan *plan, const tn_args *a, tn_run *run) {
  npu_job j = job_of(plan, a, run);
  const uint64_t words = plan->room.words;
  uint64_t *any = (uint64_t *)(void *)tni_npu_scratch(a), found = 0;
  j.fetched = (int8_t *)any + (words * 8 + 63) / 64 * 64;
  memset(any, 0, words * sizeof *any);
  for (int64_t m = 0; m < plan->M; m++)
    for (uint64_t w = 0; j.counts[m] && w < words; w++) any[w] |= j.bitmap[(uint64_t)m * words + w];
  for (uint64_t w = 0; w < words; w++) found |= any[w];
  if (!found) return TN_OK;
  run->parallel_for(run, plan->M, tni_cm_max(1, GRAIN_BYTES / (8 * j.b->N)), clear_rows, &j);
  tn_status st = TN_OK;
  for (j.weight = 0; st == TN_OK && j.weight < j.b->l.n_weights; j.weight++) st = add_weight(&j, any);
  return st;
}

/* --- merge -------------------------------------------------------------------------------------------------------- */

/* Rows [m0, m0 + rows), columns [c, c + columns) of a strip; rows of a tile have TNI_NPU_TILE_COLUMNS floats. */
typedef struct merge_tile {
  const tni_npu_strip *s;
  int64_t m0, rows, c, columns;
  float *tiles;
} merge_tile;

void tni_npu_dequantize(const int32_t *from, int64_t pitch, int64_t rows, int64_t columns, double scale, float *to) {
  for (int64_t r = 0; r < rows; r++, from += pitch, to += TNI_NPU_TILE_COLUMNS) {
    for (int64_t n = 0; n < columns; n++) to[n] = (float)((double)from[n] * scale);
    for (int64_t n = columns; n < TNI_NPU_TILE_COLUMNS; n++) to[n] = 0;
  }
}

/* The one conversion of a sum to float: both factors of the scale are exact in double, and so is their product. */
static void load_product(const npu_job *j, const merge_tile *p, uint32_t part, float *tile) {
  const tni_npu_block *b = j->b;
  const tni_cm_part *f = &b->l.f.parts[part];
  const int64_t first = f->first + p->c, N = b->l.N[f->weight];
  const int64_t pitch = (N + TNI_NPU_TILE - 1) / TNI_NPU_TILE * TNI_NPU_TILE;
  const double scale = (double)b->l.scale * (double)b->w_scale[f->weight];
  const int32_t *acc = (const int32_t *)(const void *)(j->acc + j->plan->room.acc_at[f->weight]);
  for (int64_t r = 0; r < p->rows; r++) {
    const int64_t m = p->m0 + r;
    const int32_t *from = acc + m * pitch + first;
    const bool shadowed = b->l.shadow && j->counts[m];
    const int64_t *more = shadowed ? j->sum + m * b->N + b->n0[f->weight] + first : NULL;
    float *to = tile + r * TNI_NPU_TILE_COLUMNS;
    tni_npu_dequantize(from, pitch, 1, p->columns, scale, to);
    for (int64_t n = 0; more && n < p->columns; n++) to[n] = (float)((double)(from[n] + more[n]) * scale);
  }
}

/* An operand may lie at any address of a mapped file. */
static void load_operand(const npu_job *j, const merge_tile *p, const tni_npu_operand *o, float *tile) {
  const uint8_t *from = j->args->place[o->use].ptr;
  const size_t row = (size_t)p->columns * sizeof(float);
  float one;
  for (int64_t r = 0; r < p->rows; r++) {
    float *to = tile + r * TNI_NPU_TILE_COLUMNS;
    if (o->kind == TNI_CM_ONE) {
      memcpy(&one, from, sizeof one);
      for (int64_t n = 0; n < TNI_NPU_TILE_COLUMNS; n++) to[n] = one;
      continue;
    }
    const int64_t at = o->kind == TNI_CM_ROW ? p->c : (p->m0 + r) * p->s->N + p->c;
    memcpy(to, from + at * (int64_t)sizeof(float), row);
    for (int64_t n = p->columns; n < TNI_NPU_TILE_COLUMNS; n++) to[n] = 0;
  }
}

static void merge_place(const npu_job *j, const merge_tile *p) {
  const tni_cm_strip *s = &p->s->prog;
  const size_t floats = j->plan->room.tile_floats;
  for (uint32_t i = 0; i < s->n_parts; i++) load_product(j, p, s->parts[i], p->tiles + i * floats);
  for (uint32_t i = 0; i < s->n_loads; i++) load_operand(j, p, &p->s->load[i], p->tiles + s->loads[i].tile * floats);
  tni_cm_strip_run(s, tni_clt_chain_f32_1x1_scalar(), p->tiles, floats, (size_t)(p->rows * TNI_NPU_TILE_COLUMNS));
  for (uint32_t i = 0; i < s->n_stores; i++) {
    if (p->s->store[i] == TN_NONE) continue;
    const float *tile = p->tiles + s->stores[i].tile * floats;
    float *y = (float *)(void *)j->args->place[p->s->store[i]].ptr;
    for (int64_t r = 0; r < p->rows; r++)
      memcpy(y + (p->m0 + r) * p->s->N + p->c, tile + r * TNI_NPU_TILE_COLUMNS, (size_t)p->columns * sizeof(float));
  }
}

static int64_t column_blocks(const tni_npu_strip *s) {
  return (s->N + TNI_NPU_TILE_COLUMNS - 1) / TNI_NPU_TILE_COLUMNS;
}

static void merge_blocks(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const npu_job *j = arg;
  const int64_t row_blocks = (j->plan->M + TNI_NPU_TILE_ROWS - 1) / TNI_NPU_TILE_ROWS;
  for (int64_t u = begin; u < end && !tni_cm_cancelled(j->run); u++) {
    int64_t at = u;
    uint32_t i = 0;
    while (at >= row_blocks * column_blocks(j->b->strips[i])) at -= row_blocks * column_blocks(j->b->strips[i++]);
    merge_tile p = {.s = j->b->strips[i],
                    .tiles = j->tiles + (size_t)worker * j->b->n_tiles * j->plan->room.tile_floats};
    p.m0 = at % row_blocks * TNI_NPU_TILE_ROWS;
    p.rows = tni_cm_min(TNI_NPU_TILE_ROWS, j->plan->M - p.m0);
    p.c = at / row_blocks * TNI_NPU_TILE_COLUMNS;
    p.columns = tni_cm_min(TNI_NPU_TILE_COLUMNS, p.s->N - p.c);
    merge_place(j, &p);
  }
}

static tn_status run_merge(const tn_plan *plan, const tn_args *a, tn_run *run) {
  npu_job j = job_of(plan, a, run);
  int64_t n = 0;
  j.tiles = (float *)(void *)tni_npu_scratch(a);
  for (uint32_t i = 0; i < j.b->n_strips; i++) n += column_blocks(j.b->strips[i]);
  n *= (plan->M + TNI_NPU_TILE_ROWS - 1) / TNI_NPU_TILE_ROWS;
  run->parallel_for(run, n, GRAIN_FLOATS / (TNI_NPU_TILE_ROWS * TNI_NPU_TILE_COLUMNS), merge_blocks, &j);
  return tni_cm_cancelled(run) ? TN_E_CANCELLED : TN_OK;
}

tn_status tni_npu_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  tn_status st = TN_E_INTERNAL;
  if (plan->task->kind == TNI_NPU_QUANTIZE) st = run_quantize(plan, a, run);
  if (plan->task->kind == TNI_NPU_SHADOW) st = run_shadow(plan, a, run);
  if (plan->task->kind == TNI_NPU_MERGE) st = run_merge(plan, a, run);
  if (st == TN_OK) return st;
  return tni_cm_fail(err, st, plan->task->pub.name,
                     st == TN_E_CANCELLED ? "cancelled" : "rows of its weights cannot be read");
}
