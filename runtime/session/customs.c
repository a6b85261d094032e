/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/customs.h"

#include <stdio.h>
#include <string.h>

static const tn_custom_op *find_op(const tn_plugin *p, const tni_node *n) {
  if (!p || !TN_HAS(p, tn_plugin, n_ops)) return NULL;
  for (uint32_t i = 0; i < p->n_ops; i++) {
    const tn_custom_op *o = p->ops[i];
    const bool now = n->version >= o->since && (!o->until || n->version <= o->until);
    if (now && strcmp(o->type, n->type) == 0 && strcmp(o->domain, n->pub.domain) == 0) return o;
  }
  return NULL;
}

static uint32_t device_that_knows(const tn_runtime *rt, const tni_node *n) {
  uint32_t d = 0;
  while (d < rt->n_devs && !find_op(rt->devs[d].plugin, n)) d++;
  return d;
}

void tni_customs_find(const tn_runtime *rt, tni_graph *g) {
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tni_node *n = g->nodes[i];
    const uint32_t d = n->op || n->dead ? rt->n_devs : device_that_knows(rt, n);
    if (d < rt->n_devs) n->custom = find_op(rt->devs[d].plugin, n);
  }
}

void tni_customs_refusal(const tn_runtime *rt, const tni_exec *x, tn_id id, char *text, size_t size) {
  const tni_node *n = (const tni_node *)x->view.nodes[id];
  const uint32_t d = n->op ? rt->n_devs : device_that_knows(rt, n);
  text[0] = '\0';
  if (n->op) return;
  if (d == rt->n_devs)
    snprintf(text, size, "; no plugin of profile '%s' lists this operator", rt->profile->name);
  else
    snprintf(text, size, "; plugin '%s' lists the operator and refused this node: %s", rt->devs[d].name,
             x->claims.node[d][id].text);
}
