/* SPDX-License-Identifier: Apache-2.0
 *
 * The models of a folder by name: .onnx files that could be run alone. Parts that only serve another graph (embeddings,
 * encoders of images and sound) are left out.
 */
#ifndef TENON_FOLDER_LISTING_H
#define TENON_FOLDER_LISTING_H

#include "runtime/base/base.h"

typedef struct tni_listing {
  char **names; /* sorted */
  size_t n;
} tni_listing;

/* A folder that cannot be read is TN_E_IO. */
TN_MUST_CHECK tn_status tni_listing_read(const char *dir, tni_listing *out, tn_error *err);
void tni_listing_finish(tni_listing *l);
/* "a.onnx, onnx/b.onnx and 3 more", as many as fit. */
void tni_listing_print(const tni_listing *here, const tni_listing *below, const char *prefix, char *text, size_t room);
/* The name of a file in dir with weights that are not ONNX (safetensors, GGUF, PyTorch's), malloc'd; NULL: there is none. */
char *tni_listing_foreign(const char *dir);

#endif
