/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/load/linked.h"

const tn_static_plugin *const tni_linked_plugins[] = {NULL};
