/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory without a byte to spare, where every slot fills whole pages and those before and after it may not be touched;
 * indices that are outside of such a table; and outputs over the inputs that they may overwrite.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/life.h"

enum { PAGE = 4096, K = 64, ROWS = 16, MOST_N = 4096 };

/* A width at which the packed weight fills pages; 0: there is none. */
static int64_t exact_width(const tni_cf_host *h, const tni_cf_claimed *c) {
  const tn_format *f = NULL;
  for (uint32_t i = 0; c->format && i < h->p.plugin->n_formats; i++)
    if (!strcmp(h->p.plugin->formats[i]->name, c->format)) f = h->p.plugin->formats[i];
  for (int64_t N = 64; N <= MOST_N; N += 64) {
    tn_pack_size size = {.bytes = (uint64_t)(N * K * 4)};
    if (f && f->size(f, N, K, c->params, c->n_params, &size) != TN_OK) continue;
    if (size.bytes % PAGE == 0) return N;
  }
  return 0;
}

static bool exact_graph(tni_cn_graph *b, int64_t N, tni_cf_rng *r) {
  char inputs[64];
  snprintf(inputs, sizeof inputs, "x[S,%d] w[%d,%lld]", K, K, (long long)N);
  const tni_cn_spec s = {
      .op = "MatMul", .inputs = inputs, .attrs = "", .version = 13, .dtype = TN_DT_F32, .n_out = 1, .scale = 0.25f};
  const tni_cf_graph_row row = {.name = "exact", .spec = s};
  return tni_cf_graph_make(&row, b, r);
}

static void ask_exact(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = arg;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  tni_cf_rig rig;
  tni_cf_host h;
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.exact = true})) return;
  const int64_t N = exact_width(&h, c);
  memset(&rig, 0, sizeof rig);
  if (!N)
    tni_cf_skip(cf, "no packed weight of this format fills whole pages");
  else if (!exact_graph(&rig.b, N, &r))
    tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
  else if (!tni_cf_rig_claim_made(&rig, &h, c->phase))
    tni_cf_skip(cf, "not claimed: %s", rig.why);
  else if (!tni_cf_rig_prepare(&rig, ROWS, &r) || !tni_cf_rig_run(&rig, 0xff, TNI_CF_EVEN))
    tni_cf_fail(cf, "%s", rig.why);
  else
    tni_cf_note(cf, "[%lld,%d] x [%d,%lld]", (long long)rig.sym[0], K, K, (long long)N);
  tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
}

/* --- indices ------------------------------------------------------------------------------------------------------ */

enum { TABLE = 64, PICKED = 9 };

static tn_status pick_rows(tni_cf_rig *rig, const int64_t *index) {
  const uint64_t bytes = PICKED * sizeof *index;
  if (!tni_cf_inst_write(&rig->i, rig->b.in[0], index, bytes)) return TN_E_INTERNAL;
  const tn_status st = tni_cf_inst_run(&rig->i, 0x5b, TNI_CF_EVEN);
  if (st != TN_OK) return st;
  return tni_cf_inst_read(&rig->i, rig->b.out[0], rig->out[0].data, rig->out[0].bytes) ? TN_OK : TN_E_INTERNAL;
}

/* Rows of indices that are inside are right beside one that is not, and again after it. */
static void pick_outside(tni_cf *cf, tni_cf_rig *rig) {
  static const int64_t far[] = {TABLE, -TABLE - 1, TABLE + 1, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MIN, INT64_MAX};
  int64_t legal[PICKED], index[PICKED];
  const uint64_t row = rig->out[0].bytes / PICKED;
  for (int i = 0; i < PICKED; i++) legal[i] = (i * 29 + 3) % TABLE;
  tn_status st = pick_rows(rig, legal);
  uint8_t *want = st == TN_OK ? tni_arena_memdup(cf->arena, rig->out[0].data, rig->out[0].bytes, 64) : NULL;
  for (size_t k = 0; want && k < sizeof far / sizeof *far && cf->verdict == TNI_CF_PASS; k++) {
    memcpy(index, legal, sizeof index);
    index[4] = far[k];
    st = pick_rows(rig, index);
    if (st != TN_OK && st != TN_E_INVALID)
      tni_cf_fail(cf, "index %lld of a table of %d rows: %s (%s): INVALID, or any numbers in its row (docs/plugin-abi.md)",
                  (long long)far[k], TABLE, tni_status_name(st), rig->i.why);
    for (uint64_t i = 0; st == TN_OK && i < PICKED; i++)
      if (i != 4 && memcmp((uint8_t *)rig->out[0].data + i * row, want + i * row, row) != 0)
        tni_cf_fail(cf, "with index %lld of a table of %d rows, row %llu of the result is another", (long long)far[k], TABLE,
                    (unsigned long long)i);
    st = pick_rows(rig, legal);
    if (st != TN_OK || memcmp(rig->out[0].data, want, rig->out[0].bytes) != 0)
      tni_cf_fail(cf, "after index %lld of a table of %d rows, a run with legal ones: %s", (long long)far[k], TABLE,
                  st == TN_OK ? "other bits" : rig->i.why);
  }
  if (!want) tni_cf_fail(cf, "%s", rig->i.why);
}

static void ask_indices(tni_cf *cf, const void *arg) {
  static const tni_cf_graph_row row = {
      .name = "indices",
      .spec = {.op = "Gather", .inputs = "w[64,64] i[S]<64>", .attrs = "axis=0", .version = 13, .dtype = TN_DT_F32, .n_out = 1,
               .scale = 1}};
  const tni_cf_claimed *c = arg;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  tni_cf_rig rig;
  tni_cf_host h;
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.exact = true})) return;
  memset(&rig, 0, sizeof rig);
  if (!tni_cf_graph_make(&row, &rig.b, &r))
    tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
  else if (!tni_cf_rig_claim_made(&rig, &h, c->phase))
    tni_cf_skip(cf, "not claimed: %s", rig.why);
  else if (rig.d.chunk)
    tni_cf_skip(cf, "it takes runs of certain lengths alone");
  else if (!tni_cf_rig_prepare(&rig, PICKED, &r))
    tni_cf_fail(cf, "%s", rig.why);
  else
    pick_outside(cf, &rig);
  tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
}

/* --- outputs over inputs ------------------------------------------------------------------------------------------ */

static bool has_alias(const tni_cf_rig *rig) {
  for (uint32_t s = 0; s < rig->d.info->n_slots; s++) {
    const tn_slot *slot = rig->d.info->slots[s];
    if (slot->kind == TN_SLOT_OUTPUT && slot->alias < rig->d.info->n_slots) return true;
  }
  return false;
}

/* The same inputs, with outputs where their slots say that they may lie: the same bits. */
static void alias_graph(tni_cf *cf, tni_cf_host *h, const tni_cf_claimed *c, uint32_t *asked) {
  tni_cf_rig rig;
  void *want[TNI_CN_MAX_OUT] = {NULL};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  bool ok = tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r);
  tni_cf_rng inputs = r;
  ok = ok && tni_cf_rig_prepare(&rig, 5, &r);
  if (ok && has_alias(&rig)) {
    ++*asked;
    ok = tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE);
    for (uint32_t o = 0; ok && o < rig.b.n_out; o++)
      ok = (want[o] = tni_arena_memdup(cf->arena, rig.out[o].data, rig.out[o].bytes + 1, 64)) != NULL;
    tni_cf_inst_finish(&rig.i);
    rig.made = false;
    rig.d.aliased = true;
    ok = ok && tni_cf_rig_prepare(&rig, 5, &inputs) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE);
    for (uint32_t o = 0; ok && o < rig.b.n_out; o++)
      if (memcmp(want[o], rig.out[o].data, rig.out[o].bytes) != 0)
        tni_cf_fail(cf,
                    "%s: other bits when output %u lies over the input that its slot names as alias: something still "
                    "reads that input (plugin.h, tn_slot)",
                    c->graph, o);
  }
  if (!ok) tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
  tni_cf_rig_finish(&rig);
}

static void ask_aliases(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  uint32_t asked = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (uint32_t i = 0; i < cf->listing->n_claimed && cf->verdict == TNI_CF_PASS; i++)
    if (cf->listing->claimed[i].verdict == TN_YES) alias_graph(cf, &h, &cf->listing->claimed[i], &asked);
  if (!asked && cf->verdict == TNI_CF_PASS) tni_cf_skip(cf, "no output of its programs names an alias");
  tni_cf_host_close(cf, &h);
}

void tni_cf_memory_exact_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  add(ctx, &(tni_cf_case){"memory/aliases", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_aliases, NULL, 0});
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    const bool exact = !strcmp(c->graph, "matmul/2d"),
               first = !i || strcmp(c->graph, c[-1].graph) != 0 || c[-1].verdict != TN_YES;
    if (c->verdict != TN_YES || !first || !(exact || !strcmp(c->graph, "gather/rows"))) continue;
    const tni_cf_case x = {exact ? "memory/exact" : "memory/indices", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0,
                           exact ? ask_exact : ask_indices, c, 0};
    add(ctx, &x);
  }
}
