/* SPDX-License-Identifier: Apache-2.0
 *
 * The packed file is mapped read-only: this is SIGSEGV.
 */
#include "whole.h"

IN_RUN(memset((char *)(uintptr_t)plan->p->blob[plan->p->uses[plan->task][1].slot]->ptr, 0, 64))
