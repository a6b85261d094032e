/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's file as a graph, before passes.
 */
#ifndef TENON_SESSION_MODEL_IMPORT_H
#define TENON_SESSION_MODEL_IMPORT_H

#include "runtime/place/place.h"

/* m->import of m->path. With TN_MODEL_DECODER inputs that choose are fixed; with TN_MODEL_SOURCE it is what comes
 * before such a decoder. */
TN_MUST_CHECK tn_status tni_model_import(tn_model *m, tn_error *err);
/* What this load may take: m->budget, of the profile or of the size of the file at m->path. */
void tni_model_budget(tn_model *m);
/* Makes the input `rows` [batch, positions, size] of a model by the graph at path, which reads input_ids and, where
 * `masked`, maybe attention_mask: these are inputs of the model then, in its place. TN_E_UNSUPPORTED: it reads more.
 * After a failure m is only good for tni_model_destroy. */
TN_MUST_CHECK tn_status tni_model_join(tni_model *m, const char *rows, const char *path, bool masked,
                                       const tni_import_limits *lim, const tni_log *log, tn_error *err);

#endif
