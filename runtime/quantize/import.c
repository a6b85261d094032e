/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph that is walked: as imported, with dims, and small constants folded.
 */
#include "runtime/ops/kernel/kernel.h"
#include "runtime/quantize/internal.h"
#include "runtime/shape/shape.h"

tn_status tni_qz_import(tni_qz *z, tni_model **out) {
  uint32_t n;
  tn_status st = tni_import_file(z->path, NULL, NULL, out, z->err);
  if (st == TN_OK) st = tni_infer_graph((*out)->graph, z->err);
  return st == TN_OK ? tni_fold_constants((*out)->graph, 1 << 16, tni_ops_eval, NULL, &n, z->err) : st;
}
