/* SPDX-License-Identifier: Apache-2.0
 *
 * Images to classes. A model with pixels alone gives scores of its own classes (output logits, or the first of rank 2);
 * one with texts beside the pixels (CLIP) gives logits_per_image, scores of the labels' texts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/llm.h"
#include "runtime/tasks/folder.h"
#include "runtime/tasks/image.h"
#include "runtime/tasks/preprocess.h"
#include "runtime/tasks/text.h"

enum { EDGE = 1 << 14, LABELS = 1 << 16 };

struct tn_classifier {
  tn_model *model;
  tn_session *session;
  tni_prep prep;
  char **labels;
  size_t n_labels;
  const tn_io_info *in, *out;
  tni_feed feed;
  int pixels; /* which input */
};

/* --- loading --------------------------------------------------------------------------------------------------------
 */

static bool has_text(const tn_model *m) {
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++)
    if (tni_input_named(tn_model_input(m, i)->name) == TNI_INPUT_IDS) return true;
  return false;
}

/* Which axis is the channels', by the sizes that models have: [N, 3, H, W] unless only the last is 1 or 3. */
static tn_status read_layout(tn_classifier *c, tn_error *err) {
  const tn_io_info *x = c->in;
  const bool first = x->dims[1] == 1 || x->dims[1] == 3, last = x->dims[3] == 1 || x->dims[3] == 3;
  c->prep.channels_last = last && !first;
  const int64_t channels = x->dims[c->prep.channels_last ? 3 : 1];
  c->prep.channels = channels == 1 ? 1 : 3;
  if (channels >= 0 && channels != c->prep.channels)
    return tni_fail(err, TN_E_INVALID, x->name, "%s takes %lld channels, images have 1 or 3", x->name,
                    (long long)channels);
  if (x->dims[0] > 1)
    return tni_fail(err, TN_E_UNSUPPORTED, x->name, "%s takes %lld images at once", x->name, (long long)x->dims[0]);
  return TN_OK;
}

/* Height and width that the model has fixed; 0: any. */
static void model_size(const tn_classifier *c, int64_t *h, int64_t *w) {
  *h = c->in->dims[c->prep.channels_last ? 1 : 2];
  *w = c->in->dims[c->prep.channels_last ? 2 : 3];
}

static tn_status plain_head(tn_classifier *c, tn_error *err) {
  int64_t h, w;
  model_size(c, &h, &w);
  if (h < 1 || w < 1 || h > EDGE || w > EDGE)
    return tni_fail(err, TN_E_INVALID, "preprocessor_config.json",
                    "there is none, and %s does not say height and width: what is an image to become?", c->in->name);
  c->prep = (tni_prep){.resize = true,
                       .rescale = c->in->dtype != TN_DT_U8,
                       .scale = 1.0 / 255,
                       .filter = TNI_FILTER_BILINEAR,
                       .width = (uint32_t)w,
                       .height = (uint32_t)h,
                       .channels = c->prep.channels,
                       .channels_last = c->prep.channels_last};
  return TN_OK;
}

static tn_status read_prep(tn_classifier *c, const tni_folder *folder, const char *given, tn_error *err) {
  tn_long_error mine;
  char *path = given ? strdup(given) : tni_folder_file(folder, "preprocessor_config.json");
  if (!path) return tni_fail_memory(err, folder->dir);
  tni_long_error_init(&mine);
  tn_status st = tni_prep_read(path, &c->prep, &mine.error);
  free(path);
  if (st == TN_E_UNAVAILABLE && !given) return plain_head(c, err);
  if (st == TN_OK && c->in->dtype == TN_DT_U8 && (c->prep.rescale || c->prep.normalize || c->prep.again))
    st = tni_fail(&mine.error, TN_E_INVALID, c->in->name, "%s takes bytes, and preprocessing makes fractions of them",
                  c->in->name);
  return st == TN_OK ? TN_OK : tni_error_pass(err, st, &mine.error);
}

static tn_status choose_output(tn_classifier *c, bool text, tn_error *err) {
  const char *name = text ? "logits_per_image" : "logits";
  for (uint32_t i = 0; i < tn_model_n_outputs(c->model); i++) {
    const tn_io_info *x = tn_model_output(c->model, i);
    if (strcmp(x->name, name) == 0 || (!text && !c->out && x->rank != 1)) c->out = x;
  }
  if (c->out) return TN_OK;
  return tni_fail(err, TN_E_UNSUPPORTED, "model",
                  text ? "texts and pixels, but no output %s" : "no output %s or like it", name);
}

static tn_status copy_labels(tn_classifier *c, const tn_classify_opts *o, tn_error *err) {
  if (o->n_labels > LABELS) return tni_fail(err, TN_E_LIMIT, "labels", "%u of them", o->n_labels);
  c->labels = calloc(o->n_labels + 1, sizeof *c->labels);
  c->n_labels = o->n_labels;
  for (size_t i = 0; c->labels && i < c->n_labels; i++) {
    c->labels[i] = strdup(o->labels[i]);
    if (!c->labels[i]) return tni_fail_memory(err, "labels");
  }
  return c->labels ? TN_OK : tni_fail_memory(err, "labels");
}

/* "{}" of the prompt replaced by the label; malloc'd. */
static char *fill_in(const char *prompt, const char *label) {
  const char *hole = strstr(prompt, "{}");
  char *s = NULL;
  return hole && asprintf(&s, "%.*s%s%s", (int)(hole - prompt), prompt, label, hole + 2) >= 0 ? s : NULL;
}

static tn_status encode_labels(tn_classifier *c, const tni_folder *folder, const char *prompt, tn_error *err) {
  tni_tokenizer *tok = NULL;
  tni_text_ids ids = {0};
  tni_lm_config lm;
  char **texts = calloc(c->n_labels + 1, sizeof *texts);
  size_t *len = calloc(c->n_labels + 1, 2 * sizeof *len), *order = len ? len + c->n_labels + 1 : NULL;
  char *path = tni_folder_file(folder, "tokenizer.json");
  tn_status st = texts && len && path ? tni_tokenizer_load(path, &tok, err) : tni_fail_memory(err, folder->dir);
  if (st == TN_OK) st = tni_lm_config_load(folder, &lm, err);
  int32_t pad = st == TN_OK ? tni_tokenizer_pad(tok) : 0;
  if (st == TN_OK) tni_tokenizer_limit(tok, lm.context ? (size_t)lm.context : 0);
  for (size_t i = 0; i < c->n_labels && st == TN_OK; i++) {
    texts[i] = fill_in(prompt, c->labels[i]);
    if (!texts[i]) st = tni_fail_memory(err, "labels");
    len[i] = texts[i] ? strlen(texts[i]) : 0;
    order[i] = i;
  }
  if (st == TN_OK) st = tni_text_ids_make(tok, (const char *const *)texts, len, c->n_labels, &ids, err);
  if (st == TN_OK)
    st = tni_feed_text(&c->feed, c->model, &ids, order, c->n_labels, pad >= 0 ? pad : lm.pad >= 0 ? lm.pad : 0, err);
  tni_text_ids_finish(&ids);
  tni_tokenizer_destroy(tok);
  for (size_t i = 0; texts && i < c->n_labels; i++) free(texts[i]);
  free(texts);
  free(len);
  free(path);
  return st;
}

static tn_status load_classifier(tn_classifier *c, tn_runtime *rt, const tni_folder *folder, const tn_classify_opts *o,
                                 tn_error *err) {
  tn_model_opts mo = {.h = {sizeof mo, 1, 0}, .flags = o ? o->model_flags : 0};
  const char *prompt = o && o->prompt ? o->prompt : "a photo of a {}";
  const bool given = o && o->labels && o->n_labels;
  if (!strstr(prompt, "{}")) return tni_fail(err, TN_E_INVALID, "prompt", "'%s' has no {} for the label", prompt);
  tn_status st = tn_model_load(rt, folder->model, &mo, &c->model, err);
  if (st != TN_OK) return st;
  const bool text = has_text(c->model);
  st = tni_feed_open(c->model, text, true, &c->feed, err);
  if (st != TN_OK) return st;
  if (text && !given)
    return tni_fail(err, TN_E_INVALID, "labels", "the model compares images with texts: give it labels");
  c->pixels = tni_feed_find(&c->feed, TNI_INPUT_PIXELS);
  c->in = tn_model_input(c->model, (uint32_t)c->pixels);
  st = read_layout(c, err);
  if (st == TN_OK) st = read_prep(c, folder, o ? o->preprocessor : NULL, err);
  if (st == TN_OK) st = choose_output(c, text, err);
  if (st == TN_OK) st = given ? copy_labels(c, o, err) : tni_labels_read(folder, &c->labels, &c->n_labels, err);
  if (st == TN_OK && text) st = tni_compare_check(folder, err);
  if (st == TN_OK && text) st = encode_labels(c, folder, prompt, err);
  if (st != TN_OK || (mo.flags & (TN_MODEL_INSPECT | TN_MODEL_PACK))) return st;
  return tn_session_create(c->model, &c->session, err);
}

tn_status tn_classifier_load(tn_runtime *rt, const char *path, const tn_classify_opts *o, tn_classifier **out,
                             tn_error *err) {
  tni_error_begin(err);
  if (!rt || !path || !out)
    return tni_fail(err, TN_E_INVALID, "tn_classifier_load", "rt, path and out must not be NULL");
  tn_classify_opts mine;
  tn_status st = tni_take(&mine, sizeof mine, o, "tn_classify_opts", err);
  if (st != TN_OK) return st;
  st = tni_known_bits(mine.reserved | mine.reserved2, 0, "tn_classify_opts.reserved", err);
  if (st == TN_OK) st = tni_counted(mine.labels, mine.n_labels, "tn_classify_opts.labels", err);
  if (st != TN_OK) return st;
  tn_classifier *c = calloc(1, sizeof *c);
  tni_folder folder = {0};
  st = c ? tni_folder_find(path, NULL, &folder, err) : tni_fail_memory(err, path);
  if (st == TN_OK) st = load_classifier(c, rt, &folder, &mine, err);
  tni_folder_finish(&folder);
  if (st != TN_OK)
    tn_classifier_destroy(c);
  else
    *out = c;
  return st;
}

void tn_classifier_destroy(tn_classifier *c) {
  if (!c) return;
  if (c->session) tn_session_destroy(c->session);
  tni_feed_close(&c->feed);
  if (c->model) tn_model_destroy(c->model);
  tni_labels_free(c->labels, c->n_labels);
  free(c);
}

tn_model *tn_classifier_model(tn_classifier *c) { return c ? c->model : NULL; }
const char *tn_classifier_label(const tn_classifier *c, size_t i) { return c && i < c->n_labels ? c->labels[i] : NULL; }

void tn_classifier_cancel(tn_classifier *c) {
  if (c && c->session) tn_session_cancel(c->session);
}

/* --- running --------------------------------------------------------------------------------------------------------
 */

static tn_status check_image(const tn_image *im, tn_error *err) {
  tn_status st = tni_sized(&im->h, TN_UPTO(tn_image, pixels), "tn_image", err);
  if (st == TN_OK) st = tni_known_bits(im->reserved, 0, "tn_image.reserved", err);
  if (st != TN_OK) return st;
  if (!im->pixels || !im->width || !im->height) return tni_fail(err, TN_E_INVALID, "tn_image", "it has no pixels");
  if (im->channels != 1 && im->channels != 3)
    return tni_fail(err, TN_E_INVALID, "tn_image", "%u channels; gray (1) and RGB (3) are taken", im->channels);
  if ((uint64_t)im->width * im->height > TNI_IMAGE_PIXELS)
    return tni_fail(err, TN_E_LIMIT, "tn_image", "%u x %u pixels are more than %d", im->width, im->height,
                    TNI_IMAGE_PIXELS);
  return TN_OK;
}

tn_status tn_classifier_pixels(const tn_classifier *c, const tn_image *im, tn_tensor **out, tn_error *err) {
  tni_error_begin(err);
  uint32_t w, h;
  int64_t mh, mw;
  size_t bytes;
  if (!c || !im || !out) return tni_fail(err, TN_E_INVALID, "tn_classifier_pixels", "an argument is NULL");
  tn_status st = check_image(im, err);
  if (st != TN_OK) return st;
  st = tni_prep_size(&c->prep, im->width, im->height, &w, &h, err);
  if (st != TN_OK) return st;
  model_size(c, &mh, &mw);
  if ((mh > 0 && mh != h) || (mw > 0 && mw != w))
    return tni_fail(err, TN_E_INVALID, c->in->name,
                    "preprocessing gives %u x %u (height x width), the model takes %lld x %lld", h, w, (long long)mh,
                    (long long)mw);
  if (!tni_mul_size((size_t)w * h * sizeof(float), c->prep.channels, &bytes)) return tni_fail_memory(err, "image");
  const size_t head = (sizeof(tn_tensor) + 63) & ~(size_t)63;
  tn_tensor *t = malloc(head + bytes);
  if (!t) return tni_fail_memory(err, "image");
  float *v = (float *)(void *)((char *)t + head);
  *t = (tn_tensor){
      .h = {sizeof *t, 1, 0}, .name = c->in->name, .dtype = TN_DT_F32, .rank = 4, .data = v, .bytes = bytes};
  const int64_t nchw[] = {1, c->prep.channels, h, w}, nhwc[] = {1, h, w, c->prep.channels};
  memcpy(t->dims, c->prep.channels_last ? nhwc : nchw, sizeof nchw);
  st = tni_prep_run(&c->prep, im, v, err);
  if (st != TN_OK)
    free(t);
  else
    *out = t;
  return st;
}

/* The floats as the model's own type, in place: none is wider. */
static void to_dtype(tn_tensor *t, tn_dtype dt) {
  const size_t n = (size_t)(t->bytes / sizeof(float)), size = dt == TN_DT_F16 ? 2 : 1;
  char *p = (char *)(uintptr_t)t->data;
  if (dt == TN_DT_F32) return;
  for (size_t i = 0; i < n; i++) {
    float x;
    memcpy(&x, p + i * sizeof x, sizeof x);
    const uint16_t half = tni_f32_to_f16(x);
    const uint8_t byte = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : rintf(x));
    memcpy(p + i * size, size == 2 ? (const void *)&half : &byte, size);
  }
  t->bytes = n * size;
  t->dtype = dt;
}

/* Scores of a model that ends in a softmax are left alone. */
static void to_probabilities(float *v, size_t n) {
  double sum = 0, top = -INFINITY;
  bool positive = true;
  for (size_t i = 0; i < n; i++) {
    sum += v[i];
    positive = positive && v[i] >= 0;
    if (v[i] > top) top = v[i];
  }
  if (positive && fabs(sum - 1) < 1e-3) return;
  sum = 0;
  for (size_t i = 0; i < n; i++) sum += exp(v[i] - top);
  for (size_t i = 0; i < n; i++) v[i] = (float)(exp(v[i] - top) / sum);
}

tn_status tn_classify(tn_classifier *c, const tn_image *im, float **probabilities, size_t *count, tn_error *err) {
  tni_error_begin(err);
  tn_tensor *t = NULL;
  float *v = NULL;
  size_t n = 0;
  if (!c || !im || !probabilities || !count) return tni_fail(err, TN_E_INVALID, "tn_classify", "an argument is NULL");
  if (!c->session) return tni_fail(err, TN_E_INVALID, "tn_classify", "the model was loaded for its reports");
  tn_status st = tn_classifier_pixels(c, im, &t, err);
  if (st != TN_OK) return st;
  to_dtype(t, c->in->dtype);
  const tn_tensor *in[TNI_TASK_INPUTS];
  memcpy(in, c->feed.in, sizeof in);
  in[c->pixels] = t;
  tn_tensor out = {.h = {sizeof out, 1, 0}, .name = c->out->name};
  st = tn_session_run(c->session, TN_PHASE_ANY, in, c->feed.n, &out, 1, err);
  free(t);
  if (st == TN_OK) st = tni_task_floats(&out, &v, &n, err);
  if (st == TN_OK && (!n || (has_text(c->model) && n != c->n_labels)))
    st = tni_fail(err, TN_E_INVALID, out.name, "%zu scores for %zu labels", n, c->n_labels);
  if (st != TN_OK) {
    free(v);
    return st;
  }
  to_probabilities(v, n);
  *probabilities = v;
  *count = n;
  return TN_OK;
}
