/* SPDX-License-Identifier: Apache-2.0
 *
 * The listing as text: made by the worker that lists, read by the workers of the cases.
 */
#ifndef TENON_CONFORM_LISTING_H
#define TENON_CONFORM_LISTING_H

#include "runtime/base/json.h"
#include "runtime/conform/case/case.h"

/* A new object; NULL without memory. */
json_t *tni_cf_listing_json(const tni_cf_listing *l);
/* Strings are copied to l->arena, which is set; what is missing stays zero. */
TN_MUST_CHECK tn_status tni_cf_listing_read(const json_t *j, tni_cf_listing *l, tn_error *err);

#endif
