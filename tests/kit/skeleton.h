/* SPDX-License-Identifier: Apache-2.0
 *
 * The skeleton of every plugin that is made for tests, and what `tenon new-plugin` starts from.
 */
#ifndef TENON_TESTS_KIT_SKELETON_H
#define TENON_TESTS_KIT_SKELETON_H

#include "../../runtime/cli/new-plugin/skeleton.h"

#endif
