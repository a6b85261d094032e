/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside tn_quantize. It goes: options, folders and tokens (make.c); the model is walked over all sequences, from one
 * product to the next (walk.c); where a product is reached, it is solved and its result kept in the work folder
 * (solved.c); what was solved is written as a model (write.c).
 */
#ifndef TENON_QUANTIZE_INTERNAL_H
#define TENON_QUANTIZE_INTERNAL_H

#include <tenon/quantize.h>

#include "runtime/base/base.h"
#include "runtime/calib/calib.h"
#include "runtime/onnx/onnx.h"
#include "runtime/quant/quant.h"

enum { TNI_QZ_PATH = 4096 };

/* One product: node `node` of the walked graph, whose output names it in the file too. */
typedef struct tni_qz_product {
  tn_id node, x, weight;
  bool kn; /* stored [K,N] */
  int64_t N, K;
  const char *name, *output;
  bool done;
} tni_qz_product;

typedef struct tni_qz_tokens {
  int64_t *ids;
  int64_t n;
} tni_qz_tokens;

typedef struct tni_qz {
  tn_quantize_opts o;
  tn_error *err;
  char *path, *work; /* the model file, FOLDER.partial */
  tni_model *import; /* the graph that is walked */
  tni_pool *pool;
  tni_pool_run run;
  tni_quant_grid grid;
  tni_qz_tokens *seqs;
  uint32_t n_seqs;
  uint64_t tokens;
  tni_qz_product *products;
  uint32_t n_products, n_done;
} tni_qz;

/* What was solved, as it lies in WORK/NUMBER: K's last block is whole. */
typedef struct tni_qz_solved {
  int64_t N, K, blocks;
  uint8_t *codes;        /* [N, K] */
  float *scales, *zeros; /* [N, blocks] */
  float *q;              /* [N,K] */
} tni_qz_solved;
void tni_qz_solved_finish(tni_qz_solved *s);
/* Solves product i with h (NULL: rounds), or finds it in the work folder. */
TN_MUST_CHECK tn_status tni_qz_solve(tni_qz *z, uint32_t i, float *h, tni_qz_solved *out);
/* Whether a file of it is there. */
bool tni_qz_is_solved(const tni_qz *z, uint32_t i);
/* *found false: it is not there, or not whole. */
TN_MUST_CHECK tn_status tni_qz_solved_read(tni_qz *z, uint32_t i, tni_qz_solved *out, bool *found);

TN_MUST_CHECK tn_status tni_qz_find_products(tni_qz *z);
TN_MUST_CHECK tn_status tni_qz_walk(tni_qz *z);
/* STAGE/model.onnx and STAGE/model.onnx_data. */
TN_MUST_CHECK tn_status tni_qz_write(tni_qz *z, const char *stage);

#endif
