/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/lev.h"
#include "plugins/common/formats/lev_tables.h"

const float tni_lev_steps[TNI_LEV_STEPS] = TNI_LEV_STEP_TABLE;
const tni_lev_kind tni_lev_kinds[TNI_LEV_KINDS] = {
    {TNI_LEV4, 4, 0, 32, 1, 256, TNI_LEV4_TABLE}, {TNI_LEV4S, 4, 0, 16, 1, 128, TNI_LEV4S_TABLE},
    {TNI_LEV3, 3, 0, 32, 2, 192, TNI_LEV3_TABLE}, {TNI_LEV2, 2, 0, 32, 4, 128, TNI_LEV2_TABLE},
    {TNI_LEV1, 3, 2, 32, 4, 96, TNI_LEV1_TABLE},
};

static const float *const grid_levels[TNI_LEV_KINDS] = {lev4_grid, lev4s_grid, lev3_grid, lev2_grid, lev1_grid};

const float *tni_lev_levels(const tni_lev_kind *kind) { return grid_levels[kind->which]; }
