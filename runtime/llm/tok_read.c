/* SPDX-License-Identifier: Apache-2.0
 *
 * What all readers of components share.
 */
#include <string.h>

#include "runtime/llm/tok.h"

tn_status tni_tok_string(tni_reader *r, const tni_at *a, tni_view *out) {
  tni_view v;
  tn_status st = tni_at_string(a, &v, r->err);
  if (st != TN_OK) return st;
  if (v.n > TNI_TOK_STRING) return tni_at_fail(a, TN_E_LIMIT, r->err, "%zu bytes, at most %d", v.n, TNI_TOK_STRING);
  char *p = tni_arena_alloc(r->t->arena, v.n + 1, 1);
  if (!p) return tni_fail_memory(r->err, a->file);
  memcpy(p, v.v, v.n);
  *out = (tni_view){p, v.n};
  return TN_OK;
}

tn_status tni_tok_type(tni_reader *r, const tni_at *a, tni_view *out) {
  tn_status st = tni_at_object(a, r->err);
  if (st != TN_OK) return st;
  tni_at type = tni_at_key(a, "type");
  return tni_at_string(&type, out, r->err);
}

tn_status tni_tok_sequence(tni_reader *r, const tni_at *a, const char *key, unsigned depth, tni_tok_read_fn one) {
  tni_at list = tni_at_key(a, key);
  size_t n;
  if (depth >= TNI_TOK_DEPTH) return tni_at_fail(a, TN_E_LIMIT, r->err, "more than %d Sequences deep", TNI_TOK_DEPTH);
  tn_status st = tni_at_array(&list, TNI_TOK_STEPS, &n, r->err);
  for (size_t i = 0; st == TN_OK && i < n; i++) {
    tni_at x = tni_at_item(&list, i);
    st = one(r, &x, depth + 1);
  }
  return st;
}
