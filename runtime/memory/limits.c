/* SPDX-License-Identifier: Apache-2.0
 *
 * From limits (longest context, most positions of a step) to dims.
 */
#include "runtime/memory/limits.h"

#include <string.h>

#include "runtime/memory/chunk.h"

typedef struct symbols {
  tn_id step, past;
} symbols;

static bool names_past(const char *name) { return strstr(name, "past") != NULL; }

static tn_id symbol_at(const tn_model *m, const tni_value *v, uint32_t axis) {
  tn_id s = TN_NONE;
  if (v->pub.rank > TN_MAX_RANK || axis >= v->pub.rank) return TN_NONE;
  return tni_ex_is_sym(m->graph->exprs, v->pub.dims[axis], &s) ? s : TN_NONE;
}

/* Models without caches that can be kept: [batch, sequence] of the first rank-2 input; the other symbol of a past one.
 */
static symbols guess_symbols(const tn_model *m) {
  symbols r = {TN_NONE, TN_NONE};
  tn_id batch = TN_NONE;
  for (uint32_t i = 0; i < m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    if (r.step == TN_NONE && v->pub.rank == 2 && !names_past(v->pub.name)) {
      batch = symbol_at(m, v, 0);
      r.step = symbol_at(m, v, 1);
    }
    for (uint32_t a = 0; names_past(v->pub.name) && v->pub.rank <= TN_MAX_RANK && a < v->pub.rank; a++) {
      tn_id s = symbol_at(m, v, a);
      if (s != TN_NONE && s != batch && s != r.step) r.past = s;
    }
  }
  return r;
}

/* dims of the statement that the caller fixed; -1: not. */
static tn_status fixed_dims(const tn_model *m, int64_t *dims, uint32_t n, tn_error *err) {
  for (uint32_t s = 0; s < n; s++) dims[s] = -1;
  for (uint32_t i = 0; i < m->n_fixed; i++) {
    uint32_t s = 0;
    while (s < n && strcmp(tni_ex_symbol_name(m->graph->exprs, s), m->fixed_names[i]) != 0) s++;
    if (s == n)
      return tni_fail(err, TN_E_INVALID, m->fixed_names[i], "the model has no dimension '%s'", m->fixed_names[i]);
    dims[s] = m->fixed_values[i];
  }
  return TN_OK;
}

int64_t tni_limit_longest(const tn_model *m) { return m->max_seq ? m->max_seq : TN_DEFAULT_MAX_SEQ; }

int64_t tni_limit_capacity(const tn_model *m) { return tni_chunk_capacity(m, tni_limit_longest(m)); }

/* A step of `step` positions (unless they are fixed) at the end of the context, or, where caches are not kept and the
 * whole prompt goes at once, at its beginning. */
static tn_status fill_limits(const tn_model *m, int64_t step, bool at_end, int64_t *dims, tn_error *err) {
  const uint32_t n = tni_ex_n_symbols(m->graph->exprs);
  symbols r = m->roles.why_not ? guess_symbols(m) : (symbols){TN_NONE, m->roles.past};
  if (!m->roles.why_not) (void)tni_ex_is_sym(m->graph->exprs, m->roles.step, &r.step);
  tn_status st = fixed_dims(m, dims, n, err);
  if (st != TN_OK) return st;
  const int64_t total = m->roles.why_not ? tni_limit_longest(m) : tni_limit_capacity(m);
  if (r.step != TN_NONE && dims[r.step] >= 0) step = dims[r.step];
  for (uint32_t s = 0; s < n; s++) {
    if (dims[s] >= 0) continue;
    dims[s] = s == r.step ? step : 1;
    if (s == r.past) dims[s] = at_end && total > step ? total - step : 0;
  }
  return TN_OK;
}

int64_t tni_limit_step(const tn_model *m) {
  const bool kept = !m->roles.why_not;
  const int64_t fixed = kept ? tni_model_chunk(m) : 0, longest = tni_limit_longest(m);
  return fixed ? fixed : kept ? tni_chunk_step(m, longest) : longest;
}

tn_status tni_limit_dims(const tn_model *m, bool decode, int64_t *dims, tn_error *err) {
  return fill_limits(m, decode ? 1 : tni_limit_step(m), !m->roles.why_not || decode, dims, err);
}

tn_status tni_limit_context(const tn_model *m, int64_t *dims, tn_error *err) {
  return fill_limits(m, tni_limit_longest(m), false, dims, err);
}
