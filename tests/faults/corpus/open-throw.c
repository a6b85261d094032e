/* SPDX-License-Identifier: Apache-2.0
 *
 * What a C++ throw comes down to: the unwinder finds no handler on the way out of C frames.
 */
#include <unwind.h>

#include "whole.h"

static void throw_it(void) {
  static struct _Unwind_Exception ex; /* no class: nobody's, so that nobody catches it */
  _Unwind_RaiseException(&ex);
  abort(); /* what a C++ runtime does when nobody catches */
}

IN_OPEN(throw_it())
