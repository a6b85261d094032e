/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen bytes after the scratch that it asked for.
 */
#include "whole.h"

IN_RUN(memset((char *)a->scratch.ptr + a->scratch.bytes, 0x5a, 16))
