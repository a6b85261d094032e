/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG through libpng's simplified interface would compose transparency with a colour; the rows are read with its older
 * one, which can drop it.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tasks/image.h"

#ifdef TENON_HAVE_PNG
#include <png.h>

typedef struct png_source {
  const uint8_t *p;
  size_t n;
  const char *path;
  tn_error *err;
  tn_image *im;
  png_bytep *rows;
  bool no_memory;
} png_source;

static png_voidp take_memory(png_structp png, png_alloc_size_t n) {
  png_source *s = png_get_mem_ptr(png);
  void *p = malloc(n);
  s->no_memory = s->no_memory || !p;
  return p;
}

static void give_memory(png_structp png, png_voidp p) {
  (void)png;
  free(p);
}

static void give_bytes(png_structp png, png_bytep to, png_size_t n) {
  png_source *s = png_get_io_ptr(png);
  if (n > s->n) png_error(png, "the file ends too early");
  memcpy(to, s->p, n);
  s->p += n;
  s->n -= n;
}

static void fail_png(png_structp png, png_const_charp text) {
  const png_source *s = png_get_error_ptr(png);
  if (s->no_memory)
    (void)tni_fail_memory(s->err, s->path);
  else
    (void)tni_fail(s->err, TN_E_INVALID, s->path, "not a PNG that can be read: %s", text);
  longjmp(png_jmpbuf(png), 1);
}

static void ignore_warning(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

/* To 8 bits of gray or RGB. */
static void shape_rows(png_structp png, png_infop info) {
  const int type = png_get_color_type(png, info);
  png_set_scale_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  (void)png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

/* Everything that libpng may jump out of; what it allocated hangs on s. */
static tn_status read_all(png_structp png, png_infop info, png_source *s) {
  uint8_t *pixels = NULL;
  if (setjmp(png_jmpbuf(png))) return s->no_memory ? TN_E_NO_MEMORY : TN_E_INVALID;
  png_set_read_fn(png, s, give_bytes);
  png_read_info(png, info);
  const uint32_t w = png_get_image_width(png, info), h = png_get_image_height(png, info);
  if ((uint64_t)w * h > TNI_IMAGE_PIXELS)
    return tni_fail(s->err, TN_E_LIMIT, s->path, "%u x %u pixels are more than %d", w, h, TNI_IMAGE_PIXELS);
  shape_rows(png, info);
  const uint32_t channels = png_get_channels(png, info);
  if ((channels != 1 && channels != 3) || png_get_bit_depth(png, info) != 8)
    return tni_fail(s->err, TN_E_INVALID, s->path, "%u channels of %d bits", channels, png_get_bit_depth(png, info));
  tn_status st = tni_image_new(w, h, channels, s->path, &s->im, &pixels, s->err);
  if (st != TN_OK) return st;
  s->rows = malloc(h * sizeof *s->rows);
  if (!s->rows) return tni_fail_memory(s->err, s->path);
  for (uint32_t y = 0; y < h; y++) s->rows[y] = pixels + (size_t)y * w * channels;
  png_read_image(png, s->rows);
  png_read_end(png, NULL);
  return TN_OK;
}

tn_status tni_png_read(const uint8_t *data, size_t n, const char *path, tn_image **out, tn_error *err) {
  png_source s = {.p = data, .n = n, .path = path, .err = err};
  png_structp png =
      png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, fail_png, ignore_warning, &s, take_memory, give_memory);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  tn_status st = info ? read_all(png, info, &s) : tni_fail_memory(err, path);
  png_destroy_read_struct(png ? &png : NULL, info ? &info : NULL, NULL);
  free(s.rows);
  if (st != TN_OK)
    free(s.im);
  else
    *out = s.im;
  return st;
}

#else
tn_status tni_png_read(const uint8_t *data, size_t n, const char *path, tn_image **out, tn_error *err) {
  (void)data, (void)n, (void)out;
  return tni_fail(err, TN_E_UNSUPPORTED, path, "this build reads no PNG (libpng was missing)");
}
#endif
