/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

__attribute__((constructor)) static void early(void) { fault_crash(); }

WHOLE((void)0)
