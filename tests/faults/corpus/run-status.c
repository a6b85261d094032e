/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

IN_RUN(snprintf(e->message, sizeof e->message, "the moon is full"); return 999)
