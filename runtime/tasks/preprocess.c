/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tasks/preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/tasks/image.h"

enum { EDGE = 1 << 14 }; /* largest edge that a file may ask for */

/* --- reading --------------------------------------------------------------------------------------------------------
 */

static tn_status read_flag(const tni_at *root, const char *key, bool dflt, bool *out, tn_error *err) {
  tni_at a = tni_at_key(root, key);
  return tni_at_bool(&a, dflt, out, err);
}

static tn_status read_edge(const tni_at *a, uint32_t *out, tn_error *err) {
  int64_t v;
  tn_status st = tni_at_int(a, 1, EDGE, &v, err);
  if (st == TN_OK) *out = (uint32_t)v;
  return st;
}

/* N, {"height", "width"} or {"shortest_edge"}. shortest NULL: N is a square, and edges are not asked for. */
static tn_status read_size(const tni_at *a, uint32_t *width, uint32_t *height, uint32_t *shortest, tn_error *err) {
  tni_at h = tni_at_key(a, "height"), w = tni_at_key(a, "width"), edge = tni_at_key(a, "shortest_edge");
  tn_status st;
  if (json_is_integer(a->v)) {
    st = read_edge(a, shortest ? shortest : width, err);
    if (!shortest && st == TN_OK) *height = *width;
    return st;
  }
  st = tni_at_object(a, err);
  if (st == TN_OK && edge.v && shortest) return read_edge(&edge, shortest, err);
  if (st == TN_OK && !(h.v && w.v))
    return tni_at_fail(a, TN_E_UNSUPPORTED, err, "neither height and width%s", shortest ? " nor shortest_edge" : "");
  if (st == TN_OK) st = read_edge(&h, height, err);
  return st == TN_OK ? read_edge(&w, width, err) : st;
}

/* One number, or one per channel. */
static tn_status read_channels(const tni_at *root, const char *key, double out[3], tn_error *err) {
  tni_at a = tni_at_key(root, key);
  size_t n = 1;
  const bool list = json_is_array(a.v);
  if (!a.v) return tni_at_fail(&a, TN_E_INVALID, err, "missing, and do_normalize asks for it");
  tn_status st = list ? tni_at_array(&a, 3, &n, err) : TN_OK;
  if (st == TN_OK && n != 1 && n != 3) st = tni_at_fail(&a, TN_E_INVALID, err, "%zu numbers", n);
  for (size_t i = 0; i < 3 && st == TN_OK; i++) {
    tni_at x = list ? tni_at_item(&a, n == 1 ? 0 : i) : a;
    if (!x.v) return tni_at_fail(&a, TN_E_INVALID, err, "a number is missing");
    st = tni_at_number(&x, &out[i], err);
    if (st == TN_OK && !isfinite(out[i])) st = tni_at_fail(&x, TN_E_INVALID, err, "not finite");
  }
  return st;
}

/* Of processors that say crop_pct (ConvNeXT): below 384 the shorter edge becomes size / crop_pct, then the middle is
 * cut out; from 384 on the picture is resized to the square. */
static tn_status read_crop_pct(const tni_at *root, tni_prep *p, tn_error *err) {
  tni_at pct = tni_at_key(root, "crop_pct");
  double v = 0;
  if (!pct.v || !p->shortest) return TN_OK;
  tn_status st = tni_at_number(&pct, &v, err);
  if (st != TN_OK) return st;
  if (!(v > 0 && v <= 1)) return tni_at_fail(&pct, TN_E_INVALID, err, "%g is not in 0..1", v);
  p->crop_width = p->crop_height = p->shortest;
  p->crop = p->shortest < 384;
  if (p->crop)
    p->shortest = (uint32_t)(p->shortest / v);
  else {
    p->width = p->height = p->shortest;
    p->shortest = 0;
  }
  return TN_OK;
}

static bool is_type(const tni_at *root, const char *name) {
  static const char *const keys[] = {"image_processor_type", "feature_extractor_type"};
  for (size_t i = 0; i < 2; i++) {
    const char *v = json_string_value(json_object_get(root->v, keys[i]));
    if (v && strncmp(v, name, strlen(name)) == 0) return true;
  }
  return false;
}

/* Whether a number as "size" is the shorter edge: by the processor's class where that has its own way, else where a
 * crop follows. */
static bool is_edge(const tni_at *root, bool crops) {
  static const struct {
    const char *type;
    bool edge;
  } own[] = {{"Beit", false}, {"DeiT", false}, {"EfficientNet", false}, {"Flava", false},    {"OwlViT", false},
             {"Bit", true},   {"CLIP", true},  {"ChineseCLIP", true},   {"Levit", true},     {"MobileNet", true},
             {"MobileViT", true},              {"PoolFormer", true},    {"TextNet", true}};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (is_type(root, own[i].type)) return own[i].edge;
  return crops;
}

static tn_status read_geometry(const tni_at *root, tni_prep *p, tn_error *err) {
  tni_at size = tni_at_key(root, "size"), crop = tni_at_key(root, "crop_size"), resample = tni_at_key(root, "resample");
  int64_t filter = is_type(root, "CLIP") ? TNI_FILTER_BICUBIC : TNI_FILTER_BILINEAR;
  tn_status st = read_flag(root, "do_center_crop", false, &p->crop, err);
  if (st == TN_OK) st = read_flag(root, "do_resize", size.v != NULL, &p->resize, err);
  if (st == TN_OK && resample.v) st = tni_at_int(&resample, 0, TNI_FILTER_HAMMING, &filter, err);
  p->filter = (tni_filter)filter;
  if (st == TN_OK && p->crop && is_type(root, "Perceiver"))
    return tni_fail(err, TN_E_UNSUPPORTED, root->file,
                    "do_center_crop: Perceiver's crop before resizing is not made here");
  const bool edge = json_is_object(size.v) || is_edge(root, p->crop || json_object_get(root->v, "crop_pct"));
  if (st == TN_OK && p->resize) st = read_size(&size, &p->width, &p->height, edge ? &p->shortest : NULL, err);
  if (st == TN_OK && p->resize) st = read_crop_pct(root, p, err);
  if (is_type(root, "Levit")) p->shortest = (uint32_t)(256.0 / 224 * p->shortest);
  if (st == TN_OK && p->crop && !p->crop_width) st = read_size(&crop, &p->crop_width, &p->crop_height, NULL, err);
  return st;
}

static tn_status read_values(const tni_at *root, tni_prep *p, tn_error *err) {
  tni_at factor = tni_at_key(root, "rescale_factor");
  tn_status st = read_flag(root, "do_rescale", true, &p->rescale, err);
  p->scale = 1.0 / 255;
  if (st == TN_OK) st = tni_at_number(&factor, &p->scale, err);
  if (st == TN_OK && !isfinite(p->scale)) st = tni_at_fail(&factor, TN_E_INVALID, err, "not finite");
  if (st == TN_OK) st = read_flag(root, "rescale_offset", false, &p->offset, err);
  if (st == TN_OK) st = read_flag(root, "include_top", is_type(root, "EfficientNet"), &p->again, err);
  if (st == TN_OK) st = read_flag(root, "do_flip_channel_order", false, &p->flip, err);
  if (st == TN_OK)
    st = read_flag(root, "do_normalize", json_object_get(root->v, "image_mean") != NULL, &p->normalize, err);
  if (st == TN_OK && p->normalize) st = read_channels(root, "image_mean", p->mean, err);
  const bool divides = p->normalize || p->again;
  if (st == TN_OK && divides) st = read_channels(root, "image_std", p->std, err);
  for (size_t i = 0; st == TN_OK && divides && i < 3; i++)
    if (p->std[i] == 0) return tni_fail(err, TN_E_INVALID, root->file, "image_std: 0");
  return st;
}

/* What a processor does beside the steps that are made here; labels and colors without alpha are not its pixels. */
static tn_status check_steps(const tni_at *root, tn_error *err) {
  static const char *const made[] = {"do_resize",    "do_center_crop",        "do_rescale",       "do_normalize",
                                     "do_convert_rgb", "do_flip_channel_order", "do_reduce_labels"};
  const char *key;
  json_t *v;
  json_object_foreach(root->v, key, v) {
    bool known = strncmp(key, "do_", 3) != 0 || !json_is_true(v);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) known = known || strcmp(key, made[i]) == 0;
    if (!known) return tni_fail(err, TN_E_UNSUPPORTED, root->file, "%.60s: this step is not made here", key);
  }
  return TN_OK;
}

static tn_status read_root(const tni_at *root, tni_prep *p, tn_error *err) {
  tn_status st = tni_at_object(root, err);
  if (st == TN_OK) st = check_steps(root, err);
  if (st == TN_OK) st = read_geometry(root, p, err);
  return st == TN_OK ? read_values(root, p, err) : st;
}

tn_status tni_prep_read(const char *path, tni_prep *p, tn_error *err) {
  json_t *v = NULL;
  tni_prep got = {.channels = p->channels, .channels_last = p->channels_last};
  tn_status st = tni_json_load(path, &v, err);
  if (st != TN_OK) return st;
  tni_at root = tni_at_root(v, path);
  st = read_root(&root, &got, err);
  json_decref(v);
  if (st == TN_OK) *p = got;
  return st;
}

/* --- running --------------------------------------------------------------------------------------------------------
 */

/* The longer edge is cut, not rounded, as the processors' get_resize_output_image_size does. */
static tn_status resized_image(const tni_prep *p, uint32_t w, uint32_t h, uint32_t *ow, uint32_t *oh, tn_error *err) {
  const uint64_t small = w < h ? w : h, large = w < h ? h : w;
  uint64_t a = w, b = h;
  if (p->resize && p->shortest) {
    const uint64_t longest = p->shortest * large / small;
    a = w <= h ? p->shortest : longest;
    b = w <= h ? longest : p->shortest;
  } else if (p->resize) {
    a = p->width;
    b = p->height;
  }
  if (a * b > TNI_IMAGE_PIXELS)
    return tni_fail(err, TN_E_LIMIT, "size", "%u x %u would become %llu x %llu pixels", w, h, (unsigned long long)a,
                    (unsigned long long)b);
  *ow = (uint32_t)a;
  *oh = (uint32_t)b;
  return TN_OK;
}

tn_status tni_prep_size(const tni_prep *p, uint32_t w, uint32_t h, uint32_t *ow, uint32_t *oh, tn_error *err) {
  tn_status st = resized_image(p, w, h, ow, oh, err);
  if (st == TN_OK && p->crop) {
    *ow = p->crop_width;
    *oh = p->crop_height;
  }
  return st;
}

/* A window of ow x oh around the middle of src; outside of it are zeros. */
static void crop_image(const uint8_t *src, uint32_t w, uint32_t h, uint32_t c, uint8_t *dst, uint32_t ow, uint32_t oh) {
  const int64_t top = h >= oh ? (h - oh) / 2 : -(int64_t)((oh - h + 1) / 2);
  const int64_t left = w >= ow ? (w - ow) / 2 : -(int64_t)((ow - w + 1) / 2);
  memset(dst, 0, (size_t)ow * oh * c);
  for (int64_t y = 0; y < oh; y++)
    for (int64_t x = 0; x < ow; x++)
      if (y + top >= 0 && y + top < h && x + left >= 0 && x + left < w)
        memcpy(dst + (size_t)(y * ow + x) * c, src + (size_t)((y + top) * w + x + left) * c, c);
}

/* Rescaling is f64 and rounded, normalizing f32: what NumPy does with a u8 array and a Python float. */
static void to_floats(const tni_prep *p, const uint8_t *src, uint32_t c, uint32_t w, uint32_t h, float *out) {
  const size_t plane = (size_t)w * h;
  for (uint32_t to = 0; to < p->channels; to++) {
    const uint32_t from = p->flip ? p->channels - 1 - to : to, ch = c == 1 ? 0 : from;
    const float mean = (float)p->mean[to], std = (float)p->std[to];
    for (size_t i = 0; i < plane; i++) {
      float v = src[i * c + ch];
      if (p->rescale) v = (float)(src[i * c + ch] * p->scale);
      if (p->rescale && p->offset) v -= 1;
      if (p->normalize) v = (v - mean) / std;
      if (p->again) v = v / std;
      out[p->channels_last ? i * p->channels + to : to * plane + i] = v;
    }
  }
}

tn_status tni_prep_run(const tni_prep *p, const tn_image *im, float *out, tn_error *err) {
  uint32_t w = 0, h = 0, ow = 0, oh = 0;
  if (im->channels != p->channels && im->channels != 1)
    return tni_fail(err, TN_E_INVALID, "image", "%u channels, and the model takes %u", im->channels, p->channels);
  tn_status st = resized_image(p, im->width, im->height, &w, &h, err);
  if (st == TN_OK) st = tni_prep_size(p, im->width, im->height, &ow, &oh, err);
  if (st != TN_OK) return st;
  uint8_t *big = malloc((size_t)w * h * im->channels), *cut = malloc((size_t)ow * oh * im->channels);
  st = big && cut ? tni_resize(im->pixels, im->width, im->height, im->channels, big, w, h, p->filter, err)
                  : tni_fail_memory(err, "image");
  if (st == TN_OK) {
    crop_image(big, w, h, im->channels, cut, ow, oh);
    to_floats(p, cut, im->channels, ow, oh, out);
  }
  free(big);
  free(cut);
  return st;
}
