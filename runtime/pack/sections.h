/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections of a packed matrix (tn_format.sections), as a format may state them.
 */
#ifndef TENON_PACK_SECTIONS_H
#define TENON_PACK_SECTIONS_H

#include <stdbool.h>
#include <tenon/plugin.h>

#include "runtime/base/base.h"

enum { TNI_SECTIONS = 64 }; /* the most that a format has */

static inline bool tni_has_sections(const tn_format *f) { return TN_HAS(f, tn_format, sections) && f->sections; }
/* Of the matrix that b is, in the format's order; *n 0: it has none. TN_E_INTERNAL, with what is wrong: more than 64, one
 * that ends beyond the matrix or is not aligned, two that meet. */
TN_MUST_CHECK tn_status tni_sections(const tn_blob *b, tn_section out[TNI_SECTIONS], uint32_t *n, tn_error *err);

#endif
