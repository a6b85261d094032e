/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/drive: what drives a plugin. load.h takes it step by step and counts what it asks of the host;
 * device.h opens a device, claims, lowers and runs; ticket.h is how items are answered; build.h and graphs.h make what
 * is asked about; pages.h is memory between guards.
 */
#ifndef TENON_CONFORM_DRIVE_DRIVE_H
#define TENON_CONFORM_DRIVE_DRIVE_H

#include "runtime/conform/drive/build.h"
#include "runtime/conform/drive/device.h"
#include "runtime/conform/drive/graphs.h"
#include "runtime/conform/drive/load.h"
#include "runtime/conform/drive/pages.h"
#include "runtime/conform/drive/ticket.h"

#endif
