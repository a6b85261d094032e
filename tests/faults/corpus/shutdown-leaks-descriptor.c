/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "whole.h"

IN_OPEN((void)!open("/dev/null", O_RDONLY))
