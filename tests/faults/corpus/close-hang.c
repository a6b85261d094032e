/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static void hang_close(tn_device *d) {
  (void)d;
  fault_sleep();
}

WHOLE(w->pub.close = hang_close)
