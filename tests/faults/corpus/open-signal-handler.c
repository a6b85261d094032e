/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "whole.h"

static void on_signal(int sig) { (void)sig; }

IN_OPEN(signal(SIGTERM, on_signal))
