/* SPDX-License-Identifier: Apache-2.0
 *
 * What later nodes read of each sequence. Sequences run one after another, from stop to stop: those that memory has
 * room for stay there, the others lie in the file until they are next.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/walk.h"

enum { SMALL = 16384 }; /* bytes that stay in memory anyway: masks, positions */

tn_status tni_qz_hold(tni_qz *z, const tni_tensor *t, tni_qz_kept **out) {
  tni_qz_kept *k = malloc(sizeof *k);
  if (!k) return tni_fail_memory(z->err, z->path);
  const tn_status st = tni_spill_make(&z->spill, t->data, t->bytes, &k->block, z->err);
  if (st != TN_OK) {
    free(k);
    return st;
  }
  k->t = *t;
  k->t.data = k->block.p;
  *out = k;
  return TN_OK;
}

tn_status tni_qz_hold_again(tni_qz *z, const tni_qz_kept *k, tni_qz_kept **out) {
  tni_qz_kept *c = malloc(sizeof *c);
  if (!c) return tni_fail_memory(z->err, z->path);
  const tn_status st = tni_spill_copy(&z->spill, &k->block, &c->block, z->err);
  if (st != TN_OK) {
    free(c);
    return st;
  }
  c->t = k->t;
  c->t.data = c->block.p;
  *out = c;
  return TN_OK;
}

void tni_qz_let_go(tni_qz *z, tni_qz_kept **k) {
  if (*k) tni_spill_drop(&z->spill, &(*k)->block);
  free(*k);
  *k = NULL;
}

tn_status tni_qz_tensor(tni_qz *z, tni_qz_kept *k, const tni_tensor **out) {
  const tn_status st = tni_spill_in(&z->spill, &k->block, z->err);
  k->t.data = k->block.p;
  *out = &k->t;
  return st;
}

tn_status tni_qz_put_away(tni_qz_walker *w, tni_qz_kept **state) {
  tn_status st = TN_OK;
  if (!tni_spill_is_full(&w->z->spill)) return TN_OK;
  for (tn_id v = 0; st == TN_OK && v < w->g->n_values; v++) {
    if (!state[v] || state[v]->block.n <= SMALL) continue;
    st = tni_spill_out(&w->z->spill, &state[v]->block, w->z->err);
    state[v]->t.data = state[v]->block.p;
  }
  return st;
}

/* In f32, with what is in the file read past memory. */
static tn_status read_floats(tni_qz *z, const tni_qz_kept *k, int64_t count, float *out) {
  if (k->block.p) {
    tni_tensor_to_f32(&k->t, 0, count, out);
    return TN_OK;
  }
  if (k->t.dtype == TN_DT_F32) return tni_spill_read(&z->spill, &k->block, out, z->err);
  tni_tensor t = k->t;
  t.data = malloc((size_t)k->block.n);
  const tn_status st = t.data ? tni_spill_read(&z->spill, &k->block, t.data, z->err) : tni_fail_memory(z->err, z->path);
  if (st == TN_OK) tni_tensor_to_f32(&t, 0, count, out);
  free(t.data);
  return st;
}

tn_status tni_qz_value(tni_qz_walker *w, tni_qz_kept **state, tn_id v, const tni_qz_product *p, int64_t channels,
                       float **out, int64_t *rows) {
  const tni_tensor *x = state[v] ? &state[v]->t : NULL;
  int64_t count = 1;
  for (uint32_t i = 0; x && i < x->rank; i++) count *= x->dims[i];
  if (!x || !x->rank || x->dims[x->rank - 1] != channels)
    return tni_fail(w->z->err, TN_E_UNSUPPORTED, p->name, "a value beside '%s' does not have %lld channels", p->name,
                    (long long)channels);
  float *f = malloc((size_t)count * sizeof *f + 1);
  if (!f) return tni_fail_memory(w->z->err, p->name);
  const tn_status st = read_floats(w->z, state[v], count, f);
  if (st != TN_OK) {
    free(f);
    return st;
  }
  *out = f;
  *rows = count / channels;
  return TN_OK;
}

tn_status tni_qz_add_moments(tni_qz_walker *w, tni_qz_kept **state, const tni_qz_product *p, float *h) {
  float *x;
  int64_t rows;
  tn_status st = tni_qz_value(w, state, p->x, p, p->K, &x, &rows);
  if (st) return st;
  st = tni_quant_moments(h, x, rows, p->K, &w->z->run.run, w->z->err);
  free(x);
  return st;
}
