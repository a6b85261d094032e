/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static void fault(tn_device *d) {
  (void)d;
  fault_crash();
}

WHOLE(w->pub.close = fault)
