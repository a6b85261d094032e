/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/planted/formats.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/faults/planted/ahead.h"
#include "tests/faults/planted/edges.h"

#define IS(plant) (PLANT == PLANT_##plant)

enum { MAX_FORMATS = 16 };
static tn_format *formats[MAX_FORMATS], old[MAX_FORMATS]; /* the real ones, and what they were */
static tn_numerics numerics[MAX_FORMATS];

static const tn_format *old_of(const tn_format *f) {
  for (int i = 0; i < MAX_FORMATS; i++)
    if (formats[i] == f) return &old[i];
  return NULL;
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

enum { MAX_LEVELS = 256, LEVEL_GROUP = 32 };
static float levels[MAX_LEVELS];
static uint32_t n_levels;

static int by_size(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* All floats of a sign, so many bits of an exponent and so many after it, up to `most`. */
static void levels_of_floats(int exponent, int mantissa, float most) {
  n_levels = 0;
  for (int code = 0; code < 1 << (exponent + mantissa); code++) {
    const int e = code >> mantissa, bias = (1 << (exponent - 1)) - 1, m = code & ((1 << mantissa) - 1);
    const float part = ldexpf((float)m, -mantissa), v = e ? ldexpf(1 + part, e - bias) : ldexpf(part, 1 - bias);
    if (v > most) continue;
    levels[n_levels++] = v;
    if (v > 0) levels[n_levels++] = -v;
  }
  qsort(levels, n_levels, sizeof *levels, by_size);
}

static void levels_make(void) {
  if (IS(OK_E4M3)) levels_of_floats(4, 3, 448);
  if (IS(OK_MXFP4)) levels_of_floats(2, 1, 6);
  if (!IS(LEVELS_COARSE)) return;
  n_levels = MAX_LEVELS - 1; /* all but two of them beside zero */
  for (uint32_t i = 0; i < n_levels; i++) levels[i] = (float)((int)i - 127) / 100000;
  levels[0] = -1;
  levels[n_levels - 1] = 1;
}

static float nearest_level(float x) {
  float best = levels[0];
  for (uint32_t i = 1; i < n_levels; i++)
    if (fabsf(x - levels[i]) < fabsf(x - best)) best = levels[i];
  return best;
}

static float scale_of(float top) {
  if (IS(OK_MXFP4)) return ldexpf(1, ilogbf(top) - 2); /* as the specification has it: 6 is 1.5 * 2^2 */
  return top / levels[n_levels - 1];
}

/* Rounded to levels, with a scale for each group of a row. */
static void rows_of_levels(float *w, int64_t rows, int64_t K) {
  for (int64_t n = 0; n < rows; n++)
    for (int64_t k0 = 0; k0 < K; k0 += LEVEL_GROUP) {
      float *at = w + n * K + k0, top = 0;
      const int64_t len = K - k0 < LEVEL_GROUP ? K - k0 : LEVEL_GROUP;
      for (int64_t k = 0; k < len; k++) top = fmaxf(top, fabsf(at[k]));
      for (int64_t k = 0; top > 0 && k < len; k++) at[k] = nearest_level(at[k] / scale_of(top)) * scale_of(top);
    }
}

static tn_status grid_of_levels(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  (void)f, (void)params;
  if (n || !TN_HAS(out, tn_grid, steps)) return TN_E_INVALID;
  out->kind = TN_GRID_LEVELS, out->n_codes = n_levels, out->group = LEVEL_GROUP;
  out->scale_dtype = TN_DT_F32, out->scale_unit = 1, out->level_dtype = TN_DT_F32, out->levels = levels;
  return TN_OK;
}

static void plant_levels(tn_format *f) {
  levels_make();
  f->group = LEVEL_GROUP;
  f->grid = IS(OK_MXFP4) ? NULL : grid_of_levels;
  f->w_err = IS(OK_MXFP4) ? 0.26f : 0.04f; /* half a step, or what is cut off; and what the real format rounds */
  if (IS(OK_MXFP4)) f->bits = 4;
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

typedef struct weight {
  tn_weight pub;
  const tn_weight *theirs;
  int64_t next;
} weight;

static tn_status wrong_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  weight *k = w->ctx;
  tn_status st = k->theirs->rows(k->theirs, n0, n1, dst);
  const int64_t group = (w->K - 1) / 128 * 128;
  for (int64_t i = 0; st == TN_OK && i < (n1 - n0) * w->K; i++) {
    if (IS(LAST_SCALE) && i % w->K >= group) dst[i] *= 1.5f;
    if (IS(PACK_ORDER) && n0 != 0 && n0 != k->next) dst[i] *= 0.9f;
  }
  if (st == TN_OK && n_levels) rows_of_levels(dst, n1 - n0, w->K);
  k->next = n1;
  return st;
}

static tn_status my_begin(const tn_host *h, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                          tn_pack **out, tn_error *err) {
  weight *k = calloc(1, sizeof *k); /* lives as long as the pack: until the process ends */
  if (!k) return TN_E_NO_MEMORY;
  *k = (weight){.pub = *w, .theirs = w};
  k->pub.ctx = k;
  k->pub.rows = wrong_rows;
  k->pub.raw = NULL;
  k->pub.quant = NULL;
  return old_of(f)->begin(h, f, &k->pub, params, n, out, err);
}

static tn_status my_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  tn_status st = old_of(b->format)->unpack(b, box, dst);
  for (int64_t i = 0; st == TN_OK && i < (box[1] - box[0]) * (box[3] - box[2]); i++) dst[i] *= 1.01f;
  return st;
}

static tn_status my_size(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  tn_status st = old_of(f)->size(f, N, K, params, n, out);
  if (st == TN_OK) out->bytes *= 2;
  return st;
}

static const tn_numerics *my_numerics(const tn_format *f, const int64_t *params, uint32_t n) {
  const tn_format *o = old_of(f);
  const tn_numerics *theirs = o->numerics_of ? o->numerics_of(f, params, n) : o->numerics;
  tn_numerics *mine = &numerics[o - old];
  *mine = *theirs;
  if (IS(ROUNDING)) mine->act_round = TN_ROUND_HALF_AWAY;
  if (IS(LOOSE_SUMS)) mine->acc_inner = mine->acc_outer = TN_DT_BF16;
  if (IS(NARROW_DOMAIN)) mine->finite_max = 1;
  if (IS(KEEPS_DENORMALS)) mine->denormals = TN_DENORM_KEEP;
  if (IS(OK_MXFP4)) mine->scale_dtype = TN_DT_F8E8M0;
  if (IS(OK_BFLOAT16)) mine->act_dtype = TN_DT_BF16;
  if (IS(OK_NARROW)) mine->finite_max = 300;
  return mine;
}

static void writable(const void *p, size_t n) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p / page * page;
  mprotect((void *)from, (uintptr_t)p + n - from, PROT_READ | PROT_WRITE);
}

static void plant_in_format(tn_format *f) {
  writable(f, sizeof *f);
  edges_format(f, old_of(f));
  ahead_format(f, old_of(f));
  if (IS(LAST_SCALE) || IS(PACK_ORDER)) f->begin = my_begin;
  if (IS(UNPACK)) f->unpack = my_unpack;
  if (IS(WASTES_BYTES)) f->size = my_size;
  if (IS(W_ERR)) f->w_err = 0.95f;
  if (IS(X_ERR)) f->x_err = 0.1f;
  if (IS(ROUNDING) || IS(LOOSE_SUMS) || IS(NARROW_DOMAIN) || IS(KEEPS_DENORMALS)) f->numerics_of = my_numerics;
  if (IS(OK_MXFP4) || IS(OK_BFLOAT16) || IS(OK_NARROW)) f->numerics_of = my_numerics;
  if (IS(OK_BFLOAT16)) f->x_err = 0x1p-8f;
  if (IS(OK_E4M3) || IS(OK_MXFP4) || IS(LEVELS_COARSE)) plant_levels(f), f->begin = my_begin;
  if (!IS(OK_OLD_NUMERICS)) return;
  tn_numerics *before = &numerics[old_of(f) - old]; /* as the last headers of ABI 1.0 have it */
  *before = *f->numerics;
  before->h = (tn_hdr){TN_UPTO(tn_numerics, avg_unit), TN_ABI_MAJOR, 0};
  f->numerics = before;
}

void formats_plant(const tn_format *const *list, uint32_t n) {
  for (uint32_t i = 0; i < n && i < MAX_FORMATS; i++) {
    formats[i] = (tn_format *)(uintptr_t)list[i];
    old[i] = *formats[i];
    plant_in_format(formats[i]);
  }
}

void formats_restore(void) {
  for (int i = 0; i < MAX_FORMATS; i++)
    if (formats[i]) *formats[i] = old[i];
  memset(formats, 0, sizeof formats);
}
