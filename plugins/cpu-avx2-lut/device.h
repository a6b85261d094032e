/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend's own structs. A plugin holds the host and the one device's caps, a device the options (a host can check
 * them only once it has the plugin's table); programs, plans and args are in program.h.
 */
#ifndef TENON_CPU_AVX2_DEVICE_H
#define TENON_CPU_AVX2_DEVICE_H

#include <stdbool.h>
#include <tenon/plugin.h>

#include "plugins/common/mem.h"

#define TNI_CAL_NAME "cpu-avx2-lut"

/* The options, as the profile set them. */
typedef struct tni_cal_settings {
  int64_t group; /* 32 or 128 */
  int64_t min_k, min_n;
  bool act_matmul;
  uint32_t features; /* TNI_CPU_* that kernels may use: what the CPU has, cut by `isa` */
} tni_cal_settings;

typedef struct tni_cal_plugin {
  tn_plugin pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  uint32_t cpu; /* TNI_CPU_* found */
  tn_caps caps;
} tni_cal_plugin;

typedef struct tni_cal_device {
  tn_device pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  tni_cal_settings set;
} tni_cal_device;

/* Why the CPU cannot run this backend; false (text empty) where it can. features as tni_cm_cpu_features gives them. */
bool tni_cal_cpu_refusal(uint32_t features, char *text, size_t n);

tn_status tni_cal_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out);

/* The device's functions, one file each group. */
tn_status tni_cal_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
tn_status tni_cal_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *tni_cal_info(const tn_program *p);
tn_status tni_cal_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status tni_cal_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
void tni_cal_release(tn_program *p);
tn_status tni_cal_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void tni_cal_unbind(tn_plan *plan);
tn_status tni_cal_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status tni_cal_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void tni_cal_args_free(tn_args *a);
tn_status tni_cal_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);

#endif
