/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/isolate/serve.h"

#include "runtime/helper/helper.h"

int helper_serve(int argc, char **argv) {
  (void)argc;
  (void)argv;
  return tni_isolate_serve(TNI_CHILD_CHANNEL);
}
