/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/fixed.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/session/keep.h"

static bool is_fixed_state(const tn_model *m, uint32_t i) { return m->roles.kinds[i] == TNI_IN_STATE; }

/* Copies of all states: [n_inputs], NULL where an input is none. */
static tn_status make_remembered(tn_session *s, tn_error *err) {
  tni_keep *k = s->keep;
  if (!k->remembered) {
    k->remembered = TNI_NEW_ARRAY(s->mem, void *, s->model->n_inputs + 1);
    k->remembered_at = -1;
  }
  if (!k->remembered) return tni_fail_memory(err, s->model->path);
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (is_fixed_state(s->model, i) && !k->remembered[i] && !(k->remembered[i] = malloc(k->fed[i].t.bytes + 1)))
      return tni_fail_memory(err, k->fed[i].t.name);
  return TN_OK;
}

tn_status tni_fixed_remember(tn_session *s, int64_t n, tn_error *err) {
  tni_keep *k = s->keep;
  if (!s->model->roles.n_fixed || n < 2 || k->length == 0 || k->slots) return TN_OK;
  const tn_status st = make_remembered(s, err);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (k->remembered[i]) memcpy(k->remembered[i], k->fed[i].data, k->fed[i].t.bytes);
  k->remembered_at = k->length;
  return TN_OK;
}

tn_status tni_fixed_carry(tn_session *s, struct tni_sexec *x, tn_error *err) {
  const tn_model *m = s->model;
  for (uint32_t i = 0; m->roles.n_fixed && i < m->n_inputs; i++) {
    tni_fed *f = &s->keep->fed[i];
    tn_tensor out;
    if (!is_fixed_state(m, i)) continue;
    const tn_status st = tni_session_output(s, x, m->graph->outputs[m->roles.continues[i]], &out, err);
    if (st != TN_OK) return st;
    if (out.bytes < f->t.bytes)
      return tni_fail(err, TN_E_INTERNAL, f->t.name, "state '%s' has another size after the run", f->t.name);
    memcpy((void *)(uintptr_t)f->t.data, out.data, f->t.bytes); /* of slots: theirs */
  }
  return TN_OK;
}

tn_status tni_fixed_can_rewind(const tn_session *s, int64_t n, tn_error *err) {
  const tni_keep *k = s->keep;
  const tn_model *m = s->model;
  if (!m->roles.n_fixed || n == 0 || n == k->length || (k->remembered && k->remembered_at == n)) return TN_OK;
  uint32_t i = 0;
  while (!is_fixed_state(m, i)) i++;
  return tni_fail(
      err, TN_E_LIMIT, m->inputs[i]->name,
      "cannot go back from position %lld to %lld: state '%s' holds all positions at once; go back to 0 and run "
      "the tokens again",
      (long long)k->length, (long long)n, m->inputs[i]->name);
}

void tni_fixed_rewind(tn_session *s, int64_t n) {
  tni_keep *k = s->keep;
  if (n == 0) k->remembered_at = -1; /* what follows is another text */
  if (!s->model->roles.n_fixed || n == k->length) return;
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    if (!is_fixed_state(s->model, i)) continue;
    if (n)
      memcpy(k->fed[i].data, k->remembered[i], k->fed[i].t.bytes);
    else
      memset(k->fed[i].data, 0, k->fed[i].t.bytes);
  }
}

/* Of another placement of one model too: inputs are the same. */
tn_status tni_fixed_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err) {
  const tni_keep *from = src->keep;
  const bool remembered = from->remembered && from->remembered_at == n && n != from->length;
  const tn_status st = tni_fixed_can_rewind(src, n, err);
  if (st != TN_OK || !src->model->roles.n_fixed) return st;
  for (uint32_t i = 0; i < src->model->n_inputs; i++) {
    if (!is_fixed_state(src->model, i)) continue;
    tni_fed *to = &dst->keep->fed[i];
    if (n == 0)
      memset(to->data, 0, to->t.bytes);
    else
      memcpy(to->data, remembered ? from->remembered[i] : from->fed[i].data, to->t.bytes);
  }
  dst->keep->remembered_at = -1;
  return TN_OK;
}

void tni_fixed_release(tn_session *s) {
  for (uint32_t i = 0; s->keep->remembered && i < s->model->n_inputs; i++) free(s->keep->remembered[i]);
}

uint64_t tni_fixed_bytes(const tn_model *m, const int64_t *dims, uint32_t n) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    int64_t d[TN_MAX_RANK], count;
    uint64_t bytes;
    if (!is_fixed_state(m, i)) continue;
    bool ok = true;
    for (uint32_t a = 0; ok && a < v->pub.rank; a++)
      ok = tni_ex_eval(m->graph->exprs, v->pub.dims[a], dims, n, &d[a]) == TN_OK;
    if (ok && tni_dims_count(d, v->pub.rank, &count) == TN_OK && tni_dtype_bytes(v->pub.dtype, count, &bytes) == TN_OK)
      total += 2 * bytes;
  }
  return total;
}
