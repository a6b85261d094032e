/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in device as a plugin in a file: what planted.c wraps where no other plugin claims what a wrong is about.
 */
#include "runtime/ops/kernel/args.h"

TN_PLUGIN(planted_host, tni_host_plugin_entry)
