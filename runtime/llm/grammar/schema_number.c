/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers between bounds, digit by digit. At most 15 digits, which a double tells apart, so that whoever reads them as
 * doubles finds them between the bounds too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/llm/grammar/schema.h"

enum { DIGITS = 15, MULTIPLES = 2000, REMAINDERS = 4096 };
#define LARGEST INT64_C(999999999999999)

typedef struct bounds {
  double lo, hi;     /* infinite: none */
  bool above, below; /* the bound itself is out */
} bounds;

static bool read_bound(tni_schema *s, const json_t *schema, const char *key, double *v, bool *there) {
  const json_t *j = json_object_get(schema, key);
  *there = j && !json_is_boolean(j); /* exclusiveMinimum of draft 4 */
  if (!*there) return true;
  if (!json_is_number(j)) return tni_schema_fail(s, TN_E_INVALID, key, "expected a number");
  *v = json_number_value(j);
  return true;
}

static bool read_bounds(tni_schema *s, const json_t *schema, bounds *b) {
  double v = 0;
  bool there;
  *b = (bounds){-INFINITY, INFINITY, false, false};
  if (!read_bound(s, schema, "minimum", &v, &there)) return false;
  if (there) b->lo = v;
  b->above = there && json_is_true(json_object_get(schema, "exclusiveMinimum"));
  if (!read_bound(s, schema, "maximum", &v, &there)) return false;
  if (there) b->hi = v;
  b->below = there && json_is_true(json_object_get(schema, "exclusiveMaximum"));
  if (!read_bound(s, schema, "exclusiveMinimum", &v, &there)) return false;
  if (there && v >= b->lo) {
    b->lo = v;
    b->above = true;
  }
  if (!read_bound(s, schema, "exclusiveMaximum", &v, &there)) return false;
  if (there && v <= b->hi) {
    b->hi = v;
    b->below = true;
  }
  return true;
}

/* --- whole numbers ------------------------------------------------------------------------------------------------ */

/* Digit strings of one length, lo to hi; text: a NUL after both. */
static void same_length(tni_auto *a, uint32_t from, const char *lo, const char *hi, uint32_t to) {
  if (!*lo) {
    tni_auto_free(a, from, to);
    return;
  }
  char zeros[32], nines[32];
  const size_t n = strlen(lo) - 1;
  memset(zeros, '0', n);
  memset(nines, '9', n);
  zeros[n] = nines[n] = 0;
  char begin = *lo, end = *hi;
  if (begin == end || strcmp(lo + 1, zeros) != 0) {
    const uint32_t next = tni_auto_state(a);
    tni_auto_bytes(a, from, (uint8_t)begin, (uint8_t)begin, next);
    same_length(a, next, lo + 1, begin == end ? hi + 1 : nines, to);
    if (begin == end) return;
    begin++;
  }
  if (strcmp(hi + 1, nines) != 0) {
    const uint32_t next = tni_auto_state(a);
    tni_auto_bytes(a, from, (uint8_t)end, (uint8_t)end, next);
    same_length(a, next, zeros, hi + 1, to);
    end--;
  }
  if (begin > end) return;
  const uint32_t next = tni_auto_state(a);
  tni_auto_bytes(a, from, (uint8_t)begin, (uint8_t)end, next);
  same_length(a, next, zeros, nines, to);
}

/* The whole numbers of 0 <= lo .. hi. */
static void whole_range(tni_auto *a, uint32_t from, int64_t lo, int64_t hi, uint32_t to) {
  int64_t first = 0, last = 9;
  for (int n = 1; n <= DIGITS; n++, first = last + 1, last = last * 10 + 9) {
    const int64_t l = lo > first ? lo : first, h = hi < last ? hi : last;
    char tl[32], th[32];
    if (l > h) continue;
    (void)snprintf(tl, sizeof tl, "%lld", (long long)l);
    (void)snprintf(th, sizeof th, "%lld", (long long)h);
    same_length(a, from, tl, th, to);
  }
}

/* Between lo and hi of either sign. */
static void integer_range(tni_auto *a, uint32_t from, int64_t lo, int64_t hi, uint32_t to) {
  if (hi >= 0) whole_range(a, from, lo > 0 ? lo : 0, hi, to);
  if (lo >= 0 || lo > hi) return;
  const uint32_t minus = tni_auto_state(a);
  tni_auto_text(a, from, "-", 1, minus);
  whole_range(a, minus, hi < 0 ? -hi : 1, -lo, to);
}

/* Digits so that a whole number is a multiple of m. at[k * m + r]: where k + 1 digits are left, whatever they are, and
 * those before leave a remainder of r; 1 + the state, 0: not made yet. */
typedef struct multiples {
  tni_auto *a;
  int64_t m;
  uint32_t *at, to;
} multiples;

/* Whether `left` digits of any kind can make a multiple of what leaves r. */
static bool can_end(const multiples *x, size_t left, int64_t r) {
  int64_t tens = 1;
  while (left-- && tens < x->m) {
    tens *= 10;
    r = r * 10 % x->m;
  }
  return tens >= x->m || (x->m - r) % x->m < tens;
}

static uint32_t free_digits(multiples *x, size_t left, int64_t r) {
  if (!left) return x->to;
  const size_t place = (left - 1) * (size_t)x->m + (size_t)r;
  if (x->at[place]) return x->at[place] - 1;
  const uint32_t state = tni_auto_state(x->a);
  x->at[place] = state + 1;
  for (char d = '0'; d <= '9' && x->a->failed == TN_OK; d++) {
    const int64_t after = (r * 10 + d - '0') % x->m;
    if (!can_end(x, left - 1, after)) continue;
    tni_auto_bytes(x->a, state, (uint8_t)d, (uint8_t)d, free_digits(x, left - 1, after));
  }
  return state;
}

/* The digits that are left: lo .. hi of one length where low and high, else from zeros or to nines. */
static void bound_digits(multiples *x, uint32_t from, const char *lo, const char *hi, bool low, bool high, int64_t r) {
  const size_t left = strlen(lo);
  if (!left) {
    tni_auto_free(x->a, from, x->to);
    return;
  }
  for (char d = low ? *lo : '0'; d <= (high ? *hi : '9') && x->a->failed == TN_OK; d++) {
    const bool is_low = low && d == *lo, is_high = high && d == *hi;
    const int64_t after = (r * 10 + d - '0') % x->m;
    if (!can_end(x, left - 1, after)) continue;
    const bool tied = is_low || is_high;
    const uint32_t next = tied ? tni_auto_state(x->a) : free_digits(x, left - 1, after);
    tni_auto_bytes(x->a, from, (uint8_t)d, (uint8_t)d, next);
    if (tied) bound_digits(x, next, lo + 1, hi + 1, is_low, is_high, after);
  }
}

/* The multiples of 1 <= lo .. hi. */
static void multiples_between(multiples *x, uint32_t from, int64_t lo, int64_t hi) {
  int64_t first = 1, last = 9;
  for (int n = 1; n <= DIGITS; n++, first = last + 1, last = last * 10 + 9) {
    const int64_t l = lo > first ? lo : first, h = hi < last ? hi : last;
    char tl[32], th[32];
    if (l > h) continue;
    (void)snprintf(tl, sizeof tl, "%lld", (long long)l);
    (void)snprintf(th, sizeof th, "%lld", (long long)h);
    bound_digits(x, from, tl, th, true, true, 0);
  }
}

/* Multiples of m between lo and hi, but 0, one by one. */
static void few_multiples(tni_auto *a, uint32_t from, int64_t m, int64_t lo, int64_t hi, uint32_t to) {
  for (int64_t k = lo / m; k <= hi / m; k++) {
    char text[32];
    if (!k || k * m < lo || k * m > hi) continue;
    (void)snprintf(text, sizeof text, "%lld", (long long)(k * m));
    tni_auto_text(a, from, text, strlen(text), to);
  }
}

/* Multiples of m between lo and hi, but 0. */
static bool some_multiples(tni_schema *s, uint32_t from, int64_t m, int64_t lo, int64_t hi, uint32_t to) {
  if (lo > hi) return true;
  if (m > REMAINDERS) {
    if (hi / m - lo / m > MULTIPLES)
      return tni_schema_fail(s, TN_E_UNSUPPORTED, "multipleOf",
                             "above %d (without zeros at its end), with more than %d multiples between the bounds",
                             REMAINDERS, MULTIPLES);
    few_multiples(s->a, from, m, lo, hi, to);
    return true;
  }
  multiples x = {s->a, m, calloc((size_t)m * DIGITS, sizeof *x.at), to};
  if (!x.at) return tni_schema_memory(s);
  if (hi > 0) multiples_between(&x, from, lo > 1 ? lo : 1, hi);
  if (lo < 0) {
    const uint32_t minus = tni_auto_state(s->a);
    tni_auto_text(s->a, from, "-", 1, minus);
    multiples_between(&x, minus, hi < 0 ? -hi : 1, -lo);
  }
  free(x.at);
  return true;
}

/* The zeros at the end of m are text: they cost nothing, and what is left of m is small more often. */
static bool multiples_of(tni_schema *s, uint32_t from, int64_t m, int64_t lo, int64_t hi, uint32_t to) {
  char zeros[DIGITS + 1] = {0};
  int64_t tens = 1;
  for (size_t n = 0; m % 10 == 0 && n < DIGITS; n++, m /= 10, tens *= 10) zeros[n] = '0';
  if (lo <= 0 && hi >= 0) tni_auto_text(s->a, from, "0", 1, to);
  const uint32_t digits = tni_auto_state(s->a);
  tni_auto_text(s->a, digits, zeros, strlen(zeros), to);
  const int64_t l = lo / tens + (lo > 0 && lo % tens), h = hi / tens - (hi < 0 && hi % tens);
  return some_multiples(s, from, m, l, h, digits);
}

static bool integers(tni_schema *s, const json_t *schema, const bounds *b, uint32_t from, uint32_t to) {
  const json_t *multiple = json_object_get(schema, "multipleOf");
  double lo = ceil(b->lo), hi = floor(b->hi);
  if (b->above && lo == b->lo) lo += 1;
  if (b->below && hi == b->hi) hi -= 1;
  const bool low = lo > (double)-LARGEST, high = hi < (double)LARGEST;
  if (lo > (double)LARGEST || hi < (double)-LARGEST)
    return tni_schema_fail(s, TN_E_UNSUPPORTED, lo > 0 ? "minimum" : "maximum", "numbers of more than %d digits",
                           DIGITS);
  const int64_t l = low ? (int64_t)lo : -LARGEST, h = high ? (int64_t)hi : LARGEST;
  const double d = !multiple ? 1 : json_is_number(multiple) ? json_number_value(multiple) : 0;
  if (!(d > 0)) return tni_schema_fail(s, TN_E_INVALID, "multipleOf", "expected a number above 0");
  if (d != floor(d) || d > 1e12)
    return tni_schema_fail(s, TN_E_UNSUPPORTED, "multipleOf", "only whole numbers to 1e12");
  if (d == 1) {
    integer_range(s->a, from, l, h, to);
    return true;
  }
  return multiples_of(s, from, (int64_t)d, l, h, to);
}

/* --- fractions ---------------------------------------------------------------------------------------------------- */

/* A number from 0 on in decimal digits; fraction without zeros at its end. */
typedef struct decimal {
  int64_t whole;
  char fraction[DIGITS + 1];
} decimal;

/* v from 0 to LARGEST. up: what does not fit is rounded up, else down. */
static decimal to_decimal(double v, bool up) {
  decimal d = {0};
  char text[64];
  (void)snprintf(text, sizeof text, "%.15g", v);
  const int digits = strtod(text, NULL) == v ? 15 : 17;
  (void)snprintf(text, sizeof text, "%.*e", digits - 1, v); /* d.ddde+XX */
  const int exponent = atoi(strchr(text, 'e') + 1);
  char all[32];
  size_t n = 0;
  for (const char *c = text; *c != 'e'; c++)
    if (*c != '.') all[n++] = *c;
  bool more = false;
  size_t k = 0;
  for (int at = exponent < 0 ? exponent : 0; at <= exponent; at++)
    if (exponent >= 0 || at == 0) d.whole = d.whole * 10 + (exponent >= 0 && (size_t)at < n ? all[at] - '0' : 0);
  for (int place = 1; place <= 40; place++) { /* the digit of 10^-place */
    const int at = exponent + place;
    const char c = at >= 0 && (size_t)at < n ? all[at] : '0';
    if (place < DIGITS)
      d.fraction[k++] = c;
    else
      more = more || c != '0';
  }
  if (exponent + 40 < (int)n) more = true;
  if (more && up) {
    while (k && d.fraction[k - 1] == '9') d.fraction[--k] = 0;
    if (k)
      d.fraction[k - 1]++;
    else
      d.whole++;
  }
  while (k && d.fraction[k - 1] == '0') k--;
  d.fraction[k] = 0;
  return d;
}

typedef struct fraction {
  tni_auto *a;
  const char *lo, *hi; /* digits; NULL: no bound */
  bool above, below;
  size_t most;
  uint32_t to;
} fraction;

static char digit_at(const char *s, size_t i) { return i < strlen(s) ? s[i] : '0'; }

/* i digits are written; low, high: they are those of the bound so far. */
static void digits_from(const fraction *f, uint32_t from, size_t i, bool low, bool high) {
  tni_auto *a = f->a;
  const bool low_ok = !low || (i >= strlen(f->lo) && !f->above);
  const bool high_ok = !high || i < strlen(f->hi) || !f->below;
  if (low_ok && high_ok) tni_auto_free(a, from, f->to);
  if (i == f->most || a->failed != TN_OK) return;
  char lo = low ? digit_at(f->lo, i) : '0', hi = high ? digit_at(f->hi, i) : '9';
  if (lo > hi) return;
  if (low) {
    const uint32_t next = tni_auto_state(a);
    tni_auto_bytes(a, from, (uint8_t)lo, (uint8_t)lo, next);
    digits_from(f, next, i + 1, true, high && lo == hi);
    if (lo++ == hi) return;
  }
  if (high) {
    const uint32_t next = tni_auto_state(a);
    tni_auto_bytes(a, from, (uint8_t)hi, (uint8_t)hi, next);
    digits_from(f, next, i + 1, false, true);
    hi--;
  }
  if (lo > hi) return;
  const uint32_t next = tni_auto_state(a);
  tni_auto_bytes(a, from, (uint8_t)lo, (uint8_t)hi, next);
  digits_from(f, next, i + 1, false, false);
}

/* After a whole part: nothing, or a point and digits, so that the fraction lies between the bounds. */
static void fraction_of(const fraction *f, uint32_t from) {
  const bool low = f->lo != NULL, high = f->hi != NULL;
  if (!(low && (*f->lo || f->above)) && !(high && !*f->hi && f->below)) tni_auto_free(f->a, from, f->to);
  if (!f->most) return;
  const uint32_t point = tni_auto_state(f->a);
  tni_auto_text(f->a, from, ".", 1, point);
  char lo = low ? digit_at(f->lo, 0) : '0', hi = high ? digit_at(f->hi, 0) : '9';
  for (char d = lo; d <= hi; d++) { /* at least one */
    const uint32_t next = tni_auto_state(f->a);
    tni_auto_bytes(f->a, point, (uint8_t)d, (uint8_t)d, next);
    digits_from(f, next, 1, low && d == lo, high && d == hi);
  }
}

static size_t count_digits(int64_t v) {
  size_t n = 1;
  while (v >= 10) {
    v /= 10;
    n++;
  }
  return n;
}

/* 0 <= lo .. hi; hi infinite: none. */
static void real_range(tni_auto *a, uint32_t from, double lo, bool above, double hi, bool below, uint32_t to) {
  const bool open = hi > (double)LARGEST;
  const decimal l = to_decimal(lo, true), h = open ? (decimal){.whole = 999999999} : to_decimal(hi, false);
  const size_t of_whole = count_digits(h.whole > l.whole ? h.whole : l.whole);
  size_t most = strlen(l.fraction) > strlen(h.fraction) ? strlen(l.fraction) : strlen(h.fraction);
  most = most < 5 ? 6 : most + 1;
  if (most + of_whole > DIGITS) most = of_whole < DIGITS ? DIGITS - of_whole : 0;
  const fraction any = {a, NULL, NULL, false, false, most, to};
  const uint32_t first = tni_auto_state(a), last = tni_auto_state(a), inner = tni_auto_state(a);
  if (l.whole > h.whole && !open) return;
  if (l.whole == h.whole && !open) {
    const fraction both = {a, l.fraction, h.fraction, above, below, most, to};
    whole_range(a, from, l.whole, l.whole, first);
    fraction_of(&both, first);
    return;
  }
  const fraction low = {a, l.fraction, NULL, above, false, most, to};
  whole_range(a, from, l.whole, l.whole, first);
  fraction_of(&low, first);
  whole_range(a, from, l.whole + 1, open ? h.whole : h.whole - 1, inner);
  fraction_of(&any, inner);
  if (open) {
    whole_range(a, from, l.whole > h.whole ? l.whole + 1 : h.whole + 1, LARGEST, to);
    return;
  }
  const fraction high = {a, NULL, h.fraction, false, below, most, to};
  whole_range(a, from, h.whole, h.whole, last);
  fraction_of(&high, last);
}

/* Any number: an exponent of two digits may follow. */
static void any_number(tni_auto *a, uint32_t from, uint32_t to) {
  const uint32_t whole = tni_auto_state(a), mantissa = tni_auto_state(a), e = tni_auto_state(a);
  const uint32_t sign = tni_auto_state(a), one = tni_auto_state(a);
  integer_range(a, from, -LARGEST, LARGEST, whole);
  tni_auto_text(a, from, "-0", 2, whole);
  const fraction f = {a, NULL, NULL, false, false, DIGITS, mantissa};
  fraction_of(&f, whole);
  tni_auto_free(a, mantissa, to);
  tni_auto_bytes(a, mantissa, 'e', 'e', e);
  tni_auto_bytes(a, mantissa, 'E', 'E', e);
  tni_auto_free(a, e, sign);
  tni_auto_bytes(a, e, '+', '+', sign);
  tni_auto_bytes(a, e, '-', '-', sign);
  tni_auto_bytes(a, sign, '0', '9', one);
  tni_auto_free(a, one, to);
  tni_auto_bytes(a, one, '0', '9', to);
}

bool tni_schema_number(tni_schema *s, json_t *schema, bool integer, uint32_t from, uint32_t to) {
  bounds b;
  if (!read_bounds(s, schema, &b)) return false;
  if (integer || json_object_get(schema, "multipleOf")) return integers(s, schema, &b, from, to);
  if (isinf(b.lo) && isinf(b.hi)) {
    any_number(s->a, from, to);
    return true;
  }
  if (b.lo > (double)LARGEST || b.hi < (double)-LARGEST)
    return tni_schema_fail(s, TN_E_UNSUPPORTED, b.lo > 0 ? "minimum" : "maximum", "numbers of more than %d digits",
                           DIGITS);
  if (b.hi >= 0) real_range(s->a, from, b.lo > 0 ? b.lo : 0, b.lo >= 0 && b.above, b.hi, b.below, to);
  if (b.lo >= 0) return true;
  const uint32_t minus = tni_auto_state(s->a);
  tni_auto_text(s->a, from, "-", 1, minus);
  /* "-0" is 0: only where 0 itself is between the bounds. */
  real_range(s->a, minus, b.hi < 0 ? -b.hi : 0, b.hi <= 0 && b.below, -b.lo, b.above, to);
  return true;
}
