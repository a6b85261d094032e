/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants in memory of devices: one buffer per device and constant (packed blob or raw tensor), whichever programs
 * and phases use it. It is imported where the device takes the host's pointer as it lies, else made and filled once;
 * the pages of a file that it was filled from then leave the process.
 */
#ifndef TENON_PLACE_DEVCONST_H
#define TENON_PLACE_DEVCONST_H

#include "runtime/place/model_data.h"

typedef struct tni_devconst {
  const tni_dev *dev;
  const void *ptr;
  uint64_t bytes;
  tn_buffer *buffer;
} tni_devconst;

struct tni_devconsts {
  tni_devconst *v;
  uint32_t n, cap;
  uint64_t imported_bytes, copied_bytes;
};

/* Whether the device takes host memory at ptr as it lies, by its caps. */
bool tni_devconst_imports(const tni_dev *d, const void *ptr);
/* The buffer of [ptr, ptr + bytes) on device d, which is the model's. from_file: the bytes lie in a shared file
 * mapping. */
TN_MUST_CHECK tn_status tni_devconst_get(tn_model *m, const tni_dev *d, const void *ptr, uint64_t bytes, bool from_file,
                                         tn_buffer **out, tn_error *err);
/* When no program uses them any more. */
void tni_devconst_release(tn_model *m);

#endif
