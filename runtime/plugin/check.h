/* SPDX-License-Identifier: Apache-2.0
 *
 * Distrust at the boundary: structs that a plugin hands over are looked at once, before anything else uses them, and
 * what its calls return is turned into our statuses.
 *
 * ABI 1.0 is the first version, so every growing struct has at least the size that it has there; its mandatory
 * functions are not NULL. TN_E_INCOMPATIBLE: size or version; TN_E_INTERNAL: a plugin's bug. Messages name the field.
 */
#ifndef TENON_PLUGIN_CHECK_H
#define TENON_PLUGIN_CHECK_H

#include <stdbool.h>

#include <tenon/plugin.h>

#include "runtime/base/base.h"

enum { TNI_MAX_STRUCT = 65536, TNI_MAX_DEVICES = 16, TNI_MAX_FORMATS = 64, TNI_MAX_PLUGIN_OPTIONS = 128,
       TNI_MAX_CUSTOM_OPS = 1024 };

/* name: as the profile calls it; the plugin must call itself that. */
TN_MUST_CHECK tn_status tni_check_plugin(const char *name, const tn_plugin *p, tn_error *err);
TN_MUST_CHECK tn_status tni_check_caps(const tn_caps *c, tn_error *err);
TN_MUST_CHECK tn_status tni_check_device(const tn_device *d, tn_error *err);

/* Status of a plugin's call as ours, with the message filled in: an unknown code is TN_E_INTERNAL and its number stands
 * in message and vendor_code. from: what the plugin wrote, or NULL. TN_OK leaves err alone. */
tn_status tni_plugin_result(const char *plugin, const char *call, tn_status raw, const tn_error *from, tn_error *err);
/* Copies an error that a plugin wrote: strings end and hold no control characters. */
void tni_error_copy(tn_error *dst, const tn_error *src);

#endif
