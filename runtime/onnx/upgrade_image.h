/* SPDX-License-Identifier: Apache-2.0
 *
 * Older forms of Upsample, Resize, GridSample, RoiAlign and GroupNormalization, rewritten in the draft; upgrade.c says
 * for which versions. Private to runtime/onnx.
 */
#ifndef TENON_ONNX_UPGRADE_IMAGE_H
#define TENON_ONNX_UPGRADE_IMAGE_H

#include "runtime/onnx/convert.h"

TN_MUST_CHECK tn_status tni_upgrade_image(tni_import *c, tni_graph *g, tni_draft *d);

#endif
