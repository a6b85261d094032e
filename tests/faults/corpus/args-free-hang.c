/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static void hang_free(tn_args *a) {
  (void)a;
  fault_sleep();
}

WHOLE(w->device.args_free = hang_free)
