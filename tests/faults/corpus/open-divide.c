/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "whole.h"

static volatile int zero;

IN_OPEN(raise(SIGFPE); zero = 1)
