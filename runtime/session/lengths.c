/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/lengths.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/interp/interp.h"
#include "runtime/session/feed.h"
#include "runtime/session/keep.h"
#include "runtime/session/state.h"

void tni_lengths_clear(const tn_session *s, const tni_rows *rows, void *cache) {
  for (int64_t b = 0; b < s->n_row_pos && b < rows->dims[0]; b++)
    for (int64_t h = 0; h < rows->dims[1]; h++)
      for (int64_t p = s->row_pos[b]; p < rows->dims[2]; p++)
        memset((char *)cache + b * rows->strides[0] + h * rows->strides[1] + p * rows->strides[2], 0, rows->row_bytes);
}

static tni_cell *given_cell(const tn_session *s, const char *name) {
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (strcmp(s->model->inputs[i]->name, name) == 0) return tni_cell_given(s->inputs[i]);
  return NULL;
}

/* out[n_outputs] are the caller's to drop. */
static tn_status compute_lengths(tn_session *s, tni_cell **out, tn_error *err) {
  const tni_graph *g = s->model->graph->lengths;
  tni_interp ip = {.run = &s->run.run, .err = err};
  tni_cell **in = calloc(g->n_inputs + 1, sizeof(tni_cell *));
  tn_status st = in ? TN_OK : tni_fail_memory(err, g->name);
  for (uint32_t i = 0; st == TN_OK && i < g->n_inputs; i++)
    if (!(in[i] = given_cell(s, g->values[g->inputs[i]]->pub.name))) st = tni_fail_memory(err, g->name);
  if (st == TN_OK) st = tni_interp_graph(&ip, g, NULL, in, g->n_inputs, out);
  for (uint32_t i = 0; in && i < g->n_inputs; i++) tni_cell_drop(in[i]);
  free(in);
  return st;
}

static tn_status room_for_batch(tn_session *s, int64_t batch, tn_error *err) {
  int64_t *p = batch < 0 || batch > INT32_MAX ? NULL : realloc(s->row_pos, (size_t)(batch + 1) * sizeof *p);
  if (!p) return tni_fail_memory(err, s->model->path);
  s->row_pos = p;
  return TN_OK;
}

static bool has_integers(const tni_cell *c) {
  return c->form == TNI_FORM_TENSOR && (c->t.dtype == TN_DT_I32 || c->t.dtype == TN_DT_I64);
}

/* Of one node. Rows with this run less one, in a session whose run adds valid - pos of them. */
static tn_status take_seqlens(tn_session *s, const tni_cell *c, const char *node, bool first, bool *differ,
                              tn_error *err) {
  const tni_tensor *t = &c->t;
  int64_t n;
  if (!has_integers(c) || tni_dims_count(t->dims, t->rank, &n) != TN_OK)
    return tni_fail(err, TN_E_INVALID, node, "seqlens_k holds no integers");
  tn_status st = first ? room_for_batch(s, n, err) : TN_OK;
  if (st == TN_OK && !first && n != s->n_row_pos)
    st = tni_fail(err, TN_E_INVALID, node, "seqlens_k has %lld elements, another node's %lld", (long long)n,
                  (long long)s->n_row_pos);
  for (int64_t b = 0; st == TN_OK && b < n; b++) {
    int64_t last, at;
    tni_tensor_to_i64(t, b, 1, &last);
    if (__builtin_sub_overflow(last, s->valid - s->pos - 1, &at) || at < 0 || at > s->pos)
      return tni_fail(err, TN_E_INVALID, node,
                      "seqlens_k of sequence %lld is %lld: not what a past of %lld rows and a run of %lld can have",
                      (long long)b, (long long)last, (long long)s->pos, (long long)(s->valid - s->pos));
    if (!first && at != s->row_pos[b])
      return tni_fail(err, TN_E_UNSUPPORTED, node, "its seqlens_k is not that of the other nodes");
    s->row_pos[b] = at;
    *differ = *differ || at != s->pos;
  }
  if (st == TN_OK && first) s->n_row_pos = n;
  return st;
}

/* Rows before this run and with it, where no cache tells. */
static tn_status sequence_lengths(tn_session *s, tn_error *err) {
  const tni_graph *g = s->model->graph;
  if (g->n_states) return TN_OK;
  if (tni_ex_eval(g->exprs, g->past_rows, s->dims, tni_ex_n_symbols(g->exprs), &s->pos) == TN_OK) return TN_OK;
  return tni_fail(err, TN_E_INVALID, s->model->path, "the inputs do not tell how long the past is");
}

/* Without caches in place new rows stand after the past, so all sequences must fill it. */
static tn_status all_full(const tni_cell *lengths, const tni_cell *sum, const char *node, tn_error *err) {
  const tni_tensor *t = &lengths->t, *total = &sum->t;
  int64_t n, last, all, one;
  if (!has_integers(lengths) || !has_integers(sum) || tni_dims_count(t->dims, t->rank, &n) != TN_OK ||
      tni_dims_count(total->dims, total->rank, &one) != TN_OK || one != 1)
    return tni_fail(err, TN_E_INVALID, node, "seqlens_k holds no integers, or total_sequence_length no number");
  tni_tensor_to_i64(total, 0, 1, &all);
  for (int64_t b = 0; b < n; b++) {
    tni_tensor_to_i64(t, b, 1, &last);
    if (all < 1 || last != all - 1)
      return tni_fail(err, TN_E_UNSUPPORTED, node,
                      "sequences that do not fill their past need caches that stay in place (pass 'cache')");
  }
  return TN_OK;
}

tn_status tni_lengths_read(tn_session *s, tn_error *err) {
  const tni_graph *g = s->model->graph;
  s->n_row_pos = 0;
  if (g->past_rows == TNI_EXPR_NONE) return TN_OK;
  tn_status st = sequence_lengths(s, err);
  if (st != TN_OK || !g->lengths || s->pos == 0) return st;
  tni_cell **out = calloc(g->lengths->n_outputs + 1, sizeof(tni_cell *));
  bool differ = false;
  st = out ? compute_lengths(s, out, err) : tni_fail_memory(err, s->model->path);
  for (uint32_t i = 0; st == TN_OK && i < g->lengths->n_outputs; i += 2)
    st = g->n_states ? take_seqlens(s, out[i], g->length_nodes[i / 2], i == 0, &differ, err)
                     : all_full(out[i], out[i + 1], g->length_nodes[i / 2], err);
  for (uint32_t i = 0; out && i < g->lengths->n_outputs; i++) tni_cell_drop(out[i]);
  free(out);
  if (st != TN_OK || !differ) s->n_row_pos = 0;
  return st;
}

/* A mask of ones says what the session knows, so most steps have nothing to read. */
tn_status tni_lengths_step(tn_session *s, int64_t n, tn_error *err) {
  s->n_row_pos = 0;
  if (!s->keep->gaps || s->model->graph->past_rows == TNI_EXPR_NONE) return TN_OK;
  s->pos = s->keep->length;
  s->valid = s->pos + n;
  return tni_lengths_read(s, err);
}
