/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's file as a graph, before passes.
 */
#ifndef TENON_SESSION_MODEL_IMPORT_H
#define TENON_SESSION_MODEL_IMPORT_H

#include "runtime/place/place.h"

/* m->import of m->path. With TN_MODEL_DECODER inputs that choose are fixed. */
TN_MUST_CHECK tn_status tni_model_import(tn_model *m, tn_error *err);

#endif
