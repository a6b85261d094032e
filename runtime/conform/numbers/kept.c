/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes, scales and zero points that somebody chose on a format's grid: begin gets them as the host hands them on, and
 * unpack gives them back bit for bit. What the grid does not hold, and is to be kept, is refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/num.h"
#include "runtime/pack/pack.h"

enum { MOST_N = 64, MOST_K = 512, MOST_LEVELS = 256 * 16, ODD_GROUP = 24 };
enum { AS_CHOSEN, BAD_CODE, BAD_SCALE, BAD_ZERO, BAD_GROUP, BAD_LEVEL, BAD_STEP, BAD_PARENT, BAD_SIGN, BAD_SMALL, WAYS };
static const char *const way_names[WAYS] = {"as chosen", "a code",       "a scale", "a zero point", "a length of groups",
                                            "a level",   "a step",       "a row's scale", "a scale below 0",
                                            "a scale that is a denormal half"};

/* A quantized matrix; first, what the format gets. */
typedef struct chosen {
  tn_quant q;
  tn_weight w;
  tn_grid g;
  int64_t N, K, blocks, row_codes, vec;
  uint8_t codes[MOST_N * MOST_K], index[MOST_N * MOST_K];
  float scales[MOST_N * MOST_K], zeros[MOST_N * MOST_K], parents[MOST_N], levels[MOST_LEVELS], steps[256];
} chosen;

static float value_at(const chosen *c, int64_t n, int64_t k) {
  const int64_t at = n * c->blocks + k / c->q.group;
  const uint8_t code = c->codes[n * c->row_codes + k / c->vec];
  if (c->g.kind == TN_GRID_LEVELS) return c->levels[code * c->vec + k % c->vec] * c->scales[at];
  return ((float)code - c->zeros[at]) * c->scales[at];
}

static tn_status give_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  for (int64_t n = n0; n < n1; n++)
    for (int64_t k = 0; k < w->K; k++) *dst++ = value_at(w->ctx, n, k);
  return TN_OK;
}

static tn_status give_grid(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  const chosen *c = q->ctx;
  const size_t n = (size_t)(n1 - n0), blocks = (size_t)c->blocks;
  if (codes) memcpy(codes, c->codes + n0 * c->row_codes, n * (size_t)c->row_codes);
  if (scales) memcpy(scales, c->scales + n0 * c->blocks, n * blocks * sizeof *scales);
  if (zeros) memcpy(zeros, c->zeros + n0 * c->blocks, n * blocks * sizeof *zeros);
  return TN_OK;
}

static tn_status give_steps(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *index, float *parents) {
  const chosen *c = q->ctx;
  if (index) memcpy(index, c->index + n0 * c->blocks, (size_t)((n1 - n0) * c->blocks));
  if (parents) memcpy(parents, c->parents + n0, (size_t)(n1 - n0) * sizeof *parents);
  return TN_OK;
}

static float any_scale(const tn_grid *g, tni_cf_rng *r) {
  const uint64_t x = tni_cf_rng_next(r);
  const float sign = g->flags & TN_GRID_SIGNED && x >> 60 & 1 ? -1 : 1;
  if ((x >> 56) % 16 == 0) return 0;
  if (g->scale_dtype == TN_DT_F16)
    return sign * g->scale_unit * tni_f16_to_f32((uint16_t)(0x0400 + x % (0x7c00 - 0x0400)));
  return sign * g->scale_unit * ldexpf(1 + (float)(x % 1000) / 997, (int)(x >> 32 & 31) - 20);
}

static float any_zero(const tn_grid *g, tni_cf_rng *r) {
  if (g->zero_kind == TN_ZERO_HALF) return g->zero;
  if (g->zero_kind == TN_ZERO_CODES) return (float)(tni_cf_rng_next(r) % g->n_codes);
  return (float)(tni_cf_rng_next(r) % 4096) / 32 - 64;
}

static void choose_tables(chosen *c, tni_cf_rng *r) {
  const tn_grid *g = &c->g;
  int v = -128;
  if (g->kind != TN_GRID_LEVELS) return;
  const int most = 255 / (int)g->n_codes;
  for (uint32_t i = 0; i < g->n_codes; i++)
    c->levels[i] = (float)(v += 1 + (most > 1 ? (int)(tni_cf_rng_next(r) % (uint64_t)most) : 0));
  if (g->levels) memcpy(c->levels, g->levels, sizeof *c->levels * g->n_codes * (size_t)c->vec);
  c->q.levels = c->levels;
  c->q.n_levels = g->n_codes;
  c->q.vec = g->vec;
  if (!g->n_steps) return;
  memcpy(c->steps, g->steps, sizeof *c->steps * g->n_steps);
  c->q.n_steps = g->n_steps;
  c->q.steps = c->steps;
  c->q.stepped = give_steps;
}

static void choose_elements(chosen *c, tni_cf_rng *r) {
  const tn_grid *g = &c->g;
  for (int64_t i = 0; i < c->N * c->row_codes; i++) c->codes[i] = (uint8_t)(tni_cf_rng_next(r) % g->n_codes);
  for (int64_t n = 0; n < c->N; n++) c->parents[n] = any_scale(g, r);
  for (int64_t i = 0; i < c->N * c->blocks; i++) {
    c->index[i] = (uint8_t)(g->n_steps ? tni_cf_rng_next(r) % g->n_steps : 0);
    c->scales[i] = g->n_steps ? c->parents[i / c->blocks] * c->steps[c->index[i]] : any_scale(g, r);
    c->zeros[i] = any_zero(g, r);
  }
}

/* What a tn_quant says of zeros of this grid. */
static uint32_t zeros_of(const tn_grid *g, uint32_t bits) {
  if (g->kind == TN_GRID_LEVELS) return TN_ZERO_UNKNOWN;
  if (g->zero_kind != TN_ZERO_HALF) return g->zero_kind;
  const float top = (float)(1u << bits);
  if (g->zero == top / 2) return TN_ZERO_HALF;
  return g->zero >= 0 && g->zero < top && rintf(g->zero) == g->zero ? TN_ZERO_CODES : TN_ZERO_VALUES;
}

static void choose(chosen *c, int64_t N, int64_t K, int way, tni_cf_rng *r) {
  const tn_grid *g = &c->g;
  const bool levels = g->kind == TN_GRID_LEVELS;
  c->N = N;
  c->K = K;
  c->q = (tn_quant){.h = TN_HDR(tn_quant), .bits = 1, .ctx = c, .grid = give_grid, .scale_dtype = g->scale_dtype,
                    .scheme = levels ? TN_QUANT_LEVELS : TN_QUANT_AFFINE};
  while (1u << c->q.bits < g->n_codes) c->q.bits++;
  c->q.zero_kind = zeros_of(g, c->q.bits);
  c->q.group = way == BAD_GROUP ? ODD_GROUP : g->group ? g->group : (uint32_t)K;
  c->vec = levels && g->vec ? g->vec : 1;
  c->blocks = (K + c->q.group - 1) / c->q.group;
  c->row_codes = (K + c->vec - 1) / c->vec;
  c->w = (tn_weight){
      .h = TN_HDR(tn_weight), .ctx = c, .N = N, .K = K, .dtype = TN_DT_F32, .quant = &c->q, .rows = give_rows};
  choose_tables(c, r);
  choose_elements(c, r);
}

/* Whether this can be off such a grid, and c then is. */
static bool spoil(chosen *c, int way, tni_cf_rng *r) {
  const tn_grid *g = &c->g;
  const uint64_t at = tni_cf_rng_next(r) % (uint64_t)(c->N * c->blocks);
  switch (way) {
    case BAD_CODE:
      c->codes[tni_cf_rng_next(r) % (uint64_t)(c->N * c->row_codes)] = (uint8_t)g->n_codes;
      return g->n_codes < 256;
    case BAD_SCALE:
      c->scales[at] = g->scale_dtype == TN_DT_F16 ? 1.0f / 3 * g->scale_unit : INFINITY;
      return !g->n_steps;
    case BAD_ZERO:
      c->zeros[at] = g->zero_kind == TN_ZERO_VALUES ? 257 : c->zeros[at] + 0.25f;
      return g->kind == TN_GRID_AFFINE;
    case BAD_GROUP:
      return c->K > ODD_GROUP && g->group != ODD_GROUP && ODD_GROUP % c->vec == 0;
    case BAD_LEVEL:
      c->levels[g->n_codes / 2] += 0.5f;
      return g->kind == TN_GRID_LEVELS && (g->levels || g->level_dtype == TN_DT_I8);
    case BAD_STEP:
      c->steps[g->n_steps / 2] = c->steps[g->n_steps / 2] * 1.25f + 0.001f;
      return g->n_steps > 0;
    case BAD_PARENT:
      c->parents[at / (uint64_t)c->blocks] = g->scale_dtype == TN_DT_F16 ? g->scale_unit / 3 : INFINITY;
      return g->n_steps > 0;
    case BAD_SIGN:
      c->scales[at] = -fabsf(c->scales[at] != 0 ? c->scales[at] : g->scale_unit);
      return !g->n_steps && !(g->flags & TN_GRID_SIGNED);
    case BAD_SMALL:
      c->scales[at] = 0x1p-16f * g->scale_unit;
      return !g->n_steps && g->scale_dtype == TN_DT_F16;
    default:
      return true;
  }
}

/* Packed, and unpacked into got. */
static tn_status there_and_back(const tn_host *host, const tn_format *f, const int64_t *params, uint32_t n,
                                const tn_weight *w, float *got, tn_error *err) {
  const int64_t box[4] = {0, w->N, 0, w->K};
  tn_pack_size z = {0};
  tn_pack *p = NULL;
  tn_status st = f->size(f, w->N, w->K, params, n, &z);
  void *at = st == TN_OK ? aligned_alloc(4096, (z.bytes + 4096) / 4096 * 4096) : NULL;
  if (!at) return st == TN_OK ? TN_E_NO_MEMORY : st;
  memset(at, 0, z.bytes);
  const tn_blob b = {.h = TN_HDR(tn_blob), .format = f, .N = w->N, .K = w->K, .bytes = z.bytes, .ptr = at,
                     .params = params, .n_params = n};
  st = f->begin(host, f, w, params, n, &p, err);
  const int64_t step = z.row_unit ? z.row_unit : 1;
  for (int64_t i = 0; st == TN_OK && i < w->N; i += step)
    st = f->rows(p, i, i + step < w->N ? i + step : w->N, at);
  const tn_status end = p ? f->end(p, st == TN_OK ? at : NULL) : TN_OK;
  if (st == TN_OK) st = end;
  if (st == TN_OK) st = f->unpack(&b, box, got);
  free(at);
  return st;
}

/* As the host hands it to begin. */
static void ask_kept(tni_cf *cf, const char *text, const char *how, const tn_weight *w, tn_status st, const float *got,
                     const tn_error *err) {
  if (st != TN_OK) {
    tni_cf_fail(cf, "codes that lie on its own grid are refused: %s [%lld,%lld]: %s: %s (format.h, tn_grid)", text,
                (long long)w->N, (long long)w->K, tni_status_name(st), err->message);
    return;
  }
  for (int64_t i = 0; i < w->N * w->K; i++) {
    const float want = value_at(w->ctx, i / w->K, i % w->K);
    if (memcmp(&want, &got[i], sizeof want) == 0) continue;
    tni_cf_fail(cf,
                "codes that lie on its own grid are rounded again, though %s: %s [%lld,%lld]: weight [%lld,%lld] is %.9g "
                "and comes back as %.9g: take codes, scales and zeros as tn_quant.grid gives them (format.h)",
                how, text, (long long)w->N, (long long)w->K, (long long)(i / w->K), (long long)(i % w->K), (double)want,
                (double)got[i]);
    return;
  }
}

static void one_way(tni_cf *cf, const tn_host *host, const char *text, const tn_format *f, const int64_t *params,
                    uint32_t n, chosen *c, float *got, int way) {
  tn_error err;
  tni_error_init(&err);
  if (way == AS_CHOSEN) {
    tni_pack_kept k;
    const tn_status kept = tni_pack_keep(&k, f, params, n, &c->w, NULL);
    if (kept != TN_OK || !k.weight.quant || !(k.weight.quant->flags & TN_QUANT_KEEP)) {
      tni_cf_fail(cf, "its grid holds nothing that the host can choose: %s, kind %u, %u codes, groups of %u, scale_unit "
                      "%g (format.h, tn_grid)", text, c->g.kind, c->g.n_codes, c->g.group, (double)c->g.scale_unit);
      return;
    }
    const tn_status st = there_and_back(host, f, params, n, &k.weight, got, &err);
    ask_kept(cf, text, "they come with TN_QUANT_KEEP", &k.weight, st, got, &err);
    if (cf->verdict == TNI_CF_FAIL || !(f->flags & TN_FMT_READS_QUANT)) return;
    const tn_status bare = there_and_back(host, f, params, n, &c->w, got, &err);
    ask_kept(cf, text, "it says TN_FMT_READS_QUANT (they come without KEEP)", &c->w, bare, got, &err);
    return;
  }
  c->q.flags = TN_QUANT_KEEP;
  const tn_status st = there_and_back(host, f, params, n, &c->w, got, &err);
  if (st != TN_E_INVALID)
    tni_cf_fail(cf,
                "%s that its grid does not hold is %s, though all is to be kept: %s [%lld,%lld]: begin or rows says "
                "INVALID then (format.h, TN_QUANT_KEEP)",
                way_names[way], st == TN_OK ? "taken" : tni_status_name(st), text, (long long)c->N, (long long)c->K);
}

void tni_cn_ask_kept(tni_cf *cf, const tn_host *host, const char *text, const tn_format *f, const int64_t *params,
                     uint32_t n) {
  /* Those that its tiles take (format.h, size), and the last one in any case. */
  static const int64_t shapes[][2] = {{1, 1}, {5, 40}, {33, 300}, {MOST_N, 128}, {MOST_N, MOST_K}};
  tn_pack_size z;
  chosen *c = calloc(1, sizeof *c);
  float *got = calloc(MOST_N * MOST_K, sizeof *got);
  tn_grid g = {.h = TN_HDR(tn_grid)};
  uint32_t asked = 0;
  const bool states = TN_HAS(f, tn_format, grid) && f->grid && f->grid(f, params, n, &g) == TN_OK;
  if (!states) tni_cf_skip(cf, "%s states no grid", text);
  if (states && (g.n_codes < 2 || g.n_codes > 256 || g.vec > 16 || g.n_steps > 256 || (g.n_steps && !g.steps)))
    tni_cf_fail(cf, "its grid is none: %s: %u codes for %u weights each, %u steps (format.h, tn_grid)", text, g.n_codes,
                g.vec ? g.vec : 1, g.n_steps);
  for (int way = 0; states && c && got && cf->verdict != TNI_CF_FAIL && way < WAYS; way++)
    for (size_t s = 0; cf->verdict != TNI_CF_FAIL && s < sizeof shapes / sizeof *shapes; s++) {
      tni_cf_rng r = tni_cf_rng_of(cf, 4000 + 16 * s + (uint64_t)way);
      const bool last = s + 1 == sizeof shapes / sizeof *shapes;
      if (!last && f->size(f, shapes[s][0], shapes[s][1], params, n, &z) != TN_OK) continue;
      c->g = g;
      choose(c, shapes[s][0], shapes[s][1], way, &r);
      if (!spoil(c, way, &r)) continue;
      one_way(cf, host, text, f, params, n, c, got, way);
      asked++;
    }
  if (asked) tni_cf_note(cf, "%s: %u matrices on its grid and just off it", text, asked);
  free(got);
  free(c);
}
