/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that several backends declare.
 */
#ifndef TENON_COMMON_BASE_OPTIONS_H
#define TENON_COMMON_BASE_OPTIONS_H

#include <tenon/plugin.h>

/* "min_k", "min_n" (INT): smallest K and N whose weights are packed. */
extern const tn_option tni_cm_opt_min_k, tni_cm_opt_min_n;

#endif
