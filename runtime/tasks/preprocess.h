/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels to a model's input, as preprocessor_config.json says (Hugging Face image processors): resize, crop in the
 * middle, rescale, normalize. Numbers are those of Pillow's resizing and of f32 arithmetic in that order.
 */
#ifndef TENON_TASKS_PREPROCESS_H
#define TENON_TASKS_PREPROCESS_H

#include <stdbool.h>
#include <tenon/tasks.h>

#include "runtime/base/base.h"

/* Numbers as the files have them (Pillow's). */
typedef enum tni_filter {
  TNI_FILTER_NEAREST = 0,
  TNI_FILTER_LANCZOS = 1,
  TNI_FILTER_BILINEAR = 2,
  TNI_FILTER_BICUBIC = 3,
  TNI_FILTER_BOX = 4,
  TNI_FILTER_HAMMING = 5
} tni_filter;

/* src [h, w, c] -> dst [oh, ow, c], 8 bits. Two passes, rows first, each with weights that cover every source pixel
 * under an output pixel (so shrinking averages) in 22-bit fixed point and rounded to 8 bits: Pillow's
 * resampling (whose newer versions take columns first where they find that cheaper, which moves values by a level). */
TN_MUST_CHECK tn_status tni_resize(const uint8_t *src, uint32_t w, uint32_t h, uint32_t c, uint8_t *dst, uint32_t ow,
                                   uint32_t oh, tni_filter filter, tn_error *err);

typedef struct tni_prep {
  bool resize, crop, rescale, normalize, flip; /* flip: channels backwards (BGR) */
  bool offset, again; /* EfficientNet's: 1 less after rescaling; divided by std once more at the end */
  /* Resize to width x height, or so that the shorter edge is `shortest` (then width and height are 0). */
  uint32_t width, height, shortest, crop_width, crop_height;
  tni_filter filter;
  double scale;
  double mean[3], std[3];
  /* What the model takes. */
  uint32_t channels;
  bool channels_last;
} tni_prep;

/* Reads the file's values into p, whose channels are set. */
TN_MUST_CHECK tn_status tni_prep_read(const char *path, tni_prep *p, tn_error *err);
/* Size of what comes out for an image of w x h. TN_E_LIMIT: more than TNI_IMAGE_PIXELS on the way. */
TN_MUST_CHECK tn_status tni_prep_size(const tni_prep *p, uint32_t w, uint32_t h, uint32_t *ow, uint32_t *oh,
                                      tn_error *err);
/* TN_E_INVALID: the image's channels are not the model's (gray is spread to RGB; RGB is not made gray). out: channels *
 * height * width floats of tni_prep_size, in the order of channels_last. */
TN_MUST_CHECK tn_status tni_prep_run(const tni_prep *p, const tn_image *image, float *out, tn_error *err);

#endif
