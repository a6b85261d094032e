/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/profile: device profiles, and YAML with places.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_PROFILE_PROFILE_H
#define TENON_PROFILE_PROFILE_H

#include "runtime/profile/device_profile.h"
#include "runtime/profile/paths.h"
#include "runtime/profile/suggest.h"
#include "runtime/profile/yamltree.h"

#endif
