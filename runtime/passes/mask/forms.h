/* SPDX-License-Identifier: Apache-2.0
 *
 * What the elements of a mask are, proved: the abstract interpreter behind the pass `mask`.
 *
 * A tensor is described by one table for all of its elements at once. The element at coordinates (x_0 .. x_{r-1}) is
 * the leaf that a few atoms choose, each true or false at these coordinates: INDEX  f(x) >= 0 for a form f; causal is
 * i - j + past >= 0 EQ     the element of a tensor at address f(x) equals c; GE: it is at least c (integers only) A
 * form is c_0 x_0 + .. + c_{r-1} x_{r-1} + k with symbolic coefficients, the coefficient of an axis of size 1 being 0.
 * A leaf is a number, a form (integers), or an element of a tensor at an address: gain * t[f(x)] + off.
 *
 * Addresses count elements in row-major order, so that a Flatten, a Gather by b * T + j and a Reshape give t[b, j]
 * back. What is not understood describes itself: element x of tensor v is v[x]. No table ever says more than is proved;
 * NULL is the answer where dims are unknown, where there are too many atoms, and without memory. Values of integer
 * tensors are taken as mathematical integers, as in shape inference.
 *
 * Everything lies on the arena of the tni_mask and dies with it; the graph is only read, its expressions grow.
 */
#ifndef TENON_PASSES_MASK_FORMS_H
#define TENON_PASSES_MASK_FORMS_H

#include "runtime/passes/build/build.h"

enum { TNI_MASK_ATOMS = 6, TNI_MASK_LEAVES = 1 << TNI_MASK_ATOMS, TNI_MASK_DEPTH = 64, TNI_MASK_INPUTS = 3 };

typedef struct tni_mform {
  tn_expr c[TN_MAX_RANK], k;
} tni_mform;

typedef enum { TNI_MATOM_INDEX, TNI_MATOM_EQ, TNI_MATOM_GE } tni_matom_kind;

typedef struct tni_matom {
  tni_matom_kind kind;
  tni_mform f;
  tn_id src; /* EQ, GE */
  double c;  /* EQ, GE */
} tni_matom;

typedef enum {
  TNI_MLEAF_VOID, /* the atoms contradict each other: no element is here */
  TNI_MLEAF_NUM,  /* float or bool; a constant where lo == hi, else only an answer of tni_mleaf_apply */
  TNI_MLEAF_INT,  /* the value is f */
  TNI_MLEAF_SRC   /* the value is gain * src[f] + off; gain 1 or -1, and 1 and 0 where src is no integer tensor */
} tni_mleaf_kind;

typedef struct tni_mleaf {
  tni_mleaf_kind kind;
  bool any;      /* NUM, SRC: lo and hi say nothing, the value may be NaN */
  double lo, hi; /* NUM, SRC: bounds of the value */
  tni_mform f;
  tn_id src;
  double gain, off;
} tni_mleaf;

typedef struct tni_mtab {
  uint32_t rank, dtype, n_atoms;
  tn_expr dims[TN_MAX_RANK];
  tni_matom atom[TNI_MASK_ATOMS];
  tni_mleaf *leaf; /* 1 << n_atoms; bit a of the index: atom a holds */
} tni_mtab;

typedef struct tni_mask {
  tni_graph *g;
  tni_exprs *x;
  tni_arena *arena;
  const tni_mtab **memo; /* by value */
  bool *read;
  tn_expr zero, one;
  uint32_t n_values; /* when it began: what came later is not read */
  uint32_t depth;
  bool exact;             /* floats are taken as real numbers: they may be forms, too */
  struct tni_mask *reals; /* the same with exact; NULL there */
} tni_mask;

/* The table of value v, or NULL. */
const tni_mtab *tni_mask_read(tni_mask *m, tn_id v);
/* v as something that is not understood: each element is itself. */
tni_mtab *tni_mask_opaque(tni_mask *m, tn_id v);
/* The table of a constant: uniform, an integer form, or last two axes that depend on j - i alone; NULL otherwise. */
tni_mtab *tni_mask_const(tni_mask *m, tn_id v);
/* Nodes that move elements (mask_move.c) or take them from elsewhere (mask_index.c). in: the tables of the inputs that
 * matter, none NULL; the rank of the output is known. */
const tni_mtab *tni_mask_move(tni_mask *m, const tni_node *n, const tni_mtab *const *in);
const tni_mtab *tni_mask_index(tni_mask *m, const tni_node *n, const tni_mtab *const *in);
/* Symbolic elements of a small integer tensor; false where one is unknown or there are more than max. */
bool tni_mask_elems(tni_mask *m, tn_id v, tn_expr *e, uint32_t max, uint32_t *n);

/* --- ALiBi (mask_slopes.c): times * slope[h] * j for key j, and something that all keys of a query have in common. */
typedef struct tni_mslopes {
  tn_id src;    /* of `heads` elements, or TN_NONE: */
  float *table; /* they are these, or NULL: */
  double value; /* all are this one */
  int64_t heads, times;
  uint32_t dtype;
} tni_mslopes;
/* l, the only leaf over dims [batch, heads, queries, keys] of a mask of this dtype, is that: a product of one number
 * per head and of positions, or a constant whose rows are lines, read from some column on. Up to rounding. */
bool tni_mask_slopes(tni_mask *m, const tni_mleaf *l, const tn_expr *dims, uint32_t dtype, tni_mslopes *s);
/* The vector [heads] of slopes. TN_NONE: without memory. */
tn_id tni_mask_slopes_build(tni_mask *m, const tni_mslopes *s, tn_error *err);

/* --- forms (mask_form.c). A coefficient that could not be built is TNI_EXPR_NONE; whole tells. */
tni_mform tni_mform_const(const tni_mask *m, tn_expr k);
tni_mform tni_mform_axis(const tni_mask *m, uint32_t axis, tn_expr c);
bool tni_mform_whole(const tni_mform *f);
bool tni_mform_same(const tni_mform *a, const tni_mform *b);
bool tni_mform_is_const(const tni_mask *m, const tni_mform *f, tn_expr *k);
/* a + times * b, and a * e. */
tni_mform tni_mform_add(tni_mask *m, const tni_mform *a, const tni_mform *b, int64_t times);
tni_mform tni_mform_mul(tni_mask *m, const tni_mform *a, tn_expr e);
/* Coefficients of axes of size 1 become 0. */
void tni_mform_trim(const tni_mask *m, tni_mform *f, uint32_t rank, const tn_expr *dims);
/* The row-major address in a tensor of these dims. */
tni_mform tni_mform_dense(tni_mask *m, uint32_t rank, const tn_expr *dims);
/* Least and greatest value over all coordinates; NONE where it is not known. */
void tni_mform_bounds(tni_mask *m, const tni_mform *f, uint32_t rank, const tn_expr *dims, tn_expr *lo, tn_expr *hi);
/* f >= 0: 1 everywhere, 0 nowhere, -1 unknown. */
int tni_mform_sign(tni_mask *m, const tni_mform *f, uint32_t rank, const tn_expr *dims);
/* The atom f >= 0 in the one way it is written; *neg: it is this atom's opposite. */
tni_matom tni_matom_index(tni_mask *m, const tni_mform *f, bool *neg);

/* --- tables (mask_table.c) */
tni_mtab *tni_mtab_new(tni_mask *m, uint32_t rank, const tn_expr *dims, uint32_t dtype, uint32_t n_atoms);
/* Contradictions become VOID, atoms that decide nothing go. Changes t in place. */
void tni_mtab_simplify(tni_mask *m, tni_mtab *t);
/* t broadcast to dims; NULL where that is not proved. */
tni_mtab *tni_mtab_broadcast(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *dims);
/* The same as an element-wise operator or Expand does it: also a triangle [.., n, n] to [.., n, past + n], which fails
 * unless past = 0 or n = 1. */
tni_mtab *tni_mtab_stretch(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *dims);
/* t with every form replaced by what change makes of it (false: give up), over other dims. */
typedef bool (*tni_mform_fn)(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out);
tni_mtab *tni_mtab_map(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *dims, tni_mform_fn change,
                       void *arg);
/* The only leaf of a table without atoms; NULL where there are several. */
const tni_mleaf *tni_mtab_single(const tni_mtab *t);

/* What an element-wise function makes of leaves: yes where all conditions hold, else no. */
typedef struct tni_mout {
  tni_mleaf yes, no;
  uint32_t n;
  tni_matom cond[2];
  bool neg[2];
} tni_mout;
typedef void (*tni_mleaf_fn)(tni_mask *m, const void *arg, const tni_mtab *out, const tni_mleaf *const *in,
                             tni_mout *result);
/* fn over all assignments of n tables, which must have out's dims already. self: the value that is described. */
tni_mtab *tni_mtab_combine(tni_mask *m, tn_id self, const tni_mtab *const *in, uint32_t n, tni_mleaf_fn fn,
                           const void *arg);

/* --- leaves (mask_leaf.c) */
tni_mleaf tni_mleaf_num(double v);
tni_mleaf tni_mleaf_int(const tni_mask *m, int64_t v);
/* A constant of this dtype: NUM or INT. */
tni_mleaf tni_mleaf_of(const tni_mask *m, uint32_t dtype, double v);
bool tni_mleaf_is_num(const tni_mleaf *l, double *v);
bool tni_mleaf_same(const tni_mleaf *a, const tni_mleaf *b);
bool tni_mask_is_int(uint32_t dtype);
/* Whether element-wise operator op is understood; then tni_mleaf_apply with its node as arg. */
bool tni_mleaf_knows(uint32_t op);
void tni_mleaf_apply(tni_mask *m, const void *arg, const tni_mtab *out, const tni_mleaf *const *in, tni_mout *result);
/* result: whether f >= 0 (as bool). */
void tni_mout_index(tni_mask *m, const tni_mtab *out, const tni_mform *f, tni_mout *result);

#endif
