/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

IN_LOWER((void)d, (void)s, (void)e; *out = NULL; return TN_OK)
