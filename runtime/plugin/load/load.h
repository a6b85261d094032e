/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/plugin/load: the registry of open devices.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_PLUGIN_LOAD_LOAD_H
#define TENON_PLUGIN_LOAD_LOAD_H

#include "runtime/plugin/load/registry.h"

#endif
