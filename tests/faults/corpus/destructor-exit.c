/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's own exit status would be lost.
 */
#include <unistd.h>

#include "whole.h"

__attribute__((destructor)) static void late(void) { _exit(0); }

WHOLE((void)0)
