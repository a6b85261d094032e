/* SPDX-License-Identifier: Apache-2.0
 *
 * Levels: what a plugin has to claim, in some phase, to be called one for products, language models or vision. A case
 * per graph of the table that a level names; asked with --level only.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/life.h"

static void check_required(tni_cf *cf, const void *arg) {
  const tni_cf_graph_row *row = arg;
  const tni_cf_listing *l = cf->listing;
  const char *why = "it was not asked";
  if (l->why) {
    tni_cf_fail(cf, "%s is not claimed: there is no open device: %s", row->name, l->why);
    return;
  }
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    if (strcmp(l->claimed[i].graph, row->name)) continue;
    if (l->claimed[i].verdict != TN_NO) return;
    if (l->claimed[i].text) why = l->claimed[i].text;
  }
  tni_cf_fail(cf, "%s is refused in every phase: %s", row->name, why);
}

void tni_cf_levels_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const struct {
    uint32_t bit;
    const char *name;
  } levels[] = {{TNI_CF_LEVEL_MATMUL, "matmul"}, {TNI_CF_LEVEL_LLM, "llm"}, {TNI_CF_LEVEL_VISION, "vision"}};
  char name[96];
  uint32_t n;
  const tni_cf_graph_row *rows = tni_cf_graph_rows(&n);
  (void)l;
  for (size_t k = 0; k < sizeof levels / sizeof *levels; k++)
    for (uint32_t i = 0; i < n; i++) {
      if (!(rows[i].levels & levels[k].bit)) continue;
      snprintf(name, sizeof name, "levels/%s/%s", levels[k].name, rows[i].name);
      add(ctx, &(tni_cf_case){name, levels[k].bit, TNI_CF_REQUIRED, check_required, &rows[i], 0});
    }
}
