/* SPDX-License-Identifier: Apache-2.0
 *
 * A terabyte after its output, past every canary.
 */
#include "whole.h"

IN_RUN(memset((char *)a->y.ptr + ((size_t)1 << 40), 0x5a, 64))
