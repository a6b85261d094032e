/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG through libjpeg-turbo with its defaults (accurate integer DCT, smooth chroma), which are those of Pillow: the
 * same pixels. The library goes on with gray where data end; here that is an error.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/tasks/image.h"

#ifdef TENON_HAVE_JPEG
#include <jerror.h>
#include <jpeglib.h>

typedef struct jpeg_reader {
  struct jpeg_decompress_struct j;
  struct jpeg_error_mgr errors;
  jmp_buf out;
  const char *path;
  tn_error *err;
  tn_image *im;
} jpeg_reader;

static void fail_jpeg(j_common_ptr j) {
  jpeg_reader *r = j->client_data;
  char text[JMSG_LENGTH_MAX];
  j->err->format_message(j, text);
  if (j->err->msg_code == JERR_OUT_OF_MEMORY)
    (void)tni_fail_memory(r->err, r->path);
  else
    (void)tni_fail(r->err, TN_E_INVALID, r->path, "not a JPEG that can be read: %s", text);
  longjmp(r->out, 1);
}

/* level -1: data are damaged. Of these, stray bytes between markers do no harm. */
static void drop_message(j_common_ptr j, int level) {
  if (level < 0 && j->err->msg_code != JWRN_EXTRANEOUS_DATA && j->err->msg_code != JWRN_ADOBE_XFORM &&
      j->err->msg_code != JWRN_JFIF_MAJOR)
    fail_jpeg(j);
}

static uint32_t orientation_of(const struct jpeg_decompress_struct *j) {
  for (jpeg_saved_marker_ptr m = j->marker_list; m; m = m->next) {
    const uint32_t v = m->marker == JPEG_APP0 + 1 ? tni_exif_orientation(m->data, m->data_length) : 1;
    if (v != 1) return v;
  }
  return 1;
}

static tn_status read_all(jpeg_reader *r, const uint8_t *data, size_t n, uint32_t *orientation) {
  struct jpeg_decompress_struct *j = &r->j;
  uint8_t *pixels = NULL;
  if (setjmp(r->out)) return r->errors.msg_code == JERR_OUT_OF_MEMORY ? TN_E_NO_MEMORY : TN_E_INVALID;
  jpeg_create_decompress(j);
  jpeg_save_markers(j, JPEG_APP0 + 1, 0xffff);
  jpeg_mem_src(j, data, (unsigned long)n);
  (void)jpeg_read_header(j, TRUE);
  if (j->num_components != 1 && j->num_components != 3)
    return tni_fail(r->err, TN_E_INVALID, r->path, "%d colour components; gray and RGB are read", j->num_components);
  j->out_color_space = j->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  tn_status st =
      tni_image_new(j->image_width, j->image_height, (uint32_t)j->num_components, r->path, &r->im, &pixels, r->err);
  if (st != TN_OK) return st;
  (void)jpeg_start_decompress(j);
  const size_t row = (size_t)j->output_width * (size_t)j->output_components;
  while (j->output_scanline < j->output_height) {
    JSAMPROW to = pixels + j->output_scanline * row;
    (void)jpeg_read_scanlines(j, &to, 1);
  }
  *orientation = orientation_of(j);
  (void)jpeg_finish_decompress(j);
  return TN_OK;
}

tn_status tni_jpeg_read(const uint8_t *data, size_t n, const char *path, tn_image **out, uint32_t *orientation,
                        tn_error *err) {
  jpeg_reader *r = calloc(1, sizeof *r);
  if (!r) return tni_fail_memory(err, path);
  r->path = path;
  r->err = err;
  r->j.err = jpeg_std_error(&r->errors);
  r->j.client_data = r;
  r->errors.error_exit = fail_jpeg;
  r->errors.emit_message = drop_message;
  tn_status st = read_all(r, data, n, orientation);
  jpeg_destroy_decompress(&r->j);
  if (st != TN_OK)
    free(r->im);
  else
    *out = r->im;
  free(r);
  return st;
}

#else
tn_status tni_jpeg_read(const uint8_t *data, size_t n, const char *path, tn_image **out, uint32_t *orientation,
                        tn_error *err) {
  (void)data, (void)n, (void)out, (void)orientation;
  return tni_fail(err, TN_E_UNSUPPORTED, path, "this build reads no JPEG (libjpeg was missing)");
}
#endif
