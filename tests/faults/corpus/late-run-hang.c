/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

IN_RUN(if (pool->step >= 5) fault_sleep())
