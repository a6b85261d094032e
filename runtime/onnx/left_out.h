/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors whose elements are not in a model's files, because whoever runs it has them packed (runtime/bundle): listed
 * in left_out.json beside the model. Of each its whole units of 64 KiB are cut out of its file; all others keep the
 * offsets that the model names.
 *
 *   {"tenon_left_out": 1,
 *    "tensors": [{"name": T, "file": "model.onnx_data", "offset": N, "bytes": N, "content": XXH3-128 in 32 hex digits,
 *                 "weight": the constant that is packed with these elements; left out where it is the tensor itself}],
 *    "model": the whole model's hash, for its calibration; there where it has one}
 *
 * tensors by file and offset. Such a tensor has `rows` without a blob; its data reads as zeros, so nobody may need it.
 */
#ifndef TENON_ONNX_LEFT_OUT_H
#define TENON_ONNX_LEFT_OUT_H

#include "runtime/onnx/import.h"

#define TNI_LEFT_OUT_FILE "left_out.json"
enum { TNI_LEFT_OUT_VERSION = 1, TNI_LEFT_OUT_MAX = 256 };

typedef struct tni_left_list {
  tni_arena *arena; /* NULL: there is no such file */
  tni_left_out *list;
  uint32_t n;
  const char *hash;
} tni_left_list;

/* DIR/left_out.json, which need not be there. */
TN_MUST_CHECK tn_status tni_left_read(const char *dir, tni_left_list *out, tn_error *err);
/* Maps file `name` of the folder as the whole file that it was. */
TN_MUST_CHECK tn_status tni_left_map(const tni_left_out *list, uint32_t n, const char *name, int fd, const char *path,
                                     bool copy, tni_file *out, tn_error *err);
/* What of a tensor is cut out; bytes 0: it has no whole unit. */
tni_cut tni_left_cut(const tni_left_out *t);
/* Marks the tensors of an imported graph. TN_E_CORRUPT where one of the list is not there. */
TN_MUST_CHECK tn_status tni_left_mark(tni_model *m, const char *dir, tn_error *err);
/* The entry of constant v, or NULL. */
const tni_left_out *tni_left_of(const tni_model *m, const tni_value *v);

#endif
