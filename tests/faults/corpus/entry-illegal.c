/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

WHOLE(__builtin_trap())
