/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of an image, and how EXIF says that it is to be turned.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tasks/image.h"

tn_status tni_image_new(uint32_t width, uint32_t height, uint32_t channels, const char *path, tn_image **out,
                        uint8_t **pixels, tn_error *err) {
  if (!width || !height) return tni_fail(err, TN_E_INVALID, path, "an image of %u x %u pixels", width, height);
  if ((uint64_t)width * height > TNI_IMAGE_PIXELS)
    return tni_fail(err, TN_E_LIMIT, path, "%u x %u pixels are more than %d", width, height, TNI_IMAGE_PIXELS);
  const size_t bytes = (size_t)width * height * channels, head = (sizeof(tn_image) + 63) & ~(size_t)63;
  tn_image *im = malloc(head + bytes);
  if (!im) return tni_fail_memory(err, path);
  *im = (tn_image){.h = {sizeof *im, 1, 0}, .width = width, .height = height, .channels = channels};
  *pixels = (uint8_t *)im + head;
  im->pixels = *pixels;
  *out = im;
  return TN_OK;
}

/* 16- and 32-bit numbers in the byte order that the TIFF header names. */
static uint32_t read_uint(const uint8_t *p, uint32_t bytes, bool little) {
  uint32_t v = 0;
  for (uint32_t i = 0; i < bytes; i++) v = v << 8 | p[little ? bytes - 1 - i : i];
  return v;
}

uint32_t tni_exif_orientation(const uint8_t *app1, size_t n) {
  enum { HEAD = 6, TIFF = 8, ENTRY = 12, TAG = 0x0112, SHORT = 3 };
  if (n < HEAD + TIFF || memcmp(app1, "Exif\0\0", HEAD) != 0) return 1;
  const uint8_t *t = app1 + HEAD;
  n -= HEAD;
  const bool little = t[0] == 'I';
  if ((t[0] != 'I' && t[0] != 'M') || t[1] != t[0] || read_uint(t + 2, 2, little) != 42) return 1;
  const size_t at = read_uint(t + 4, 4, little);
  if (at > n || n - at < 2) return 1;
  const uint32_t entries = read_uint(t + at, 2, little);
  for (uint32_t i = 0; i < entries && n - at - 2 >= ((size_t)i + 1) * ENTRY; i++) {
    const uint8_t *e = t + at + 2 + (size_t)i * ENTRY;
    if (read_uint(e, 2, little) != TAG || read_uint(e + 2, 2, little) != SHORT) continue;
    const uint32_t v = read_uint(e + 8, 2, little);
    return v >= 1 && v <= 8 ? v : 1;
  }
  return 1;
}

/* Rows are where row 0 and column 0 of the shown picture lie in the stored one: 2 right, 3 right bottom, 4 bottom, and
 * 5 to 8 the same with rows and columns swapped. */
void tni_orient(const uint8_t *src, uint32_t w, uint32_t h, uint32_t c, uint32_t orientation, uint8_t *dst) {
  const bool swap = orientation >= 5;
  const bool right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const uint32_t ow = swap ? h : w, oh = swap ? w : h;
  for (uint32_t y = 0; y < oh; y++)
    for (uint32_t x = 0; x < ow; x++) {
      uint32_t sx = swap ? y : x, sy = swap ? x : y;
      if (right) sx = w - 1 - sx;
      if (bottom) sy = h - 1 - sy;
      memcpy(dst + ((size_t)y * ow + x) * c, src + ((size_t)sy * w + sx) * c, c);
    }
}
