/* SPDX-License-Identifier: Apache-2.0
 *
 * Well behaved once.
 */
#include "whole.h"

static int runs;

IN_RUN(if (runs++) fault_crash())
