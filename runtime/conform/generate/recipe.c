/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/generate/recipe.h"

#include <string.h>

/* Sizes around what kernels are cut at; primes. */
static const uint32_t widths[] = {1,  2,  3,  5,  7,  8,  15, 16, 17,  23,  31,  32,  33,  40,  47,
                                  48, 63, 64, 65, 67, 80, 96, 97, 112, 127, 128, 129, 130, 192, 257};
enum { N_WIDTHS = sizeof widths / sizeof *widths };

static uint32_t below(tni_cf_rng *r, uint32_t n) { return (uint32_t)(tni_cf_rng_next(r) % n); }

static uint32_t draw_kind(const uint32_t *weights, bool heaviest, tni_cf_rng *r) {
  uint32_t sum = 0, top = 0;
  for (uint32_t i = 0; i < TNI_GEN_KINDS; i++) top = weights[i] > top ? weights[i] : top;
  for (uint32_t i = 0; i < TNI_GEN_KINDS; i++) sum += heaviest && weights[i] < top ? 0 : weights[i];
  uint32_t at = below(r, sum ? sum : 1), kind = 0;
  for (; kind + 1 < TNI_GEN_KINDS; kind++) {
    const uint32_t w = heaviest && weights[kind] < top ? 0 : weights[kind];
    if (at < w) break;
    at -= w;
  }
  return kind;
}

/* many: of them, each of which stands for several rows. */
static uint32_t draw_rows(bool many, tni_cf_rng *r) {
  const uint32_t how = below(r, 16);
  if (many && how < 12) return 1 + below(r, 13);
  return how == 0 ? 0 : how < 3 && !many ? 126 + below(r, 5) : how < 6 ? 1 + below(r, 4) : 1 + below(r, 67);
}

static bool is_image(uint32_t kind) {
  return kind == TNI_GEN_CONV || kind == TNI_GEN_POOL || kind == TNI_GEN_BATCHNORM || kind == TNI_GEN_BLOCK ||
         kind == TNI_GEN_BETWEEN || kind == TNI_GEN_CODE_CONV;
}

static bool is_of_elements(uint32_t kind) { return kind == TNI_GEN_UNARY || kind == TNI_GEN_BINARY; }

/* A first step that only values of some rank have a place for has it. */
static void give_place(tni_gen_recipe *g, const uint32_t *weights, bool stays, tni_cf_rng *r) {
  static const uint32_t channels[] = {1, 2, 3, 4, 8, 16, 17};
  const uint32_t kind = g->step[0].kind;
  if (is_image(kind)) {
    g->rank = 4;
    g->batch[1] = channels[below(r, 7)];
    for (uint32_t i = 1; i < TNI_GEN_STEPS; i++) { /* more of their kind */
      static const uint32_t more[] = {TNI_GEN_CONV, TNI_GEN_POOL, TNI_GEN_BATCHNORM, TNI_GEN_BLOCK, TNI_GEN_BETWEEN};
      const uint32_t next = more[below(r, 5)];
      /* What begins with a block has nothing else: such graphs are judged as they run in use too (run.c). */
      const bool block = kind == TNI_GEN_BLOCK || kind == TNI_GEN_BETWEEN;
      const uint32_t other = is_image(g->step[i].kind) || is_of_elements(g->step[i].kind) ? g->step[i].kind : TNI_GEN_UNARY;
      if (block) g->step[i].kind = other;
      if (below(r, 2) && weights[next]) g->step[i].kind = next;
    }
  }
  if (kind == TNI_GEN_GEMM) g->rank = 2;
  if (kind == TNI_GEN_TRANSPOSE && g->rank < 3) g->rank = 3;
  if (kind == TNI_GEN_ATTENTION || kind == TNI_GEN_ROTARY) g->rank = 3 + below(r, 2);
  if (kind == TNI_GEN_ROTARY) g->k += g->k % 2;
  /* Some who take no attention of activations take it over caches. What has a mask that hides has none (sequences.c). */
  const uint32_t *word = g->step[0].word;
  g->kept = kind == TNI_GEN_ATTENTION ? word[0] % 2 && word[5] % 6 != 3 : below(r, weights[TNI_GEN_ATTENTION] ? 6 : 12) == 0;
  if (stays && kind != TNI_GEN_ATTENTION) g->kept = false;
  if (!g->kept) return;
  g->step[0].kind = TNI_GEN_ATTENTION;
  g->rank = 3;
}

static void make_first(tni_gen_step *s, const tni_gen_form *f) {
  s->kind = f->kind;
  if (f->of) s->word[f->i] = s->word[f->i] / f->of * f->of + f->is;
}

/* Many devices take multiples of 32 alone, and would see few graphs: a third of all has no other widths. */
static uint32_t even_width(uint32_t w) { return (w + 31) / 32 * 32; }
static bool has_width(uint32_t kind) {
  return kind <= TNI_GEN_FUSED_CHAIN || kind == TNI_GEN_PRODUCT || kind == TNI_GEN_CODE_MATMUL;
}
static void make_even(tni_gen_recipe *g) {
  g->k = even_width(g->k);
  for (uint32_t i = 0; i < TNI_GEN_STEPS; i++)
    if (has_width(g->step[i].kind)) g->step[i].word[0] = even_width(g->step[i].word[0]);
}

/* Most graphs that begin with a norm, of who takes products too, have a product before it: devices make groups of the two. */
static void put_product_before(tni_gen_recipe *g) {
  memmove(&g->step[1], &g->step[0], (TNI_GEN_STEPS - 1) * sizeof *g->step);
  g->step[0].kind = TNI_GEN_MATMUL;
  g->step[0].word[0] = 0;
  g->step[1].a = 0; /* the product */
  if (g->n_steps < 2) g->n_steps = 2;
  make_even(g);
}

void tni_gen_draw(tni_gen_recipe *g, const uint32_t *weights, const tni_gen_form *first, bool stays, tni_cf_rng *r) {
  static const uint32_t threads[] = {1, 2, 2, 3, 9, 12};
  *g = (tni_gen_recipe){.n_steps = 1 + below(r, TNI_GEN_STEPS), .n_runs = 4 + below(r, 3), .rank = 2 + below(r, 4)};
  if (below(r, 3) == 0) g->rank = 2;
  for (int i = 0; i < 3; i++) g->batch[i] = 1 + below(r, 3);
  g->k = widths[below(r, N_WIDTHS)];
  g->threads = threads[below(r, 6)];
  uint32_t each = g->k;
  for (uint32_t i = 0; i + 2 < g->rank; i++) each *= g->batch[i];
  for (uint32_t i = 0; i < TNI_GEN_RUNS; i++) g->rows[i] = draw_rows(each > 300, r);
  if (below(r, 2)) g->rows[1] = g->rows[0]; /* grow, shrink, the same */
  g->order = below(r, 2) ? 1 + below(r, 1000000) : 0;
  g->refuse = below(r, 4) ? 0 : 1 + below(r, 1000000);
  g->values = tni_cf_rng_next(r);
  for (uint32_t i = 0; i < TNI_GEN_STEPS; i++) {
    tni_gen_step *s = &g->step[i];
    *s = (tni_gen_step){.kind = draw_kind(weights, i == 0, r), .a = below(r, 4), .b = below(r, 8)};
    if (!i && first) s->kind = first->kind;
    for (uint32_t k = 0; k < 6; k++) s->word[k] = below(r, 1 << 16);
    if (has_width(s->kind))
      s->word[0] = below(r, 2) ? 0 : widths[below(r, N_WIDTHS)]; /* 0: square */
    else if (s->kind >= TNI_GEN_CONV)
      s->word[0] = widths[below(r, N_WIDTHS)];
    if (!i && first) make_first(s, first);
  }
  give_place(g, weights, stays, r);
  /* A step that became another kind, or finds no place and is a product, has a width too. */
  for (uint32_t i = 0; i < TNI_GEN_STEPS; i++) {
    const bool wide = g->step[i].kind <= TNI_GEN_FUSED_CHAIN || g->step[i].kind >= TNI_GEN_PRODUCT;
    if (wide && g->step[i].word[0] > widths[N_WIDTHS - 1])
      g->step[i].word[0] = widths[g->step[i].word[0] % N_WIDTHS];
  }
  if (g->values % 3 == 0 && !is_image(g->step[0].kind)) make_even(g);
  const bool norm = first && first->kind == TNI_GEN_NORM && !g->kept;
  if (norm && g->values % 3 && weights[TNI_GEN_MATMUL] >= weights[TNI_GEN_NORM])
    put_product_before(g);
}

uint32_t tni_gen_step_rows(const tni_gen_recipe *g, uint32_t i) { return g->rows[i] ? g->rows[i] : 1; }

uint32_t tni_gen_rows(const tni_gen_recipe *g, uint32_t i) {
  if (g->length) return g->length;
  bool least = g->kept;
  for (uint32_t k = 0; k < g->n_steps; k++) least = least || is_image(g->step[k].kind);
  return least && !g->rows[i] ? 1 : g->rows[i];
}

/* --- smaller ------------------------------------------------------------------------------------------------------ */

static void drop_step(tni_gen_recipe *g, uint32_t i) {
  memmove(&g->step[i], &g->step[i + 1], (g->n_steps - i - 1) * sizeof *g->step);
  g->n_steps--;
}

static void drop_run(tni_gen_recipe *g, uint32_t i) {
  memmove(&g->rows[i], &g->rows[i + 1], (g->n_runs - i - 1) * sizeof *g->rows);
  g->n_runs--;
}

/* Half of it, or one less where that is what the failure hangs on. */
static bool less(uint32_t *v, uint32_t i, uint32_t least) {
  const uint32_t to[4] = {least, *v / 2 > least ? *v / 2 : least, *v / 4 * 3 > least ? *v / 4 * 3 : least,
                          *v > least ? *v - 1 : least};
  if (to[i] >= *v) return false;
  *v = to[i];
  return true;
}

enum { WAYS_OF_SIZE = 4 };

bool tni_gen_smaller(const tni_gen_recipe *g, uint32_t i, tni_gen_recipe *out) {
  *out = *g;
  if (i < TNI_GEN_STEPS) return i < g->n_steps && g->n_steps > 1 ? drop_step(out, g->n_steps - 1 - i), true : true;
  i -= TNI_GEN_STEPS;
  if (i < TNI_GEN_RUNS) return i < g->n_runs && g->n_runs > 1 ? drop_run(out, g->n_runs - 1 - i), true : true;
  i -= TNI_GEN_RUNS;
  if (i < 3) return out->batch[i] = 1, true;
  i -= 3;
  if (i == 0) return out->rank = 2, true;
  if (i == 1) return out->rank = g->rank > 2 ? g->rank - 1 : 2, true;
  if (i == 2) return out->threads = 1, true;
  if (i == 3) return out->order = 0, true;
  if (i == 4) return out->refuse = 0, true;
  if (i == 5) return out->kept = false, true;
  i -= 6;
  if (i < WAYS_OF_SIZE) return (void)less(&out->k, i, 1), true;
  i -= WAYS_OF_SIZE;
  if (i < TNI_GEN_RUNS * WAYS_OF_SIZE) {
    if (!tni_gen_is_constant(g)) (void)less(&out->rows[i / WAYS_OF_SIZE], i % WAYS_OF_SIZE, 1);
    return true;
  }
  i -= TNI_GEN_RUNS * WAYS_OF_SIZE;
  if (i >= TNI_GEN_STEPS * WAYS_OF_SIZE) return false;
  (void)less(&out->step[i / WAYS_OF_SIZE].word[0], i % WAYS_OF_SIZE, 1);
  return true;
}
