/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for the import, as a model and as a tensor file. Build: CC=clang meson setup build-fuzz
 * -Dfuzz=enabled -Dtests=enabled; ninja -C build-fuzz tests/onnx/fuzz-import; run it on a folder of small .onnx and .pb
 * files.
 */
#include <stdlib.h>

#include "runtime/onnx/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tni_import_limits lim = {.max_nodes = 5000, .max_meta = 8 << 20};
  tni_model *m = NULL;
  tn_error e;
  tni_error_init(&e);
  tn_status st = tni_import_bytes(data, n, "/nonexistent", &lim, NULL, &m, &e);
  if (st == TN_E_INTERNAL || (st != TN_OK && !*e.message)) abort(); /* our bug, or a failure that says nothing */
  if (st == TN_OK) tni_model_destroy(m);

  tni_arena *arena = tni_arena_create();
  tni_tensor t;
  const char *name;
  tni_error_init(&e);
  if (arena && tni_import_tensor(data, n, "fuzz.pb", arena, &t, &name, &e) == TN_OK) {
    void *bytes;
    uint64_t size;
    if (t.dtype != TN_DT_STRING && tni_export_tensor(&t, name, &bytes, &size) == TN_OK) free(bytes);
  }
  tni_arena_destroy(arena);
  return 0;
}
