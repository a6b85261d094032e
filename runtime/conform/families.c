/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/abi/abi.h"
#include "runtime/conform/conform.h"
#include "runtime/conform/edges/edges.h"
#include "runtime/conform/generate/generate.h"
#include "runtime/conform/life/life.h"
#include "runtime/conform/numbers/numbers.h"

/* together: each case opens the plugin and shuts it down again, and asks nothing of the process. */
static const struct {
  tni_cf_family name_cases;
  bool together;
} case_families[] = {{tni_cf_abi_cases, false},    {tni_cf_life_cases, false},   {tni_cf_honesty_cases, true},
                     {tni_cf_memory_cases, true},  {tni_cf_edge_cases, false},   {tni_cf_numbers_cases, true},
                     {tni_cf_levels_cases, false}, {tni_cf_replay_cases, false},
                     /* Last: they take what time there is. */
                     {tni_cf_generated_cases, false}};

typedef struct marking {
  tni_cf_add add;
  void *ctx;
} marking;

static void add_together(void *ctx, const tni_cf_case *c) {
  const marking *m = ctx;
  tni_cf_case marked = *c;
  marked.flags |= TNI_CF_TOGETHER;
  m->add(m->ctx, &marked);
}

/* A driver may take a tenth of a second to start, longer than most cases take. */
void tni_cf_all_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  marking m = {add, ctx};
  for (size_t i = 0; i < sizeof case_families / sizeof *case_families; i++)
    if (l->resident && case_families[i].together)
      case_families[i].name_cases(l, add_together, &m);
    else
      case_families[i].name_cases(l, add, ctx);
}
