/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of plugins/common/base: what every backend needs to negotiate, claim, lower and answer.
 */
#ifndef TENON_COMMON_BASE_BASE_H
#define TENON_COMMON_BASE_BASE_H

#include "plugins/common/base/answer.h"
#include "plugins/common/base/build.h"
#include "plugins/common/base/chain.h"
#include "plugins/common/base/entry.h"
#include "plugins/common/base/graphq.h"
#include "plugins/common/base/mem.h"
#include "plugins/common/base/options.h"
#include "plugins/common/base/program.h"

#endif
