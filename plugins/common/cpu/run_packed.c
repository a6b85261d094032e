/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed products and the chains after them. One parallel_for quantizes the rows (one row: the caller does it), a
 * second goes over units: 16 columns of a strip, up to plan->unit_rows rows. A unit computes these columns of all the
 * strip's products, so the chain runs over tiles that are still in cache, and products that are no results never leave
 * the worker's tiles. Units of one row are taken up to eight at a time, others two by two. Nothing is allocated.
 *
 * Rows of x that are all zeros, eight side by side or the only one, give zeros and read no weights: experts that nobody
 * chose. The kernels' sums of such a row start at 0 and add zeros, so the bits are the same.
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/match.h"
#include "plugins/common/cpu/program.h"
#include "plugins/common/formats/formats.h"

enum {
  BLOCK = TNI_CLT_ROWS,
  GRAIN_BYTES = 32768, /* weights that are worth a fork */
  GRAIN_MACS = 200000,
  PUT_BYTES = 4 << 20, /* results that are more go past the caches: the next task finds little of them there */
  CACHE_LINE = 64,
  ASKED_ROWS = 32,
  ZERO_ROWS = 8,  /* what kernels take at once in every layout of x */
  GRAIN_SPLIT = 4 /* units whose products meet two blocks share one of them with their neighbour */
};

typedef struct packed_run {
  const tn_plan *plan;
  const tn_args *args;
  tn_run *run;
  const float *x;
  const uint8_t *w;
  char *tiles;
  tni_clt_act act;
  bool zero; /* the only row is */
} packed_run;

/* Where a tile lies: rows [m0, m0 + rows), columns [c, c + columns) of a strip. It has so many `blocks` one after the
 * other, each of `pitch` columns, a multiple of 16. */
typedef struct tile_place {
  const tni_clt_strip *s;
  int64_t m0, rows, c, columns, blocks, pitch;
  float *tiles;  /* of the worker */
  uint32_t zero; /* bit i: rows m0 + i * ZERO_ROWS and those after it are zeros */
} tile_place;
_Static_assert((int)TNI_CLT_MOST_ROWS / (int)ZERO_ROWS <= 32, "bits for the rows of a unit");

/* A product whose units meet two blocks: the right block of a unit is the left one of the next. */
typedef struct carried {
  int64_t block, m0; /* what `left` holds; block -1: nothing */
  float *left, *right;
} carried;

static void quantize_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const packed_run *r = arg;
  const tni_clt_geometry *g = &r->plan->task->geo;
  (void)worker;
  for (int64_t m = begin; m < end && !tni_cm_cancelled(r->run); m++)
    r->plan->quant(r->x + m * g->K, (size_t)g->K, (size_t)g->K_padded, &r->act, (size_t)m);
}

static bool is_zero(const packed_run *r, int64_t begin, int64_t end) {
  const int64_t K = r->plan->task->geo.K;
  for (const float *x = r->x + begin * K, *last = r->x + end * K; x < last; x++)
    if (*x != 0) return false;
  return true;
}

static uint32_t zero_rows(const packed_run *r, const tile_place *p) {
  uint32_t bits = 0;
  for (int64_t m = 0, i = 0; m < p->rows; m += ZERO_ROWS, i++)
    if (is_zero(r, p->m0 + m, p->m0 + tni_cm_min(m + ZERO_ROWS, p->rows))) bits |= 1u << i;
  return bits;
}

static float *tile_of(const packed_run *r, const tile_place *p, uint32_t i) {
  return p->tiles + (size_t)i * r->plan->room.tile_floats;
}

/* What the kernels leave to do where a row of x has one scale: rows [m0, m0 + rows) of y, `columns` each. */
static void scale_rows(const packed_run *r, int64_t m0, int64_t rows, int64_t columns, float *y) {
  if (!r->act.row) return;
  for (int64_t m = 0; m < rows; m++, y += columns)
    for (int64_t i = 0; i < columns; i++) y[i] *= r->act.row[m0 + m];
}

/* --- products into tiles ---------------------------------------------------------------------------------------- */

/* One row: blocks one after the other, moved to the front where the product begins within the first. */
static void row_products(const packed_run *r, const tile_place *p) {
  const tni_clt_geometry *g = &r->plan->task->geo;
  for (uint32_t i = 0; i < p->s->prog.n_parts; i++) {
    int64_t first = p->s->n0[i] + p->c, shift = first % BLOCK, b = first / BLOCK;
    float *tile = tile_of(r, p, i), *to = tile;
    if (r->zero) {
      memset(tile, 0, (size_t)p->columns * sizeof(float));
      continue;
    }
    for (; b * BLOCK < first + p->columns; b++, to += BLOCK)
      r->plan->gemv(r->w + b * g->row_block_bytes, (size_t)g->superblocks, &r->act, to);
    scale_rows(r, 0, 1, to - tile, tile);
    if (shift) memmove(tile, tile + shift, (size_t)p->columns * sizeof(float));
  }
}

/* Rows [begin, end) of a block. Few go one by one: what the first reads is in L1 for the others. */
static void some_rows(const packed_run *r, const tile_place *p, int64_t block, int64_t begin, int64_t end, float *to) {
  const tni_clt_geometry *g = &r->plan->task->geo;
  const uint8_t *w = r->w + block * g->row_block_bytes;
  const size_t m0 = (size_t)(p->m0 + begin), m1 = (size_t)(p->m0 + end);
  to += begin * BLOCK;
  if (!r->plan->row_by_row) r->plan->gemm(w, (size_t)g->superblocks, &r->act, m0, m1, to);
  for (size_t m = m0; r->plan->row_by_row && m < m1; m++) {
    tni_clt_act a = r->act;
    a.q += m * a.q_stride;
    a.scale += m * a.s_stride;
    a.zero += m * a.z_stride;
    r->plan->gemv(w, (size_t)g->superblocks, &a, to + (m - m0) * BLOCK);
  }
  scale_rows(r, p->m0 + begin, end - begin, BLOCK, to);
}

static void block_rows(const packed_run *r, const tile_place *p, int64_t block, float *to) {
  int64_t begin = 0;
  if (!p->zero) {
    some_rows(r, p, block, 0, p->rows, to);
    return;
  }
  for (int64_t m = 0, i = 0; m < p->rows; m += ZERO_ROWS, i++) {
    if (!(p->zero >> i & 1)) continue;
    if (begin < m) some_rows(r, p, block, begin, m, to);
    begin = tni_cm_min(m + ZERO_ROWS, p->rows);
    memset(to + m * BLOCK, 0, (size_t)((begin - m) * BLOCK) * sizeof(float));
  }
  if (begin < p->rows) some_rows(r, p, block, begin, p->rows, to);
}

static void joined_rows(const packed_run *r, const tile_place *p, int64_t first, carried *c, float *tile) {
  int64_t block = first / BLOCK, shift = first % BLOCK, from_left = tni_cm_min(BLOCK - shift, p->columns);
  if (c->block != block || c->m0 != p->m0) block_rows(r, p, block, c->left);
  if (from_left < p->columns) block_rows(r, p, block + 1, c->right);
  for (int64_t m = 0; m < p->rows; m++) {
    memcpy(tile + m * BLOCK, c->left + m * BLOCK + shift, (size_t)from_left * sizeof(float));
    memcpy(tile + m * BLOCK + from_left, c->right + m * BLOCK, (size_t)(p->columns - from_left) * sizeof(float));
  }
  c->block = -1;
  if (from_left == p->columns) return;
  float *left = c->left;
  *c = (carried){.block = block + 1, .m0 = p->m0, .left = c->right, .right = left};
}

static void aligned_rows(const packed_run *r, const tile_place *p, int64_t block, float *tile) {
  const tni_clt_geometry *g = &r->plan->task->geo;
  float *const acc[] = {tile, tile + p->rows * BLOCK};
  if (p->blocks == 2 && r->plan->gemm2 && !p->zero) {
    r->plan->gemm2(r->w + block * g->row_block_bytes, (size_t)g->row_block_bytes, (size_t)g->superblocks, &r->act,
                   (size_t)p->m0, (size_t)(p->m0 + p->rows), acc);
    scale_rows(r, p->m0, p->rows, BLOCK, acc[0]);
    scale_rows(r, p->m0, p->rows, BLOCK, acc[1]);
    return;
  }
  for (int64_t b = 0; b < p->blocks; b++) block_rows(r, p, block + b, acc[b]);
}

static void tile_products(const packed_run *r, const tile_place *p, carried *c) {
  for (uint32_t i = 0; i < p->s->prog.n_parts; i++) {
    int64_t first = p->s->n0[i] + p->c;
    if (first % BLOCK)
      joined_rows(r, p, first, &c[i], tile_of(r, p, i));
    else
      aligned_rows(r, p, first / BLOCK, tile_of(r, p, i));
  }
}

/* --- operands and results --------------------------------------------------------------------------------------- */

/* An operand may lie at any address of a mapped file. */
static float one_number(const char *from, float factor) {
  float v;
  memcpy(&v, from, sizeof v);
  return factor == 1.0f ? v : factor * v;
}

/* Rows of 16 are most of what is copied: known sizes need no call. */
static inline void copy_row(void *to, const void *from, int64_t columns) {
  if (columns == BLOCK)
    memcpy(to, from, BLOCK * sizeof(float));
  else
    memcpy(to, from, (size_t)columns * sizeof(float));
}

static void load_row(const char *from, float factor, int64_t columns, int64_t pitch, float *to) {
  copy_row(to, from, columns);
  for (int64_t i = columns; i < pitch; i++) to[i] = 0;
  for (int64_t i = 0; factor != 1.0f && i < columns; i++) to[i] = factor * to[i];
}

static int64_t floats_of(const tile_place *p) { return p->blocks * p->rows * p->pitch; }
/* Of block b. */
static int64_t columns_of(const tile_place *p, int64_t b) { return tni_cm_min(p->pitch, p->columns - b * p->pitch); }

/* Asks memory for rows [begin, end) of an operand of whole rows. They lie kilobytes apart, in few sets of a cache: more
 * than ASKED_ROWS of them at once push each other out. Inlined by force, as is ask: a function of nothing but
 * prefetches counts as one without effect. */
__attribute__((always_inline)) static inline void ask_rows(const packed_run *r, const tile_place *p,
                                                           const tni_clt_operand *o, int64_t begin, int64_t end) {
  const int64_t pitch = p->s->N * (int64_t)sizeof(float), bytes = p->columns * (int64_t)sizeof(float);
  for (int64_t m = begin; m < tni_cm_min(end, p->rows); m++) {
    const char *from = (const char *)r->args->ptr[o->use] + (p->m0 + m) * pitch + p->c * (int64_t)sizeof(float);
    for (int64_t at = 0; at < bytes; at += CACHE_LINE) __builtin_prefetch(from + at, 0, 2);
  }
}

/* The first rows of what the chain loads are asked for while the products are computed. */
__attribute__((always_inline)) static inline void ask_weights(const packed_run *r, const tile_place *p) {
  for (uint32_t i = 0; i < p->s->prog.n_loads; i++)
    if (p->s->load[i].kind == TNI_CM_WHOLE) ask_rows(r, p, &p->s->load[i], 0, ASKED_ROWS);
}

static void load_operand_tile(const packed_run *r, const tile_place *p, const tni_clt_operand *o, float *tile) {
  const char *from = o->kind == TNI_CM_NUMBER ? NULL : r->args->ptr[o->use];
  const bool whole = o->kind == TNI_CM_WHOLE;
  if (o->kind == TNI_CM_NUMBER || o->kind == TNI_CM_ONE) {
    float v = from ? one_number(from, o->number) : o->number;
    for (int64_t i = 0; i < floats_of(p); i++) tile[i] = v;
    return;
  }
  for (int64_t m = 0; m < (whole ? p->rows : 1); m++) {
    if (whole) ask_rows(r, p, o, m + ASKED_ROWS, m + ASKED_ROWS + 1);
    for (int64_t b = 0; b < p->blocks; b++)
      load_row(from + ((whole ? (p->m0 + m) * p->s->N : 0) + p->c + b * p->pitch) * (int64_t)sizeof(float), o->number,
               columns_of(p, b), p->pitch, tile + (b * p->rows + m) * p->pitch);
  }
  for (int64_t b = 0; !whole && b < p->blocks; b++) {
    float *rows = tile + b * p->rows * p->pitch;
    for (int64_t m = 1; m < p->rows; m++) memcpy(rows + m * p->pitch, rows, (size_t)p->pitch * sizeof(float));
  }
}

static bool past_caches(const packed_run *r, const tile_place *p, const float *y) {
  const uint64_t row_bytes = (uint64_t)p->s->N * sizeof(float);
  return r->plan->chain->put && p->pitch == BLOCK && p->columns == p->blocks * BLOCK && row_bytes % CACHE_LINE == 0 &&
         (uintptr_t)y % CACHE_LINE == 0 && (uint64_t)r->plan->M * row_bytes >= PUT_BYTES;
}

/* The chain over the products that lie in the first tiles, then the results to where they belong. */
static void finish_unit(const packed_run *r, const tile_place *p) {
  const tni_cm_strip *s = &p->s->prog;
  for (uint32_t i = 0; i < s->n_loads; i++) load_operand_tile(r, p, &p->s->load[i], tile_of(r, p, s->loads[i].tile));
  tni_cm_strip_run(s, r->plan->chain, p->tiles, r->plan->room.tile_floats, (size_t)floats_of(p));
  for (uint32_t i = 0; i < s->n_stores; i++) {
    if (p->s->store[i] == TN_NONE) continue;
    const float *tile = tile_of(r, p, s->stores[i].tile);
    float *y = (float *)r->args->ptr[p->s->store[i]] + p->m0 * p->s->N + p->c;
    if (past_caches(r, p, y)) {
      r->plan->chain->put(y, (size_t)p->s->N, tile, (size_t)p->rows, (size_t)p->blocks);
      continue;
    }
    for (int64_t m = 0; m < p->rows; m++)
      for (int64_t b = 0; b < p->blocks; b++)
        copy_row(y + m * p->s->N + b * p->pitch, tile + (b * p->rows + m) * p->pitch, columns_of(p, b));
  }
}

/* --- units ------------------------------------------------------------------------------------------------------ */

static const tni_clt_strip *strip_at(const tni_clt_task *t, int64_t unit) {
  uint32_t k = 0;
  while (unit >= t->strips[k]->first_unit + t->strips[k]->n_units) k++;
  return t->strips[k];
}

static float *worker_tiles(const packed_run *r, uint32_t worker) {
  return (float *)(void *)(r->tiles + worker * r->plan->room.worker_bytes);
}

static void row_units(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const packed_run *r = arg;
  tile_place p = {.rows = 1, .blocks = 1, .tiles = worker_tiles(r, worker)};
  for (int64_t u = begin, n; u < end && !tni_cm_cancelled(r->run); u += n) {
    p.s = strip_at(r->plan->task, u);
    int64_t at = u - p.s->first_unit;
    n = tni_cm_min(tni_cm_min(end - u, p.s->n_units - at), TNI_CLT_RUN_UNITS);
    p.c = at * BLOCK;
    p.columns = tni_cm_min(n * BLOCK, p.s->N - p.c);
    p.pitch = n * BLOCK;
    row_products(r, &p);
    finish_unit(r, &p);
  }
}

/* All products of a strip begin where blocks do. */
static bool is_aligned_strip(const tni_clt_strip *s) {
  for (uint32_t i = 0; i < s->prog.n_parts; i++)
    if (s->n0[i] % BLOCK) return false;
  return true;
}

static void tile_units(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const packed_run *r = arg;
  const tni_clt_task *t = r->plan->task;
  const size_t floats = r->plan->room.tile_floats;
  tile_place p = {.tiles = worker_tiles(r, worker), .pitch = BLOCK};
  carried c[TN_FUSED_MAX_PARTS];
  const tni_clt_strip *last = NULL;
  for (int64_t u = begin; u < end && !tni_cm_cancelled(r->run); u += p.blocks) {
    int64_t unit = u % t->n_units, m0 = u / t->n_units * r->plan->unit_rows;
    p.s = strip_at(t, unit);
    if (u == begin || m0 != p.m0) {
      p.m0 = m0;
      p.rows = tni_cm_min(r->plan->unit_rows, r->plan->M - m0);
      p.zero = zero_rows(r, &p);
    }
    for (uint32_t i = 0; p.s != last && i < t->n_split && i < p.s->prog.n_parts; i++) {
      float *pair = p.tiles + (t->n_tiles + 2 * i) * floats;
      c[i] = (carried){.block = -1, .left = pair, .right = pair + floats};
    }
    last = p.s;
    p.blocks = is_aligned_strip(p.s) ? tni_cm_min(tni_cm_min(2, end - u), p.s->first_unit + p.s->n_units - unit) : 1;
    p.c = (unit - p.s->first_unit) * BLOCK;
    p.columns = tni_cm_min(p.blocks * BLOCK, p.s->N - p.c);
    ask_weights(r, &p);
    tile_products(r, &p, c);
    finish_unit(r, &p);
  }
}

tn_status tni_clt_run_packed(const tn_plan *plan, const tn_args *a, tn_run *run) {
  const tni_clt_task *t = plan->task;
  const tni_clt_geometry *g = &t->geo;
  if (plan->M == 0 || t->n_units == 0) return TN_OK;
  char *scratch = a->ptr[a->n - 1];
  packed_run r = {.plan = plan, .args = a, .run = run, .x = a->ptr[0], .w = a->ptr[t->w_use]};
  r.tiles = scratch + plan->room.tiles_at;
  r.act = tni_clt_act_of(&plan->room.act, (size_t)plan->M, scratch, scratch + plan->room.scale_at,
                         scratch + plan->room.zero_at);
  const tni_clt_settings *set = &plan->program->device->set;
  if (set->features & TNI_CLT_NARROW) r.act.runs = TNI_LUT_NARROW;
  if (set->by_row) r.act.row = (float *)(void *)(scratch + plan->room.rows_at);
  r.act.scale_bits = g->scale_bits;
  r.act.zero_bits = g->zero_bits;
  if (plan->M == 1)
    quantize_rows(&r, 0, 1, 0);
  else
    run->parallel_for(run, plan->M, tni_cm_max(1, GRAIN_BYTES / g->K_padded), quantize_rows, &r);
  if (tni_cm_cancelled(run)) return TN_E_CANCELLED;
  r.zero = plan->M == 1 && is_zero(&r, 0, 1);
  const int64_t split = t->n_split ? GRAIN_SPLIT : 1;
  if (plan->M == 1) {
    run->parallel_for(run, t->n_units, tni_cm_max(split, GRAIN_BYTES / g->row_block_bytes), row_units, &r);
  } else {
    /* Blocks of weights run fastest: they are small beside the rows of x, which then stay in L2. */
    int64_t row_blocks = (plan->M + plan->unit_rows - 1) / plan->unit_rows;
    int64_t macs = tni_cm_min(plan->M, plan->unit_rows) * BLOCK * g->K_padded;
    run->parallel_for(run, t->n_units * row_blocks, tni_cm_max(split, GRAIN_MACS / macs), tile_units, &r);
  }
  return tni_cm_cancelled(run) ? TN_E_CANCELLED : TN_OK;
}
