/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static void fault(tn_plugin *p) {
  (void)p;
  fault_crash();
}

WHOLE(w->pub.shutdown = fault)
