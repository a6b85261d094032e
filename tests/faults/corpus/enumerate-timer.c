/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "whole.h"

IN_ENUMERATE(alarm(3600))
