/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/conform/numbers/plain.h"

tni_cn_plain tni_cn_plain_of_bits(uint32_t bits) {
  const double n = bits >= 16 ? 65535 : (double)((1u << bits) - 1);
  return (tni_cn_plain){.n_uniform = fmax(3, n), .reach = (fmax(3, n) - 1) / 2};
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* False: they lie on one side of zero, or are no numbers. */
static bool levels_take(tni_cn_plain *p) {
  for (uint32_t i = 0; i < p->n; i++)
    if (!isfinite(p->level[i])) return false;
  qsort(p->level, p->n, sizeof *p->level, by_size);
  p->reach = p->n ? fmin(-p->level[0], p->level[p->n - 1]) : 0;
  return p->reach > 0;
}

static bool levels_of_grid(tni_cn_plain *p, const tn_format *f, const int64_t *params, uint32_t n) {
  tn_grid g = {.h = TN_HDR(tn_grid)};
  if (!TN_HAS(f, tn_format, grid) || !f->grid || f->grid(f, params, n, &g) != TN_OK) return false;
  if (g.kind != TN_GRID_LEVELS || !g.levels || g.vec > 1 || g.n_codes > 256) return false;
  for (p->n = 0; p->n < g.n_codes; p->n++) p->level[p->n] = (double)g.levels[p->n];
  return levels_take(p);
}

/* Floats of so many bits, as OCP's Microscaling Formats (MX) v1.0 has them: of two types the one with the shorter
 * mantissa, whose levels lie further apart. */
static bool levels_of_floats(tni_cn_plain *p, uint32_t bits) {
  static const struct {
    uint32_t bits, exponent, mantissa;
    double most;
  } types[] = {{4, 2, 1, 6}, {6, 3, 2, 28}, {8, 5, 2, 57344}};
  p->n = 0;
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (uint32_t code = 0; types[t].bits == bits && code < 1u << (bits - 1); code++) {
      const uint32_t m = types[t].mantissa, e = code >> m, bias = (1u << (types[t].exponent - 1)) - 1;
      const double part = ldexp(code & ((1u << m) - 1), -(int)m),
                   v = e ? ldexp(1 + part, (int)e - (int)bias) : ldexp(part, 1 - (int)bias);
      if (v > types[t].most) continue;
      p->level[p->n++] = v;
      if (v > 0) p->level[p->n++] = -v;
    }
  return levels_take(p);
}

tni_cn_plain tni_cn_plain_of(const tn_format *f, const int64_t *params, uint32_t n, const tn_numerics *num) {
  tni_cn_plain p = {.powers = num->scale_dtype == TN_DT_F8E8M0};
  if (levels_of_grid(&p, f, params, n) || (p.powers && levels_of_floats(&p, f->bits))) return p;
  return tni_cn_plain_of_bits(f->bits);
}

/* The largest distance between neighbours, of which half may be lost; scales that are powers of two may be twice as
 * large as they have to be. */
double tni_cn_plain_half(const tni_cn_plain *p) {
  double gap = 0;
  if (p->n_uniform > 0) return 0.5 / p->reach;
  for (uint32_t i = 1; i < p->n; i++) gap = fmax(gap, p->level[i] - p->level[i - 1]);
  return gap / 2 / p->reach * (p->powers ? 2 : 1);
}

/* As MX has it: the exponent of the largest weight gets that of the largest level, and what lies beyond is cut off. */
static double scale_of(const tni_cn_plain *p, double top) {
  return p->powers ? ldexp(1, ilogb(top) - ilogb(p->reach)) : top / p->reach;
}

double tni_cn_plain_round(const tni_cn_plain *p, double w, double top) {
  if (!(top > 0)) return 0;
  const double scale = scale_of(p, top), x = w / scale;
  if (p->n_uniform > 0) return rint(x) * scale;
  uint32_t below = 0, above = p->n - 1;
  while (above - below > 1) {
    const uint32_t middle = (below + above) / 2;
    if (p->level[middle] <= x)
      below = middle;
    else
      above = middle;
  }
  return (x - p->level[below] < p->level[above] - x ? p->level[below] : p->level[above]) * scale;
}
