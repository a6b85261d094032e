/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

IN_OPEN(fault_deeper(NULL))
