/* SPDX-License-Identifier: Apache-2.0
 *
 * What the slots of a need get of its packed matrix. The vendor kit asks here too.
 */
#include "runtime/pack/pack.h"
#include "runtime/place/program_check.h"

tn_status tni_need_section(const tn_need *need, uint32_t align, const tn_blob *blob, tn_section *out, tn_error *err) {
  const uint32_t which = TN_HAS(need, tn_need, section) ? need->section : 0;
  const char *name = need->format->name;
  tn_section all[TNI_SECTIONS];
  uint32_t n;
  *out = (tn_section){.bytes = blob->bytes, .align = 1};
  if (!which) return TN_OK;
  if (!tni_has_sections(need->format))
    return tni_fail(err, TN_E_INTERNAL, name, "a section of format '%s', which has none", name);
  const tn_status st = tni_sections(blob, all, &n, err);
  if (st != TN_OK) return st;
  if (which > n) return tni_fail(err, TN_E_INTERNAL, name, "section %u of format '%s', which has %u", which, name, n);
  if (align > all[which - 1].align)
    return tni_fail(err, TN_E_INTERNAL, name, "a slot wants an alignment of %u, and section %u of format '%s' has %u", align,
                    which, name, all[which - 1].align);
  *out = all[which - 1];
  return TN_OK;
}
