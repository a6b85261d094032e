/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

IN_BIND((void)p, (void)task, (void)dims, (void)e; *out = NULL; return TN_OK)
