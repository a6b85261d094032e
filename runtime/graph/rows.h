/* SPDX-License-Identifier: Apache-2.0
 *
 * A table [N,K] whose rows lie in a packed weight (profile key `embeddings`, runtime/place/embeddings.h): row n is row
 * first + n of the blob, as the format's unpack() gives it. blob NULL: the elements were left out of the model's files
 * (runtime/onnx/left_out.h) and read as zeros until there is one. Belongs to who set it on a tensor. Read only, any
 * thread.
 */
#ifndef TENON_GRAPH_ROWS_H
#define TENON_GRAPH_ROWS_H

#include <tenon/plugin.h>

typedef struct tni_packed_rows {
  const tn_blob *blob;
  int64_t first;
} tni_packed_rows;

/* Elements [k0, k1) of row n. */
static inline tn_status tni_rows_read(const tni_packed_rows *r, int64_t n, int64_t k0, int64_t k1, float *dst) {
  const int64_t box[4] = {r->first + n, r->first + n + 1, k0, k1};
  return r->blob->format->unpack(r->blob, box, dst);
}

#endif
