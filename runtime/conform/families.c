/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/abi/abi.h"
#include "runtime/conform/conform.h"
#include "runtime/conform/edges/edges.h"
#include "runtime/conform/generate/generate.h"
#include "runtime/conform/life/life.h"
#include "runtime/conform/numbers/numbers.h"

static const tni_cf_family case_families[] = {tni_cf_abi_cases,    tni_cf_life_cases,    tni_cf_honesty_cases,
                                              tni_cf_memory_cases, tni_cf_edge_cases,    tni_cf_numbers_cases,
                                              tni_cf_levels_cases, tni_cf_replay_cases,
                                              /* Last: they take what time there is. */
                                              tni_cf_generated_cases};

void tni_cf_all_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  for (size_t i = 0; i < sizeof case_families / sizeof *case_families; i++) case_families[i](l, add, ctx);
}
