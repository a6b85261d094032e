/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of option `format` that name a width ("b2") and not a format: which of the backend's formats of this width is
 * used is measured on the processor that packs, one thread, at the first `open` that asks for it. A GEMV over weights
 * that second-level caches do not hold, and a GEMM of 96 rows, both with the kernels that `isa` leaves; formats in
 * turns, the least of 72 pieces each, at most a third of a second. One row decides; where two are within 10 % of each
 * other, many rows do.
 *
 * What came out is kept in the host's blob cache under the width, the processor's name, the features that kernels may
 * use and TNI_CLT_CALIBRATION, and wins from then on. Nothing is measured where no kernel of the backend's own is
 * allowed (isa scalar) or the device is offline: the first format is used.
 */
#ifndef TENON_COMMON_CPU_CHOICE_H
#define TENON_COMMON_CPU_CHOICE_H

#include "plugins/common/cpu/backend.h"

/* Changes whenever kernels or the way of measuring do: what was kept before is then measured again. */
enum { TNI_CLT_CALIBRATION = 3 };

/* Picoseconds that one weight takes: of one row, and of each of 96. */
typedef struct tni_clt_pace {
  float one, many;
} tni_clt_pace;

enum { TNI_CLT_ASSUMED, TNI_CLT_MEASURED, TNI_CLT_KEPT };
typedef struct tni_clt_choice {
  uint32_t index, how; /* into tni_clt_width.formats; TNI_CLT_ASSUMED .. */
  bool unkept;         /* MEASURED, and nothing keeps it */
  tni_clt_pace pace[TNI_CLT_MAX_CANDIDATES];
} tni_clt_choice;

/* The rule alone. n >= 1; paces that are no positive numbers lose. */
uint32_t tni_clt_prefer(const tni_clt_pace *pace, uint32_t n);

/* d: host, backend and settings but for the format. Always answers. */
void tni_clt_choose(const tni_clt_device *d, const tni_clt_width *w, tni_clt_choice *out);

/* "b2 is w2g (ps per weight, one row and many: w2g 31.0 6.5, lut2 45.1 30.2)". Always terminated. */
void tni_clt_choice_text(const tni_clt_width *w, const tni_clt_choice *c, char *text, size_t n);

#endif
