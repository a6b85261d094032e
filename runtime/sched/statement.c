/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/statement.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/sched/memory.h"
#include "runtime/sched/session.h"
#include "runtime/sched/state.h"

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

/* What the caller of a model without kept caches holds: past inputs, old and new. */
static uint64_t user_kv(const tn_model *m, const int64_t *dims, uint32_t n) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    int64_t d[TN_MAX_RANK], count;
    uint64_t bytes;
    bool ok = strstr(v->pub.name, "past") && v->pub.rank <= TN_MAX_RANK;
    for (uint32_t a = 0; ok && a < v->pub.rank; a++)
      ok = tni_ex_eval(m->graph->exprs, v->pub.dims[a], dims, n, &d[a]) == TN_OK;
    if (ok && tni_dims_count(d, v->pub.rank, &count) == TN_OK && tni_dtype_bytes(v->pub.dtype, count, &bytes) == TN_OK)
      total += 2 * bytes;
  }
  return total;
}

static tn_status kv_bytes(const tn_model *m, const int64_t *dims, uint32_t n, tni_statement *s, tn_error *err) {
  if (!m->roles.why_not) return tni_states_bytes(m, dims, tni_limit_capacity(m), &s->kv, err);
  uint64_t bytes = user_kv(m, dims, n);
  if (bytes > s->kv) s->kv = bytes;
  return TN_OK;
}

/* One placement: room for the largest step and for one position. */
static tn_status add_exec(tn_model *m, tni_exec *x, const int64_t *const dims[2], tni_statement *s, tn_error *err) {
  uint64_t arena = 0, outputs = 0, scratch = 0, bound[2] = {0};
  tn_status st = tni_memory_measure(m, x, dims, 2, &arena, &outputs, &scratch, err);
  for (uint32_t i = 0; st == TN_OK && i < 2; i++) st = tni_exec_bound(m, x, dims[i], &bound[i], err);
  s->arena += arena;
  s->outputs += outputs;
  s->bound += bound[bound[1] > bound[0]];
  if (scratch > s->scratch) s->scratch = scratch;
  return st;
}

tn_status tni_statement_make(tn_model *m, tni_statement *out, tn_error *err) {
  const uint32_t n = tni_ex_n_symbols(m->graph->exprs);
  tni_statement s = {.n_dims = n, .dims = calloc((size_t)n + 1, sizeof(int64_t))};
  int64_t *one = calloc((size_t)n + 1, sizeof *one);
  tn_status st = s.dims && one ? TN_OK : tni_fail_memory(err, m->path);
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++)
    if (!m->execs[e].tasks && m->execs[e].view.n_nodes)
      st = tni_fail(err, TN_E_UNSUPPORTED, m->path, "some nodes have no device");
  if (st == TN_OK) st = tni_limit_dims(m, false, s.dims, err);
  if (st == TN_OK) st = tni_limit_dims(m, true, one, err);
  if (st == TN_OK) st = kv_bytes(m, s.dims, n, &s, err);
  if (st == TN_OK) st = kv_bytes(m, one, n, &s, err);
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++)
    st = add_exec(m, &m->execs[e], (const int64_t *const[]){s.dims, one}, &s, err);
  if (st == TN_OK) weight_bytes(m, &s);
  free(one);
  s.total = s.weights + s.packed + s.kv + s.arena + s.outputs;
  if (st == TN_OK)
    *out = s;
  else
    free(s.dims);
  return st;
}
