/* SPDX-License-Identifier: Apache-2.0
 *
 * Tied embeddings (profile key `embeddings: packed`): a table [V,D] that Gathers look up on the host, and that a plugin
 * packs for a product, as it lies, transposed or joined with others. The Gathers then read its rows from the packed
 * weight (runtime/graph/rows.h), so that nothing reads the table's own elements.
 *
 * Exporters often write a tied table twice, the second time transposed for MatMul: constants of equal elements count as
 * one table (equal.h).
 */
#ifndef TENON_PLACE_EMBEDDINGS_H
#define TENON_PLACE_EMBEDDINGS_H

#include "runtime/base/json.h"
#include "runtime/graph/graph.h"
#include "runtime/onnx/onnx.h"
#include "runtime/place/model_data.h"

typedef struct tni_embedding {
  tn_id table;
  const char *why;    /* its rows are not read from a packed weight: the reason; NULL: they are */
  tn_id weight;       /* the constant that is packed: the table, or the one that is equal to it */
  uint32_t dev, item; /* of tn_model.packed */
  tni_packed_rows rows;
} tni_embedding;

/* Every table that a Gather on the host looks up by ids of the run. After what is packed has been collected. */
TN_MUST_CHECK tn_status tni_embeddings_find(tn_model *m, tn_error *err);
/* Once weights are packed: from now on Gathers read them. */
void tni_embeddings_open(tn_model *m);
/* v is such a table, and nothing on the host reads its own elements. */
bool tni_embedding_is_packed(const tn_model *m, tn_id v);

/* Constant v may be left out of a bundle: nobody reads its elements but who packs them. */
bool tni_embedding_leaves(const tn_model *m, tn_id v);

/* {profile: packed or source, tables: [{table, bytes, rows: packed or source, device, format, weight | reason}]}; null
 * where not all nodes have a device. */
json_t *tni_embeddings_json(const tn_model *m);

#endif
