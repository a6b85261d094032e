/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model folder says about generation: config.json, generation_config.json, tokenizer_config.json (Hugging Face)
 * and genai_config.json (ONNX Runtime GenAI). Each may be absent. generation_config.json wins over config.json, both
 * over genai_config.json, which is left out where it names another file and there is a config.json. A wrong type or
 * value is TN_E_INVALID with file and key.
 */
#ifndef TENON_LLM_CONFIG_H
#define TENON_LLM_CONFIG_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/folder/folder.h"

enum { TNI_CONFIG_EOS = 64, TNI_CONFIG_TOKEN = 256, TNI_CONFIG_FORCED = 16 };

typedef struct tni_lm_config {
  int64_t context, vocab; /* 0: not said */
  int32_t bos, pad;       /* -1: none */
  /* Of encoder-decoders: the decoder's first token; the one after it, the last one; others by position. -1: not said */
  int32_t decoder_start, forced_bos, forced_eos;
  int32_t forced[TNI_CONFIG_FORCED]; /* [position] forced_decoder_ids, -1: any */
  int32_t eos[TNI_CONFIG_EOS];
  size_t n_eos;
  bool has_do_sample, do_sample;
  double temperature, top_p, min_p, repeat_penalty; /* 1, 1, 0, 1 where not said */
  uint32_t top_k;                                   /* 0 where not said */
  /* tokenizer_config.json: add_bos_token, add_eos_token. wraps: the tokenizer_class is one that has a template of these
   * two in place of tokenizer.json's (as in transformers 4); otherwise add_eos is not used. */
  bool add_bos, add_eos, wraps;
  char bos_token[TNI_CONFIG_TOKEN], eos_token[TNI_CONFIG_TOKEN]; /* texts; empty: not said */
} tni_lm_config;

TN_MUST_CHECK tn_status tni_lm_config_load(const tni_folder *f, tni_lm_config *out, tn_error *err);

#endif
