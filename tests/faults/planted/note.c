/* SPDX-License-Identifier: Apache-2.0
 *
 * A manifest inside the file, and what may be wrong with it; planted.yaml.in is the one beside it. For tests only.
 */
#include <tenon/manifest.h>

#include "tests/faults/planted/plants.h"

#define MANIFEST(version, ops)                                                                       \
  "name: " PLANT_NAME "\nversion: " version "\nabi: {min: \"1.0\", max: \"1.1\"}\narch: " PLANT_ARCH \
  "\nlicense: Apache-2.0\nops: [" ops "]\n"

#if PLANT_NOTE_IS == 1
TN_MANIFEST(MANIFEST("0.1.1", "MatMul, Gemm"))
#elif PLANT_NOTE_IS == 2
TN_MANIFEST(MANIFEST("0.1.0", "MatMul"))
#elif PLANT_NOTE_IS == 3
/* As TN_MANIFEST, with a hash that is not this file's. */
static __attribute__((used, aligned(4), section(".note.tenon"))) const struct {
  uint32_t owner_bytes, descriptor_bytes, type;
  char owner[8];
  uint8_t sha256[TN_MANIFEST_HASH_BYTES];
  char yaml[256];
} note = {
    sizeof TN_MANIFEST_OWNER,         TN_MANIFEST_HASH_BYTES + 256, TN_MANIFEST_TYPE, TN_MANIFEST_OWNER, {1, 2, 3},
    MANIFEST("0.1.0", "MatMul, Gemm")};
#elif PLANT_NOTE_IS == 4
TN_MANIFEST(MANIFEST("0.1.0", "MatMul, Gemm") "confine: driver\n")
#else
TN_MANIFEST(MANIFEST("0.1.0", "MatMul, Gemm"))
#endif
