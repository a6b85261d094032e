/* SPDX-License-Identifier: Apache-2.0
 *
 * One of everything that the API's functions take, as it should be. main.c makes it, the written cases use it.
 */
#ifndef TENON_TESTS_API_FIXTURE_H
#define TENON_TESTS_API_FIXTURE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <tenon/bundle.h>
#include <tenon/lm.h>
#include <tenon/quantize.h>
#include <tenon/tasks.h>
#include <tenon/tenon.h>

enum { MOST_IO = 64 };

typedef struct fixture {
  const char *model_path, *lm_path, *embed_path, *classify_path, *image_path, *tensor_path, *out_path, *bundle_path,
      *state_path, *chat_path;
  tn_runtime_opts runtime_opts;
  tn_model_opts model_opts;
  tn_lm_opts lm_opts;
  tn_keep_opts keep_opts;
  tn_embed_opts embed_opts;
  tn_classify_opts classify_opts;
  tn_bundle_opts bundle_opts;
  tn_quantize_opts quantize_opts;
  tn_gen_params gen;
  tn_gen_result result;
  tn_calibration_text calibration_text;
  tn_runtime *rt;
  tn_model *model;
  tn_session *session, *keeping, *keeping2, *slotted;
  tn_lm *lm;
  tn_chat *chat;
  tn_messages messages;
  tn_batch_opts batch_opts;
  tn_batch_prefixes prefixes;
  tn_batch_guesses guesses;
  tn_batch *batch; /* of two slots; the first has a text */
  tn_grammar *grammar;
  tn_sampler *sampler;
  float *logits; /* [vocab] */
  size_t vocab;
  tn_embedder *embedder;
  tn_classifier *classifier;
  tn_tensor tensor;
  tn_image image;
  tn_error err;
  tn_long_error long_err;
  int32_t ids[3];
  int64_t format_params[1];
  const char *texts[1];
  size_t lengths[1];
  tn_tensor tensors[MOST_IO];
  const tn_tensor *run_in[MOST_IO], *step_in[MOST_IO];
  tn_tensor run_out[MOST_IO];
  tn_tensor *step_out[MOST_IO];
  uint32_t n_run_in, n_run_out;
  struct outputs {
    tn_runtime *rt;
    tn_model *model;
    tn_session *session;
    tn_lm *lm;
    tn_chat *chat;
    tn_batch *batch;
    tn_grammar *grammar;
    tn_sampler *sampler;
    uint32_t u32;
    int32_t i32;
    tn_embedder *embedder;
    tn_classifier *classifier;
    tn_tensor *tensor;
    tn_image *image;
    char *text;
    int32_t *ids;
    float *floats;
    const float *row;
    const char *name;
    size_t n, n2;
    int64_t i64;
    void *bytes;
    uint64_t n_bytes;
  } out; /* untouched where a function fails */
} fixture;

enum { NO_STATUS = -1 }; /* the function has none: that it comes back is what is tested */
typedef enum { ANY, GOOD, BAD } api_expect;

typedef struct api_case {
  const char *function, *what;
  tn_status (*call)(fixture *x);
  api_expect expect;
} api_case;

extern const api_case api_cases[];
extern const size_t n_api_cases;

#endif
