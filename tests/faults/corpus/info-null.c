/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static const tn_program_info *fault(const tn_program *p) {
  (void)p;
  return NULL;
}

WHOLE(w->device.info = fault)
