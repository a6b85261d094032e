/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/pack: the store of packed weights.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_PACK_PACK_H
#define TENON_PACK_PACK_H

#include "runtime/pack/keep.h"
#include "runtime/pack/sections.h"
#include "runtime/pack/store.h"

#endif
