/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of plugins/common/cpu: a plugin states a backend and passes it to tni_clt_entry.
 */
#ifndef TENON_COMMON_CPU_CPU_H
#define TENON_COMMON_CPU_CPU_H

#include "plugins/common/cpu/backend.h"

#endif
