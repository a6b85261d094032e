/* SPDX-License-Identifier: Apache-2.0
 *
 * Scan as ONNX 25 defines it, and as 8 did: there every input and output has the batch as its first axis, sequences lie
 * along the second, and each entry of the batch is a scan of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/interp/turns.h"

/* One slice of c, without the axis. */
static tni_cell *scan_slice(const tni_interp *ip, const tni_node *n, const tni_cell *c, uint32_t axis, int64_t at) {
  tni_tensor t = {.dtype = c->t.dtype, .rank = c->t.rank - 1};
  for (uint32_t d = 0; d < t.rank; d++) t.dims[d] = c->t.dims[d < axis ? d : d + 1];
  if (tni_turns_size(ip, n, &t) != TN_OK) return NULL;
  tni_cell *s = tni_cell_new(&t);
  size_t bytes;
  int64_t outer;
  if (!s) {
    tni_fail_memory(ip->err, n->pub.name);
    return NULL;
  }
  tni_turns_blocks(&t, axis, &bytes, &outer);
  tni_poll poll = {ip->run, TNI_POLL};
  for (int64_t b = 0; b < outer && bytes && !tni_poll_stop(&poll, (int64_t)(bytes / 4) + 4); b++)
    memcpy((char *)s->t.data + (size_t)b * bytes,
           (const char *)c->t.data + ((size_t)b * (size_t)c->t.dims[axis] + (size_t)at) * bytes, bytes);
  if (!tni_poll_stopped(&poll)) return s;
  tni_interp_stop(ip, n->pub.name);
  tni_cell_drop(s);
  return NULL;
}

static int64_t int_at(const tni_node *n, const char *name, uint32_t i) {
  const int64_t *v;
  return i < tni_attr_ints(&n->pub, name, &v) ? v[i] : 0;
}

static bool goes_back(const tni_node *n, uint32_t i) {
  return int_at(n, n->version < 9 ? "directions" : "scan_input_directions", i) != 0;
}

/* Axis of every scanned input, and how long they all are. */
static tn_status scan_axes(const tni_turns *t, tni_cell *const *in, uint32_t n_scan, uint32_t *axes, int64_t *length) {
  const tni_node *n = t->n;
  *length = -1;
  for (uint32_t i = 0; i < n_scan; i++) {
    const tni_cell *c = in[t->n_carried + i];
    if (!c || c->form != TNI_FORM_TENSOR)
      return tni_fail(t->ip->err, TN_E_INVALID, n->pub.name, "scanned input %u is missing or no tensor", i);
    const int64_t rank = c->t.rank, a = int_at(n, "scan_input_axes", i);
    if (a < -rank || a >= rank)
      return tni_fail(t->ip->err, TN_E_INVALID, n->pub.name, "scan axis %lld of an input of rank %lld", (long long)a,
                      (long long)rank);
    axes[i] = (uint32_t)(a < 0 ? a + rank : a);
    if (*length >= 0 && c->t.dims[axes[i]] != *length)
      return tni_fail(t->ip->err, TN_E_INVALID, n->pub.name, "its inputs are %lld and %lld long", (long long)*length,
                      (long long)c->t.dims[axes[i]]);
    *length = c->t.dims[axes[i]];
  }
  return TN_OK;
}

/* Version 9 and later say so; shapes of results are inferred from it. */
static tn_status same_shapes(const tni_turns *t, tni_cell *const *first) {
  for (uint32_t i = 0; i < t->n_carried; i++) {
    const tni_tensor *a = &first[i]->t, *b = &t->carried[i]->t;
    if (first[i]->form != TNI_FORM_TENSOR || t->carried[i]->form != TNI_FORM_TENSOR) continue;
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) != 0)
      return tni_fail(t->ip->err, TN_E_INVALID, t->n->pub.name,
                      "its state %u has another shape after a turn: a Scan keeps the shape of the initial value", i);
  }
  return TN_OK;
}

static tn_status scan_turns(tni_turns *t, tni_cell *const *in, uint32_t n_scan, const uint32_t *axes, int64_t length) {
  tn_status st = TN_OK;
  for (int64_t k = 0; st == TN_OK && k < length; k++) {
    for (uint32_t i = 0; i < n_scan; i++) {
      tni_cell **arg = &t->args[t->n_carried + i];
      tni_cell_drop(*arg);
      *arg = scan_slice(t->ip, t->n, in[t->n_carried + i], axes[i], goes_back(t->n, i) ? length - 1 - k : k);
      if (!*arg) return t->ip->err->code;
    }
    st = tni_turn(t);
    if (st == TN_OK) st = same_shapes(t, in);
  }
  return st;
}

/* Inputs v..., scanned...; body (v..., slices...) -> (v..., stacked...). in: n_carried + n_scan. */
static tn_status scan_element(tni_turns *t, tni_cell *const *in, uint32_t n_scan, tni_cell **out) {
  const tni_node *n = t->n;
  int64_t length = 0;
  uint32_t *axes = calloc(n_scan, sizeof *axes);
  tn_status st = axes ? tni_turns_start(t, 0) : tni_fail_memory(t->ip->err, n->pub.name);
  if (st == TN_OK) st = scan_axes(t, in, n_scan, axes, &length);
  for (uint32_t i = 0; st == TN_OK && i < t->n_carried; i++) {
    if (!in[i]) st = tni_fail(t->ip->err, TN_E_INVALID, n->pub.name, "input %u is missing", i);
    if (in[i]) t->carried[i] = tni_cell_hold(in[i]);
  }
  if (st == TN_OK) st = scan_turns(t, in, n_scan, axes, length);
  for (uint32_t i = 0; st == TN_OK && i < t->n_stacked; i++)
    if (n->pub.out[t->n_carried + i] != TN_NONE)
      st = tni_turns_join(t, i, int_at(n, "scan_output_axes", i), int_at(n, "scan_output_directions", i) != 0,
                          &out[t->n_carried + i]);
  if (st == TN_OK) tni_turns_give(t, out);
  tni_turns_end(t);
  free(axes);
  return st;
}

/* Entry b of the batch: its inputs into args, its results to all[o * count + b]. */
static tn_status scan_entry(const tni_turns *proto, tni_cell *const *in, uint32_t n_in, uint32_t n_scan, int64_t b,
                            int64_t count, tni_cell **args, tni_cell **res, tni_cell **all) {
  const uint32_t n_out = proto->n->pub.n_out;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n_in; i++) {
    if (!in[i] || in[i]->form != TNI_FORM_TENSOR || !in[i]->t.rank || in[i]->t.dims[0] != count)
      return tni_fail(proto->ip->err, TN_E_INVALID, proto->n->pub.name, "input %u has not the others' batch", i);
    if (!(args[i] = scan_slice(proto->ip, proto->n, in[i], 0, b))) st = proto->ip->err->code;
  }
  tni_turns t = *proto;
  if (st == TN_OK) st = scan_element(&t, args, n_scan, res);
  for (uint32_t i = 0; i < n_in; i++) {
    tni_cell_drop(args[i]);
    args[i] = NULL;
  }
  for (uint32_t o = 0; o < n_out; o++) {
    all[(int64_t)o * count + b] = res[o];
    res[o] = NULL;
  }
  return st;
}

/* Version 8. Lengths that differ from the inputs' are refused: what lies after an end would be anything. */
static tn_status check_lengths(const tni_turns *t, const tni_cell *lens, const tni_cell *x) {
  int64_t count = 0, v;
  if (!lens) return TN_OK;
  if (lens->t.dtype != TN_DT_I64 || tni_dims_count(lens->t.dims, lens->t.rank, &count) != TN_OK || x->t.rank < 2)
    return tni_fail(t->ip->err, TN_E_INVALID, t->n->pub.name, "sequence_lens are no integers");
  for (int64_t i = 0; i < count; i++) {
    tni_tensor_to_i64(&lens->t, i, 1, &v);
    if (v != x->t.dims[1])
      return tni_fail(t->ip->err, TN_E_UNSUPPORTED, t->n->pub.name, "a sequence of %lld in inputs of %lld",
                      (long long)v, (long long)x->t.dims[1]);
  }
  return TN_OK;
}

static tn_status scan_batches(const tni_turns *t, tni_cell *const *in, uint32_t n_in, uint32_t n_scan, tni_cell **out) {
  const uint32_t n_out = t->n->pub.n_out;
  const int64_t count = in[0] && in[0]->t.rank ? in[0]->t.dims[0] : 0;
  if (count < 1 || count > INT32_MAX / ((int64_t)n_out + 1))
    return tni_fail(t->ip->err, TN_E_UNSUPPORTED, t->n->pub.name, "a batch of %lld", (long long)count);
  const size_t room = (size_t)n_in + n_out + (size_t)n_out * (size_t)count;
  tni_cell **args = calloc(room + 1, sizeof *args), **res = args + (args ? n_in : 0), **all = res + (args ? n_out : 0);
  tn_status st = args ? TN_OK : tni_fail_memory(t->ip->err, t->n->pub.name);
  for (int64_t b = 0; st == TN_OK && b < count; b++) st = scan_entry(t, in, n_in, n_scan, b, count, args, res, all);
  for (uint32_t o = 0; st == TN_OK && o < n_out; o++)
    if (t->n->pub.out[o] != TN_NONE)
      st = tni_join(t->ip, t->n, all + (int64_t)o * count, (uint32_t)count, NULL, 0, false, &out[o]);
  for (size_t i = 0; args && i < room; i++) tni_cell_drop(args[i]);
  free(args);
  return st;
}

tn_status tni_interp_scan(tni_interp *ip, tni_frame *f, const tni_node *n, tni_cell *const *in, tni_cell **out) {
  const uint32_t lead = n->version < 9 ? 1 : 0; /* sequence_lens */
  const int64_t m = tni_attr_i(&n->pub, "num_scan_inputs", 0), n_in = (int64_t)n->pub.n_in - lead;
  tni_turns t = {.ip = ip, .f = f, .n = n, .body = tni_body_of(n, "body")};
  if (m < 1 || m > n_in || !t.body || t.body->n_inputs != n_in || t.body->n_outputs != n->pub.n_out ||
      n->pub.n_out < n_in - m)
    return tni_fail(ip->err, TN_E_INVALID, n->pub.name,
                    "%lld inputs, %lld of them scanned, and %u outputs do not fit it", (long long)n_in, (long long)m,
                    n->pub.n_out);
  t.n_carried = (uint32_t)(n_in - m);
  t.n_stacked = n->pub.n_out - t.n_carried;
  if (!lead) return scan_element(&t, in, (uint32_t)m, out);
  const tni_cell *x = in[lead + t.n_carried];
  tn_status st = x ? check_lengths(&t, in[0], x) : tni_fail(ip->err, TN_E_INVALID, n->pub.name, "an input is missing");
  return st == TN_OK ? scan_batches(&t, in + lead, (uint32_t)n_in, (uint32_t)m, out) : st;
}
