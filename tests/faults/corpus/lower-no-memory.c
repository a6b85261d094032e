/* SPDX-License-Identifier: Apache-2.0
 *
 * An allocator of its own that failed.
 */
#include "whole.h"

IN_LOWER(return TN_E_NO_MEMORY)
