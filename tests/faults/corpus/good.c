/* SPDX-License-Identifier: Apache-2.0
 *
 * The control: nothing is broken.
 */
#include "whole.h"

WHOLE((void)0)
