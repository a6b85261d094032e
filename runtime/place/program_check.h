/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_PLACE_PROGRAM_CHECK_H
#define TENON_PLACE_PROGRAM_CHECK_H

#include "runtime/place/program.h"

/* TN_E_INTERNAL naming plugin, part and fault. */
TN_MUST_CHECK tn_status tni_program_check(const tn_graph *view, const tni_dev *dev, const tni_cluster *cluster,
                                          const tn_program_info *info, tn_error *err);
/* Parts and joined weight of one need (weight.c). */
TN_MUST_CHECK tn_status tni_need_prepare(const tn_graph *view, const tn_need *need, tni_arena *arena, tni_need *out,
                                         tn_error *err);
/* What slots of the need, which ask for `align`, get of its packed matrix (section.c): the section that it names, or all
 * of it, with align 1. TN_E_INTERNAL naming the format and what is wrong with its sections. */
TN_MUST_CHECK tn_status tni_need_section(const tn_need *need, uint32_t align, const tn_blob *blob, tn_section *out,
                                         tn_error *err);

#endif
