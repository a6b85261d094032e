/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files that are read: the first byte says as what.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/tasks.h>

#include "runtime/calib/calib.h"
#include "runtime/llm/tokenizer/tokenizer.h"
#include "runtime/plugin/manifest.h"
#include "runtime/profile/device_profile.h"
#include "runtime/tasks/image.h"
#include "runtime/tasks/preprocess.h"
#include "tests/fuzz/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void tokenizer(const uint8_t *p, size_t n, tn_error *err) {
  static const char text[] = "Hello  world, na\xc3\xafve \xe4\xb8\xad\xe6\x96\x87 12345 <s> ##x don't\n\t[MASK]";
  tni_tokenizer *t = NULL;
  tni_ids ids = {0};
  char *back = NULL;
  size_t len;
  tn_status st = tni_tokenizer_parse((const char *)p, n, "tokenizer.json", &t, err);
  if (st == TN_OK) st = tni_tokenizer_encode(t, text, sizeof text - 1, true, &ids, err);
  if (st == TN_OK) st = tni_tokenizer_decode(t, ids.v, ids.n, false, &back, &len, err);
  fz_failure(st, err);
  tni_detok *d = st == TN_OK ? tni_detok_create(t, false) : NULL;
  for (size_t i = 0; d && i < ids.n; i++) {
    const char *piece;
    if (tni_detok_push(d, ids.v[i], &piece, &len, err) != TN_OK) break;
  }
  tni_detok_destroy(d);
  free(back);
  if (ids.v) tni_ids_free(&ids);
  tni_tokenizer_destroy(t);
}

static void profile(const uint8_t *p, size_t n, tn_error *err) {
  tni_profile *out = NULL;
  fz_failure(tni_profile_parse((const char *)p, n, "profile.yaml", &out, err), err);
  tni_profile_destroy(out);
}

static void calibration(const uint8_t *p, size_t n, tn_error *err) {
  char path[512];
  tni_calib *c = NULL;
  fz_write("file", p, n, path);
  fz_failure(tni_calib_read(path, &c, err), err);
  tni_calib_destroy(c);
}

static void png(const uint8_t *p, size_t n, tn_error *err) {
  tn_image *image = NULL;
  fz_failure(tni_png_read(p, n, "image.png", &image, err), err);
  free(image);
}

static void jpeg(const uint8_t *p, size_t n, tn_error *err) {
  tn_image *image = NULL;
  uint32_t orientation;
  fz_failure(tni_jpeg_read(p, n, "image.jpg", &image, &orientation, err), err);
  free(image);
}

static void npy(const uint8_t *p, size_t n, tn_error *err) {
  char path[512];
  tn_tensor *t = NULL;
  fz_write("t.npy", p, n, path);
  fz_failure(tn_tensor_load(path, &t, err), err);
  tn_free(t);
}

static void preprocessor(const uint8_t *p, size_t n, tn_error *err) {
  static const uint8_t pixels[4 * 5 * 3] = {1, 2, 3, 200, 255};
  char path[512];
  tni_prep prep = {.channels = 3};
  tn_image *image = NULL;
  uint8_t *at;
  uint32_t w, h;
  fz_write("file.json", p, n, path);
  tn_status st = tni_prep_read(path, &prep, err);
  if (st == TN_OK) st = tni_prep_size(&prep, 4, 5, &w, &h, err);
  if (st == TN_OK) st = tni_image_new(4, 5, 3, "image", &image, &at, err);
  if (st == TN_OK && (uint64_t)w * h <= 1 << 16) {
    float *out = malloc((size_t)w * h * 3 * sizeof *out + 1);
    memcpy(at, pixels, sizeof pixels);
    if (out) st = tni_prep_run(&prep, image, out, err);
    free(out);
  }
  fz_failure(st, err);
  free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static void (*const kinds[])(const uint8_t *, size_t, tn_error *) = {tokenizer, profile, calibration, png,
                                                                       jpeg,      npy,     preprocessor};
  tn_error err;
  tn_error_init(&err);
  if (!n) return 0;
  fz_clock_start(NULL, NULL);
  kinds[data[0] % (sizeof kinds / sizeof *kinds)](data + 1, n - 1, &err);
  fz_clock_stop();
  return 0;
}
