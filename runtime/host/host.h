/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/host: the built-in device.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_HOST_HOST_H
#define TENON_HOST_HOST_H

#include "runtime/host/device.h"

#endif
