/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolic integers (row TL1): canonical, hash-consed expressions over named symbols.
 *
 * tn_expr ids are only meaningful in their table. The same id means proved equal; different ids mean "not proved".
 * Every question about order or divisibility is answered soundly: unknown is an answer, wrong is not. Building is for
 * one thread; evaluating and asking (also order and proves_le) are for any, while nobody builds.
 *
 * An expression is defined at a point if no division in it is by zero and every exactdiv leaves no remainder. Canonical
 * forms have the value of what was built wherever that is defined; the other way round need not hold (N - N is 0
 * whatever N was divided by). Values are mathematical integers; evaluation refuses what passes 64 bits.
 */
#ifndef TENON_EXPR_EXPRESSIONS_H
#define TENON_EXPR_EXPRESSIONS_H

#include <stdbool.h>

#include <tenon/plugin.h>

#include "runtime/base/base.h"

typedef struct tni_exprs tni_exprs;

#define TNI_EXPR_NONE UINT32_MAX /* an unknown dimension or element */

typedef enum {
  TNI_EX_CONST,
  TNI_EX_SYM,
  TNI_EX_ADD,
  TNI_EX_MUL,
  TNI_EX_FLOORDIV,
  TNI_EX_MOD,
  TNI_EX_MIN,
  TNI_EX_MAX,
  TNI_EX_EXACTDIV
} tni_ex_kind;

tni_exprs *tni_exprs_create(void); /* NULL without memory */
void tni_exprs_destroy(tni_exprs *x);
/* True: since x was made, a builder gave TNI_EXPR_NONE because there was no memory. */
bool tni_ex_short(const tni_exprs *x);
/* The budget of the model whose expressions these are: its graphs count in it too. NULL: none. b outlives x. */
void tni_ex_bill(tni_exprs *x, tni_budget *b);
tni_budget *tni_ex_budget(const tni_exprs *x);

/* Builders return TNI_EXPR_NONE on overflow, division by a constant 0, without memory, if an operand is NONE, or where
 * the result would be too big (64 terms, degree 8, 16 arguments of min or max, depth 64). */
tn_expr tni_ex_const(tni_exprs *x, int64_t v);
/* The symbol of this name, made on first use with bounds [0, 2^31 - 1]. Names are any non-empty bytes. */
tn_expr tni_ex_sym(tni_exprs *x, const char *name);
tn_expr tni_ex_add(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_ex_sub(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_ex_mul(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_ex_floordiv(tni_exprs *x, tn_expr a, tn_expr b); /* rounds toward minus infinity */
tn_expr tni_ex_mod(tni_exprs *x, tn_expr a, tn_expr b);      /* sign of the divisor, as in Python and ONNX Mod fmod=0 */
tn_expr tni_ex_min(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_ex_max(tni_exprs *x, tn_expr a, tn_expr b);
/* a / b where the caller knows that b divides a (Reshape's -1). Simplifies as far as it can. */
tn_expr tni_ex_exactdiv(tni_exprs *x, tn_expr a, tn_expr b);

/* "past_sequence_length + sequence_length", "sumN-N", "2*batch", "floor(h/2)": + - * / // % min() max() floor() and
 * parentheses over C identifiers and integers; also SymPy's **, ceiling(), Min(), Max(), Mod(), our exactdiv(a, b) and
 * `any name` in back quotes. "/" is rational: floor(h/2 - 1/2), and exact where it is left over at the end. Anything
 * that does not parse (or overflows) becomes a symbol of that whole name. */
tn_expr tni_ex_parse(tni_exprs *x, const char *text);

bool tni_ex_is_const(const tni_exprs *x, tn_expr e, int64_t *v);
bool tni_ex_is_sym(const tni_exprs *x, tn_expr e, tn_id *sym);
/* Two or more symbols, each once, and perhaps a constant, added up. */
bool tni_ex_is_sum(const tni_exprs *x, tn_expr e);
/* How many symbols are defined as something else: dims that were built before may still hold them. */
uint32_t tni_ex_n_defined(const tni_exprs *x);

/* Facts; they are used by what is built or asked later. TN_E_INVALID, and nothing changed, where a fact contradicts
 * what is known, or a definition goes round in a circle. */
/* Bounds of a symbol; lo <= value <= hi. Replaces the bounds of a symbol that nothing was built from yet; afterwards
 * only narrows them (what was simplified under the old ones must stay right). */
TN_MUST_CHECK tn_status tni_ex_bound(tni_exprs *x, tn_id sym, int64_t lo, int64_t hi);
/* A symbol is defined as an expression of others ("total = past + sequence"): later building substitutes it. */
TN_MUST_CHECK tn_status tni_ex_define(tni_exprs *x, tn_id sym, tn_expr as);
/* a <= b always ("N <= sumN", "past + sequence <= 2048"). At most 64 such facts are kept; more are ignored. */
TN_MUST_CHECK tn_status tni_ex_assume_le(tni_exprs *x, tn_expr a, tn_expr b);

uint32_t tni_ex_n_symbols(const tni_exprs *x);
const char *tni_ex_symbol_name(const tni_exprs *x, tn_id sym);
void tni_ex_symbol_bounds(const tni_exprs *x, tn_id sym, int64_t *lo, int64_t *hi);
/* Bit i: e depends on symbol i (symbols past 63 set bit 63). */
uint64_t tni_ex_symbols(const tni_exprs *x, tn_expr e);
/* Calls fn once per occurrence of a symbol in e (definitions are followed) until it returns false; then, and for
 * TNI_EXPR_NONE, the result is false. */
bool tni_ex_each_symbol(const tni_exprs *x, tn_expr e, bool (*fn)(void *ctx, tn_id sym), void *ctx);

/* v[symbol] for n symbols. TN_E_INVALID where a symbol is not given, on division by zero, overflow or TNI_EXPR_NONE. */
TN_MUST_CHECK tn_status tni_ex_eval(const tni_exprs *x, tn_expr e, const int64_t *v, uint32_t n, int64_t *out);
/* Sound interval under the symbols' bounds; INT64_MIN/MAX where unbounded. */
void tni_ex_range(const tni_exprs *x, tn_expr e, int64_t *lo, int64_t *hi);
int tni_ex_divides(const tni_exprs *x, tn_expr e, int64_t c); /* c divides e: 1 yes, 0 no, -1 unknown */
int tni_ex_order(tni_exprs *x, tn_expr a, tn_expr b);         /* -1 a<b, 0 equal, 1 a>b always; 2 unknown */
bool tni_ex_proves_le(tni_exprs *x, tn_expr a, tn_expr b);    /* a <= b always */
/* b >= 0 always, and a is b wherever b is not 0, through min(b, 1) in a: total - min(n, 1) * (total - n) and n. */
bool tni_ex_same_unless_zero(tni_exprs *x, tn_expr a, tn_expr b);
/* Greatest common divisor, >= 0 (1 where that has no int64_t). */
int64_t tni_gcd(int64_t a, int64_t b);

/* Text of e into buf (always terminated); returns the length that was needed. Parses back to the same id. */
size_t tni_ex_print(const tni_exprs *x, tn_expr e, char *buf, size_t n);

#endif
