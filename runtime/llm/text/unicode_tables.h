/* SPDX-License-Identifier: Apache-2.0
 *
 * The generated tables (scripts/unicode_tables.py): what the parts of PyPI's `tokenizers` know of each code point.
 * Those parts have different Unicode versions, see docs/tokenizers.md.
 */
#ifndef TENON_LLM_TEXT_UNICODE_TABLES_H
#define TENON_LLM_TEXT_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

typedef struct tni_cp_range {
  uint32_t lo, hi;
} tni_cp_range;

/* Ascending, apart from each other. */
typedef struct tni_cp_ranges {
  const tni_cp_range *v;
  size_t n;
} tni_cp_ranges;

/* unicode_cats.c. A run starts at v >> 8 and ends before the next one; its category is v & 255, TNI_CAT_PAIRS where Lu
 * and Ll take turns from its start on. */
extern const uint32_t tni_category_runs[];
extern const size_t tni_n_category_runs;
/* Assigned after Unicode 14. */
extern const tni_cp_range tni_newer[];
extern const size_t tni_n_newer;

/* unicode_props.c. The categories of mask, but in the ranges the other way round; assigned: of assigned ones only. */
typedef struct tni_prop {
  const char *name; /* small letters, without ' ', '_' and '-'; ascending */
  uint32_t mask, assigned, at, n;
} tni_prop;
extern const tni_prop tni_props[];
extern const size_t tni_n_props;
extern const tni_cp_range tni_prop_ranges[];

/* unicode_sets.c */
extern const tni_cp_ranges tni_set_punct, tni_set_number, tni_set_mark, tni_set_accent, tni_set_control;
/* Normal forms leave these alone; the fewest ranges, so some hold code points that no form changes anyway. */
extern const tni_cp_ranges tni_set_inert;
/* lo, lo + stride .. hi become themselves + delta. */
typedef struct tni_lower_run {
  uint32_t lo, hi;
  int32_t delta;
  uint32_t stride;
} tni_lower_run;
extern const tni_lower_run tni_lower_runs[];
extern const size_t tni_n_lower_runs;

#endif
