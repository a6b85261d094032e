/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/opencl/tables.h"

#include "plugins/opencl-adreno/variants.h"
#include "plugins/opencl-mali/variants.h"

static const uint32_t n_adreno = TNI_ADRENO_N_VARIANTS, n_mali = TNI_MALI_N_VARIANTS;

const test_table test_tables[] = {
    {"floor", tni_cl_floor, &tni_cl_n_floor},
    {"adreno", tni_adreno_variants, &n_adreno},
    {"mali", tni_mali_variants, &n_mali},
    {NULL, NULL, NULL},
};
