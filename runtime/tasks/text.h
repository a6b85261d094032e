/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as inputs of an encoder: ids and masks of a batch, padded on the right to one length, and the tensors that the
 * model's inputs take of them.
 */
#ifndef TENON_TASKS_TEXT_H
#define TENON_TASKS_TEXT_H

#include <tenon/tasks.h>

#include "runtime/llm/llm.h"
#include "runtime/llm/tokenizer/tokenizer.h"

enum { TNI_TASK_INPUTS = 8, TNI_TASK_NAME = 256 };

/* Ids of texts, one after the other. */
typedef struct tni_text_ids {
  tni_ids *v; /* [n] */
  size_t n;
} tni_text_ids;
/* Tokenizes; tni_text_ids_finish also after a failure. A failure names the text by its number from 1 on. */
TN_MUST_CHECK tn_status tni_text_ids_make(const tni_tokenizer *tok, const char *const *texts, const size_t *len,
                                          size_t n, tni_text_ids *out, tn_error *err);
void tni_text_ids_finish(tni_text_ids *t);

/* Inputs of one run: tensors with memory of their own. */
typedef struct tni_feed {
  tn_tensor t[TNI_TASK_INPUTS];
  const tn_tensor *in[TNI_TASK_INPUTS];
  tni_input role[TNI_TASK_INPUTS];
  uint32_t n;
} tni_feed;

/* Reads a model's inputs: input_ids, attention_mask, token_type_ids and position_ids (integers of rank 2), and the
 * pixels (a float or u8 tensor of rank 4). TN_E_UNSUPPORTED names an input that is none of them, or lacks what must be
 * there. */
TN_MUST_CHECK tn_status tni_feed_open(const tn_model *m, bool text, bool pixels, tni_feed *f, tn_error *err);
/* Rows ids[order[0..n-1]], padded with pad to the longest, or to the length that the model has fixed; n must be the
 * model's batch where that is fixed. Replaces what a call before put there. */
TN_MUST_CHECK tn_status tni_feed_text(tni_feed *f, const tn_model *m, const tni_text_ids *ids, const size_t *order,
                                      size_t n, int32_t pad, tn_error *err);
void tni_feed_close(tni_feed *f);
/* Index of the input with that role, or -1. */
int tni_feed_find(const tni_feed *f, tni_input role);
/* Size that the model's input has fixed along an axis; 0: any. */
int64_t tni_feed_fixed(const tn_model *m, const tni_feed *f, tni_input role, uint32_t axis);

/* Elements of a float tensor (f32, f16, bf16, f64) as f32, malloc'd; TN_E_UNSUPPORTED for others. */
TN_MUST_CHECK tn_status tni_task_floats(const tn_tensor *t, float **out, size_t *n, tn_error *err);

#endif
