/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/ir.h"

#include "runtime/graph/attr_places.h"

const tn_attr *tni_at(const tn_node *n, uint32_t name) {
  const uint32_t set = n->op < sizeof attr_sets ? attr_sets[n->op] : 0;
  const uint32_t place = name < TNI_A_COUNT ? attr_places_of_op[set][name] : 0;
  return place && place <= n->n_attr ? n->attr[place - 1] : NULL;
}

static const tn_attr *typed_attr_at(const tn_node *n, uint32_t name, uint32_t type) {
  const tn_attr *a = tni_at(n, name);
  return a && a->type == type ? a : NULL;
}

int64_t tni_at_i(const tn_node *n, uint32_t name, int64_t dflt) {
  const tn_attr *a = typed_attr_at(n, name, TN_ATTR_INT);
  return a && a->n ? a->u.i : dflt;
}

double tni_at_f(const tn_node *n, uint32_t name, double dflt) {
  const tn_attr *a = typed_attr_at(n, name, TN_ATTR_FLOAT);
  return a && a->n ? a->u.f : dflt;
}

const char *tni_at_s(const tn_node *n, uint32_t name, const char *dflt) {
  const tn_attr *a = typed_attr_at(n, name, TN_ATTR_STRING);
  return a && a->u.s ? a->u.s : dflt;
}

uint32_t tni_at_word(const tn_node *n, uint32_t name) {
  const tn_attr *a = tni_at(n, name);
  return a ? a->word : 0;
}

uint32_t tni_at_ints(const tn_node *n, uint32_t name, const int64_t **v) {
  const tn_attr *a = typed_attr_at(n, name, TN_ATTR_INTS);
  *v = a ? a->u.ints : NULL;
  return a ? (uint32_t)a->n : 0;
}

const tni_tensor *tni_at_tensor(const tn_node *n, uint32_t name) {
  const tn_attr *a = typed_attr_at(n, name, TN_ATTR_TENSOR);
  return a ? a->u.p : NULL;
}
