/* SPDX-License-Identifier: Apache-2.0
 *
 * What a function of the API asks of its arguments before it does anything: TN_E_INVALID names function and argument.
 */
#ifndef TENON_BASE_ARMOUR_H
#define TENON_BASE_ARMOUR_H

#include "runtime/base/error.h"

tn_status tni_refuse_null(tn_error *err, const char *function, const char *argument);
/* Bits that are not among `known`; reserved fields know none. */
TN_MUST_CHECK tn_status tni_known_bits(uint64_t given, uint64_t known, const char *what, tn_error *err);
/* n entries of a list that must be there then. */
TN_MUST_CHECK tn_status tni_counted(const void *list, uint64_t n, const char *what, tn_error *err);
/* A growing struct of the caller that is read where it lies: `bytes` of it are used. */
TN_MUST_CHECK tn_status tni_sized(const tn_hdr *h, size_t bytes, const char *what, tn_error *err);

/* Returns from a function that has `err`. */
#define TNI_NOT_NULL(p)                                  \
  do {                                                   \
    if (!(p)) return tni_refuse_null(err, __func__, #p); \
  } while (0)

#endif
