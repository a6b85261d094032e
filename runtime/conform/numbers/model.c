/* SPDX-License-Identifier: Apache-2.0
 *
 * `--model M`: what the real host packs of the model for this plugin, given to the plugin again matrix by matrix: the
 * same bytes, and every weight of every layer read back by activations with one element, by one row and by many.
 */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/placement.h"
#include "runtime/conform/numbers/product.h"

/* Where it takes no product in every phase: with statistics in that of prompts. */
static bool model_place(const tni_cf_subject *s, placement *all, tn_error *err) {
  char file[PATH_MAX], model[PATH_MAX];
  snprintf(file, sizeof file, "%s", s->path);
  if (!realpath(s->model, model)) return tni_fail(err, TN_E_IO, s->model, "there is no such model") == TN_OK;
  placement_req r = {.plugin = s->name,
                     .plugin_dir = dirname(file),
                     .device = s->device,
                     .model = model,
                     .options = s->options,
                     .n_options = s->n_options,
                     .phase = TN_PHASE_ANY};
  if (placement_read(&r, all, err) && all->n) return true;
  placement_free(all);
  r.phase = TN_PHASE_PREFILL;
  r.need_stats = true;
  return placement_read(&r, all, err) && all->n;
}

static void compare_bytes(tni_cf *cf, const tni_cn_product *p, const placed_weight *w) {
  for (uint32_t i = 0; i < p->d.info->n_slots; i++)
    if (p->d.packed[i] && p->d.blob[i].bytes == w->n_bytes && !memcmp(p->d.packed[i], w->bytes, w->n_bytes)) return;
  tni_cf_fail(cf, "%s [%lld,%lld]: the bytes that the host packed are not those that packing it again gives", w->name,
              (long long)w->N, (long long)w->K);
}

/* A need of another format (rows of a shadow, say) hangs on the same product: its weights are read where activations
 * need them. */
static bool is_main(const tni_cn_product *p, const placed_weight *w) {
  const tni_claim *c = tni_partition_claim(&p->d.part, &p->d.claims, 0);
  return c && c->format && !strcmp(c->format->name, w->format);
}

static void matrix_ask(tni_cf *cf, tni_cf_host *h, const placed_weight *w, tni_cn_tally *t) {
  static const int64_t Ms[] = {96, 1};
  const tni_cn_want want = {.kind = TNI_CN_MATMUL,
                            .N = w->N,
                            .K = w->K,
                            .dtype = TN_DT_F32,
                            .weights = w->kn,
                            .stats = w->stats.h.size ? &w->stats : NULL,
                            .flip = UINT64_MAX};
  tni_cn_product p;
  if (!tni_cn_try(cf, h, &want, t, &p)) {
    if (t->refused) tni_cf_fail(cf, "%s [%lld,%lld]: %s", w->name, (long long)w->N, (long long)w->K, t->reason);
    t->refused = 0;
    return;
  }
  if (is_main(&p, w)) {
    compare_bytes(cf, &p, w);
    for (size_t i = 0; i < ((p.d.chunk && p.d.lengths.n < 2) || !cf->subject->thorough ? 1 : 2); i++) {
      tni_cf_inst inst;
      tni_cn_buffers b;
      const int64_t M = tni_cn_product_rows(&p, Ms[i]);
      if (!tni_cn_instance(&p, &inst, M)) continue;
      if (tni_cn_buffers_make(&b, &p, M)) tni_cn_read_back(&p, &inst, &b, t);
      tni_cn_buffers_free(&b);
      tni_cf_inst_finish(&inst);
    }
  }
  tni_cn_product_close(&p);
}

static void model_ask(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  placement all;
  tn_error err;
  tni_cn_tally t = {0};
  (void)arg;
  tni_error_init(&err);
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (!model_place(cf->subject, &all, &err)) {
    tni_cf_skip(cf, "nothing of %s is placed on it: %s", cf->subject->model, err.message);
  } else {
    for (uint32_t i = 0; i < all.n && cf->n_findings < 8; i++) matrix_ask(cf, &h, &all.w[i], &t);
    tni_cf_note(cf, "%u packed matrices, %lld read back in %lld runs, %lld elements", all.n, (long long)t.products,
                (long long)t.runs, (long long)t.elements);
  }
  placement_free(&all);
  tni_cf_host_close(cf, &h);
}

void tni_cn_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  if (!l->subject->model || !strcmp(l->subject->path, "host")) return;
  add(ctx, &(tni_cf_case){.name = "numbers/model/read-back",
                          .levels = TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI,
                          .run = model_ask,
                          .timeout_ms = 300000});
}
