/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives the host memory back that the host never gave.
 */
#include "whole.h"

IN_RUN(plan->p->owner->host->free(plan->p->owner->host->ctx, (char *)a->y.ptr + 64))
