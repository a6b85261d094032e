/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/helper/serve.h"

#include "runtime/plugin/helper/helper.h"

int helper_serve(int argc, char **argv) {
  (void)argc;
  (void)argv;
  return tni_isolate_serve(TNI_CHILD_CHANNEL);
}
