/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen bytes after what it was given to write.
 */
#include "whole.h"

IN_RUN(memset((char *)a->y.ptr + a->y.bytes, 0x5a, 16))
