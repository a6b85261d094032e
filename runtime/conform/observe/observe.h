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

struct tni_dev; /* of runtime/place */
struct tn_runtime;

/* A layer over `real`, which must outlive it; NULL without memory. One program, plan or args is only ever used through
 * the layer that it came from. */
tn_device *tni_cf_observe(tn_device *real);
/* From now on about a third of the nodes that the device would take alone are refused in its place, chosen by seed:
 * what lies where is another thing then, values go to and fro. 0: none. */
void tni_cf_observe_refuse(tn_device *layer, uint32_t seed);
/* How structs are lent from now on, by all layers: as they are; with 64 bytes more, of fields that nobody knows, and a
 * later minor; or as ABI 1.0 had them, and nonsense where fields came later. */
enum { TNI_CF_STRUCTS_OURS = 0, TNI_CF_STRUCTS_NEWER = 1, TNI_CF_STRUCTS_OLDER = 2 };
void tni_cf_observe_structs(uint32_t as);
/* Whether the header of a plugin's struct at p is another than that of the struct, which had `oldest` bytes in ABI 1.0
 * and has `now`; text: what is wrong. */
bool tni_cf_header_wrong(const void *p, const char *what, size_t oldest, size_t now, char *text, size_t n);
/* The first thing that was wrong, or NULL; lives as long as the layer. */
const char *tni_cf_observed(const tn_device *layer);
void tni_cf_observe_end(tn_device *layer);

/* Device `index` of a plugin, and from now on the only one of its devices that anything is placed on; NULL: there is
 * none, or the plugin is the built-in device. */
struct tni_dev *tni_cf_only_device(struct tn_runtime *rt, const char *plugin, uint32_t index);

/* The call into the plugin that began last and is not over, as "bind"; NULL: none. Any thread, signal handlers too. */
const char *tni_cf_call_now(void);
/* What the first call changed of its thread, or of a pool's, and left so, as a finding; it is said once. False: none did.
 * A floating-point mode was put back. */
bool tni_cf_call_changed(char *text, size_t n);
/* Notes a call that no layer hands on (entry, open, close); what it gives goes to tni_cf_call_over. */
const char *tni_cf_call_begin(const char *call);
void tni_cf_call_over(const char *before);
/* A part of a parallel_for, on the thread that it is for. quick: only the floating-point mode is looked at. */
void tni_cf_body_run(tn_body body, void *arg, int64_t begin, int64_t end, uint32_t worker, bool quick);

/* From now on: what ends the process by a signal, and SIGTERM (the time is up), is a finding on descriptor fd first. It
 * says which call was under way and, of a fault, whether something was touched that had been lent to a call that is
 * over. */
void tni_cf_observe_signals(int fd);

#endif
