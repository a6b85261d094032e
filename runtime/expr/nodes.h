/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the expression table.
 *
 * Every expression is a polynomial in normal form over atoms. A node is one of
 *   CONST    an integer
 *   SYM      a symbol (atom)
 *   ADD      a sum of terms that is neither a constant nor a lone atom
 *   FLOORDIV, MOD, EXACTDIV   two arguments (atoms)
 *   MIN, MAX  2 .. ARGS_MAX arguments, sorted by id, none provably beaten by another (atoms)
 * Arguments have smaller ids than the node that holds them, so ids are a topological order.
 *
 * A term is coef * product of atoms (sorted by id, repeated for powers). Terms of a polynomial are sorted: higher
 * degree first, then by atom ids; no two have the same atoms and no coefficient is 0.
 *
 * Work is bounded: terms, degree, arguments, depth and the size of the unfolded tree. What would pass a bound becomes
 * TNI_EXPR_NONE.
 */
#ifndef TENON_EXPR_NODES_H
#define TENON_EXPR_NODES_H

#include "runtime/base/base.h"
#include "runtime/expr/expressions.h"

enum {
  TERMS_MAX = 64,
  DEGREE_MAX = 8,
  ARGS_MAX = 16,
  DEPTH_MAX = 64,
  TREE_MAX = 1 << 14,
  NODES_MAX = 1 << 22,
  FACTS_MAX = 64,
  NESTING_LIMIT = 32
};

__extension__ typedef __int128 tni_i128;

/* Saturating: lo INT64_MIN and hi INT64_MAX stand for unbounded. */
typedef struct tni_range {
  int64_t lo, hi;
} tni_range;

typedef struct tni_term {
  int64_t coef;
  uint32_t degree;
  tn_expr atom[DEGREE_MAX];
} tni_term;

typedef struct tni_poly {
  uint32_t n;
  tni_term t[TERMS_MAX];
} tni_poly;

typedef struct tni_ex_node {
  uint8_t kind; /* tni_ex_kind */
  uint8_t depth;
  uint16_t n; /* terms or arguments */
  uint32_t tree, hash;
  union {
    int64_t v;
    tn_id sym;
    const tni_term *terms;
    const tn_expr *args;
  } u;
  tni_range range;
  uint64_t symbols;
} tni_ex_node;

typedef struct tni_ex_symbol_info {
  const char *name;
  tn_expr node, definition; /* definition TNI_EXPR_NONE: free */
  tni_range range;
  bool used; /* some other node was built from it, perhaps relying on its bounds */
} tni_ex_symbol_info;

struct tni_exprs {
  tni_arena *arena;
  tni_budget *budget;
  tni_map *names;
  tni_ex_node *nodes;
  uint32_t n_nodes, cap_nodes;
  tn_expr *slots; /* hash table of ids */
  uint32_t cap_slots;
  tni_ex_symbol_info *symbols;
  uint32_t n_symbols, cap_symbols;
  uint32_t n_defined;
  uint64_t defined;         /* mask as in tni_ex_symbols */
  tn_expr facts[FACTS_MAX]; /* each is >= 0 */
  uint32_t n_facts;
  bool lacked;      /* an allocation failed */
  uint32_t nesting; /* nesting of rebuilt divisions and minima under way, bounded by NESTING_LIMIT */
};

static inline bool tni_ex_valid(const tni_exprs *x, tn_expr e) { return e < x->n_nodes; }
static inline uint64_t tni_symbol_bit(tn_id sym) { return UINT64_C(1) << (sym < 63 ? sym : 63); }

/* The id of this node, made if needed. Payload pointers are copied from. */
tn_expr tni_ex_intern(tni_exprs *x, tni_ex_node node);
tn_expr tni_ex_intern_args(tni_exprs *x, tni_ex_kind kind, const tn_expr *args, uint32_t n);

/* poly.c, poly_expr.c: no function here touches the table except of/expr. false: overflow or too big, dst is then
 * garbage. */
void tni_poly_of(const tni_exprs *x, tn_expr e, tni_poly *p);
tn_expr tni_poly_expr(tni_exprs *x, const tni_poly *p);
int tni_term_cmp(const tni_term *a, const tni_term *b);                          /* order of the atoms; 0: same atoms */
bool tni_term_divides(const tni_term *d, const tni_term *t, tni_term *quotient); /* atoms only; coef copied from t */
bool tni_poly_add_term(tni_poly *p, const tni_term *t);
bool tni_poly_add(tni_poly *dst, const tni_poly *p, int64_t k); /* dst += k * p */
bool tni_poly_mul(const tni_poly *a, const tni_poly *b, tni_poly *out);
bool tni_poly_scale_down(tni_poly *p, int64_t d); /* d divides every coefficient */
int64_t tni_poly_constant(const tni_poly *p);
/* gcd of the coefficients, of all or of those with atoms; 0 for none; INT64_MAX + 1 is given as 1 (a sound divisor). */
int64_t tni_poly_content(const tni_poly *p, bool with_constant);
bool tni_poly_is_const(const tni_poly *p, int64_t *v);
/* a = q * b + r; q's coefficients are rounded down (truncate: toward 0) where the leading one of b (> 0) does not
 * divide. */
bool tni_poly_divide(const tni_poly *a, const tni_poly *b, bool truncate, tni_poly *q, tni_poly *r);
/* The one term that is an atom with coefficient 1 plus a constant. */
bool tni_poly_atom_plus(const tni_poly *p, tn_expr *atom, int64_t *coef, int64_t *k);

/* Floor division and modulo of numbers, d != 0; false: overflow. */
bool tni_floordiv_i64(int64_t n, int64_t d, int64_t *out);
int64_t tni_mod_i64(int64_t n, int64_t d);

/* build.c, divide.c: builders without substitution. */
tn_expr tni_build_add(tni_exprs *x, tn_expr a, tn_expr b, int64_t k); /* a + k * b */
tn_expr tni_build_mul(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_build_floordiv(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_build_mod(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_build_exactdiv(tni_exprs *x, tn_expr a, tn_expr b);
tn_expr tni_build_minmax(tni_exprs *x, tni_ex_kind kind, const tn_expr *args, uint32_t n);

/* facts.c: e with every defined symbol replaced. */
tn_expr tni_ex_resolve(tni_exprs *x, tn_expr e);

/* interval.c, bounds.c, range.c: sound ranges under the symbols' bounds and the facts. */
tni_range tni_range_add(tni_range a, tni_range b);
tni_range tni_range_mul(tni_range a, tni_range b);
tni_range tni_range_floordiv(tni_range a, tni_range b);
tni_range tni_range_mod(tni_range a, tni_range b);
tni_range tni_poly_interval(const tni_exprs *x, const tni_poly *p); /* plain interval arithmetic */
tni_range tni_poly_range(const tni_exprs *x, const tni_poly *p);    /* the best we know */
tni_range tni_node_range(const tni_exprs *x, const tni_ex_node *n);

#endif
