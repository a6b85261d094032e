/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

IN_RUN(fault_deeper(NULL))
