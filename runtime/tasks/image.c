/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tasks/image.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

static tn_status orient_image(tn_image **im, uint32_t orientation, const char *path, tn_error *err) {
  const tn_image *from = *im;
  const bool swap = orientation >= 5;
  tn_image *to;
  uint8_t *pixels;
  if (orientation <= 1) return TN_OK;
  tn_status st = tni_image_new(swap ? from->height : from->width, swap ? from->width : from->height, from->channels,
                               path, &to, &pixels, err);
  if (st != TN_OK) return st;
  tni_orient(from->pixels, from->width, from->height, from->channels, orientation, pixels);
  free(*im);
  *im = to;
  return TN_OK;
}

static tn_status read_file(const char *path, const tni_file *f, tn_image **out, tn_error *err) {
  const uint8_t *p = f->data;
  uint32_t orientation = 1;
  if (f->bytes >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) return tni_png_read(p, (size_t)f->bytes, path, out, err);
  if (f->bytes < 3 || p[0] != 0xff || p[1] != 0xd8 || p[2] != 0xff)
    return tni_fail(err, TN_E_INVALID, path, "neither a PNG nor a JPEG file");
  tn_status st = tni_jpeg_read(p, (size_t)f->bytes, path, out, &orientation, err);
  if (st != TN_OK) return st;
  st = orient_image(out, orientation, path, err);
  if (st != TN_OK) free(*out);
  return st;
}

tn_status tn_image_load(const char *path, tn_image **out, tn_error *err) {
  tni_error_begin(err);
  tni_file f;
  tn_image *im = NULL;
  if (!path || !out) return tni_fail(err, TN_E_INVALID, "tn_image_load", "path and out must not be NULL");
  tn_status st = tni_file_read(path, &f, err);
  if (st != TN_OK) return st;
  st = read_file(path, &f, &im, err);
  tni_file_unmap(&f);
  if (st == TN_OK) *out = im;
  return st;
}
