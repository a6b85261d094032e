/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "whole.h"

IN_OPEN(signal(SIGPIPE, SIG_IGN))
