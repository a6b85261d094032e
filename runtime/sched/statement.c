/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/statement.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/sched/session.h"


typedef struct roles {
  tn_id batch, sequence, past;
} roles;

static bool names_past(const char *name) { return strstr(name, "past") != NULL; }

static tn_id symbol_at(const tn_model *m, const tni_value *v, uint32_t axis) {
  tn_id s = TN_NONE;
  if (v->pub.rank > TN_MAX_RANK || axis >= v->pub.rank) return TN_NONE;
  return tni_ex_is_sym(m->graph->exprs, v->pub.dims[axis], &s) ? s : TN_NONE;
}

/* [batch, sequence] of the first rank-2 integer input; past: the other symbol of a past input. */
static roles find_roles(const tn_model *m) {
  roles r = {TN_NONE, TN_NONE, TN_NONE};
  for (uint32_t i = 0; i < m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    if (r.batch == TN_NONE && v->pub.rank == 2 && !names_past(v->pub.name)) {
      r.batch = symbol_at(m, v, 0);
      r.sequence = symbol_at(m, v, 1);
    }
    for (uint32_t a = 0; names_past(v->pub.name) && v->pub.rank <= TN_MAX_RANK && a < v->pub.rank; a++) {
      tn_id s = symbol_at(m, v, a);
      if (s != TN_NONE && s != r.batch && s != r.sequence) r.past = s;
    }
  }
  return r;
}

static tn_status fixed_dims(const tn_model *m, int64_t *dims, tn_error *err) {
  for (uint32_t i = 0; i < m->n_fixed; i++) {
    uint32_t s = 0, n = tni_ex_n_symbols(m->graph->exprs);
    while (s < n && strcmp(tni_ex_symbol_name(m->graph->exprs, s), m->fixed_names[i]) != 0) s++;
    if (s == n)
      return tni_fail(err, TN_E_INVALID, m->fixed_names[i], "the model has no dimension '%s'", m->fixed_names[i]);
    dims[s] = m->fixed_values[i];
  }
  return TN_OK;
}

/* A prompt as long as the context, or one token with the context behind it. */
static void scenario(const roles *r, int64_t max_seq, bool decode, const int64_t *fixed, int64_t *dims, uint32_t n) {
  for (uint32_t s = 0; s < n; s++) {
    dims[s] = s == r->sequence ? (decode ? 1 : max_seq) : s == r->past ? (decode ? max_seq - 1 : 0) : 1;
    if (fixed[s] >= 0) dims[s] = fixed[s];
  }
}

static uint64_t kv_bytes(const tn_model *m, const int64_t *dims, uint32_t n) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    int64_t count = 1;
    uint64_t bytes = 0;
    if (!names_past(v->pub.name) || v->pub.rank > TN_MAX_RANK) continue;
    for (uint32_t a = 0; a < v->pub.rank; a++) {
      int64_t d = 0;
      if (tni_ex_eval(m->graph->exprs, v->pub.dims[a], dims, n, &d) != TN_OK) d = 0;
      count *= d;
    }
    if (tni_dtype_bytes(v->pub.dtype, count, &bytes) == TN_OK) total += bytes;
  }
  return total;
}

static void weight_bytes(const tn_model *m, tni_statement *s) {
  for (uint32_t d = 0; m->packed && d < m->rt->n_devs; d++)
    for (uint32_t i = 0; i < m->packed[d].n_items; i++) {
      uint64_t bytes = 0;
      if (tni_pack_bytes(m->packed[d].items[i], &bytes, NULL) == TN_OK) s->packed += bytes;
    }
  uint8_t *seen = calloc(m->graph->n_values + 1, 1);
  for (uint32_t e = 0; seen && e < m->n_execs; e++)
    for (uint32_t p = 0; p < m->execs[e].n_programs; p++)
      for (uint32_t k = 0; k < m->execs[e].programs[p].info->n_needs; k++) {
        const tn_need *n = m->execs[e].programs[p].info->needs[k];
        if (n->format || seen[n->values[0]]) continue;
        seen[n->values[0]] = 1;
        s->weights += tni_graph_value(m->graph, n->values[0])->tensor->bytes;
      }
  free(seen);
}

tn_status tni_statement_make(tn_model *m, tni_statement *out, tn_error *err) {
  uint32_t n = tni_ex_n_symbols(m->graph->exprs);
  tni_statement s = {.n_dims = n, .dims = calloc(n + 1, sizeof(int64_t))};
  int64_t *fixed = calloc(n + 1, sizeof *fixed), *dims = calloc(n + 1, sizeof *dims);
  tn_status st = s.dims && fixed && dims ? TN_OK : tni_fail_memory(err, m->path);
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++)
    if (!m->execs[e].tasks && m->execs[e].view.n_nodes)
      st = tni_fail(err, TN_E_UNSUPPORTED, m->path, "some nodes have no device");
  for (uint32_t i = 0; st == TN_OK && i < n; i++) fixed[i] = -1;
  if (st == TN_OK) st = fixed_dims(m, fixed, err);
  roles r = find_roles(m);
  int64_t max_seq = m->max_seq ? m->max_seq : TN_DEFAULT_MAX_SEQ;
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++) {
    for (int decode = 0; st == TN_OK && decode < 2; decode++) {
      uint64_t arena = 0, outputs = 0, scratch = 0;
      scenario(&r, max_seq, decode, fixed, dims, n);
      st = tni_memory_measure(m, &m->execs[e], dims, &arena, &outputs, &scratch, err);
      uint64_t kv = 2 * kv_bytes(m, dims, n);
      if (arena + outputs > s.arena) {
        s.arena = arena + outputs;
        memcpy(s.dims, dims, n * sizeof *dims);
      }
      if (scratch > s.scratch) s.scratch = scratch;
      if (kv > s.kv) s.kv = kv;
    }
  }
  if (st == TN_OK) weight_bytes(m, &s);
  free(fixed);
  free(dims);
  s.total = s.weights + s.packed + s.kv + s.arena;
  if (st == TN_OK)
    *out = s;
  else
    free(s.dims);
  return st;
}
