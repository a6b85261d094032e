/* SPDX-License-Identifier: Apache-2.0
 *
 * tn_runtime, tn_model and tn_session: how they are made, and how a session runs step after step.
 *
 * Others reach them by tenon/tenon.h; reports also by what sessions will allocate (state.h, pieces.h), texts in slots
 * by what a slot holds as bytes (slot_rows.h), and all texts by whether their length changes what is in the caches
 * (long_text.h).
 */
#ifndef TENON_SESSION_SESSION_H
#define TENON_SESSION_SESSION_H

#include "runtime/session/fixed.h"
#include "runtime/session/long_text.h"
#include "runtime/session/pieces.h"
#include "runtime/session/runtime.h"
#include "runtime/session/slot_rows.h"
#include "runtime/session/state.h"

#endif
