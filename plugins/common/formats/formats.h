/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of plugins/common/formats: the weight formats that several backends share. How codes are chosen (fit,
 * quant4) and how sources are read stays inside.
 */
#ifndef TENON_COMMON_FORMATS_FORMATS_H
#define TENON_COMMON_FORMATS_FORMATS_H

#include "plugins/common/formats/act8.h"
#include "plugins/common/formats/dot.h"
#include "plugins/common/formats/e0m.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/grid.h"
#include "plugins/common/formats/int8.h"
#include "plugins/common/formats/lev.h"
#include "plugins/common/formats/lut.h"
#include "plugins/common/formats/w4g.h"

#endif
