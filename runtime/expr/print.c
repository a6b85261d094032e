/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/expr/nodes.h"

typedef struct text_out {
  char *buf;
  size_t n, at;
} text_out;

static void emit_text(text_out *o, const char *s) {
  for (; *s; s++, o->at++)
    if (o->at + 1 < o->n) o->buf[o->at] = *s;
}

static void emit_char(text_out *o, char c) {
  const char s[2] = {c, 0};
  emit_text(o, s);
}

static bool is_identifier(const char *s) {
  if (!isalpha((unsigned char)*s) && *s != '_') return false;
  for (; *s; s++)
    if (!isalnum((unsigned char)*s) && *s != '_') return false;
  return true;
}

/* Names that are no identifiers stand in back quotes, with \ before \ and `. */
static void emit_name(text_out *o, const char *name) {
  if (is_identifier(name)) {
    emit_text(o, name);
    return;
  }
  emit_char(o, '`');
  for (; *name; name++) {
    if (*name == '`' || *name == '\\') emit_char(o, '\\');
    emit_char(o, *name);
  }
  emit_char(o, '`');
}

static void emit_expr(const tni_exprs *x, tn_expr e, bool closed, text_out *o);

static void emit_call(const tni_exprs *x, const char *fn, const tni_ex_node *n, text_out *o) {
  emit_text(o, fn);
  for (uint32_t i = 0; i < n->n; i++) {
    emit_text(o, i ? ", " : "(");
    emit_expr(x, n->u.args[i], false, o);
  }
  emit_char(o, ')');
}

static void emit_atom(const tni_exprs *x, const tni_ex_node *n, bool closed, text_out *o) {
  switch (n->kind) {
    case TNI_EX_SYM:
      emit_name(o, x->symbols[n->u.sym].name);
      return;
    case TNI_EX_MIN:
      emit_call(x, "min", n, o);
      return;
    case TNI_EX_MAX:
      emit_call(x, "max", n, o);
      return;
    case TNI_EX_EXACTDIV:
      emit_call(x, "exactdiv", n, o);
      return;
    default:
      break;
  }
  if (closed) emit_char(o, '(');
  emit_expr(x, n->u.args[0], true, o);
  emit_text(o, n->kind == TNI_EX_MOD ? " % " : "//");
  emit_expr(x, n->u.args[1], true, o);
  if (closed) emit_char(o, ')');
}

static void emit_number(int64_t v, text_out *o) {
  char s[24];
  snprintf(s, sizeof s, "%lld", (long long)v);
  emit_text(o, s);
}

/* coef is what is left after the sign was written: positive, or INT64_MIN. */
static void emit_term(const tni_exprs *x, const tni_term *t, int64_t coef, bool lone, text_out *o) {
  if (coef != 1 || t->degree == 0) {
    emit_number(coef, o);
    if (t->degree) emit_char(o, '*');
  }
  for (uint32_t i = 0; i < t->degree; i++) {
    if (i) emit_char(o, '*');
    emit_atom(x, &x->nodes[t->atom[i]], !(lone && coef == 1 && t->degree == 1), o);
  }
}

static void emit_signed(const tni_exprs *x, const tni_term *t, bool first, text_out *o) {
  bool minus = t->coef < 0 && t->coef != INT64_MIN;
  if (!first) emit_text(o, minus ? " - " : " + ");
  if (first && minus) emit_char(o, '-');
  emit_term(x, t, minus ? -t->coef : t->coef, !minus, o);
}

/* The first term with a positive sign leads, so that sumN - N does not read -N + sumN. */
static void emit_sum(const tni_exprs *x, const tni_ex_node *n, text_out *o) {
  uint32_t lead = 0;
  while (lead < n->n && n->u.terms[lead].coef < 0) lead++;
  if (lead == n->n) lead = 0;
  emit_signed(x, &n->u.terms[lead], true, o);
  for (uint32_t i = 0; i < n->n; i++)
    if (i != lead) emit_signed(x, &n->u.terms[i], false, o);
}

static void emit_expr(const tni_exprs *x, tn_expr e, bool closed, text_out *o) {
  const tni_ex_node *n = &x->nodes[e];
  if (n->kind == TNI_EX_CONST) {
    if (closed && n->u.v < 0) emit_char(o, '(');
    emit_number(n->u.v, o);
    if (closed && n->u.v < 0) emit_char(o, ')');
  } else if (n->kind == TNI_EX_ADD) {
    if (closed) emit_char(o, '(');
    emit_sum(x, n, o);
    if (closed) emit_char(o, ')');
  } else {
    emit_atom(x, n, closed, o);
  }
}

size_t tni_ex_print(const tni_exprs *x, tn_expr e, char *buf, size_t n) {
  text_out o = {buf, n, 0};
  if (tni_ex_valid(x, e))
    emit_expr(x, e, false, &o);
  else
    emit_text(&o, "?");
  if (n) buf[o.at < n ? o.at : n - 1] = '\0';
  return o.at;
}
