/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a decoder with past inputs, run with an empty past, is the decoder without them: node by node from the
 * outputs. Two values are the same where their elements are known and equal for some sizes of the inputs with a past of
 * 0, where they are equal constants or the same input, or where nodes with equal attributes make them of the same
 * values; an operand of Concat that has no elements then counts for nothing, and keys and values of an encoder's output
 * (cross.c) are read by the one and made by the other. What is not seen to be the same is taken to differ: branches
 * that were traced with one position lack the mask among the positions of a run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/decoder/decoder.h"

enum { SIZES = 3, MOST_SYMBOLS = 64, MOST_DEPTH = 20000, MOST_OPERANDS = 64 };

typedef struct side {
  const tni_graph *g;
  int64_t sizes[SIZES][MOST_SYMBOLS];
  uint32_t n;
} side;

typedef struct proof {
  side with, without;
  tn_id *same;  /* [values of with] the value of without that is the same, or TN_NONE */
  tn_id *other; /* that was found to differ last */
  uint32_t depth;
  char *why;
  size_t room;
} proof;

static bool same_value(proof *p, tn_id va, tn_id vb);

static bool refuse(proof *p, const char *what, const char *name) {
  if (!*p->why) snprintf(p->why, p->room, "'%s' %s", name, what);
  return false;
}

/* --- sizes ------------------------------------------------------------------------------------------------------- */

static int64_t size_of_name(const char *name, uint32_t k) {
  uint64_t h = 1469598103934665603u + k;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
  return 2 + (int64_t)(h >> 40) % 29;
}

static bool set_sizes(side *s) {
  s->n = tni_ex_n_symbols(s->g->exprs);
  if (s->n > MOST_SYMBOLS) return false;
  for (uint32_t k = 0; k < SIZES; k++)
    for (uint32_t i = 0; i < s->n; i++) s->sizes[k][i] = size_of_name(tni_ex_symbol_name(s->g->exprs, i), k);
  return true;
}

/* Symbols of an input's dims. */
static uint64_t symbols_of(const tni_graph *g, const tni_value *v) {
  uint64_t all = 0;
  for (uint32_t a = 0; v->pub.rank <= TN_MAX_RANK && a < v->pub.rank; a++)
    if (v->pub.dims[a] != TNI_EXPR_NONE) all |= tni_ex_symbols(g->exprs, v->pub.dims[a]);
  return all;
}

/* Symbols that inputs of the decoder without past have, as far as something reads them. */
static bool is_read(const side *s, const char *symbol) {
  for (uint32_t i = 0; i < s->g->n_inputs; i++) {
    const tni_value *v = s->g->values[s->g->inputs[i]];
    for (uint32_t k = 0; v->pub.n_uses && k < s->n; k++)
      if ((symbols_of(s->g, v) >> k & 1) && strcmp(tni_ex_symbol_name(s->g->exprs, k), symbol) == 0) return true;
  }
  return false;
}

/* Symbols that only inputs have which the decoder without past does not read are the past's length: 0. */
static bool empty_past(proof *p) {
  const tni_graph *g = p->with.g, *other = p->without.g;
  uint64_t past = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *v = g->values[g->inputs[i]];
    const tn_id twin = tni_graph_find(other, v->pub.name);
    if (twin == TN_NONE || !other->values[twin]->pub.n_uses) past |= symbols_of(g, v);
  }
  for (uint32_t s = 0; s < p->with.n; s++)
    if (past >> s & 1 && is_read(&p->without, tni_ex_symbol_name(g->exprs, s))) past &= ~(1ull << s);
  for (uint32_t s = 0; s < p->with.n; s++)
    for (uint32_t k = 0; past >> s & 1 && k < SIZES; k++) p->with.sizes[k][s] = 0;
  return past != 0;
}

static bool eval_at(const side *s, uint32_t k, tn_expr e, int64_t *out) {
  return e != TNI_EXPR_NONE && tni_ex_eval(s->g->exprs, e, s->sizes[k], s->n, out) == TN_OK;
}

/* Some axis is 0 with an empty past. */
static bool is_empty(const proof *p, tn_id v) {
  const tni_value *x = p->with.g->values[v];
  int64_t n;
  for (uint32_t a = 0; x->pub.rank <= TN_MAX_RANK && a < x->pub.rank; a++) {
    bool zero = true;
    for (uint32_t k = 0; k < SIZES; k++) zero = zero && eval_at(&p->with, k, x->pub.dims[a], &n) && n == 0;
    if (zero) return true;
  }
  return false;
}

/* --- values ------------------------------------------------------------------------------------------------------ */

static bool same_elems(const proof *p, const tni_value *a, const tni_value *b) {
  if (!a->elems || !b->elems || a->n_elems != b->n_elems || a->pub.dtype != b->pub.dtype || a->pub.rank != b->pub.rank)
    return false;
  for (uint32_t i = 0; i < a->n_elems; i++)
    for (uint32_t k = 0; k < SIZES; k++) {
      int64_t x, y;
      if (!eval_at(&p->with, k, a->elems[i], &x) || !eval_at(&p->without, k, b->elems[i], &y) || x != y) return false;
    }
  return true;
}

/* Equal numbers: 0 and -0 are, which masks hold of products with 0. */
static bool same_numbers(const tni_tensor *x, const tni_tensor *y) {
  const bool whole = x->dtype == TN_DT_F32, half = x->dtype == TN_DT_F16 || x->dtype == TN_DT_BF16;
  const uint32_t width = whole ? 4 : 2;
  if (memcmp(x->data, y->data, (size_t)x->bytes) == 0) return true;
  for (uint64_t i = 0; (whole || half) && i < x->bytes; i += width) {
    uint32_t a = 0, b = 0;
    memcpy(&a, (const char *)x->data + i, width);
    memcpy(&b, (const char *)y->data + i, width);
    if (a != b && ((a | b) & (whole ? 0x7fffffffu : 0x7fffu))) return false;
  }
  return whole || half;
}

static bool same_tensor(const tni_value *a, const tni_value *b) {
  const tni_tensor *x = a->tensor, *y = b->tensor;
  if (!x || !y || x->dtype != y->dtype || x->rank != y->rank || x->bytes != y->bytes ||
      memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) != 0)
    return false;
  if (a->origin.file && b->origin.file && strcmp(a->origin.file, b->origin.file) == 0 &&
      a->origin.offset == b->origin.offset)
    return true;
  return x->data && y->data && same_numbers(x, y);
}

static bool same_attr(const tn_attr *a, const tn_attr *b) {
  if (a->type != b->type || a->n != b->n) return false;
  switch (a->type) {
    case TN_ATTR_NONE:
      return true;
    case TN_ATTR_INT:
      return a->u.i == b->u.i;
    case TN_ATTR_FLOAT:
      return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0;
    case TN_ATTR_STRING:
      return (!a->u.s && !b->u.s) || (a->u.s && b->u.s && memcmp(a->u.s, b->u.s, (size_t)a->n) == 0);
    case TN_ATTR_INTS:
      return !a->n || (a->u.ints && b->u.ints && memcmp(a->u.ints, b->u.ints, (size_t)a->n * sizeof *a->u.ints) == 0);
    case TN_ATTR_FLOATS:
      return !a->n ||
             (a->u.floats && b->u.floats && memcmp(a->u.floats, b->u.floats, (size_t)a->n * sizeof *a->u.floats) == 0);
    case TN_ATTR_TENSOR: {
      const tni_tensor *x = a->u.p, *y = b->u.p;
      return (!x && !y) || (x && y && x->dtype == y->dtype && x->bytes == y->bytes && x->data && y->data &&
                            memcmp(x->data, y->data, (size_t)x->bytes) == 0);
    }
    default:
      return false; /* graphs */
  }
}

/* Operands, those of a Concat that are empty left out. */
static uint32_t operands_of(const proof *p, const tni_node *n, bool with, tn_id out[MOST_OPERANDS]) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (!(with && n->pub.op == TN_OP_CONCAT && n->pub.in[i] != TN_NONE && is_empty(p, n->pub.in[i])))
      out[count++] = n->pub.in[i];
  return count;
}

static bool same_attrs(const tni_node *a, const tni_node *b) {
  if (a->op != b->op || !a->op || (a->op->flags & TNI_OPF_CONTROL) || a->pub.n_attr != b->pub.n_attr) return false;
  for (uint32_t i = 0; i < a->pub.n_attr; i++)
    if (!same_attr(a->pub.attr[i], b->pub.attr[i])) return false;
  return true;
}

/* va is made by a node. */
static bool same_made(proof *p, tn_id va, tn_id vb) {
  const tni_value *a = p->with.g->values[va], *b = p->without.g->values[vb];
  const tni_node *na = p->with.g->nodes[a->pub.producer],
                 *nb = b->pub.producer == TN_NONE ? NULL : p->without.g->nodes[b->pub.producer];
  tn_id x[MOST_OPERANDS], y[MOST_OPERANDS];
  if (na->pub.n_in > MOST_OPERANDS || (nb && nb->pub.n_in > MOST_OPERANDS))
    return refuse(p, "has many operands", na->pub.name);
  const uint32_t n = operands_of(p, na, true, x);
  if (n == 1 && n < na->pub.n_in) return same_value(p, x[0], vb);
  if (!nb || !same_attrs(na, nb) || a->out_index != b->out_index || n != operands_of(p, nb, false, y))
    return refuse(p, "is made otherwise", a->pub.name);
  for (uint32_t i = 0; i < n; i++)
    if (x[i] == TN_NONE || y[i] == TN_NONE ? x[i] != y[i] : !same_value(p, x[i], y[i])) return false;
  return true;
}

/* A value as axes of another: through Transpose, and through Concat with what is empty. */
typedef struct turned {
  tn_id v;
  uint32_t rank, perm[TN_MAX_RANK];
  bool moved;
  bool made; /* v is of the decoder without past, which makes what was an input */
} turned;

static turned turn_back(const proof *p, const side *s, tn_id v) {
  turned t = {.v = v, .rank = s->g->values[v]->pub.rank};
  for (uint32_t i = 0; t.rank <= TN_MAX_RANK && i < t.rank; i++) t.perm[i] = i;
  while (t.rank <= TN_MAX_RANK && s->g->values[t.v]->pub.producer != TN_NONE) {
    const tni_node *n = s->g->nodes[s->g->values[t.v]->pub.producer];
    tn_id in[MOST_OPERANDS];
    const int64_t *perm = NULL;
    if (s == &p->with && n->pub.op == TN_OP_CONCAT && n->pub.n_in > 1 && n->pub.n_in <= MOST_OPERANDS &&
        operands_of(p, n, true, in) == 1) {
      t.v = in[0];
    } else if (n->pub.op == TN_OP_TRANSPOSE && tni_attr_ints(&n->pub, "perm", &perm) == t.rank && perm) {
      for (uint32_t i = 0; i < t.rank; i++) t.perm[i] = (uint32_t)perm[t.perm[i]];
      t.v = n->pub.in[0];
    } else {
      break;
    }
    t.moved = true;
  }
  return t;
}

/* An input that the other decoder makes is what that makes it of. */
static void turn_made(const proof *p, turned *a) {
  const tni_value *v = p->with.g->values[a->v];
  const tn_id made = v->pub.kind == TN_VALUE_INPUT ? tni_cross_made(p->without.g, v) : TN_NONE;
  if (made == TN_NONE) return;
  const turned b = turn_back(p, &p->without, made);
  if (a->rank != b.rank || b.rank > TN_MAX_RANK) return;
  for (uint32_t i = 0; i < a->rank; i++) a->perm[i] = b.perm[a->perm[i]];
  a->v = b.v;
  a->moved = a->made = true;
}

static bool same_turned(proof *p, tn_id va, tn_id vb, bool *moved) {
  turned a = turn_back(p, &p->with, va), b = turn_back(p, &p->without, vb);
  turn_made(p, &a);
  *moved = a.moved || b.moved;
  if (!*moved) return false;
  if (a.rank != b.rank || memcmp(a.perm, b.perm, a.rank * sizeof *a.perm) != 0)
    return refuse(p, "is turned otherwise", p->with.g->values[va]->pub.name);
  if (a.made) return a.v == b.v || refuse(p, "is not what the other decoder makes", p->with.g->values[va]->pub.name);
  return same_value(p, a.v, b.v);
}

static bool look_at(proof *p, tn_id va, tn_id vb) {
  bool moved;
  const tni_value *a = p->with.g->values[va], *b = p->without.g->values[vb];
  if (same_elems(p, a, b)) return true;
  if (a->pub.kind == TN_VALUE_CONST || b->pub.kind == TN_VALUE_CONST)
    return (a->pub.kind == b->pub.kind && same_tensor(a, b)) || refuse(p, "is another constant", a->pub.name);
  const bool turned_same = same_turned(p, va, vb, &moved);
  if (moved) return turned_same;
  if (a->pub.producer != TN_NONE) return same_made(p, va, vb);
  return (a->pub.kind == TN_VALUE_INPUT && b->pub.kind == TN_VALUE_INPUT && strcmp(a->pub.name, b->pub.name) == 0) ||
         refuse(p, "is read with a past only", a->pub.name);
}

static bool same_value(proof *p, tn_id va, tn_id vb) {
  if (p->same[va] == vb) return true;
  if (p->other[va] == vb) return false;
  if (++p->depth > MOST_DEPTH) return refuse(p, "lies too deep", p->with.g->values[va]->pub.name);
  const bool same = look_at(p, va, vb);
  p->depth--;
  (same ? p->same : p->other)[va] = vb;
  return same;
}

static bool same_outputs(proof *p) {
  const tni_graph *a = p->with.g, *b = p->without.g;
  for (uint32_t i = 0; i < a->n_outputs; i++) {
    const tni_value *v = a->values[a->outputs[i]];
    const tn_id twin = tni_graph_find(b, v->pub.name);
    if (twin == TN_NONE || !b->values[twin]->is_output) return refuse(p, "is an output of one of them", v->pub.name);
    if (!same_value(p, a->outputs[i], twin)) return false;
  }
  return true;
}

tn_status tni_same_decoder(const tni_graph *with, const tni_graph *without, bool *same, char *why, size_t room,
                           tn_error *err) {
  proof *p = calloc(1, sizeof *p);
  tn_id *memo = malloc(2 * ((size_t)with->n_values + 1) * sizeof *memo);
  *same = false;
  *why = '\0';
  if (!p || !memo) {
    free(p);
    free(memo);
    return tni_fail_memory(err, with->name);
  }
  memset(memo, 0xff, 2 * ((size_t)with->n_values + 1) * sizeof *memo); /* TN_NONE */
  *p = (proof){
      .with.g = with, .without.g = without, .same = memo, .other = memo + with->n_values + 1, .why = why, .room = room};
  if (!set_sizes(&p->with) || !set_sizes(&p->without))
    refuse(p, "has many symbols", with->name);
  else if (!tni_cross_there(with) && !empty_past(p)) /* those come with a past that is empty */
    refuse(p, "has no past of a length of its own", with->name);
  else
    *same = same_outputs(p);
  free(memo);
  free(p);
  return TN_OK;
}
