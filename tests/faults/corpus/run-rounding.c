/* SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>

#include "whole.h"

IN_RUN(fesetround(FE_UPWARD))
