/* SPDX-License-Identifier: Apache-2.0
 *
 * A node while it is being made: its attributes.
 */
#include <string.h>

#include "runtime/onnx/convert.h"

tni_raw_attr *tni_draft_attr(tni_draft *d, const char *name) {
  for (uint32_t i = 0; i < d->n_raw; i++)
    if (strcmp(d->raw[i].name, name) == 0) return &d->raw[i];
  return NULL;
}

void tni_draft_drop_attr(tni_draft *d, const char *name) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->n_raw; i++)
    if (strcmp(d->raw[i].name, name) != 0) d->raw[n++] = d->raw[i];
  d->n_raw = n;
}
