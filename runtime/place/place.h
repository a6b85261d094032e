/* SPDX-License-Identifier: Apache-2.0
 *
 * Which device takes what of a model, and as which program: claims -> partition -> programs -> tasks over regions,
 * weights packed and attached.
 *
 * devices.h is what a runtime has, model_data.h what is known of a model, placement.h one placement of it. The steps,
 * in their order: place_fused, exec, dense, packing, embeddings, attach (with devconst and tables). Nothing here knows
 * of sessions.
 */
#ifndef TENON_PLACE_PLACE_H
#define TENON_PLACE_PLACE_H

#include "runtime/place/calls.h"
#include "runtime/place/claims.h"
#include "runtime/place/dense.h"
#include "runtime/place/devconst.h"
#include "runtime/place/devices.h"
#include "runtime/place/devlock.h"
#include "runtime/place/embeddings.h"
#include "runtime/place/exec.h"
#include "runtime/place/model_data.h"
#include "runtime/place/packing.h"
#include "runtime/place/place_fused.h"
#include "runtime/place/placement.h"
#include "runtime/place/program.h"
#include "runtime/place/program_check.h"
#include "runtime/place/statistics.h"
#include "runtime/place/tables.h"
#include "runtime/place/taskgraph.h"

#endif
