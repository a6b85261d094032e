/* SPDX-License-Identifier: Apache-2.0
 *
 * What claims say beside yes and no: reasons that are true, bytes that could be, and that the host is listened to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/life.h"

static const char *op_of(const tni_cf_claimed *c) {
  const tni_cf_graph_row *row = tni_cf_graph_find(c->graph);
  return !row ? NULL : row->spec.op ? row->spec.op : "MatMul";
}

/* An operator that is taken in one form is known: another form of it is refused for its shape, types or attributes. */
static void reasons_true(tni_cf *cf) {
  const tni_cf_listing *l = cf->listing;
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *no = &l->claimed[i], *yes = NULL;
    const char *op = op_of(no);
    if (no->verdict != TN_NO || no->reason != TN_WHY_OP || !op) continue;
    for (uint32_t k = 0; k < l->n_claimed && !yes; k++)
      if (l->claimed[k].verdict == TN_YES && l->claimed[k].phase == no->phase && op_of(&l->claimed[k]) &&
          !strcmp(op_of(&l->claimed[k]), op))
        yes = &l->claimed[k];
    if (!yes) continue;
    tni_cf_fail(
        cf,
        "%s is refused with TN_WHY_OP, the operator is not known; but %s, the same operator, is taken: say what "
        "of it is wrong (plugin.h, TN_WHY_*)",
        no->graph, yes->graph);
    return;
  }
}

typedef struct sink_book {
  tn_status says;
  uint64_t weight_bytes;
  uint32_t answers;
} sink_book;

static tn_status book_node(void *ctx, tn_id node, const tn_claim *c) {
  sink_book *b = ctx;
  (void)node;
  b->answers++;
  if (c->verdict != TN_NO && c->weight_bytes > b->weight_bytes) b->weight_bytes = c->weight_bytes;
  return b->says;
}
static tn_status book_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  sink_book *b = ctx;
  (void)nodes, (void)n, (void)c;
  return b->says;
}
static tn_status book_state(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n) {
  sink_book *b = ctx;
  (void)value, (void)accepted, (void)n;
  return b->says;
}

static tn_status claim_into(tni_cf_host *h, const tn_graph *g, sink_book *b) {
  const tn_claim_sink sink = {
      .h = TN_HDR(tn_claim_sink), .ctx = b, .node = book_node, .group = book_group, .state = book_state};
  tni_error_init(&h->err);
  return h->device->claim(h->device, g, NULL, &sink, &h->err);
}

static uint64_t constant_bytes(const tni_graph *g) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < g->n_values; i++)
    if (g->values[i]->tensor) n += g->values[i]->tensor->bytes;
  return n;
}

/* A float takes a few bytes, packed with scales or not. */
static void graph_ask(tni_cf *cf, tni_cf_host *h, const tni_cf_claimed *c) {
  tni_cn_graph b;
  tn_graph view;
  sink_book book = {.says = TN_OK};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (!tni_cf_graph_make(tni_cf_graph_find(c->graph), &b, &r) ||
      tni_graph_view(b.g, c->phase, &view, &h->err) != TN_OK) {
    tni_cf_fail(cf, "the kit's own graph %s", c->graph);
  } else if (claim_into(h, &view, &book) == TN_OK) {
    const uint64_t most = 8 * constant_bytes(b.g) + 65536;
    if (book.weight_bytes > most)
      tni_cf_fail(cf, "%s: a claim states %llu bytes of weights; the graph's constants take %llu (plugin.h, tn_claim)",
                  c->graph, (unsigned long long)book.weight_bytes, (unsigned long long)constant_bytes(b.g));
    book = (sink_book){.says = TN_E_NO_MEMORY};
    const tn_status st = claim_into(h, &view, &book);
    if (st == TN_OK)
      tni_cf_fail(cf, "%s: the host's sink fails, and claim says OK: hand its status on (plugin.h, tn_claim_sink)",
                  c->graph);
  }
  tni_cn_destroy(&b);
}

static void ask_reasons(tni_cf *cf, const void *arg) {
  const tni_cf_listing *l = cf->listing;
  tni_cf_host h;
  (void)arg;
  reasons_true(cf);
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.offline = true})) return;
  bool any = false;
  for (uint32_t i = 0; i < l->n_claimed && cf->verdict == TNI_CF_PASS; i++) {
    if (l->claimed[i].verdict != TN_YES) continue;
    graph_ask(cf, &h, &l->claimed[i]);
    any = true;
  }
  if (!any && l->n_claimed && cf->verdict == TNI_CF_PASS) graph_ask(cf, &h, &l->claimed[0]);
  tni_cf_host_close(cf, &h);
}

void tni_cf_honesty_reason_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"honesty/reasons", TNI_CF_LEVEL_ALL, 0, ask_reasons, NULL, 0});
}
