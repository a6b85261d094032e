/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin's options: the profile's text typed by the plugin's own table, defaults filled in.
 */
#ifndef TENON_PLUGIN_OPTIONS_H
#define TENON_PLUGIN_OPTIONS_H

#include <tenon/plugin.h>

#include "runtime/profile/profile.h"

typedef struct tni_option_value {
  const char *key;
  uint32_t type; /* TN_OPT_* */
  int64_t i;     /* BOOL, INT */
  double d;
  const char *s;
} tni_option_value;

/* One value per entry of p->options (checked by tni_check_plugin), on a. section NULL: defaults only. A profile's
 * mistake (unknown option, wrong type, out of range, not a choice) is TN_E_INVALID with the profile's file:line:column;
 * a default that does not fit its own table is TN_E_INTERNAL. */
TN_MUST_CHECK tn_status tni_options_resolve(tni_arena *a, const tn_plugin *p, const char *file,
                                            const tni_profile_plugin *section, const tni_option_value **out,
                                            tn_error *err);

#endif
