/* SPDX-License-Identifier: Apache-2.0
 *
 * What a folder says about a task: sentence-transformers' modules.json with the folders that it names, and id2label of
 * config.json. Files that are not there say nothing; a wrong type or value is TN_E_INVALID with file and key.
 */
#ifndef TENON_TASKS_FOLDER_H
#define TENON_TASKS_FOLDER_H

#include <stdbool.h>
#include <tenon/tasks.h>

#include "runtime/base/base.h"
#include "runtime/folder/folder.h"

typedef struct tni_embed_config {
  uint32_t pool, normalize; /* AUTO: not said */
  uint32_t max_tokens;      /* 0: not said */
  bool lowercase;
} tni_embed_config;
/* TN_E_UNSUPPORTED: a module that is not made here (Dense, several poolings at once). */
TN_MUST_CHECK tn_status tni_embed_config_read(const tni_folder *f, tni_embed_config *out, tn_error *err);

/* TN_E_UNSUPPORTED: the model compares images with texts otherwise than CLIP does (SigLIP: each text alone, padded to a
 * fixed length). */
TN_MUST_CHECK tn_status tni_compare_check(const tni_folder *f, tn_error *err);

/* Names by class, malloc'd: (*out)[i] NULL where class i has none. */
TN_MUST_CHECK tn_status tni_labels_read(const tni_folder *f, char ***out, size_t *n, tn_error *err);
void tni_labels_free(char **labels, size_t n);

#endif
