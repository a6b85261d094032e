/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call into a plugin must leave its thread as: floating-point mode and blocked signals. For calls that are rare
 * (claim, lower, bind): it takes about 440 ns; run is compared by the floating-point mode alone.
 */
#ifndef TENON_PLUGIN_CALM_H
#define TENON_PLUGIN_CALM_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/base/base.h"

typedef struct tni_calm {
  uint64_t fpmode;
  sigset_t mask;
} tni_calm;

tni_calm tni_calm_take(void);
/* After a call that answered st: puts back what it changed, and then answers TN_E_INTERNAL with why where st is OK. */
tn_status tni_calm_check(const tni_calm *before, const char *call, tn_status st, tn_error *why);

#endif
