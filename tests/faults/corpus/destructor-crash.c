/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

__attribute__((destructor)) static void late(void) { fault_crash(); }

WHOLE((void)0)
