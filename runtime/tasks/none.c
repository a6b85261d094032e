/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of this room in a library that was built without it (-Dtasks=disabled): the same functions, each of which
 * says so.
 */
#include <tenon/tasks.h>

#include "runtime/base/base.h"

static tn_status left_out(const char *where, tn_error *err) {
  return tni_fail(err, TN_E_UNAVAILABLE, where, "this library was built without tasks (meson: -Dtasks=enabled)");
}

tn_status tn_image_load(const char *path, tn_image **out, tn_error *err) {
  tni_error_begin(err);
  if (out) *out = NULL;
  return left_out(path ? path : "tn_image_load", err);
}

tn_status tn_embedder_load(tn_runtime *rt, const char *path, const tn_embed_opts *o, tn_embedder **out, tn_error *err) {
  (void)rt, (void)o;
  tni_error_begin(err);
  if (out) *out = NULL;
  return left_out(path ? path : "tn_embedder_load", err);
}

tn_status tn_classifier_load(tn_runtime *rt, const char *path, const tn_classify_opts *o, tn_classifier **out,
                             tn_error *err) {
  (void)rt, (void)o;
  tni_error_begin(err);
  if (out) *out = NULL;
  return left_out(path ? path : "tn_classifier_load", err);
}

/* No embedder, classifier or image exists, so nobody calls what follows. */

void tn_embedder_destroy(tn_embedder *e) { (void)e; }
void tn_embedder_cancel(tn_embedder *e) { (void)e; }
uint32_t tn_embedder_pool(const tn_embedder *e) { return (void)e, TN_POOL_AUTO; }
uint32_t tn_embedder_normalize(const tn_embedder *e) { return (void)e, 0; }
tn_model *tn_embedder_model(tn_embedder *e) { return (void)e, NULL; }
void tn_classifier_destroy(tn_classifier *c) { (void)c; }
void tn_classifier_cancel(tn_classifier *c) { (void)c; }
tn_model *tn_classifier_model(tn_classifier *c) { return (void)c, NULL; }
const char *tn_classifier_label(const tn_classifier *c, size_t i) { return (void)c, (void)i, NULL; }

tn_status tn_embed(tn_embedder *e, const char *const *texts, const size_t *len, size_t count, float **vectors,
                   size_t *size, tn_error *err) {
  (void)e, (void)texts, (void)len, (void)count, (void)vectors, (void)size;
  tni_error_begin(err);
  return left_out("tn_embed", err);
}

tn_status tn_embedder_count(const tn_embedder *e, const char *const *texts, const size_t *len, size_t count,
                            size_t *tokens, tn_error *err) {
  (void)e, (void)texts, (void)len, (void)count, (void)tokens;
  tni_error_begin(err);
  return left_out("tn_embedder_count", err);
}

tn_status tn_classify(tn_classifier *c, const tn_image *image, float **probabilities, size_t *count, tn_error *err) {
  (void)c, (void)image, (void)probabilities, (void)count;
  tni_error_begin(err);
  return left_out("tn_classify", err);
}

tn_status tn_classifier_pixels(const tn_classifier *c, const tn_image *image, tn_tensor **out, tn_error *err) {
  (void)c, (void)image, (void)out;
  tni_error_begin(err);
  return left_out("tn_classifier_pixels", err);
}
