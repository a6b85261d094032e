/* SPDX-License-Identifier: Apache-2.0
 *
 * What is where in a folder with a model: the one place that knows the layouts that people download (docs/folders.md).
 *
 * A folder holds .onnx files itself or in onnx/ below it (the Hub's layout). The file is the one that is asked for by
 * name; else the one that genai_config.json names, model.onnx, decoder_model_merged.onnx, decoder_with_past_model.onnx
 * of an encoder-decoder, or the only one there: in the folder first, then in onnx/. Its companions (tokenizer.json,
 * config.json, ...) lie beside it or one level up.
 */
#ifndef TENON_FOLDER_FOLDER_H
#define TENON_FOLDER_FOLDER_H

#include "runtime/base/base.h"

#define TNI_FOLDER_BELOW "onnx" /* where the Hub keeps .onnx files */

typedef struct tni_folder {
  char *model;   /* the .onnx file */
  char *dir;     /* where it lies */
  char *above;   /* one level up; NULL: dir has a tokenizer and a config of its own */
  char *embed;   /* the graph beside it that makes inputs_embeds of ids, by its name; NULL: there is none */
  char *encoder; /* encoder_model.onnx beside a decoder; NULL: there is none */
  char *first;   /* decoder_model.onnx, without a past, beside decoder_with_past_model.onnx; NULL: there is none */
} tni_folder;

/* path: a folder or a .onnx file. choice: a file's name, "onnx/NAME" too; NULL: the rules above. TN_E_UNAVAILABLE names
 * what was looked for and where; TN_E_INVALID lists several files of which none is meant more than another. */
TN_MUST_CHECK tn_status tni_folder_find(const char *path, const char *choice, tni_folder *out, tn_error *err);
void tni_folder_finish(tni_folder *f);
/* The companion of that name: the file that is there, else where it would lie beside the model. malloc'd; NULL without
 * memory. */
char *tni_folder_file(const tni_folder *f, const char *name);

/* One companion: the file, and its name where the model's folder is copied, "additional_chat_templates/NAME.jinja" too.
 * Not TN_OK: the caller stops with that. */
typedef tn_status (*tni_companion_fn)(void *ctx, const char *path, const char *name);
/* Calls fn with each file that is there and that anything reads besides the model: tokenizer, configurations, chat
 * templates, poolings. Always in the same order. */
TN_MUST_CHECK tn_status tni_folder_companions(const tni_folder *f, tni_companion_fn fn, void *ctx, tn_error *err);

#endif
