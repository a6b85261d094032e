/* SPDX-License-Identifier: Apache-2.0
 *
 * SequenceConstruct, -Empty, -At, -Erase, -Insert, -Length, SplitToSequence, ConcatFromSequence, Optional,
 * OptionalGetElement, OptionalHasElement as ONNX 28 defines them. Elements are shared, never copied.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/interp/cells.h"

typedef struct op {
  const tni_interp *ip;
  const tni_node *n;
  tni_cell *const *in;
  tni_cell **out; /* one */
  tni_poll *poll;
} op;

static tni_cell *sequence_input(const op *o, uint32_t i) { return i < o->n->pub.n_in ? o->in[i] : NULL; }

static tn_status no_memory(const op *o) { return tni_fail_memory(o->ip->err, o->n->pub.name); }

static tn_status bad_sequence(const op *o, const char *what) {
  return tni_fail(o->ip->err, TN_E_INVALID, o->n->pub.name, "%s", what);
}

static tn_status sequence_operand(const op *o, uint32_t i, const tni_cell **s) {
  *s = sequence_input(o, i);
  if (*s && (*s)->form == TNI_FORM_SEQUENCE) return TN_OK;
  return tni_fail(o->ip->err, TN_E_INVALID, o->n->pub.name, "input %u is no sequence", i);
}

/* A position within [0, limit), counted from the end where it is negative. */
static tn_status sequence_position(const op *o, uint32_t i, int64_t limit, int64_t *at) {
  const tni_cell *c = sequence_input(o, i);
  int64_t count;
  if (!c || c->form != TNI_FORM_TENSOR || (c->t.dtype != TN_DT_I64 && c->t.dtype != TN_DT_I32) ||
      tni_dims_count(c->t.dims, c->t.rank, &count) != TN_OK || count != 1)
    return bad_sequence(o, "its position must be one integer");
  tni_tensor_to_i64(&c->t, 0, 1, at);
  if (*at < -limit || *at >= limit)
    return tni_fail(o->ip->err, TN_E_INVALID, o->n->pub.name, "position %lld of %lld", (long long)*at,
                    (long long)limit);
  if (*at < 0) *at += limit;
  return TN_OK;
}

static tn_status give_scalar(const op *o, uint32_t dtype, int64_t v) {
  const tni_tensor t = {.dtype = dtype, .bytes = dtype == TN_DT_BOOL ? 1 : 8};
  tni_cell *c = tni_cell_new(&t);
  if (!c) return no_memory(o);
  memcpy(c->t.data, &v, (size_t)t.bytes);
  o->out[0] = c;
  return TN_OK;
}

static tn_status sequence_construct(const op *o) {
  tni_cell *s = tni_cell_group(TNI_FORM_SEQUENCE, o->n->pub.n_in);
  if (!s) return no_memory(o);
  o->out[0] = s;
  for (uint32_t i = 0; i < s->n; i++) {
    if (!o->in[i]) return bad_sequence(o, "an input is missing");
    s->items[i] = tni_cell_hold(o->in[i]);
  }
  return TN_OK;
}

static tn_status sequence_at(const op *o) {
  const tni_cell *s;
  int64_t i = 0;
  tn_status st = sequence_operand(o, 0, &s);
  if (st == TN_OK) st = sequence_position(o, 1, s->n, &i);
  if (st == TN_OK) o->out[0] = tni_cell_hold(s->items[i]);
  return st;
}

/* A copy of s, with a hole at `gap` (grow 1) or without what stands there (grow -1). */
static tni_cell *edited_sequence(const tni_cell *s, int64_t gap, int grow) {
  tni_cell *c = tni_cell_group(TNI_FORM_SEQUENCE, (uint32_t)((int64_t)s->n + grow));
  for (uint32_t i = 0, to = 0; c && i < s->n; i++) {
    if (i == gap && grow < 0) continue;
    if (i == gap) to++;
    c->items[to++] = tni_cell_hold(s->items[i]);
  }
  return c;
}

static tn_status sequence_erase(const op *o) {
  const tni_cell *s;
  tn_status st = sequence_operand(o, 0, &s);
  int64_t i = st == TN_OK ? (int64_t)s->n - 1 : 0;
  if (st == TN_OK && i < 0) st = bad_sequence(o, "the sequence is empty");
  if (st == TN_OK && sequence_input(o, 1)) st = sequence_position(o, 1, s->n, &i);
  if (st != TN_OK) return st;
  o->out[0] = edited_sequence(s, i, -1);
  return o->out[0] ? TN_OK : no_memory(o);
}

static tn_status sequence_insert(const op *o) {
  const tni_cell *s;
  tn_status st = sequence_operand(o, 0, &s);
  int64_t i = st == TN_OK ? s->n : 0;
  if (st == TN_OK && !sequence_input(o, 1)) st = bad_sequence(o, "input 1 is missing");
  if (st == TN_OK && s->n >= INT32_MAX) st = bad_sequence(o, "the sequence is too long");
  if (st == TN_OK && sequence_input(o, 2)) { /* [-n, n]: the end may be named */
    const tni_cell *p = sequence_input(o, 2);
    int64_t said = 0;
    if (p->form == TNI_FORM_TENSOR && p->t.bytes >= tni_dtype_bits(p->t.dtype) / 8 && p->t.data)
      tni_tensor_to_i64(&p->t, 0, 1, &said);
    st = sequence_position(o, 2, (int64_t)s->n + (said >= 0 ? 1 : 0), &i);
  }
  if (st != TN_OK) return st;
  o->out[0] = edited_sequence(s, i, 1);
  if (!o->out[0]) return no_memory(o);
  o->out[0]->items[i] = tni_cell_hold(sequence_input(o, 1));
  return TN_OK;
}

static tn_status sequence_length(const op *o) {
  const tni_cell *s;
  tn_status st = sequence_operand(o, 0, &s);
  return st == TN_OK ? give_scalar(o, TN_DT_I64, s->n) : st;
}

/* --- splitting and joining ---------------------------------------------------------------------------------------- */

static tn_status axis_of(const op *o, int64_t rank, uint32_t *axis) {
  const int64_t a = tni_attr_i(&o->n->pub, "axis", 0);
  if (a < -rank || a >= rank)
    return tni_fail(o->ip->err, TN_E_INVALID, o->n->pub.name, "axis %lld of rank %lld", (long long)a, (long long)rank);
  *axis = (uint32_t)(a < 0 ? a + rank : a);
  return TN_OK;
}

static tn_status size_of(const op *o, tni_tensor *t) {
  int64_t count;
  if (tni_dtype_bits(t->dtype) == 0 || tni_dtype_bits(t->dtype) % 8)
    return tni_fail(o->ip->err, TN_E_UNSUPPORTED, o->n->pub.name, "elements of %s", tni_dtype_name(t->dtype));
  tn_status st = tni_dims_count(t->dims, t->rank, &count);
  if (st == TN_OK) st = tni_dtype_bytes(t->dtype, count, &t->bytes);
  return st == TN_OK ? st : tni_fail(o->ip->err, TN_E_LIMIT, o->n->pub.name, "a result is too large");
}

/* `inner` bytes of every one of `outer` blocks: rows [from, from + n) of the large tensor and all of the small one. */
static void move_rows(const op *o, char *large, char *small, int64_t rows, int64_t from, int64_t n, int64_t outer,
                      size_t inner, bool out) {
  const int64_t work = n * (int64_t)(inner / 4) + 4;
  for (int64_t b = 0; b < outer && inner && n && !tni_poll_stop(o->poll, work); b++) {
    char *l = large + ((size_t)b * (size_t)rows + (size_t)from) * inner, *s = small + (size_t)b * (size_t)n * inner;
    memcpy(out ? s : l, out ? l : s, (size_t)n * inner);
  }
}

static void split_blocks(const tni_tensor *t, uint32_t axis, int64_t *outer, size_t *inner) {
  *outer = 1;
  *inner = tni_dtype_bits(t->dtype) / 8;
  for (uint32_t d = 0; d < axis; d++) *outer *= t->dims[d];
  for (uint32_t d = axis + 1; d < t->rank; d++) *inner *= (size_t)t->dims[d];
}

/* Length of piece i, and how many there are: equal pieces of `each`, the last one shorter, or as listed. */
static tn_status piece_lengths(const op *o, int64_t dim, const tni_tensor *split, int64_t *each, int64_t *count) {
  int64_t sum = 0, n;
  *each = 1;
  *count = dim;
  if (!split) return TN_OK;
  if ((split->dtype != TN_DT_I64 && split->dtype != TN_DT_I32) || split->rank > 1)
    return bad_sequence(o, "split: no integers");
  if (split->rank == 0) {
    tni_tensor_to_i64(split, 0, 1, each);
    if (*each < 1) return bad_sequence(o, "split must be positive");
    *count = dim / *each + (dim % *each != 0);
    return TN_OK;
  }
  *count = split->dims[0];
  for (int64_t i = 0; i < *count; i++) {
    tni_tensor_to_i64(split, i, 1, &n);
    if (n < 0 || !tni_add_i64(sum, n, &sum)) return bad_sequence(o, "split has a negative length");
  }
  return sum == dim ? TN_OK
                    : tni_fail(o->ip->err, TN_E_INVALID, o->n->pub.name, "split adds up to %lld, the axis has %lld",
                               (long long)sum, (long long)dim);
}

static tn_status split_to_sequence(const op *o) {
  const tni_cell *x = sequence_input(o, 0), *s = sequence_input(o, 1);
  uint32_t axis = 0;
  int64_t each, count, outer, from = 0;
  size_t inner;
  if (!x || x->form != TNI_FORM_TENSOR || (s && s->form != TNI_FORM_TENSOR))
    return bad_sequence(o, "an input is no tensor");
  tn_status st = axis_of(o, x->t.rank, &axis);
  if (st == TN_OK) st = piece_lengths(o, x->t.dims[axis], s ? &s->t : NULL, &each, &count);
  if (st != TN_OK) return st;
  if (count > INT32_MAX) return bad_sequence(o, "too many pieces");
  const bool listed = s && s->t.rank == 1, keep = s || tni_attr_i(&o->n->pub, "keepdims", 1) != 0;
  tni_cell *all = o->out[0] = tni_cell_group(TNI_FORM_SEQUENCE, (uint32_t)count);
  if (!all) return no_memory(o);
  split_blocks(&x->t, axis, &outer, &inner);
  for (int64_t i = 0; i < count && !tni_poll_stop(o->poll, 64); i++) {
    int64_t n = each < x->t.dims[axis] - from ? each : x->t.dims[axis] - from;
    if (listed) tni_tensor_to_i64(&s->t, i, 1, &n);
    tni_tensor t = {.dtype = x->t.dtype};
    for (uint32_t d = 0; d < x->t.rank; d++)
      if (keep || d != axis) t.dims[t.rank++] = d == axis ? n : x->t.dims[d];
    st = size_of(o, &t);
    if (st != TN_OK) return st;
    if (!(all->items[i] = tni_cell_new(&t))) return no_memory(o);
    move_rows(o, x->t.data, all->items[i]->t.data, x->t.dims[axis], from, n, outer, inner, true);
    from += n;
  }
  return TN_OK;
}

/* The result's dims; every element has the same but for the axis. */
static tn_status joined_type(const op *o, const tni_cell *s, bool fresh, uint32_t *axis, tni_tensor *t) {
  if (!s->n) return bad_sequence(o, "an empty sequence has no shape");
  const tni_tensor *one = &s->items[0]->t;
  *t = (tni_tensor){.dtype = one->dtype, .rank = one->rank + (fresh ? 1 : 0)};
  if (t->rank > TN_MAX_RANK) return bad_sequence(o, "the rank is too large");
  tn_status st = axis_of(o, t->rank, axis);
  if (st != TN_OK) return st;
  for (uint32_t d = 0; d < t->rank; d++) t->dims[d] = d == *axis ? 0 : one->dims[fresh && d > *axis ? d - 1 : d];
  for (uint32_t i = 0; i < s->n; i++) {
    const tni_tensor *e = &s->items[i]->t;
    bool same = s->items[i]->form == TNI_FORM_TENSOR && e->dtype == t->dtype && e->rank == one->rank;
    for (uint32_t d = 0; same && d < e->rank; d++) same = (!fresh && d == *axis) || e->dims[d] == one->dims[d];
    if (!same) return tni_fail(o->ip->err, TN_E_INVALID, o->n->pub.name, "element %u has another type or shape", i);
    if (!tni_add_i64(t->dims[*axis], fresh ? 1 : e->dims[*axis], &t->dims[*axis])) return bad_sequence(o, "too large");
  }
  return size_of(o, t);
}

static tn_status concat_from_sequence(const op *o) {
  const tni_cell *s;
  const bool fresh = tni_attr_i(&o->n->pub, "new_axis", 0) != 0;
  uint32_t axis = 0;
  int64_t outer, from = 0;
  size_t inner;
  tni_tensor t;
  tn_status st = sequence_operand(o, 0, &s);
  if (st == TN_OK) st = joined_type(o, s, fresh, &axis, &t);
  if (st != TN_OK) return st;
  if (!(o->out[0] = tni_cell_new(&t))) return no_memory(o);
  split_blocks(&t, axis, &outer, &inner);
  for (uint32_t i = 0; i < s->n; i++) {
    const int64_t n = fresh ? 1 : s->items[i]->t.dims[axis];
    move_rows(o, o->out[0]->t.data, s->items[i]->t.data, t.dims[axis], from, n, outer, inner, false);
    from += n;
  }
  return TN_OK;
}

/* --- optionals ---------------------------------------------------------------------------------------------------- */

static tn_status make_optional(const op *o) {
  tni_cell *x = sequence_input(o, 0);
  tni_cell *c = o->out[0] = tni_cell_group(TNI_FORM_OPTIONAL, x ? 1 : 0);
  if (!c) return no_memory(o);
  if (x) c->items[0] = tni_cell_hold(x);
  return TN_OK;
}

/* From version 18 on the input may be the element itself. */
static tn_status get_element(const op *o) {
  tni_cell *x = sequence_input(o, 0);
  if (!x || (x->form == TNI_FORM_OPTIONAL && !x->n)) return bad_sequence(o, "the optional is empty");
  o->out[0] = tni_cell_hold(x->form == TNI_FORM_OPTIONAL ? x->items[0] : x);
  return TN_OK;
}

static tn_status has_element(const op *o) {
  const tni_cell *x = sequence_input(o, 0);
  return give_scalar(o, TN_DT_BOOL, x && (x->form != TNI_FORM_OPTIONAL || x->n));
}

static const struct {
  uint32_t id;
  tn_status (*fn)(const op *o);
} ops[] = {
    {TN_OP_SEQUENCE_CONSTRUCT, sequence_construct},
    {TN_OP_SEQUENCE_AT, sequence_at},
    {TN_OP_SEQUENCE_ERASE, sequence_erase},
    {TN_OP_SEQUENCE_INSERT, sequence_insert},
    {TN_OP_SEQUENCE_LENGTH, sequence_length},
    {TN_OP_SEQUENCE_EMPTY, sequence_construct}, /* of no inputs */
    {TN_OP_SPLIT_TO_SEQUENCE, split_to_sequence},
    {TN_OP_CONCAT_FROM_SEQUENCE, concat_from_sequence},
    {TN_OP_OPTIONAL, make_optional},
    {TN_OP_OPTIONAL_GET_ELEMENT, get_element},
    {TN_OP_OPTIONAL_HAS_ELEMENT, has_element},
};

tn_status tni_interp_sequence(tni_interp *ip, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  tni_poll poll = {ip->run, TNI_POLL};
  const op o = {ip, n, in, out, &poll};
  if (n->pub.n_out != 1 || n->pub.out[0] == TN_NONE)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name, "it has one output");
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (ops[i].id != n->pub.op) continue;
    const tn_status st = ops[i].fn(&o);
    return st == TN_OK && tni_poll_stopped(&poll) ? tni_interp_stop(ip, n->pub.name) : st;
  }
  return tni_fail(ip->err, TN_E_UNSUPPORTED, n->pub.name, "no interpreter for %s", n->type);
}
