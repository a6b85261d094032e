/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "whole.h"

IN_ENUMERATE(umask(0))
