/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/interp/cells.h"

tni_cell *tni_cell_new(const tni_tensor *t) {
  tni_cell *c = calloc(1, sizeof *c);
  if (!c || t->bytes > SIZE_MAX - 128) {
    free(c);
    return NULL;
  }
  *c = (tni_cell){.t = *t, .refs = 1};
  c->t.data = aligned_alloc(64, ((size_t)t->bytes + 64) & ~(size_t)63);
  if (c->t.data) return c;
  free(c);
  return NULL;
}

tni_cell *tni_cell_borrow(const tni_tensor *t) {
  tni_cell *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  *c = (tni_cell){.t = *t, .refs = 1, .borrowed = true};
  if (!t->data && !t->bytes) c->t.data = c; /* no elements have an address too: kernels add offsets to it */
  return c;
}

tni_cell *tni_cell_group(uint32_t form, uint32_t n) {
  tni_cell *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  *c = (tni_cell){.form = form, .n = n, .refs = 1, .items = calloc((size_t)n + 1, sizeof *c->items)};
  if (c->items) return c;
  free(c);
  return NULL;
}

tni_cell *tni_cell_given(const tn_tensor *t) {
  if (t->dtype != TN_DT_SEQUENCE && t->dtype != TN_DT_OPTIONAL) {
    tni_tensor x = {.dtype = t->dtype, .rank = t->rank, .data = (void *)(uintptr_t)t->data, .bytes = t->bytes};
    int64_t count; /* the caller may hand over more bytes than the dims need */
    memcpy(x.dims, t->dims, sizeof x.dims);
    return tni_dims_count(x.dims, x.rank, &count) == TN_OK && tni_dtype_bytes(x.dtype, count, &x.bytes) == TN_OK
               ? tni_cell_borrow(&x)
               : NULL;
  }
  const tn_tensor *const *items = t->data;
  tni_cell *c =
      tni_cell_group(t->dtype == TN_DT_SEQUENCE ? TNI_FORM_SEQUENCE : TNI_FORM_OPTIONAL, (uint32_t)t->dims[0]);
  for (uint32_t i = 0; c && i < c->n; i++) {
    c->items[i] = tni_cell_given(items[i]);
    if (c->items[i]) continue;
    tni_cell_drop(c);
    c = NULL;
  }
  return c;
}

tni_cell *tni_cell_hold(tni_cell *c) {
  c->refs++;
  return c;
}

void tni_cell_drop(tni_cell *c) {
  if (!c || --c->refs) return;
  for (uint32_t i = 0; i < c->n; i++) tni_cell_drop(c->items[i]);
  if (!c->borrowed) free(c->t.data);
  free(c->items);
  free(c->shown);
  free(c);
}

static bool has_borrowed(const tni_cell *c) {
  bool found = c->borrowed;
  for (uint32_t i = 0; i < c->n && !found; i++) found = has_borrowed(c->items[i]);
  return found;
}

tni_cell *tni_cell_own(tni_cell *c) {
  if (!has_borrowed(c)) return tni_cell_hold(c);
  if (c->form == TNI_FORM_TENSOR) {
    tni_cell *copy = tni_cell_new(&c->t);
    if (copy && copy->t.bytes) memcpy(copy->t.data, c->t.data, (size_t)copy->t.bytes);
    return copy;
  }
  tni_cell *copy = tni_cell_group(c->form, c->n);
  for (uint32_t i = 0; copy && i < c->n; i++) {
    copy->items[i] = tni_cell_own(c->items[i]);
    if (copy->items[i]) continue;
    tni_cell_drop(copy);
    copy = NULL;
  }
  return copy;
}

tn_status tni_cell_show(tni_cell *c, tn_tensor *t) {
  *t = (tn_tensor){.h = {.size = sizeof *t, .major = 1}, .name = t->name};
  if (c->form == TNI_FORM_TENSOR) {
    t->dtype = c->t.dtype;
    t->rank = c->t.rank;
    memcpy(t->dims, c->t.dims, sizeof t->dims);
    t->data = c->t.data;
    t->bytes = c->t.bytes;
    return TN_OK;
  }
  /* The structs, then the pointers to them. */
  tn_tensor *all = calloc((size_t)c->n + 1, sizeof *all + sizeof(tn_tensor *));
  tn_tensor **at = all ? (tn_tensor **)(all + c->n) : NULL;
  tn_status st = all ? TN_OK : TN_E_NO_MEMORY;
  for (uint32_t i = 0; st == TN_OK && i < c->n; i++) {
    at[i] = &all[i];
    st = tni_cell_show(c->items[i], at[i]);
  }
  free(c->shown);
  c->shown = all;
  t->dtype = c->form == TNI_FORM_SEQUENCE ? TN_DT_SEQUENCE : TN_DT_OPTIONAL;
  t->rank = 1;
  t->dims[0] = c->n;
  t->bytes = (uint64_t)c->n * sizeof *at;
  t->data = at;
  return st;
}

/* --- frames ----------------------------------------------------------------------------------------------------- */

tni_cell *tni_interp_read(const tni_interp *ip, const tni_frame *f, tn_id id) {
  const tni_value *v = tni_graph_value(f->g, id);
  tni_cell *c = NULL;
  while (v && v->captured != TN_NONE && v->pub.kind != TN_VALUE_CONST && f->outer) {
    f = f->outer;
    id = v->captured;
    v = tni_graph_value(f->g, id);
  }
  if (v && v->pub.kind == TN_VALUE_CONST) {
    c = tni_cell_borrow(v->tensor);
    if (!c) tni_fail_memory(ip->err, v->pub.name);
  } else if (v && f->cells[id]) {
    c = tni_cell_hold(f->cells[id]);
  } else {
    tni_fail(ip->err, TN_E_INTERNAL, v ? v->pub.name : NULL, "'%s' is read before it is made", v ? v->pub.name : "?");
  }
  return c;
}

tn_status tni_interp_stop(const tni_interp *ip, const char *name) {
  return tni_fail(ip->err, TN_E_CANCELLED, name, "cancelled");
}
