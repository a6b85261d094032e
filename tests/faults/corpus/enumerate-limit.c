/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "whole.h"

static void lower_limit(void) { setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64}); }

IN_ENUMERATE(lower_limit())
