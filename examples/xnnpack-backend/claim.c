/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "backend.h"

/* The convolution that takes node `next` with it: the last one, so that what else it reads is there. */
static tn_id carrier(const device *d, const tn_graph *g, tn_id next, step *s) {
  const tn_node *n = g->nodes[next];
  const char *text;
  tn_id best = TN_NONE;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const tn_id c = n->in[i] == TN_NONE ? TN_NONE : g->values[n->in[i]]->producer;
    if (c == TN_NONE || c >= g->n_nodes || follower(g, c) != next) continue;
    if ((best == TN_NONE || c > best) && read_step(d, g, c, next, s, &text) == TN_WHY_NONE) best = c;
  }
  return best;
}

static tn_status claim_node(const device *d, const tn_graph *g, tn_id i, const tn_claim_sink *sink) {
  tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
  const char *text;
  step s;
  c.reason = read_step(d, g, i, TN_NONE, &s, &text);
  if (c.reason != TN_WHY_NONE && c.reason == TN_WHY_OP) {
    const tn_id with = carrier(d, g, i, &s);
    if (with != TN_NONE) {
      const tn_id pair[2] = {with, i};
      tn_claim both = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
      const tn_status st = sink->group(sink->ctx, pair, 2, &both);
      if (st != TN_OK) return st;
      c.verdict = TN_GROUP_ONLY;
      text = "only with the convolution before it";
    }
  }
  if (c.reason != TN_WHY_NONE && c.verdict == TN_YES) c.verdict = TN_NO;
  if (c.verdict == TN_GROUP_ONLY) c.reason = TN_WHY_NONE;
  if (c.verdict != TN_YES) snprintf(c.text, sizeof c.text, "%s", text);
  return sink->node(sink->ctx, i, &c);
}

tn_status claim(tn_device *pub, const tn_graph *g, const tn_dims *dims, const tn_claim_sink *sink, tn_error *err) {
  tn_status st = TN_OK;
  (void)dims, (void)err; /* costs are not known */
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) st = claim_node((const device *)pub, g, i, sink);
  return st;
}
