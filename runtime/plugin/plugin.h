/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/plugin: what a plugin is, before and after it is loaded.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_PLUGIN_PLUGIN_H
#define TENON_PLUGIN_PLUGIN_H

#include "runtime/plugin/blobcache.h"
#include "runtime/plugin/calm.h"
#include "runtime/plugin/check.h"
#include "runtime/plugin/child.h"
#include "runtime/plugin/cpu.h"
#include "runtime/plugin/dynlib.h"
#include "runtime/plugin/elfnote.h"
#include "runtime/plugin/fpmode.h"
#include "runtime/plugin/internal.h"
#include "runtime/plugin/libraries.h"
#include "runtime/plugin/manifest.h"
#include "runtime/plugin/opening.h"
#include "runtime/plugin/probe.h"
#include "runtime/plugin/procstate.h"
#include "runtime/plugin/services.h"
#include "runtime/plugin/ticket.h"
#include "runtime/plugin/trust.h"
#include "runtime/plugin/walls.h"

#endif
