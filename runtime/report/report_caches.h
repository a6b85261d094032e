/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the report of `inspect` that say where data lies.
 */
#ifndef TENON_REPORT_REPORT_CACHES_H
#define TENON_REPORT_REPORT_CACHES_H

#include <string.h>

#include "runtime/base/json.h"
#include "runtime/place/place.h"

/* [{layout, memory_of, caches, copied_when_handed_over}]; empty before lowering. */
json_t *tni_caches_json(const tn_model *m);
/* Names of values that devices without a common memory hand each other by copies. */
json_t *tni_carried_json(const tn_model *m);

#endif
