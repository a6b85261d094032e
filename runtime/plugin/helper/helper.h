/* SPDX-License-Identifier: Apache-2.0
 *
 * Subcommands of tenon-helper, the program that loads plugins outside the host's process. The host spawns it
 * (runtime/plugin/child.h): descriptor 3 is the channel to the host, 1 and 2 are what people may read, and every other
 * descriptor was closed before a subcommand is called. Each answers an exit status.
 */
#ifndef TENON_PLUGIN_HELPER_HELPER_H
#define TENON_PLUGIN_HELPER_HELPER_H

#include "runtime/plugin/plugin.h"

/* Loads one plugin, negotiates, enumerates, opens, closes and tells how it went (probe.c). */
int helper_probe(int argc, char **argv);
/* The process that a plugin lives in (serve.c). */
int helper_serve(int argc, char **argv);

#endif
