/* SPDX-License-Identifier: Apache-2.0
 *
 * One misbehaving plugin per FAULT_*: built once for each, NAME is its file's name. Each breaks one rule of the
 * contract.
 */
#include <stdio.h>

#include "base.h"

#define STR2(x) #x
#define STR(x) STR2(x)

#if defined(FAULT_ENUMERATE_STATUS) || defined(FAULT_BAD_TEXT) || defined(FAULT_NO_DEVICES) || \
    defined(FAULT_NO_DEVICES_SILENT) || defined(FAULT_MANY_DEVICES) || defined(FAULT_FPMODE_ENUMERATE)
static tn_status fault_enumerate(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  (void)p, (void)cap, (void)out;
  *n = 0;
#if defined(FAULT_ENUMERATE_STATUS)
  snprintf(err->message, sizeof err->message, "the driver said so");
  return -77;
#elif defined(FAULT_BAD_TEXT)
  memset(err->message, '\n', sizeof err->message); /* no end, control characters */
  memset(err->where, 0x7f, sizeof err->where);
  return TN_E_UNAVAILABLE;
#elif defined(FAULT_NO_DEVICES)
  snprintf(err->message, sizeof err->message, "no board answers on the bus");
  return TN_OK;
#elif defined(FAULT_MANY_DEVICES)
  (void)err;
  *n = 1000000;
  return TN_OK;
#elif defined(FAULT_FPMODE_ENUMERATE)
  (void)err;
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
  uint64_t v;
  __asm__ volatile("mrs %0, fpcr" : "=r"(v));
  __asm__ volatile("msr fpcr, %0" : : "r"(v | (UINT64_C(1) << 24)));
#endif
  return enumerate(p, cap, out, n, err);
#else
  (void)err;
  return TN_OK;
#endif
}
#endif

#if defined(FAULT_OPEN_STATUS) || defined(FAULT_DEVICE_NULL)
static tn_status fault_open(tn_plugin *p, uint32_t index, tn_device **out, tn_error *err) {
  (void)p, (void)index;
#if defined(FAULT_OPEN_STATUS)
  (void)out;
  err->vendor_code = 12;
  snprintf(err->message, sizeof err->message, "firmware is too old");
  return TN_E_UNAVAILABLE;
#else
  (void)err;
  *out = NULL;
  return TN_OK;
#endif
}
#endif

#if defined(FAULT_DEVICE_TWICE)
static tn_status fault_two(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  (void)p, (void)err;
  for (*n = 0; *n < 2 && *n < cap; ++*n) out[*n] = &base.caps;
  return TN_OK;
}
#endif

#if defined(FAULT_OPTION_DEFAULT) || defined(FAULT_OPTION_TABLE) || defined(FAULT_OPTION_TWICE)
static const tn_option option = {.h = TN_HDR(tn_option),
                                 .key = "group",
                                 .help = "",
#if defined(FAULT_OPTION_TABLE)
                                 .type = 99,
#else
                                 .type = TN_OPT_INT,
#endif
#if defined(FAULT_OPTION_DEFAULT)
                                 .dflt = "many"
#else
                                 .dflt = "1"
#endif
};
static const tn_option *const options[] = {&option, &option};
#endif

#if defined(FAULT_FORMAT)
static const tn_format format = {.h = TN_HDR(tn_format), .name = "broken", .version = 1};
static const tn_format *const formats[] = {&format};
#endif

#if defined(FAULT_CAPS_ENGINE)
static const tn_engine engine = {.h = TN_HDR(tn_engine)}; /* no name */
static const tn_engine *const engines[] = {&engine};
#endif
#if defined(FAULT_NO_SUBMIT)
static const tn_engine engine = {.h = TN_HDR(tn_engine), .name = "queue"};
static const tn_engine *const engines[] = {&engine};
#endif

static tn_status fault_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  tn_status st = base_entry(host, neg, out, STR(NAME));
  tn_plugin *p = *out;
  (void)p;
#if defined(FAULT_ABI_NEWER)
  neg->plugin_min = 3;
  neg->plugin_max = 5;
  snprintf(neg->message, sizeof neg->message, "update the host");
  *out = NULL;
  st = TN_E_INCOMPATIBLE;
#elif defined(FAULT_ABI_LIAR)
  neg->plugin_min = 3;
  neg->plugin_max = 5;
#elif defined(FAULT_MAJOR)
  p->h.major = 2;
#elif defined(FAULT_SIZE_ZERO)
  p->h.size = 0;
#elif defined(FAULT_SIZE_HUGE)
  p->h.size = UINT32_MAX;
#elif defined(FAULT_SIZE_SMALL)
  p->h.size = 24;
#elif defined(FAULT_NULL_FUNCTION)
  p->enumerate = NULL;
#elif defined(FAULT_NULL_PLUGIN)
  *out = NULL;
#elif defined(FAULT_WILD_POINTER)
  *out = (tn_plugin *)(void *)((char *)p + 1);
#elif defined(FAULT_ENTRY_STATUS)
  snprintf(neg->message, sizeof neg->message, "something else");
  *out = NULL;
  st = 4711;
#elif defined(FAULT_OTHER_NAME)
  p->name = "somebody-else";
#elif defined(FAULT_NO_VERSION)
  p->version = NULL;
#elif defined(FAULT_DEVICE_SIZE_ZERO)
  base.device.h.size = 0;
#elif defined(FAULT_DEVICE_SIZE_HUGE)
  base.device.h.size = 1u << 30;
#elif defined(FAULT_DEVICE_NULL_FUNCTION)
  base.device.lower = NULL;
#elif defined(FAULT_DEVICE_NO_CAPS)
  base.device.caps = NULL;
#elif defined(FAULT_CAPS_SIZE_ZERO)
  base.caps.h.size = 0;
#elif defined(FAULT_CAPS_ENGINES_NULL)
  base.caps.n_engines = 2;
#elif defined(FAULT_CAPS_ENGINE) || defined(FAULT_NO_SUBMIT)
  base.caps.engines = engines;
  base.caps.n_engines = 1;
#elif defined(FAULT_CAPS_ALIGN)
  base.caps.align = 48;
#elif defined(FAULT_OPTION_DEFAULT) || defined(FAULT_OPTION_TABLE)
  p->options = options;
  p->n_options = 1;
#elif defined(FAULT_OPTION_TWICE)
  p->options = options;
  p->n_options = 2;
#elif defined(FAULT_OPTIONS_NULL)
  p->n_options = 7;
#elif defined(FAULT_FORMAT)
  p->formats = formats;
  p->n_formats = 1;
#elif defined(FAULT_DEVICE_TWICE)
  p->enumerate = fault_two;
#elif defined(FAULT_OPEN_STATUS) || defined(FAULT_DEVICE_NULL)
  p->open = fault_open;
#elif defined(FAULT_ENUMERATE_STATUS) || defined(FAULT_BAD_TEXT) || defined(FAULT_NO_DEVICES) || \
    defined(FAULT_NO_DEVICES_SILENT) || defined(FAULT_MANY_DEVICES) || defined(FAULT_FPMODE_ENUMERATE)
  p->enumerate = fault_enumerate;
#elif !defined(FAULT_NONE)
#error "which fault?"
#endif
  return st;
}

TN_PLUGIN(fault, fault_entry)
