/* SPDX-License-Identifier: Apache-2.0
 *
 * Image files to tn_image: one reader per format, built only where its library is there.
 */
#ifndef TENON_TASKS_IMAGE_H
#define TENON_TASKS_IMAGE_H

#include <tenon/tasks.h>

#include "runtime/base/base.h"

enum { TNI_IMAGE_PIXELS = 1 << 26 };

/* Allocates an image of one block; pixels are writable through *pixels. */
TN_MUST_CHECK tn_status tni_image_new(uint32_t width, uint32_t height, uint32_t channels, const char *path,
                                      tn_image **out, uint8_t **pixels, tn_error *err);

/* data: the file's n bytes. */
TN_MUST_CHECK tn_status tni_png_read(const uint8_t *data, size_t n, const char *path, tn_image **out, tn_error *err);
/* orientation: 1 to 8 as EXIF numbers them, 1 where the file says nothing. */
TN_MUST_CHECK tn_status tni_jpeg_read(const uint8_t *data, size_t n, const char *path, tn_image **out,
                                      uint32_t *orientation, tn_error *err);

/* The orientation tag of an APP1 segment's n bytes ("Exif\0\0", a TIFF header, a directory of 12-byte entries, tag
 * 0x0112: EXIF 2.3, 4.5-4.6); 1 where it is not there or not valid. */
uint32_t tni_exif_orientation(const uint8_t *app1, size_t n);
/* Turns and mirrors pixels [h, w, c] at src into dst as an orientation asks; 5 to 8 swap height and width. */
void tni_orient(const uint8_t *src, uint32_t w, uint32_t h, uint32_t c, uint32_t orientation, uint8_t *dst);

#endif
