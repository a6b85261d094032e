/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/pack/sections.h"

static bool meet(const tn_section *a, const tn_section *b) {
  return a->bytes && b->bytes && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static tn_status check_section(const tn_blob *b, const tn_section *all, uint32_t i, tn_error *err) {
  const tn_section *s = &all[i];
  const char *name = b->format->name;
  if (s->offset > b->bytes || s->bytes > b->bytes - s->offset)
    return tni_fail(err, TN_E_INTERNAL, name, "section %u of format '%s' ends at byte %llu of a matrix of %llu", i + 1,
                    name, (unsigned long long)(s->offset + s->bytes), (unsigned long long)b->bytes);
  if (!s->align || s->align & (s->align - 1))
    return tni_fail(err, TN_E_INTERNAL, name, "section %u of format '%s' has the alignment %u, which is no power of two",
                    i + 1, name, s->align);
  if (s->offset % s->align)
    return tni_fail(err, TN_E_INTERNAL, name, "section %u of format '%s' begins at byte %llu, no multiple of its alignment %u",
                    i + 1, name, (unsigned long long)s->offset, s->align);
  for (uint32_t k = 0; k < i; k++)
    if (meet(&all[k], s))
      return tni_fail(err, TN_E_INTERNAL, name, "sections %u and %u of format '%s' have bytes in common", k + 1, i + 1,
                      name);
  return TN_OK;
}

tn_status tni_sections(const tn_blob *b, tn_section out[TNI_SECTIONS], uint32_t *n, tn_error *err) {
  const tn_format *f = b->format;
  *n = 0;
  if (!tni_has_sections(f)) return TN_OK;
  uint32_t count = 0;
  tn_status st = f->sections(f, b->N, b->K, b->params, b->n_params, TNI_SECTIONS, out, &count);
  if (st != TN_OK)
    return tni_fail(err, st, f->name, "format '%s' does not say its sections for [%lld,%lld]", f->name, (long long)b->N,
                    (long long)b->K);
  if (count > TNI_SECTIONS)
    return tni_fail(err, TN_E_INTERNAL, f->name, "format '%s' has %u sections, 64 at most are allowed", f->name, count);
  for (uint32_t i = 0; st == TN_OK && i < count; i++) st = check_section(b, out, i, err);
  if (st == TN_OK) *n = count;
  return st;
}
