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
/* The dims at which private memory is asked for: 1, and a run of `rows` positions, where `run` is the symbol that they
 * are (TN_NONE: none). v: [n]. */
void tni_private_dims(int64_t *v, uint32_t n, tn_id run, int64_t rows);
/* The most that a task of the program states at dims for a PRIVATE slot. sizes: [n_slots], whatever it holds. With the
 * device's lock held. TN_E_LIMIT: more than there can be. */
TN_MUST_CHECK tn_status tni_private_bytes(const tni_program *p, tn_id slot, const tn_dims *dims, uint64_t *sizes,
                                          uint64_t *bytes, tn_error *err);

#endif
