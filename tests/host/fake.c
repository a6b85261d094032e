/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/graph/core_graph.h"
#include "runtime/graph/view.h"
#include "tests/kit/nodes.h"

static tn_status f_option(tn_host_ctx *ctx, const char *key, uint32_t type, void *out) {
  if (strcmp(key, "no_matmul") != 0 || type != TN_OPT_BOOL) return TN_E_INVALID;
  *(int64_t *)out = ((fake *)ctx)->no_matmul;
  return TN_OK;
}
static tn_status f_eval(const tn_graph *g, tn_expr e, const tn_dims *d, int64_t *out) {
  return tni_ex_eval(g->ctx->exprs, e, d->v, d->n, out);
}
static tn_status f_range(const tn_graph *g, tn_expr e, int64_t *lo, int64_t *hi) {
  tni_ex_range(g->ctx->exprs, e, lo, hi);
  return TN_OK;
}
static const void *f_extension(tn_host_ctx *ctx, const char *name, uint32_t version) {
  (void)ctx;
  return version == 1 && strcmp(name, TNI_CORE_GRAPH) == 0 ? tni_core_graph_get() : NULL;
}
static uint64_t f_symbols(const tn_graph *g, tn_expr e) { return tni_ex_symbols(g->ctx->exprs, e); }

fake *ht_fake_make(bool no_matmul) {
  fake *f = calloc(1, sizeof *f);
  f->no_matmul = no_matmul;
  kit_host_init(&f->h, 2);
  f->h.host.option = f_option;
  f->h.host.eval = f_eval;
  f->h.host.range = f_range;
  f->h.host.get_extension = f_extension;
  f->h.host.symbols = f_symbols;
  return f;
}

dev ht_dev_open(bool no_matmul) {
  dev v = {.f = ht_fake_make(no_matmul)};
  tn_negotiate neg = {.h = TN_HDR(tn_negotiate), .host_max = TN_ABI_MINOR};
  const tn_caps *caps[4];
  uint32_t n = 0;
  CU_ASSERT_EQUAL_FATAL(tni_host_plugin_entry(&v.f->h.host, &neg, &v.plugin), TN_OK);
  CU_ASSERT_EQUAL(v.plugin->enumerate(v.plugin, 4, caps, &n, NULL), TN_OK);
  CU_ASSERT_EQUAL(n, 1);
  CU_ASSERT_STRING_EQUAL(caps[0]->name, "host");
  CU_ASSERT_EQUAL(caps[0]->n_engines, 0);
  CU_ASSERT_EQUAL(v.plugin->open(v.plugin, 1, &v.d, NULL), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL_FATAL(v.plugin->open(v.plugin, 0, &v.d, NULL), TN_OK);
  return v;
}

void ht_dev_close(dev *v) {
  v->plugin->close(v->d);
  v->plugin->shutdown(v->plugin);
  CU_ASSERT_EQUAL(v->f->h.live, 0);
  free(v->f);
}
