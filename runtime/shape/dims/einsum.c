/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/dims/einsum.h"

#include <string.h>

enum { ELLIPSIS = 52, NONE = 255 }; /* raw labels: letters 0 .. 51, then axes of the ellipsis counted from its end */

/* Raw labels of one term; *dots: where its ellipsis stands, or NONE. Returns what follows the term, NULL: bad text. */
typedef struct term {
  uint8_t raw[TN_MAX_RANK], n, dots;
} term;

static int letter_index(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static const char *read_term(const char *p, term *t) {
  *t = (term){.dots = NONE};
  for (;; p++) {
    if (*p == ' ') continue;
    if (*p == '.') {
      if (p[1] != '.' || p[2] != '.' || t->dots != NONE) return NULL;
      t->dots = t->n;
      p += 2;
      continue;
    }
    const int l = letter_index(*p);
    if (l < 0) return p;
    if (t->n == TN_MAX_RANK) return NULL;
    t->raw[t->n++] = (uint8_t)l;
  }
}

/* Puts the axes of the ellipsis in: n of them, the last one numbered ELLIPSIS. */
static bool expand_dots(term *t, uint32_t n) {
  const uint32_t at = t->dots == NONE ? t->n : t->dots;
  if (t->n + n > TN_MAX_RANK) return false;
  memmove(t->raw + at + n, t->raw + at, t->n - at);
  for (uint32_t i = 0; i < n; i++) t->raw[at + i] = (uint8_t)(ELLIPSIS + n - 1 - i);
  t->n = (uint8_t)(t->n + n);
  return true;
}

/* Without an arrow: the ellipsis, then all letters that stand once, in the alphabet's order (capitals first). */
static bool implied_output(const term *in, uint32_t n, uint32_t dots, term *out) {
  uint32_t count[ELLIPSIS] = {0};
  *out = (term){.dots = 0};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < in[i].n; k++)
      if (in[i].raw[k] < ELLIPSIS) count[in[i].raw[k]]++;
  for (uint32_t l = 0; l < ELLIPSIS; l++) {
    if (count[l] != 1) continue;
    if (out->n == TN_MAX_RANK) return false;
    out->raw[out->n++] = (uint8_t)l;
  }
  return expand_dots(out, dots);
}

static const char *number_labels(const term *in, const term *out, tni_einsum *e) {
  uint8_t map[ELLIPSIS + TN_MAX_RANK];
  bool used[ELLIPSIS + TN_MAX_RANK] = {false};
  memset(map, NONE, sizeof map);
  for (uint32_t k = 0; k < out->n; k++) {
    if (map[out->raw[k]] != NONE) return "a label stands twice in the output";
    map[out->raw[k]] = (uint8_t)e->n_labels++;
  }
  e->n_out = e->n_labels;
  for (uint32_t i = 0; i < e->n_in; i++)
    for (uint32_t k = 0; k < in[i].n; k++) {
      const uint8_t raw = in[i].raw[k];
      if (map[raw] == NONE) map[raw] = (uint8_t)e->n_labels++;
      used[raw] = true;
      e->label[i][k] = map[raw];
    }
  for (uint32_t k = 0; k < out->n; k++)
    if (!used[out->raw[k]]) return "the output has a label that no operand has";
  return NULL;
}

const char *tni_einsum_read(const char *equation, const uint32_t *rank, uint32_t n, tni_einsum *e) {
  term in[TNI_EINSUM_MAX_IN], out;
  uint32_t dots = 0;
  const char *p = equation;
  memset(e, 0, sizeof *e);
  if (!equation) return "there is no equation";
  if (n > TNI_EINSUM_MAX_IN) return "more operands than are supported";
  e->n_in = n;
  for (uint32_t i = 0; i < n; i++) {
    p = read_term(p, &in[i]);
    if (!p || (i + 1 < n && *p++ != ',')) return "the equation's terms do not match the operands";
    if (in[i].dots == NONE ? rank[i] != in[i].n : rank[i] < in[i].n || rank[i] > TN_MAX_RANK)
      return "an operand has another rank than its term";
    const uint32_t more = rank[i] - in[i].n;
    dots = more > dots ? more : dots;
    if (!expand_dots(&in[i], more)) return "too many axes";
    e->rank[i] = rank[i];
  }
  if (p[0] == '-' && p[1] == '>') {
    p = read_term(p + 2, &out);
    if (!p || *p) return "the equation cannot be read";
    if (out.dots != NONE && !expand_dots(&out, dots)) return "too many axes";
  } else if (*p) {
    return "the equation cannot be read";
  } else if (!implied_output(in, n, dots, &out)) {
    return "too many axes";
  }
  return number_labels(in, &out, e);
}
