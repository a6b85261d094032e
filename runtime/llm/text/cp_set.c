/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/text/cp_set.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/unicode_tables.h"

const char tni_category_names[TNI_CATS][3] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                              "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                              "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

tni_cp_set *tni_cp_set_create(void) { return calloc(1, sizeof(tni_cp_set)); }

/* Bits of word w that are in lo..hi. */
static uint64_t word_mask(uint32_t w, uint32_t lo, uint32_t hi) {
  uint64_t m = UINT64_MAX;
  if (w == lo / 64) m &= UINT64_MAX << (lo % 64);
  if (w == hi / 64) m &= UINT64_MAX >> (63 - hi % 64);
  return m;
}

void tni_cp_set_add(tni_cp_set *s, uint32_t lo, uint32_t hi) {
  for (uint32_t w = lo / 64; lo <= hi && w <= hi / 64; w++) s->v[w] |= word_mask(w, lo, hi);
}

void tni_cp_set_drop(tni_cp_set *s, uint32_t lo, uint32_t hi) {
  for (uint32_t w = lo / 64; lo <= hi && w <= hi / 64; w++) s->v[w] &= ~word_mask(w, lo, hi);
}

static void set_flip(tni_cp_set *s, uint32_t lo, uint32_t hi) {
  for (uint32_t w = lo / 64; w <= hi / 64; w++) s->v[w] ^= word_mask(w, lo, hi);
}

bool tni_cp_set_has(const tni_cp_set *s, uint32_t cp) { return s->v[cp / 64] >> (cp % 64) & 1; }

bool tni_cp_set_has_all(const tni_cp_set *s, uint32_t lo, uint32_t hi) {
  for (uint32_t w = lo / 64; w <= hi / 64; w++)
    if (~s->v[w] & word_mask(w, lo, hi)) return false;
  return true;
}

void tni_cp_set_not(tni_cp_set *s) {
  for (size_t w = 0; w < TNI_CP_WORDS; w++) s->v[w] = ~s->v[w];
}

void tni_cp_set_or(tni_cp_set *s, const tni_cp_set *b) {
  for (size_t w = 0; w < TNI_CP_WORDS; w++) s->v[w] |= b->v[w];
}

void tni_cp_set_and(tni_cp_set *s, const tni_cp_set *b) {
  for (size_t w = 0; w < TNI_CP_WORDS; w++) s->v[w] &= b->v[w];
}

/* First code point at or after `at` whose bit is `bit`, TNI_CPS if none. */
static uint32_t find_bit(const tni_cp_set *s, uint32_t at, bool bit) {
  for (uint32_t w = at / 64; w < TNI_CP_WORDS; w++) {
    uint64_t v = bit ? s->v[w] : ~s->v[w];
    if (w == at / 64) v &= UINT64_MAX << (at % 64);
    if (v) return w * 64 + (uint32_t)__builtin_ctzll(v);
  }
  return TNI_CPS;
}

bool tni_cp_set_next(const tni_cp_set *s, uint32_t *at, uint32_t *lo, uint32_t *hi) {
  *lo = *at < TNI_CPS ? find_bit(s, *at, true) : TNI_CPS;
  if (*lo == TNI_CPS) return false;
  *at = find_bit(s, *lo, false);
  *hi = *at - 1;
  return true;
}

/* --- categories ----------------------------------------------------------------------------------------------------
 */

static void run_bounds(size_t i, uint32_t *lo, uint32_t *hi, uint32_t *cat) {
  *lo = tni_category_runs[i] >> 8;
  *hi = i + 1 < tni_n_category_runs ? (tni_category_runs[i + 1] >> 8) - 1 : TNI_CPS - 1;
  *cat = tni_category_runs[i] & 255;
}

/* Calls fn for the parts of a set that have categories of the mask. */
static void each_run(tni_cp_set *s, uint32_t mask, void (*fn)(tni_cp_set *s, uint32_t lo, uint32_t hi)) {
  const uint32_t both = 1u << TNI_CAT_LU | 1u << TNI_CAT_LL;
  for (size_t i = 0; i < tni_n_category_runs; i++) {
    uint32_t lo, hi, cat;
    run_bounds(i, &lo, &hi, &cat);
    if (cat != TNI_CAT_PAIRS ? mask >> cat & 1 : (mask & both) == both)
      fn(s, lo, hi);
    else if (cat == TNI_CAT_PAIRS && (mask & both))
      for (uint32_t c = lo + (mask >> TNI_CAT_LU & 1 ? 0 : 1); c <= hi; c += 2) fn(s, c, c);
  }
}

uint32_t tni_cp_set_categories(const tni_cp_set *s) {
  uint32_t missing = 0;
  for (size_t i = 0; i < tni_n_category_runs; i++) {
    uint32_t lo, hi, cat;
    run_bounds(i, &lo, &hi, &cat);
    if (cat != TNI_CAT_PAIRS)
      missing |= tni_cp_set_has_all(s, lo, hi) ? 0 : 1u << cat;
    else
      for (uint32_t c = lo; c <= hi; c++) missing |= tni_cp_set_has(s, c) ? 0 : 1u << ((c - lo) & 1);
  }
  return ~missing & ((1u << TNI_CATS) - 1);
}

void tni_cp_set_drop_known(tni_cp_set *s, uint32_t categories) {
  tni_cp_set *newer = tni_cp_set_create();
  if (!newer) return; /* more is printed than needed */
  for (size_t i = 0; i < tni_n_newer; i++) tni_cp_set_add(newer, tni_newer[i].lo, tni_newer[i].hi);
  tni_cp_set_and(newer, s);
  each_run(s, categories, tni_cp_set_drop);
  tni_cp_set_or(s, newer);
  free(newer);
}

void tni_cp_set_add_cases(tni_cp_set *s) {
  for (size_t i = 0; i < tni_n_lower_runs; i++) {
    const tni_lower_run *r = &tni_lower_runs[i];
    for (uint32_t c = r->lo; c <= r->hi; c += r->stride) {
      const uint32_t small = (uint32_t)((int64_t)c + r->delta);
      if (tni_cp_set_has(s, c)) tni_cp_set_add(s, small, small);
      if (tni_cp_set_has(s, small)) tni_cp_set_add(s, c, c);
    }
  }
}

/* --- properties ----------------------------------------------------------------------------------------------------
 */

enum { NAME_BYTES = 64 };

/* Small letters without blanks, '_' and '-', as names are in the table. */
static bool plain_name(const char *s, size_t n, char out[NAME_BYTES]) {
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    if (s[i] == ' ' || s[i] == '_' || s[i] == '-') continue;
    if (k == NAME_BYTES - 1) return false;
    out[k++] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] | 32) : s[i];
  }
  out[k] = '\0';
  return k > 0;
}

static const tni_prop *find_prop(const char *name) {
  size_t lo = 0, hi = tni_n_props;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    int c = strcmp(name, tni_props[mid].name);
    if (c == 0) return &tni_props[mid];
    if (c < 0)
      hi = mid;
    else
      lo = mid + 1;
  }
  return NULL;
}

tni_found tni_cp_set_add_property(tni_cp_set *s, const char *name, size_t n, bool negated) {
  char plain[NAME_BYTES];
  if (!plain_name(name, n, plain)) return TNI_UNKNOWN;
  const char *eq = strchr(plain, '=');
  const bool script = eq && (strncmp(plain, "script=", 7) == 0 || strncmp(plain, "sc=", 3) == 0);
  const tni_prop *p = find_prop(script ? eq + 1 : plain);
  tni_cp_set *t = p ? tni_cp_set_create() : NULL;
  if (!t) return p ? TNI_NO_MEMORY : TNI_UNKNOWN;
  each_run(t, p->mask, tni_cp_set_add);
  for (uint32_t i = 0; i < p->n; i++) set_flip(t, tni_prop_ranges[p->at + i].lo, tni_prop_ranges[p->at + i].hi);
  if (p->assigned) each_run(t, 1u << TNI_CAT_CN, tni_cp_set_drop);
  if (negated) tni_cp_set_not(t);
  tni_cp_set_or(s, t);
  free(t);
  return TNI_FOUND;
}
