/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/observe: a layer between a host and a device. It hands each call on and looks at it: what is lent
 * for a call is taken back after it (loan.h), what measure may not write is compared, and it is known at any time which
 * call is under way. Whatever host calls the device, the kit's own or the runtime, the layer is the same.
 *
 * The layer is a tn_device whose functions are the kit's. Programs, plans, args and buffers stay the plugin's own.
 */
#ifndef TENON_CONFORM_OBSERVE_OBSERVE_H
#define TENON_CONFORM_OBSERVE_OBSERVE_H

#include <tenon/plugin.h>

#include "runtime/conform/observe/loan.h"

/* A layer over `real`, which must outlive it; NULL without memory. One program, plan or args is only ever used through
 * the layer that it came from. */
tn_device *tni_cf_observe(tn_device *real);
/* From now on about a third of the nodes that the device would take alone are refused in its place, chosen by seed:
 * what lies where is another thing then, values go to and fro. 0: none. */
void tni_cf_observe_refuse(tn_device *layer, uint32_t seed);
/* The first thing that was wrong, or NULL; lives as long as the layer. */
const char *tni_cf_observed(const tn_device *layer);
void tni_cf_observe_end(tn_device *layer);

/* The call into the plugin that began last and is not over, as "bind"; NULL: none. Any thread, signal handlers too. */
const char *tni_cf_call_now(void);
/* The first call that left its thread in another floating-point mode (it was put back), or NULL. */
const char *tni_cf_call_changed_mode(void);
/* Notes a call that no layer hands on (entry, open, close); what it gives goes to tni_cf_call_over. */
const char *tni_cf_call_begin(const char *call);
void tni_cf_call_over(const char *before);

/* From now on: what ends the process by a signal, and SIGTERM (the time is up), is a finding on descriptor fd first. It
 * says which call was under way and, of a fault, whether something was touched that had been lent to a call that is
 * over. */
void tni_cf_observe_signals(int fd);

#endif
