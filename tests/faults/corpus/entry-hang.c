/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

WHOLE(fault_hang())
