/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/armour.h"

#include <inttypes.h>

tn_status tni_refuse_null(tn_error *err, const char *function, const char *argument) {
  return tni_fail(err, TN_E_INVALID, function, "'%s' must not be NULL", argument);
}

tn_status tni_known_bits(uint64_t given, uint64_t known, const char *what, tn_error *err) {
  if (!(given & ~known)) return TN_OK;
  return tni_fail(err, TN_E_INVALID, what, "%s: 0x%" PRIx64 " is not known to this version", what, given & ~known);
}

tn_status tni_counted(const void *list, uint64_t n, const char *what, tn_error *err) {
  if (list || !n) return TN_OK;
  return tni_fail(err, TN_E_INVALID, what, "%s is NULL, and %" PRIu64 " entries are said to be there", what, n);
}

tn_status tni_sized(const tn_hdr *h, size_t bytes, const char *what, tn_error *err) {
  if (h->size >= bytes) return TN_OK;
  return tni_fail(err, TN_E_INVALID, what, "the size in the header of %s is %u, not %zu", what, h->size, bytes);
}
