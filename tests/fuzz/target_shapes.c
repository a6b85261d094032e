/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated models through import, shape inference, passes, placement and reports.
 */
#include <stdlib.h>

#include "tests/fuzz/engine.h"
#include "tests/fuzz/gen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  size_t size;
  uint8_t *model = fz_generate_bytes(data, n, &size);
  if (model) fz_model(model, size, false);
  free(model);
  return 0;
}
