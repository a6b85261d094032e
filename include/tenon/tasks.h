/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/tasks.h: encoders and image models as tasks, beside the language models of tenon.h, whose rules on errors,
 * ownership and threads hold here too.
 *
 *   tn_image       pixels of a PNG or JPEG file.
 *   tn_embedder    texts to vectors: tokenizer, model, pooling (the folders of sentence-transformers).
 *   tn_classifier  images to classes: preprocessing, model, labels; with a CLIP model the labels are texts (zero-shot).
 *
 * An embedder or a classifier has a session of its own: one call at a time.
 */
#ifndef TENON_TASKS_H
#define TENON_TASKS_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- images ------------------------------------------------------------------------------------------------------- */

/* pixels [height, width, channels], 8 bits: channels 1 is gray, 3 is RGB. */
typedef struct tn_image {
  tn_hdr h;
  uint32_t width, height, channels, reserved;
  const uint8_t *pixels;
} tn_image;
/* Reads a PNG or JPEG file, told apart by its first bytes. Palettes become RGB, 16 bits become 8, transparency is
 * dropped, and the orientation that a camera noted (EXIF) is applied. One allocation; tn_free. TN_E_INVALID: not an image,
 * or one that ends too early, with the reason; TN_E_LIMIT: more than 2^26 pixels; TN_E_UNSUPPORTED: this build reads no
 * such files. */
TN_API TN_MUST_CHECK tn_status tn_image_load(const char *path, tn_image **out, tn_error *err);

/* --- embeddings --------------------------------------------------------------------------------------------------- */

/* How the rows of a text's tokens become one vector. AUTO: as modules.json says (sentence-transformers), else MEAN. */
enum {
  TN_POOL_AUTO = 0, TN_POOL_MEAN = 1, TN_POOL_CLS = 2, TN_POOL_MAX = 3, TN_POOL_LAST = 4, TN_POOL_MEAN_SQRT_LEN = 5,
  TN_POOL_NONE = 6 /* the model pools: output sentence_embedding or another of rank 2 */
};
/* Whether vectors are scaled to length 1. AUTO: as modules.json says, else not. */
enum { TN_NORMALIZE_AUTO = 0, TN_NORMALIZE_YES = 1, TN_NORMALIZE_NO = 2 };
typedef struct tn_embed_opts {
  tn_hdr h;
  uint32_t model_flags; /* TN_MODEL_* */
  uint32_t pool;        /* TN_POOL_* */
  uint32_t normalize;   /* TN_NORMALIZE_* */
  uint32_t max_tokens;  /* of a text, special ones included; longer texts are cut. 0: what the folder says */
  uint32_t batch;       /* texts of one run; 0: 32 */
  uint32_t reserved;
} tn_embed_opts;
typedef struct tn_embedder tn_embedder;
/* path: a folder with model and tokenizer.json, or the model in such a folder. */
TN_API TN_MUST_CHECK tn_status tn_embedder_load(tn_runtime *rt, const char *path, const tn_embed_opts *o,
                                                tn_embedder **out, tn_error *err);
TN_API void tn_embedder_destroy(tn_embedder *e);
TN_API tn_model *tn_embedder_model(tn_embedder *e); /* the embedder's, for reports */
/* What is done: TN_POOL_* and TN_NORMALIZE_*, never AUTO. */
TN_API uint32_t tn_embedder_pool(const tn_embedder *e);
TN_API uint32_t tn_embedder_normalize(const tn_embedder *e);
/* vectors [count, *size] of texts[i], len[i] bytes of UTF-8 each. tn_free them. count > 0. */
TN_API TN_MUST_CHECK tn_status tn_embed(tn_embedder *e, const char *const *texts, const size_t *len, size_t count,
                                        float **vectors, size_t *size, tn_error *err);
/* tokens[i]: how many the model gets of texts[i], special ones included, where it is cut. From any thread. */
TN_API TN_MUST_CHECK tn_status tn_embedder_count(const tn_embedder *e, const char *const *texts, const size_t *len,
                                                 size_t count, size_t *tokens, tn_error *err);
/* From any thread: the tn_embed under way returns TN_E_CANCELLED soon. */
TN_API void tn_embedder_cancel(tn_embedder *e);

/* --- image classification ------------------------------------------------------------------------------------------ */

typedef struct tn_classify_opts {
  tn_hdr h;
  uint32_t model_flags, reserved; /* TN_MODEL_* */
  /* preprocessor_config.json of another place; NULL: the one beside the model. Where there is none, pixels are resized to
   * the model's height and width and scaled to 0..1. */
  const char *preprocessor;
  /* Class names: of the model's classes in order, or the texts of a CLIP model. NULL: id2label of config.json. */
  const char *const *labels;
  uint32_t n_labels, reserved2;
  /* CLIP: what is made of a label, "{}" stands for it; NULL: "a photo of a {}". */
  const char *prompt;
} tn_classify_opts;
typedef struct tn_classifier tn_classifier;
TN_API TN_MUST_CHECK tn_status tn_classifier_load(tn_runtime *rt, const char *path, const tn_classify_opts *o,
                                                  tn_classifier **out, tn_error *err);
TN_API void tn_classifier_destroy(tn_classifier *c);
TN_API tn_model *tn_classifier_model(tn_classifier *c); /* the classifier's, for reports */
/* Name of class i, NULL where it has none. */
TN_API const char *tn_classifier_label(const tn_classifier *c, size_t i);
/* probabilities[*count], tn_free: softmax of the model's scores; scores that already are a distribution stay. */
TN_API TN_MUST_CHECK tn_status tn_classify(tn_classifier *c, const tn_image *image, float **probabilities,
                                           size_t *count, tn_error *err);
/* What the model is fed: [channels, height, width] or [height, width, channels], f32 values after one another; tn_free. */
TN_API TN_MUST_CHECK tn_status tn_classifier_pixels(const tn_classifier *c, const tn_image *image, tn_tensor **out,
                                                    tn_error *err);
/* From any thread: the tn_classify under way returns TN_E_CANCELLED soon. */
TN_API void tn_classifier_cancel(tn_classifier *c);

#ifdef __cplusplus
}
#endif
#endif
