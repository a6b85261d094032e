/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims, and then cannot.
 */
#include "whole.h"

IN_LOWER(return TN_E_UNSUPPORTED)
